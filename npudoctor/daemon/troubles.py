"""What the daemon has to say of itself: a history that cannot be written, a look that hangs, and the like."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Troubles:
    """What is wrong at present, by what it is about; told to the log when it begins and when it is over."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._said: dict[str, str] = {}

    def set(self, about: str, said: str | None) -> None:
        """Begin, change, or with None end one."""
        with self._lock:
            before = self._said.get(about)
            if said is None:
                self._said.pop(about, None)
            else:
                self._said[about] = said
        if said != before:
            self._say(said or f"over: {before}")

    def get(self, about: str) -> str | None:
        """What is said about something."""
        return self._said.get(about)

    @property
    def all(self) -> tuple[str, ...]:
        """Everything that is wrong at present."""
        with self._lock:
            return tuple(self._said.values())
