"""A command that several facts want runs once: later callers wait for the first answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

from npudoctor.host import Completed, Unavailable


class Once:
    """A call that is made once, however many threads ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: Completed | Unavailable | None = None

    def answer(self, call: Callable[[], Completed]) -> Completed:
        """What the call returned or raised, when it was made for the first who asked."""
        with self._lock:
            if self._done is None:
                try:
                    self._done = call()
                except Unavailable as why:
                    self._done = why
        if isinstance(self._done, Unavailable):
            raise self._done
        return self._done
