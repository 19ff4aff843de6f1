"""Progress of a run: one line on the terminal, removed at the end; nothing where stderr is no terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType

from npudoctor import engine
from npudoctor.control_characters import escape

WIDTH = 24
USUAL_COLUMNS = 80


EVERY_S = 0.1

SLOW_S = 2.0
"""From then on the line says how long a fact has been pending."""

TELLING = 0.2
"""The share of checks that has to have ended before the rest is estimated."""


class Progress:
    """Shows a bar, a count, and the pending fact on stderr, at most ten times a second.

    The pending fact is the oldest running one, by its name in `npudoctor facts`.
    """

    def __init__(self, total: int, *, color: bool) -> None:
        self._total = max(total, 1)
        self._asked: dict[str, float] = {}
        self._began = time.monotonic()
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
            self._asked[event.fact] = time.monotonic()
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
        line = f"[{bar}] {self._ended}/{self._total}{self._waiting(time.monotonic())}"[: max(columns - 1, 1)]
        sys.stderr.write(f"\r\x1b[K\x1b[2m{line}\x1b[0m" if self._color else f"\r\x1b[K{line}")
        sys.stderr.flush()

    def _waiting(self, now: float) -> str:
        """The pending fact, for how long it has been, and an estimate of the rest of the run."""
        fact, since = next(iter(self._asked.copy().items()), ("", now))
        if not fact:
            return ""
        waited = f" {now - since:.0f} s" if now - since >= SLOW_S else ""
        left = self.left_s(now)
        return f" {escape(fact)}{waited}" + (f", about {left:.0f} s left" if waited and left else "")

    def left_s(self, now: float) -> float | None:
        """How long the rest takes if it goes on as before, in seconds; None while too little has ended to tell."""
        if not TELLING * self._total <= self._ended < self._total:
            return None
        return max(1.0, (now - self._began) * (self._total - self._ended) / self._ended)

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
