"""The daemon's history: it survives a file that cannot be written, and writes the missed entries later.

While the disk is full or missing, a copy in memory is used and written as soon as possible. A damaged file is renamed,
and a new one is created.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from npudoctor import clock
from npudoctor.daemon.store import MEMORY, Change, Issue, Store
from npudoctor.findings import Report

if TYPE_CHECKING:
    from npudoctor.daemon.answers import Card

KEPT_IN_MEMORY = 500
T = TypeVar("T")


class History:
    """A thread-safe store that survives errors of its file. `trouble` describes such an error in a clause."""

    def __init__(self, path: str, *, kept_days: float) -> None:
        self.path = path
        self.trouble: str | None = None
        self._kept_days = kept_days
        self._lock = threading.RLock()
        self._file: Store | None = None
        self._spare: Store | None = None
        self._since = 0
        self._began = 0.0
        try:
            self._file = Store(path, kept_days=kept_days)
        except sqlite3.Error as problem:
            self._withdraw(problem)

    def close(self) -> None:
        """Write what is possible, and close the file."""
        with self._lock:
            self._come_back()
            for store in (self._file, self._spare):
                if store is not None:
                    with contextlib.suppress(sqlite3.Error):
                        store.close()

    def take(self, report: Report) -> list[Change]:
        """Record the findings of a run, and resolve issues that it no longer finds; the changes."""
        return self._do(lambda store: store.take(report))

    def sample(self, cards: Sequence[Card]) -> None:
        """Keep the present readings of all chips."""
        self._do(lambda store: store.sample(cards))

    def note(self, kind: str, said: str) -> None:
        """Record an event that is no issue."""
        self._do(lambda store: store.note(kind, said))

    def prune(self, *, by_age: bool) -> None:
        """Delete old and excess entries."""
        self._do(lambda store: store.prune(by_age=by_age))

    def forget_checks_but(self, known: Iterable[str]) -> None:
        """Resolve issues of checks that no longer exist."""
        names = tuple(known)
        self._do(lambda store: store.forget_checks_but(names))

    def remember(self, name: str, value: str) -> None:
        """Store a value under a name."""
        self._do(lambda store: store.remember(name, value))

    def recall(self, name: str) -> str | None:
        """The value stored under a name."""
        return self._do(lambda store: store.recall(name))

    def latest(self, *kinds: str) -> Change | None:
        """The newest change of these kinds."""
        return self._do(lambda store: store.latest(*kinds))

    def count_since(self, at: float, *kinds: str) -> int:
        """The number of changes of these kinds since a time."""
        return self._do(lambda store: store.count_since(at, *kinds))

    def issues(self, *, all_of_them: bool = False) -> list[Issue]:
        """Open issues; on request also resolved ones."""
        return self._do(lambda store: store.issues(all_of_them=all_of_them))

    def changes(self, *, limit: int, before: int | None = None) -> list[Change]:
        """The latest changes, newest first."""
        return self._do(lambda store: store.history(limit=limit, before=before))

    # Between file and memory

    def _do(self, action: Callable[[Store], T]) -> T:
        with self._lock:
            self._come_back()
            if self._spare is None and self._file is not None:
                try:
                    return action(self._file)
                except sqlite3.Error as problem:
                    self._reopen(problem)
            if self._spare is None and self._file is not None:
                try:
                    return action(self._file)
                except sqlite3.Error as problem:
                    self._withdraw(problem)
            assert self._spare is not None
            return action(self._spare)

    def _reopen(self, problem: sqlite3.Error) -> None:
        """Reopen a damaged file, which renames it; after any other error use memory."""
        if isinstance(problem, sqlite3.OperationalError) and "malformed" not in str(problem):
            self._withdraw(problem)
            return
        assert self._file is not None
        with contextlib.suppress(sqlite3.Error):
            self._file.close()
        try:
            self._file = Store(self.path, kept_days=self._kept_days)
        except sqlite3.Error as again:
            self._file = None
            self._withdraw(again)

    def _withdraw(self, problem: sqlite3.Error) -> None:
        self.trouble = f"cannot write the history {self.path}: {problem}; it is kept in memory"
        self._began = clock.timestamp()
        self._spare = Store(MEMORY, kept_days=self._kept_days)
        self._since = 0
        if self._file is not None:
            with contextlib.suppress(sqlite3.Error):
                self._since = self._spare.copy_from(self._file, changes=KEPT_IN_MEMORY)
        self._spare.note("unwritten", self.trouble)

    def _come_back(self) -> None:
        """Write the entries kept in memory, if the file works again."""
        if self._spare is None:
            return
        try:
            if self._file is None:
                self._file = Store(self.path, kept_days=self._kept_days)
            since = clock.in_utc(self._began)
            self._file.absorb(self._spare, self._since, f"entries kept in memory since {since} were written")
        except sqlite3.Error:
            return
        self._spare.close()
        self._spare = None
        self.trouble = None
