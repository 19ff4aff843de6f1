"""How far a run is: one line on the terminal that is gone when the run ends; nothing where stderr is no terminal."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from npudoctor import engine

WIDTH = 24


class Progress:
    """Shows a bar, a count, and the check that is being waited for, on stderr, at most ten times a second."""

    def __init__(self, total: int, *, color: bool) -> None:
        self._total = max(total, 1)
        self._waiting: dict[str, None] = {}
        self._ended = 0
        self._shown_at = 0.0
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._color = color and "NO_COLOR" not in os.environ

    def __enter__(self) -> Progress:
        return self

    def show(self, event: engine.Event) -> None:
        """Take note of an event."""
        if isinstance(event, engine.Started):
            self._waiting[event.check] = None
        elif isinstance(event, engine.Finished):
            self._waiting.pop(event.result.check, None)
            self._ended += 1
        if self._live and (now := time.monotonic()) - self._shown_at > 0.1:
            self._shown_at = now
            self._draw()

    def _draw(self) -> None:
        done = WIDTH * min(self._ended, self._total) // self._total
        bar = "#" * done + "." * (WIDTH - done)
        waiting = next(iter(self._waiting), "")
        columns = os.get_terminal_size(2).columns
        line = f"[{bar}] {self._ended}/{self._total} {waiting}"[: max(columns - 1, 1)]
        sys.stderr.write(f"\r\x1b[K\x1b[2m{line}\x1b[0m" if self._color else f"\r\x1b[K{line}")
        sys.stderr.flush()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
