"""Progress of a run: one line on the terminal, removed at the end; nothing where stderr is no terminal."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

from npudoctor import engine
from npudoctor.control_characters import visible

WIDTH = 24
USUAL_COLUMNS = 80


EVERY_S = 0.1


class Progress:
    """Shows a bar, a count, and the pending fact on stderr, at most ten times a second.

    The pending fact is the oldest running one, by its name in `npudoctor facts`.
    """

    def __init__(self, total: int, *, color: bool) -> None:
        self._total = max(total, 1)
        self._asked: dict[str, None] = {}
        self._ended = 0
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._color = color and "NO_COLOR" not in os.environ
        self._over = threading.Event()

    def __enter__(self) -> Progress:
        if self._live:
            self._drawing = threading.Thread(target=self._draw_on, daemon=True)
            try:
                self._drawing.start()
            except RuntimeError:  # out of threads; the probes need them more
                self._live = False
        return self

    def show(self, event: engine.Event) -> None:
        """Update the state from an event."""
        if isinstance(event, engine.Asked):
            self._asked[event.fact] = None
        elif isinstance(event, engine.Answered):
            self._asked.pop(event.fact, None)
        elif isinstance(event, engine.Finished):
            self._ended += 1

    def _draw_on(self) -> None:
        """Redraw at intervals, also while nothing happens: that is when the user wants to know why."""
        while not self._over.wait(EVERY_S):
            self._draw()

    def _draw(self) -> None:
        columns = _columns()
        width = max(1, min(WIDTH, columns // 4))
        done = width * min(self._ended, self._total) // self._total
        bar = "#" * done + "." * (width - done)
        waiting = next(iter(self._asked.copy()), "")
        line = f"[{bar}] {self._ended}/{self._total} {visible(waiting)}"[: max(columns - 1, 1)]
        sys.stderr.write(f"\r\x1b[K\x1b[2m{line}\x1b[0m" if self._color else f"\r\x1b[K{line}")
        sys.stderr.flush()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self._live:
            self._over.set()
            self._drawing.join()
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _columns() -> int:
    """The width of the terminal; 80 where it is unknown."""
    try:
        return os.get_terminal_size(2).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS
