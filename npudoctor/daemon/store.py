"""The daemon's history: issues and their changes, in SQLite, limited by age and size.

An issue is identified by check and subject. It opens once, is counted by every run that finds it, and resolves when a
run of the same or a deeper profile no longer finds it. A kill loses only the run that was being written.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from npudoctor import clock
from npudoctor.daemon import kept, store_file
from npudoctor.findings import Finding, Inventory, Report, Result, Severity, Skip, Status
from npudoctor.records import record
from npudoctor.sdk import PROFILES

if TYPE_CHECKING:
    from npudoctor.daemon.answers import Card

SCHEMA = """
CREATE TABLE IF NOT EXISTS issues (
    check_id TEXT NOT NULL, subject TEXT NOT NULL, severity TEXT NOT NULL, summary TEXT NOT NULL,
    first_seen REAL NOT NULL, last_seen REAL NOT NULL, count INTEGER NOT NULL, opened INTEGER NOT NULL,
    resolved_at REAL, depth INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (check_id, subject)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS remembered (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, check_id TEXT, subject TEXT, severity TEXT,
    said TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS changes_by_time ON changes (at);
"""
LAYOUT = 1
MEMORY = ":memory:"
LARGEST_BYTES = 64 << 20
KEPT_DAYS = 30.0
KEPT_CHANGES = 50_000
FLAPS, FLAPPING_S = 3, 3600.0
"""An issue that opens so many times within so many seconds is flapping."""


@record(frozen=True, kw_only=True)
class Issue:
    """A present or past problem. Times are in seconds since 1970; `resolved_at` is None while it is open.

    `count` is the number of runs that found it, `opened` how often it opened.
    """

    check: str
    subject: str
    severity: str
    summary: str
    first_seen: float
    last_seen: float
    count: int
    opened: int
    resolved_at: float | None
    flapping: bool


@record(frozen=True, kw_only=True)
class Change:
    """One event, at a time in seconds since 1970.

    `kind` is opened, resolved, changed; inventory; started, stopped, killed, configured, clock; set-aside, unwritten,
    written; fixed, fix-failed or fix-refused.
    """

    id: int
    at: float
    kind: str
    check: str | None
    subject: str | None
    severity: str | None
    said: str


class Store:
    """The history of one node in one file. Not thread-safe; each thread opens its own."""

    def __init__(self, path: str, *, kept_days: float = KEPT_DAYS) -> None:
        self.path = path
        self.kept_days = kept_days
        self._connection = self._open()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # Writing

    def take(self, report: Report, *, at: float | None = None) -> list[Change]:
        """Record the findings of a run, and resolve issues that it no longer finds; the changes, in one transaction.

        An issue found only by a deeper profile is not resolved by a shallower one.
        """
        now = clock.timestamp() if at is None else at
        depth = PROFILES.index(report.profile)
        before = self._last_change()
        with self._connection:
            loud = [result for result in report.results if not result.silenced]
            found = {(result.check, one.subject): one for result in loud for one in _most_severe(result.open_findings)}
            for (check, subject), finding in found.items():
                self._record_finding(check, subject, finding, depth, now)
            for result in report.results:
                if (why := _why_gone(result)) is None:
                    continue
                for subject, severity in self._open_of(result.check, depth):
                    if (result.check, subject) not in found:
                        self._resolve(result.check, subject, severity, why, now)
            self._compare(report.inventory, now)
        return list(self._changes("WHERE id > ? ORDER BY id", before))

    def _compare(self, inventory: Inventory | None, now: float) -> None:
        """Note NPUs that are new, gone or elsewhere, and other versions; nothing where a serial number is unknown."""
        found = kept.describe(inventory)
        if found is not None and (told := json.dumps(found)) != (before := self.recall("inventory")):
            for said in kept.changes(before, found):
                self._enter(now, "inventory", None, None, None, said)
            self._connection.execute("INSERT OR REPLACE INTO remembered VALUES ('inventory', ?)", (told,))

    def sample(self, cards: Iterable[Card], *, at: float | None = None) -> None:
        """Keep the present readings of all chips for a day."""
        with self._connection:
            kept.add(self._connection, cards, clock.timestamp() if at is None else at)

    def forget_checks_but(self, known: Iterable[str]) -> None:
        """Resolve issues of checks that no longer exist."""
        now, known = clock.timestamp(), set(known)
        with self._connection:
            rows = self._connection.execute(
                "SELECT check_id, subject, severity FROM issues WHERE resolved_at IS NULL"
            ).fetchall()
            for check, subject, severity in rows:
                if check not in known:
                    self._resolve(check, subject, severity, "check no longer exists", now)

    def remember(self, name: str, value: str) -> None:
        """Store a value under a name."""
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO remembered VALUES (?, ?)", (name, value))

    def recall(self, name: str) -> str | None:
        """The value stored under a name."""
        row = self._connection.execute("SELECT value FROM remembered WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def note(self, kind: str, said: str, *, at: float | None = None) -> None:
        """Record an event that is no issue: a start, a fix, a damaged file."""
        with self._connection:
            self._enter(clock.timestamp() if at is None else at, kind, None, None, None, said)

    def prune(self, *, at: float | None = None, by_age: bool = True) -> None:
        """Delete entries older than the retention time, and the oldest of excess ones.

        Not `by_age` after a clock change: entries that seem old may be new.
        """
        now = clock.timestamp() if at is None else at
        with self._connection:
            oldest = now - self.kept_days * 86400 if by_age else float("-inf")
            self._connection.execute("DELETE FROM changes WHERE at < ?", (oldest,))
            self._connection.execute(
                "DELETE FROM changes WHERE id <= (SELECT MAX(id) FROM changes) - ?", (KEPT_CHANGES,)
            )
            self._connection.execute("DELETE FROM issues WHERE resolved_at < ?", (oldest,))
        if self.path != MEMORY and os.path.getsize(self.path) > LARGEST_BYTES:
            with self._connection:
                self._connection.execute("DELETE FROM changes WHERE id <= (SELECT AVG(id) FROM changes)")
            self._connection.execute("VACUUM")

    def _record_finding(self, check: str, subject: str, finding: Finding, depth: int, now: float) -> None:
        row = self._connection.execute(
            "SELECT severity, summary, resolved_at FROM issues WHERE check_id = ? AND subject = ?", (check, subject)
        ).fetchone()
        severity, said = finding.severity.value, finding.summary
        if row is None:
            self._connection.execute(
                "INSERT INTO issues VALUES (?, ?, ?, ?, ?, ?, 1, 1, NULL, ?)",
                (check, subject, severity, said, now, now, depth),
            )
        else:
            again = row[2] is not None
            self._connection.execute(
                "UPDATE issues SET severity = ?, summary = ?, last_seen = ?, count = count + 1, opened = opened + ?,"
                " first_seen = CASE WHEN ? THEN ? ELSE first_seen END, resolved_at = NULL,"
                " depth = CASE WHEN ? THEN ? ELSE MIN(depth, ?) END WHERE check_id = ? AND subject = ?",
                (severity, said, now, again, again, now, again, depth, depth, check, subject),
            )
        if row is None or row[2] is not None:
            self._enter(now, "opened", check, subject, severity, said)
        elif row[0] != severity:
            self._enter(now, "changed", check, subject, severity, said)

    def _resolve(self, check: str, subject: str, severity: str, why: str, now: float) -> None:
        self._connection.execute(
            "UPDATE issues SET resolved_at = ? WHERE check_id = ? AND subject = ?", (now, check, subject)
        )
        self._enter(now, "resolved", check, subject, severity, why)

    def _enter(
        self, at: float, kind: str, check: str | None, subject: str | None, severity: str | None, said: str
    ) -> None:
        self._connection.execute(
            "INSERT INTO changes (at, kind, check_id, subject, severity, said) VALUES (?, ?, ?, ?, ?, ?)",
            (at, kind, check, subject, severity, said),
        )

    # Reading

    def issues(self, *, all_of_them: bool = False, at: float | None = None) -> list[Issue]:
        """Open issues, most severe first; on request also resolved ones."""
        now = clock.timestamp() if at is None else at
        rows = self._connection.execute(
            "SELECT check_id, subject, severity, summary, first_seen, last_seen, count, opened, resolved_at,"
            " (SELECT COUNT(*) FROM changes c WHERE c.kind = 'opened' AND c.check_id = issues.check_id"
            " AND c.subject = issues.subject AND c.at > ?) FROM issues WHERE resolved_at IS NULL OR ?",
            (now - FLAPPING_S, all_of_them),
        )
        found = [_issue(row) for row in rows]
        return sorted(found, key=lambda one: (-Severity(one.severity).rank, one.first_seen, one.check, one.subject))

    def history(self, *, limit: int = 100, before: int | None = None) -> list[Change]:
        """The latest changes, newest first; `before` continues from an id."""
        edge = (1 << 62) if before is None else before
        return list(self._changes("WHERE id < ? ORDER BY id DESC LIMIT ?", edge, limit))

    def _changes(self, rest: str, *values: object) -> Iterator[Change]:
        for row in self._connection.execute(
            f"SELECT id, at, kind, check_id, subject, severity, said FROM changes {rest}",  # noqa: S608 - ours
            values,
        ):
            id_, at, kind, check, subject, severity, said = row
            yield Change(id=id_, at=at, kind=kind, check=check, subject=subject, severity=severity, said=said)

    def latest(self, *kinds: str) -> Change | None:
        """The newest change of these kinds."""
        marks = ", ".join("?" * len(kinds))
        return next(self._changes(f"WHERE kind IN ({marks}) ORDER BY id DESC LIMIT 1", *kinds), None)

    def count_since(self, at: float, *kinds: str) -> int:
        """The number of changes of these kinds since a time, including those with a time in the future."""
        marks = ", ".join("?" * len(kinds))
        query = f"SELECT COUNT(*) FROM changes WHERE at > ? AND kind IN ({marks})"  # noqa: S608 - only marks
        return int(self._connection.execute(query, (at, *kinds)).fetchone()[0])

    def _open_of(self, check: str, depth: int) -> list[tuple[str, str]]:
        rows = self._connection.execute(
            "SELECT subject, severity FROM issues WHERE check_id = ? AND resolved_at IS NULL AND depth <= ?",
            (check, depth),
        ).fetchall()
        return [(str(subject), str(severity)) for subject, severity in rows]

    def _last_change(self) -> int:
        return int(self._connection.execute("SELECT COALESCE(MAX(id), 0) FROM changes").fetchone()[0])

    # Entries kept in memory while the file could not be written

    def copy_from(self, other: Store, *, changes: int) -> int:
        """Take over the issues and the latest changes of another store; the id of its last change."""
        issues = other._connection.execute("SELECT * FROM issues").fetchall()
        rows = other._connection.execute("SELECT * FROM changes ORDER BY id DESC LIMIT ?", (changes,)).fetchall()
        words = other._connection.execute("SELECT * FROM remembered").fetchall()
        with self._connection:
            self._take_over(issues, words)
            self._connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        return max((int(row[0]) for row in rows), default=0)

    def absorb(self, other: Store, after: int, said: str) -> None:
        """Copy the entries of another store since its change `after`, and record why it was used."""
        issues = other._connection.execute("SELECT * FROM issues").fetchall()
        words = other._connection.execute("SELECT * FROM remembered").fetchall()
        rows = other._connection.execute(
            "SELECT at, kind, check_id, subject, severity, said FROM changes WHERE id > ? ORDER BY id", (after,)
        ).fetchall()
        with self._connection:
            self._take_over(issues, words)
            for row in rows:
                self._enter(*row)
            self._enter(clock.timestamp(), "written", None, None, None, said)

    def _take_over(self, issues: list[tuple[Any, ...]], words: list[tuple[Any, ...]]) -> None:
        self._connection.execute("DELETE FROM issues")
        self._connection.executemany("INSERT INTO issues VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", issues)
        self._connection.executemany("INSERT OR REPLACE INTO remembered VALUES (?, ?)", words)

    # The file

    def _open(self) -> sqlite3.Connection:
        if self.path != MEMORY:
            store_file.make_ready(self.path)
        try:
            return self._connect()
        except sqlite3.DatabaseError as problem:
            if isinstance(problem, sqlite3.OperationalError) and "malformed" not in str(problem):
                raise
            aside = store_file.set_aside(self.path)
            connection = self._connect()
            with connection:
                connection.execute(
                    "INSERT INTO changes (at, kind, said) VALUES (?, 'set-aside', ?)",
                    (
                        clock.timestamp(),
                        f"cannot read the history ({problem}); renamed to {aside}, new file created",
                    ),
                )
            return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=5.0, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cache_size = -512")
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("malformed")
            found = int(connection.execute("PRAGMA user_version").fetchone()[0])
            empty = not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
            if found != LAYOUT and not empty:
                raise sqlite3.DatabaseError(f"found layout {found}, expected layout {LAYOUT}")
            with connection:
                connection.executescript(f"{SCHEMA} {kept.SCHEMA} PRAGMA user_version = {LAYOUT};")
        except BaseException:
            connection.close()
            raise
        return connection


_LOOKED = (Status.OK, Status.WARNING, Status.ERROR)


def _why_gone(result: Result) -> str | None:
    """Why an issue that this check no longer finds is resolved; None where the check has no result."""
    if result.silenced:
        return "silenced by the site"
    if result.status in _LOOKED:
        return "no longer found"
    return "no longer applicable" if result.skip is Skip.NOT_APPLICABLE else None


def _most_severe(findings: Iterable[Finding]) -> list[Finding]:
    """The findings at warning or above, of several about one subject the most severe."""
    return sorted(
        (finding for finding in findings if finding.severity > Severity.INFO), key=lambda one: one.severity.rank
    )


def _issue(row: tuple[Any, ...]) -> Issue:
    check, subject, severity, summary, first, last, count, opened, resolved, lately = row
    return Issue(
        check=check,
        subject=subject,
        severity=severity,
        summary=summary,
        first_seen=first,
        last_seen=last,
        count=count,
        opened=opened,
        resolved_at=resolved,
        flapping=lately >= FLAPS,
    )
