"""Scores of known issues from evidence: the specific before the general, causes before consequences.

A symptom of the issue itself weighs most, then a code, the more the fewer meanings it has; hints and generic codes
weigh little, and never name an issue by themselves: only two hints together do. A symptom that spells a generic code
weighs like a wrapper, so that the plain sentence beside it counts more; a general one, of any package, library or file,
weighs as little. Advice, and lines below the level of an
error, count in part. Each further piece of evidence for the same
issue adds half of the previous one, so that a verbose failure does not outweigh a specific one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from npudoctor import knowledge
from npudoctor.explain.patterns import Kind
from npudoctor.explain.sightings import Sighting
from npudoctor.explain.signs import CALL_BETWEEN_PACKAGES
from npudoctor.knowledge.tables.pitfalls import Pitfall
from npudoctor.records import record

STRONG = 0.5
"""The weight from which one piece of evidence is enough to name an issue as the cause of the others."""

_BASE = {Kind.SYMPTOM: 0.8, Kind.HINT: 0.15, Kind.MESSAGE: 0.2}
_CODE = (0.7, 0.45, 0.3, 0.2)
_GENERIC = 0.3
_WRAPPER = 0.45
_GENERAL = 0.45
_ADVICE = 0.2
_ATTEMPT = 0.43
_SEVERITY = {"error": 1.0, "warning": 0.7, "info": 0.3}
_WARNED = 0.6
"""Of an issue that is only warned of, beside one that is reported as an error."""

_LATER = 0.6
LATER_S = 10.0
"""Seconds after another failure from which evidence counts less."""

_FOLLOWS, _FOLLOWS_S = 0.4, 5.0
_LEAST = 0.1
_COMPLAINT = re.compile(r"error|fail|cannot|can't|exception|abort|fatal|undefined|core dumped|not found", re.IGNORECASE)
_SPELLED = re.compile(r"E[A-Z]\d{4}|ERR\d{5}|E\d{5}|\b\d{6}\b")

Times = Mapping[int, float]
"""Seconds by the `id` of a sighting, without those of unknown time."""


@record(frozen=True)
class Suspect:
    """A known issue found in a log; `weight` is that of its best evidence, the first in `evidence`."""

    pitfall: Pitfall
    score: float
    weight: float
    evidence: tuple[Sighting, ...]


def suspects(sightings: Sequence[Sighting], times: Times) -> tuple[Suspect, ...]:
    """The known issues supported by the sightings, most likely first."""
    of_all = [one for one in sightings if one.found.kind in (Kind.CODE, Kind.MESSAGE)]
    of_each: dict[str, list[Sighting]] = {}
    for one in sightings:
        of_each.setdefault(one.found.what, []).append(one)
    found = [
        suspect
        for pitfall in knowledge.pitfalls().rows
        if (suspect := _suspect(pitfall, [*of_each.get(pitfall.id, ()), *of_all]))
    ]
    beginnings = {suspect.pitfall.id: _beginning(suspect, times) for suspect in found}
    scores = {suspect.pitfall.id: _in_context(suspect, found, beginnings) for suspect in found}
    _put_specific_first(found, scores)
    top = max(scores.values(), default=0)
    ranked = sorted(found, key=lambda suspect: (-scores[suspect.pitfall.id], suspect.pitfall.rank))
    return tuple(
        Suspect(suspect.pitfall, round(scores[suspect.pitfall.id], 3), suspect.weight, suspect.evidence)
        for suspect in ranked
        if scores[suspect.pitfall.id] >= max(_LEAST, top / 5)
    )


def _suspect(pitfall: Pitfall, sightings: Iterable[Sighting]) -> Suspect | None:
    best: dict[str, Sighting] = {}
    for one in sightings:
        weight = _weight(one, pitfall)
        if weight > 0 and (one.found.by not in best or weight > _weight(best[one.found.by], pitfall)):
            best[one.found.by] = one
    evidence = sorted(best.values(), key=lambda one: (-_weight(one, pitfall), one.file, one.offset))
    if not _names(evidence):
        return None
    weights = [_weight(one, pitfall) for one in evidence]
    score = sum(weight / 2**place for place, weight in enumerate(weights)) * _SEVERITY[pitfall.severity]
    return Suspect(pitfall, score, weights[0], tuple(evidence))


def _names(evidence: Sequence[Sighting]) -> bool:
    """Whether the evidence is enough to name an issue: more than generic codes and a single hint."""
    hints = sum(1 for one in evidence if one.found.kind is Kind.HINT)
    return hints > 1 or any(one.found.kind is not Kind.HINT and not is_generic(one) for one in evidence)


def is_generic(one: Sighting) -> bool:
    """Whether this is a code that wraps many causes."""
    if one.found.kind is not Kind.CODE:
        return False
    code = knowledge.errors().code(one.found.what) or knowledge.codes().of_id(one.found.what)
    return code is not None and code.generic


def named_by(one: Sighting) -> tuple[Pitfall, ...]:
    """The known issue that a symptom, or a code that is not generic, names first."""
    if one.found.kind is Kind.CODE:
        code = knowledge.errors().code(one.found.what)
        ids = code.pitfalls[:1] if code and not code.generic else ()
    else:
        ids = (one.found.what,)
    return tuple(pitfall for id in ids if (pitfall := knowledge.pitfalls().pitfall(id)) is not None)


@cache
def is_wrapper(expression: str) -> bool:
    """Whether a symptom spells a generic code: it then says where something failed, and not why."""
    rows = (knowledge.errors().code(spelled) for spelled in _SPELLED.findall(expression))
    return any(row is not None and row.generic for row in rows)


def is_general(one: Sighting, pitfall: Pitfall) -> bool:
    """Whether a symptom is that of any package, library or file, and weighs less."""
    return one.found.by in pitfall.general or one.found.by == CALL_BETWEEN_PACKAGES


def _weight(one: Sighting, pitfall: Pitfall) -> float:
    """The weight of one sighting for one issue; 0 where it is no evidence for it."""
    kind, what = one.found.kind, one.found.what
    if kind is Kind.CODE:
        base = _code_weight(what, pitfall.id)
    elif kind is Kind.MESSAGE:
        message = knowledge.errors().message(what)
        base = _BASE[kind] if message and pitfall.id in message.pitfalls else 0
    elif kind is Kind.HINT and not (one.gravity == 1.0 and _COMPLAINT.search(one.text)):
        base = 0
    else:
        base = _BASE.get(kind, 0) if what == pitfall.id else 0
        if kind is Kind.SYMPTOM and is_wrapper(one.found.by):
            base *= _WRAPPER
        elif kind is Kind.SYMPTOM and is_general(one, pitfall):
            base *= _GENERAL
        if one.attempt:
            base *= _ATTEMPT
    return base * one.gravity * (_ADVICE if one.advice else 1)


def _code_weight(spelled: str, pitfall: str) -> float:
    code = knowledge.errors().code(spelled)
    if code is None:
        return 0
    others = (other.id for other in knowledge.pitfalls().with_code(code.code))
    meant = list(dict.fromkeys([*code.pitfalls, *others]))
    if pitfall not in meant:
        return 0
    return _CODE[min(meant.index(pitfall), len(_CODE) - 1)] * (_GENERIC if code.generic else 1)


def _beginning(suspect: Suspect, times: Times) -> float | None:
    """The time of its first strong evidence; None where not all times are known."""
    strong = [one for one in suspect.evidence if _weight(one, suspect.pitfall) >= suspect.weight / 2]
    known = [times[id(one)] for one in strong if id(one) in times]
    return min(known) if len(known) == len(strong) else None


def _in_context(suspect: Suspect, found: Sequence[Suspect], beginnings: Mapping[str, float | None]) -> float:
    """The score, reduced for a later failure, and for a consequence of another cause."""
    began = beginnings[suspect.pitfall.id]
    strong = [other for other in found if other is not suspect and other.weight >= STRONG and is_error(other)]
    score = suspect.score
    if suspect.pitfall.device_fault:  # not all lines of the hardware have a stamp of their own
        strong = [other for other in strong if not other.pitfall.consequence]
    earliest = min((time for other in strong if (time := beginnings[other.pitfall.id]) is not None), default=None)
    if began is not None and earliest is not None and began > earliest + LATER_S:
        score *= _LATER
    if _is_warned(suspect) and any(not other.pitfall.consequence and not _is_warned(other) for other in strong):
        score *= _WARNED
    if suspect.pitfall.consequence:
        causes = [other for other in strong if not other.pitfall.consequence]
        times = [None if cause.pitfall.device_fault else beginnings[cause.pitfall.id] for cause in causes]
        if any(began is None or time is None or time <= began + _FOLLOWS_S for time in times):
            score *= _FOLLOWS
    return score


def _is_warned(suspect: Suspect) -> bool:
    """Whether all evidence is in lines below the level of an error."""
    return all(one.gravity < 1.0 for one in suspect.evidence)


def is_error(suspect: Suspect) -> bool:
    """Whether an issue stops a job."""
    return suspect.pitfall.severity == "error"


def _put_specific_first(found: Sequence[Suspect], scores: dict[str, float]) -> None:
    """Lower the score of an issue that another, more specific one refines."""
    for _ in range(3):  # a chain of refinements is at most this long
        for suspect in found:
            own = any(
                one.found.kind is Kind.SYMPTOM and not one.advice and not is_general(one, suspect.pitfall)
                for one in suspect.evidence
            )
            for general in suspect.pitfall.refines if own else ():
                if general in scores:
                    scores[general] = min(scores[general], scores[suspect.pitfall.id] * 0.99)
