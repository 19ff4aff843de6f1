"""Times as the clock on the wall shows them; reports and the journal keep them in UTC."""

from __future__ import annotations


def time_of_day(moment: str) -> str:
    """14:05, here, of an ISO time."""
    return _local(moment, "%H:%M")


def day_and_time(moment: str) -> str:
    """2026-11-21 14:05, here, of an ISO time."""
    return _local(moment, "%Y-%m-%d %H:%M")


def _local(moment: str, form: str) -> str:
    from datetime import datetime

    try:
        return datetime.fromisoformat(moment).astimezone().strftime(form)
    except ValueError:
        return moment
