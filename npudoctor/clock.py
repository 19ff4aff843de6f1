"""The wall clock, read only here by all of npudoctor; `tests/test_clock.py` finds other readings.

Durations and time limits use `time.monotonic`, which no clock change affects.
"""

from __future__ import annotations

import datetime
import time

shift_s = 0.0
"""Seconds between the machine's clock and the one that npudoctor reads. For tests alone: a monkeypatch, or a `.pth`
file in the site-packages of a virtual environment, sets it; no option and no environment variable does."""


def timestamp() -> float:
    """Seconds since 1970, as `time.time` has them."""
    return time.time() + shift_s


def now() -> datetime.datetime:
    """This moment, in UTC."""
    return datetime.datetime.fromtimestamp(timestamp(), datetime.timezone.utc)


def local() -> datetime.datetime:
    """This moment in this machine's time zone."""
    return now().astimezone()


def local_minute(at: float) -> str:
    """`12:00` of seconds since 1970, in this machine's time zone."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.timezone.utc).astimezone():%H:%M}"


def today() -> datetime.date:
    """The date in this machine's time zone."""
    return local().date()


def in_utc(at: float) -> str:
    """`2026-11-21T12:00:00Z` of seconds since 1970."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
