"""Problems of the daemon itself: a history that cannot be written, a run that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Troubles:
    """The current problems by topic; logged when they begin and end."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._said: dict[str, str] = {}

    def set(self, about: str, said: str | None) -> None:
        """Set a problem, or with None clear it."""
        with self._lock:
            before = self._said.get(about)
            if said is None:
                self._said.pop(about, None)
            else:
                self._said[about] = said
        if said != before:
            self._say(said or f"resolved: {before}")

    def get(self, about: str) -> str | None:
        """The problem of a topic."""
        return self._said.get(about)

    @property
    def all(self) -> tuple[str, ...]:
        """All current problems."""
        with self._lock:
            return tuple(self._said.values())
