"""The daemon's file as others read it: in bounded time, whatever is in it, and without changing it."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from npudoctor.host import Unavailable

FOLDER = "/var/lib/npudoctor"
"""Where the daemon of the system keeps its file."""

MOST_STEPS = 20_000
"""Thousands of instructions that one reading may take; the readings of a day of 16 chips take some 300."""

LARGEST_VALUE = 1 << 20
"""Bytes of a text or a row; a larger one ends the reading."""

MOST = 1e12
"""No quantity and no time is larger."""

LONGEST_TEXT = 400
_NEWEST = """SELECT at, substr(kind, 1, 40), substr(check_id, 1, 80), substr(subject, 1, 80), substr(said, 1, ?)
FROM changes ORDER BY id DESC LIMIT ?"""
_LAST = "SELECT at, substr(chip, 1, 40), aicore, hbm, temp, power, ecc FROM samples WHERE at > ? ORDER BY at LIMIT ?"
MEASURES = ("AI Core", "HBM", "temp", "power", "ECC")
"""The quantities of a reading, in the order of `readings`."""


def changes(folder: str | None, most: int) -> list[tuple[Any, ...]]:
    """The newest changes, newest first: time, kind, check, subject and text; none where the file is missing.

    Raises Unavailable where the file is no history of a daemon, or takes too long.
    """
    return _rows(folder, "changes", _NEWEST, (LONGEST_TEXT, most))


def readings(folder: str | None, *, since: float, most: int) -> Iterator[tuple[float, str, tuple[float | None, ...]]]:
    """The readings of each chip since a time, oldest first: time, chip, and the values of `MEASURES`; none where the
    file cannot be read."""
    rows: list[tuple[Any, ...]] = []
    with contextlib.suppress(Unavailable):
        rows = _rows(folder, "samples", _LAST, (since, most))
    for at, chip, *values in rows:
        if (moment := _finite_or_none(at)) is not None and isinstance(chip, str):
            yield moment, chip, tuple(map(_finite_or_none, values))


def _finite_or_none(value: object) -> float | None:
    """A number that can be drawn."""
    if not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) > MOST:
        return None
    return float(value)


def _rows(folder: str | None, table: str, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
    path = os.path.join(folder or FOLDER, "history.sqlite")
    if not os.path.isfile(path):
        return []
    try:
        with contextlib.closing(_open(path)) as store:
            kind = store.execute("SELECT type FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
            if kind not in (None, ("table",)):
                raise sqlite3.DatabaseError(f"{table} is no table")
            return store.execute(query, values).fetchall() if kind else []
    except (sqlite3.Error, MemoryError) as problem:
        raise Unavailable(f"{path} is no readable history of a daemon: {problem}") from problem


def _open(path: str) -> sqlite3.Connection:
    store = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True, timeout=2)
    left = iter(range(MOST_STEPS))
    if limit := getattr(store, "setlimit", None):  # since Python 3.11
        limit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)  # type: ignore[attr-defined,unused-ignore]
    store.set_progress_handler(lambda: next(left, None) is None, 1000)
    store.execute("PRAGMA trusted_schema = OFF")
    return store
