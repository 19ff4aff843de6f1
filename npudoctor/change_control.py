"""When a site allows changes: the section [changes] of its configuration, as the fixes read it."""

from __future__ import annotations

import datetime
import re

from npudoctor.records import record

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WINDOW = (
    r"(?:(?P<first>[A-Z][a-z]{2})(?:-(?P<last>[A-Z][a-z]{2}))? )?"
    r"(?P<start>[01]\d:[0-5]\d|2[0-3]:[0-5]\d)-(?P<end>[01]\d:[0-5]\d|2[0-3]:[0-5]\d)"
)
_UNTIL = r"(?P<reason>.*?),? ?\buntil (?P<day>\d{4}-\d\d-\d\d)"


@record(frozen=True, kw_only=True)
class ChangeControl:
    """What a site demands of a change. All windows have to be open, and nothing may be frozen."""

    require_reason: bool = False
    windows: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()

    def closed_window(self, now: datetime.datetime) -> str | None:
        """The first window that is closed at this local time; None where all are open."""
        return next((text for text in self.windows if not is_open(text, now)), None)

    def frozen_for(self, today: datetime.date) -> str | None:
        """Why the node is frozen on this day; None where it is not."""
        return next((text for text in self.frozen if not _is_over(text, today)), None)


def window(text: str) -> str:
    """A window as it may be configured, such as `22:00-06:00` or `Sat-Sun 08:00-20:00`; raises ValueError."""
    match = re.fullmatch(_WINDOW, text)
    if match is None or any(day not in DAYS for day in (match["first"], match["last"]) if day):
        raise ValueError("expected HH:MM-HH:MM in local time, after days if wanted, such as Sat-Sun 22:00-06:00")
    return text


def parse_freeze(text: str) -> str:
    """A reason, and `until YYYY-MM-DD` behind it if wanted; raises ValueError for a day that does not exist."""
    if not text.strip():
        raise ValueError("expected a reason, such as 'release week, until 2026-12-04'")
    _is_over(text, datetime.date.min)
    return text


def is_open(text: str, now: datetime.datetime) -> bool:
    """Whether a window is open at a local time; one past midnight belongs to the day on which it opens."""
    match = re.fullmatch(_WINDOW, text)
    assert match is not None
    start, end, moment = match["start"], match["end"], f"{now:%H:%M}"
    after_midnight = start >= end and moment < end
    if not (start <= moment < end or (start >= end and (moment >= start or after_midnight))):
        return False
    if match["first"] is None:
        return True
    first = DAYS.index(match["first"])
    last = DAYS.index(match["last"] or match["first"])
    day = (now.weekday() - after_midnight) % 7
    return (day - first) % 7 <= (last - first) % 7


def _is_over(text: str, today: datetime.date) -> bool:
    match = re.fullmatch(_UNTIL, text.strip())
    return match is not None and today > datetime.date.fromisoformat(match["day"])
