"""Time limits that hold even if the interpreter hangs.

A match of `re`, a call into C or a plug-in that never returns holds the interpreter, so that no thread and no signal
handler of that process runs. Therefore a command with a time limit is run in a child process, and the first process
only waits: when the time is up, it kills the child with all that it started, and says so itself. It forks before
anything large is imported, because a fork of more costs a check three parts in a hundred of its time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from npudoctor.host.live import process_tree

GRACE_S = 3.0
"""Seconds after its limit in which a run may deliver its results: usually its own deadline ends it."""

ENDING_S = 3.0
"""Seconds for a child to act on a signal before it is killed."""

STARTING_S = 300.0
"""Seconds for a child to announce its limit."""

_SIGNALS = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGIO}
_F_SETSIG = 10

Limit = Callable[[float], AbstractContextManager[None]]
"""Bounds the body of a `with` statement, in seconds."""


@contextlib.contextmanager
def apply_none(_seconds: float) -> Iterator[None]:
    """Apply no limit: for a caller inside another program, which must not be forked."""
    yield


def run(command: Callable[[Limit], int], give_up: Callable[[str], int]) -> int:
    """Run a command in a child process, and wait for it; the exit code. In the child this returns, too.

    The command gets what bounds a part of its work; what follows that part, such as a reader who is slow, is not
    bounded. `give_up` prints why there is no answer, in this process; its code is the exit code then.
    """
    others = frozenset(process_tree.children())  # what a shell had started before it became this process
    try:
        heard, telling, life, living = _pipes()
    except OSError:  # out of descriptors: run without this guard
        return command(apply_none)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        child = os.fork()
    except OSError:  # out of processes: an answer without this guard is better than none
        child = -1
    if child > 0:
        os.close(telling)
        watch = _Watch(child, heard, others)
        reason = watch.wait()
        return watch.code if reason is None else give_up(reason)
    os.close(heard)
    if child == 0:
        os.close(living)
        _kill_when_the_other_end_closes(life)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return command(lambda seconds: _bound(telling, seconds))


def _pipes() -> tuple[int, int, int, int]:
    """The reading and the writing end of two pipes."""
    first = os.pipe()
    try:
        return (*first, *os.pipe())
    except OSError:
        for handle in first:
            os.close(handle)
        raise


@contextlib.contextmanager
def _bound(telling: int, seconds: float) -> Iterator[None]:
    """Tell the waiting process when the bounded part begins, and when it is over."""
    _tell(telling, f"{seconds}\n")
    try:
        yield
    finally:
        _tell(telling, _OVER)


_OVER = "over\n"


def _tell(handle: int, text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(handle, text.encode())


def _kill_when_the_other_end_closes(handle: int) -> None:
    """Have the kernel kill this process when the one that holds the other end of a pipe ends (fcntl(2), F_SETSIG).

    PR_SET_PDEATHSIG would do the same, but importing ctypes costs a check one part in a hundred of its time.
    """
    fcntl.fcntl(handle, _F_SETSIG, signal.SIGKILL)
    _signal_when_readable(handle)
    with contextlib.suppress(BlockingIOError):
        if not os.read(handle, 1):  # it had ended before the kernel was asked
            os._exit(1)


def _signal_when_readable(handle: int) -> None:
    fcntl.fcntl(handle, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(handle, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


class _Watch:
    """Waits for a child, which says on a pipe for how long it may go on, and when the bounded part is over."""

    def __init__(self, child: int, heard: int, others: frozenset[int]) -> None:
        self.child = child
        self.code = 0
        self._heard = heard
        self._others = others
        self._limit_s = STARTING_S
        self._until: float | None = time.monotonic() + STARTING_S
        self._is_bounded = False
        self._asked_to_end = 0
        _signal_when_readable(heard)
        self._listen()

    def wait(self) -> str | None:
        """Wait until the child has ended, and set `code`; the reason if it failed, None if it succeeded."""
        while True:
            said = self._signal()
            if said is None:
                process_tree.adopt_orphans()
                process_tree.end_children(but=self._others)
                self.code = 128 + self._asked_to_end
                return None if self._asked_to_end else f"the time limit of {self._limit_s:g} s has passed"
            if said.si_signo == signal.SIGIO:
                self._listen()
            elif said.si_signo != signal.SIGCHLD:
                self._pass_on(said)
            elif self._has_ended():
                self._listen()
                return self._complaint()

    def _signal(self) -> signal.struct_siginfo | None:
        """The next signal; None when the time is up."""
        if self._until is None:
            return signal.sigwaitinfo(_SIGNALS)
        return signal.sigtimedwait(_SIGNALS, max(0.0, self._until - time.monotonic()))

    def _listen(self) -> None:
        """Read the messages of the child."""
        with contextlib.suppress(BlockingIOError):
            for word in os.read(self._heard, 4096).decode().split():
                self._is_bounded = word != _OVER.strip()
                self._limit_s = float(word) if self._is_bounded else self._limit_s
                if not self._asked_to_end:
                    self._until = time.monotonic() + self._limit_s + GRACE_S if self._is_bounded else None

    def _pass_on(self, said: signal.struct_siginfo) -> None:
        """Forward a signal that only this process got, and wait a while; a second one ends the wait."""
        if signal.getsignal(said.si_signo) is signal.SIG_IGN:  # as nohup(1) has it, and a shell for a job behind `&`
            return
        self._until = time.monotonic() + (0.0 if self._asked_to_end else ENDING_S)
        self._asked_to_end = said.si_signo
        if said.si_code <= 0:  # sent by a process: what the terminal sends, the child gets too (sigaction(2), si_code)
            os.kill(self.child, said.si_signo)

    def _has_ended(self) -> bool:
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def _complaint(self) -> str | None:
        """Why a child failed; None if it succeeded or was stopped by a signal."""
        if self._asked_to_end:
            self.code = 128 + self._asked_to_end if self.code < 0 else self.code
            return None
        if self.code < 0:
            return f"the process that ran the checks was killed by {signal.Signals(-self.code).name}"
        if self._is_bounded:
            return f"the process that ran the checks exited unexpectedly, with exit code {self.code}"
        return None
