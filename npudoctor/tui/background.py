"""Background work and a clean exit: slow work runs in threads, which report to the screen."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from npudoctor.tui.key_queue import KeyQueue
from npudoctor.tui.model.session import CannotOpen, ReadOnly, Session

FRAMES_A_SECOND = 15
CUT_OFF = "npudoctor: a change was interrupted; to undo it: npudoctor fix --recover"
CHANGES = frozenset({"fix", "fix_all", "release", "save", "screenshot", "start", "suspend_process", "undo"})
"""The actions that change the node, write a file, or start a program; a read-only session offers none of them."""

LEAVING_S = 3.0
"""Time limit of the exit in seconds: a closed or blocked terminal would delay it for ever."""


class Background(KeyQueue):
    """An application that a hanging node cannot block."""

    session: Session

    def __init__(self) -> None:
        super().__init__()
        self._told: deque[Callable[[], None]] = deque()
        self._leaving = False
        self.internal_error = ""

    def offers(self, action: str) -> bool:
        """Whether this session allows an action."""
        return action not in CHANGES or not self.session.read_only

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide actions that a read-only session refuses."""
        return self.offers(action) and super().check_action(action, parameters)

    def listen(self, changed: Callable[[], None]) -> None:
        """Start calling what threads queue, and `changed` after it."""

        def tick() -> None:
            if self._told and not self._leaving:
                while self._told:
                    self._told.popleft()()
                changed()

        self.set_interval(1 / FRAMES_A_SECOND, tick)
        if not self.is_headless:
            self.set_interval(1.0, self._leave_with_the_terminal)

    def _leave_with_the_terminal(self) -> None:
        """Detect a closed terminal: a process started by su or setsid gets no SIGHUP."""
        if sys.stdin is not None and _hung_up(sys.stdin.fileno()):
            self.leave(128 + signal.SIGHUP)

    def beside(self, work: Callable[[], None]) -> None:
        """Run slow work in a thread."""
        threading.Thread(target=self._guard, args=(work,), daemon=True).start()

    def tell(self, what: Callable[..., Any], *arguments: Any) -> None:
        """From a thread: call this in the event loop, within a fifteenth of a second."""
        self._told.append(lambda: what(*arguments))

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except CannotOpen as problem:
            self.tell(self.leave, 2, f"npudoctor: {problem}")
        except ReadOnly as why:
            self.tell(partial(self.notify, str(why), severity="warning"))
        except Exception as problem:
            self.tell(_raise, problem)

    def leave(self, code: int, message: str | None = None) -> None:
        """Stop everything that runs on the node, and the application."""
        self._leaving = True
        self.session.close()
        if message is None:
            busy = (screen for screen in self.screen_stack if getattr(screen, "busy", False))
            message = next((getattr(screen, "cut_off", CUT_OFF) for screen in busy), None)
        if not self.is_headless:
            anyway = threading.Timer(LEAVING_S, os._exit, (code,))
            anyway.daemon = True
            anyway.start()
        self.exit(code, return_code=code, message=message)

    def bell(self) -> None:
        """Ring; or, where Textual rings because of an exception, leave with one line that says where the traceback is.

        Textual rings for each exception that ends an application, and then prints it with all local variables.
        """
        error = sys.exc_info()[1]
        if error is None or self.is_headless:
            super().bell()
            return
        from npudoctor.tui.model import crash_log

        where = self.session.read_only or crash_log.write("".join(traceback.format_exception(error)))
        self.internal_error = f"npudoctor: internal error: {type(error).__name__}: {str(error)[:200]}; {where}"
        self.error_console.quiet = True
        self.leave(4, self.internal_error)


def _raise(problem: Exception) -> None:
    raise problem


def _hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
