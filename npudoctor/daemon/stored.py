"""The daemon's file as others read it: in bounded time, whatever is in it, and without changing it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

FOLDER = "/var/lib/npudoctor"
"""Where the daemon of the system keeps its file."""

MOST_STEPS = 20_000
"""Thousands of instructions that one reading may take; the readings of a day of 16 chips take some 300."""

LONGEST_TEXT = 400
_NEWEST = """SELECT at, substr(kind, 1, 40), substr(check_id, 1, 80), substr(subject, 1, 80), substr(said, 1, ?)
FROM changes ORDER BY id DESC LIMIT ?"""
_LAST = "SELECT at, substr(chip, 1, 40), aicore, hbm, temp, power, ecc FROM samples WHERE at > ? ORDER BY at LIMIT ?"
MEASURES = ("AI Core", "HBM", "temp", "power", "ECC")
"""The quantities of a reading, in the order of `readings`."""


def changes(folder: str | None, most: int) -> list[tuple[Any, ...]]:
    """The newest changes, newest first: time, kind, check, subject and text; none where the file is missing."""
    return _rows(folder, "changes", _NEWEST, (LONGEST_TEXT, most))


def readings(folder: str | None, *, since: float, most: int) -> Iterator[tuple[float, str, tuple[float | None, ...]]]:
    """The readings of each chip since a time, oldest first: time, chip, and the values of `MEASURES`."""
    for at, chip, *values in _rows(folder, "samples", _LAST, (since, most)):
        if isinstance(at, (int, float)) and isinstance(chip, str):
            yield float(at), chip, tuple(float(one) if isinstance(one, (int, float)) else None for one in values)


def _rows(folder: str | None, table: str, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
    path = os.path.join(folder or FOLDER, "history.sqlite")
    if not os.path.isfile(path):
        return []
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_opened(path)) as store:
        kind = store.execute("SELECT type FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        return store.execute(query, values).fetchall() if kind == ("table",) else []
    return []


def _opened(path: str) -> sqlite3.Connection:
    store = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True, timeout=2)
    left = iter(range(MOST_STEPS))
    store.set_progress_handler(lambda: next(left, None) is None, 1000)
    store.execute("PRAGMA trusted_schema = OFF")
    return store
