"""What a log shows: each match at its first sighting, and each file that was read."""

from __future__ import annotations

from operator import attrgetter

from npudoctor.explain import signs
from npudoctor.explain.lines import Moment, Source
from npudoctor.explain.patterns import Found
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Sighting:
    """A match, at its first sighting of a source.

    `line` counts from 1, `offset` bytes from 0. `gravity` is the weight of the line's level, 0 to 1. `advice`: it is
    in the advice of the line, not in its report. `attempt`: the program repeats what failed here. `beside` is the plain
    sentence in or below a generic code. `place` is the program's own frame above an exception. `source` and `moment`
    are those of the line; `moment_near` is true for a moment taken from a neighbouring line. `quoted` is `text` without
    credentials, for what is shown. `command` is the number of the command of a terminal session that printed the line,
    from 1; 0 where the log shows none.
    """

    found: Found
    file: int
    line: int
    offset: int
    text: str
    quoted: str
    source: Source
    moment: Moment | None
    moment_near: bool
    gravity: float
    advice: bool
    attempt: bool = False
    beside: str | None = None
    place: str | None = None
    command: int = 0


position_of = attrgetter("file", "offset")
"""The position of a sighting in all that was read: the number of its file, and its offset there."""


@record(frozen=True)
class FileRead:
    """One file; `problem` says why it was not read, `stopped` why it was read in part.

    `began` and `ended` are its first and its last time stamp, as far as its first and last lines have one.
    `complains` is the most severe word in it; `in_container`: its beginning shows a container. What was
    reported before the offset `went_on_at` stopped nothing. `good_ending` is a report of success in its last lines.
    `run_again` are the commands of a terminal session that a later one runs again, by their numbers from 1.
    """

    name: str
    bytes: int
    lines: int
    foreign: bool = False
    problem: str | None = None
    stopped: str | None = None
    began: Moment | None = None
    ended: Moment | None = None
    complains: signs.Complaint = signs.Complaint.ERROR
    in_container: bool = False
    went_on_at: int = 0
    good_ending: Sighting | None = None
    run_again: frozenset[int] = frozenset()
