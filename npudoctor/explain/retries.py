"""Attempts that a program repeats: no failure where nothing fails afterwards.

pip, wget, curl, the clients of model hubs and Ray report each attempt that failed, and go on. A sighting in such a
report counts only where the log shows a known issue later, or another log of the job does: what a program raises for
another reason makes no attempt fail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudoctor.explain.patterns import Kind
from npudoctor.explain.sightings import Sighting
from npudoctor.records import replace

_OFFERED = re.compile(r"\(from versions: (?!none)")
"""pip's list of what the index offers: it was reached after all."""

_OF_CONNECTIONS = frozenset({"P050", "P111", "P115"})
"""Known issues that an attempt shows: a server that is not reached once may be reached the next time."""


def without_repeated(sightings: Sequence[Sighting]) -> list[Sighting]:
    """The sightings without those of attempts to connect after which nothing failed."""
    seen = [one if not one.attempt or _connects(one) else replace(one, attempt=False) for one in sightings]
    reached: dict[int, int] = {}
    for one in seen:
        if _OFFERED.search(one.text):
            reached[one.file] = max(reached.get(one.file, 0), one.offset)
    failed: dict[int, int] = {}
    for one in seen:
        if one.gravity == 1.0 and not one.attempt and not one.advice and one.found.kind is Kind.SYMPTOM:
            failed[one.file] = max(failed.get(one.file, 0), one.offset)
    return [
        one
        for one in seen
        if not one.attempt or (_failed_after(one, failed) and one.offset >= reached.get(one.file, 0))
    ]


def _connects(one: Sighting) -> bool:
    return one.found.kind is Kind.EXCEPTION or one.found.what in _OF_CONNECTIONS


def _failed_after(one: Sighting, failed: dict[int, int]) -> bool:
    return any(file != one.file or offset > one.offset for file, offset in failed.items())
