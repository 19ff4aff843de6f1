"""Complaints of a log that stopped nothing: the job ended well after them, or was stopped before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npudoctor.explain.answers import Answer, AnswerKind
from npudoctor.explain.patterns import Kind
from npudoctor.explain.scan import Sighting
from npudoctor.explain.scoring import Suspect

_SHUTDOWN_LINES = 300
"""Lines after a stop in which what fails follows from it; later ones may be of another command in the same log."""


def good_endings(seen: Sequence[Sighting]) -> Mapping[int, Sighting]:
    """The reports of success at the end of the files, by file."""
    return {one.file: one for one in seen if one.found.kind is Kind.ENDING}


def stop_of(seen: Sequence[Sighting]) -> Sighting | None:
    """The first line that says that somebody stopped the job."""
    return next((one for one in seen if one.found.kind is Kind.STOP and not one.advice), None)


def without_shutdown(seen: Sequence[Sighting]) -> list[Sighting]:
    """The sightings without those that follow from a stop."""
    stops = [one for one in seen if one.found.kind is Kind.STOP]
    return [
        one
        for one in seen
        if one.found.kind in (Kind.STOP, Kind.ENDING)
        or not any(stop.file == one.file and 0 <= one.line - stop.line <= _SHUTDOWN_LINES for stop in stops)
    ]


def is_overcome(suspect: Suspect, endings: Mapping[int, Sighting]) -> bool:
    """Whether a job that an issue would stop went on and ended well."""
    return (
        suspect.pitfall.severity == "error"
        and not suspect.pitfall.device_fault
        and all(one.file in endings and one.offset < endings[one.file].offset for one in suspect.evidence)
    )


def answer_of(failed: Sequence[Sighting], endings: Mapping[int, Sighting], stop: Sighting | None) -> Answer | None:
    """The answer where nothing that the log reports made the job end: it ended well, or somebody stopped it.

    `failed` are the sightings of failures, exceptions among them.
    """
    if endings and all(one.file in endings and one.offset < endings[one.file].offset for one in failed):
        last = max(endings.values(), key=lambda one: (one.file, one.offset))
        title = "This log shows no failure: it ends with a report of success"
        because = "what it complains of before stopped nothing" if failed else "no line behind it reports a failure"
        return Answer(AnswerKind.NO_FAILURE, title, because, (), last)
    reported = [one for one in failed if one.gravity == 1.0]
    if stop is not None and not any(one.file == stop.file and one.offset < stop.offset for one in reported):
        title = f"Not the environment: the job was stopped by {stop.found.what}"
        because = "no failure is reported before it; what is reported after it follows from it"
        return Answer(AnswerKind.STOPPED, title, because, (), stop)
    return None
