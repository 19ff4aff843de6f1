"""The rank that failed first, by time, by the launcher's report or as the only cause; and those that failed later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npudoctor.explain import jobs, overcome
from npudoctor.explain.patterns import Kind
from npudoctor.explain.scoring import Suspect, Times, is_generic, named_by
from npudoctor.explain.sightings import FileRead, Sighting, position_of
from npudoctor.records import record, replace

_SAME_INSTANT_S = 1.0
_SAME_REPORT_S = 5.0


@record(frozen=True)
class FirstFailure:
    """The rank that failed first, of how many, and its error. `by` is the evidence: time, launcher, order, or cause."""

    who: str
    sighting: Sighting
    by: str
    of: int

    @property
    def is_alone(self) -> bool:
        """Whether nothing else failed; beside the kernel, which is counted as none, a rank did."""
        return self.of < 2 and not jobs.is_kernel(self.who)


@record(frozen=True)
class Echo:
    """A rank that failed after the first, and its first error; `after_s` counts from the first failure where known."""

    who: str
    sighting: Sighting
    after_s: float | None


def failures_in(seen: Sequence[Sighting], files: Sequence[FileRead]) -> dict[str, list[Sighting]]:
    """The failures of each rank, process, file or kernel."""
    failures: dict[str, list[Sighting]] = {}
    told = (one for one in seen if one.gravity == 1.0 or not jobs.is_of_scheduler(files[one.file].name))
    for one in filter(overcome.is_failure, told):
        is_named = one.source.known or len(files) == 1
        who = one.source.label if is_named else jobs.writer_of(files[one.file].name, one.source.node)
        failures.setdefault(who, []).append(one)
    return failures


def first_of(
    failures: Mapping[str, list[Sighting]], seen: Sequence[Sighting], times: Times, unexplained: Sequence[Sighting]
) -> FirstFailure | None:
    """The failure that the others follow from; None where nothing tells which it is."""
    if not failures:
        return None
    groups = list(failures.items())
    of = sum(not jobs.is_kernel(who) for who in failures) or 1  # the kernel is no rank that failed
    causes = [(who, group) for who, group in groups if any(_is_cause(one, unexplained) for one in group)]
    named = next((one for one in seen if one.found.kind is Kind.ROOT_CAUSE and one.source.known), None)
    if len(groups) == 1:
        return _failure_of(groups[0], "order", times, 1)
    if all(any(id(one) in times for one in group) for _, group in groups):
        began = {who: min(times[id(one)] for one in group if id(one) in times) for who, group in groups}
        earliest = [item for item in groups if began[item[0]] <= min(began.values()) + _SAME_INSTANT_S]
        first = min(earliest, key=lambda item: (item not in causes, began[item[0]], position_of(item[1][0])))
        faulty = [item for item in groups if any(map(_is_device_fault, item[1]))]
        if first not in causes and faulty:  # what timed out waited for the rank of the faulty device
            return _failure_of(min(faulty, key=lambda item: began[item[0]]), "cause", times, of)
        return _failure_of(first, "time", times, of)
    told = [item for item in groups if named and item[1][0].source.rank == named.source.rank]
    if len(told) == 1 and named and named.source.rank is not None:
        return _failure_of(told[0], "launcher", times, of)
    one_file = len({one.file for _, group in groups for one in group}) == 1
    if one_file or len(causes) == 1:
        first = min(causes or groups, key=lambda item: position_of(item[1][0]))
        return _failure_of(first, "order" if one_file and len(causes) in (0, len(groups)) else "cause", times, of)
    return None


def shown_by(first: FirstFailure | None, ranked: Sequence[Suspect]) -> FirstFailure | None:
    """The first failure, shown by the issue that leads where its line shows several."""
    if first is None or not ranked:
        return first
    line = (first.sighting.file, first.sighting.line)
    return replace(
        first, sighting=next((one for one in ranked[0].evidence if (one.file, one.line) == line), first.sighting)
    )


def _failure_of(item: tuple[str, list[Sighting]], by: str, times: Times, of: int) -> FirstFailure:
    who, group = item
    first = min(group, key=lambda one: (times.get(id(one), float("inf")) if by == "time" else 0, position_of(one)))
    return FirstFailure(who, _telling(group, first, times), by, of)


def _telling(group: Sequence[Sighting], first: Sighting, times: Times) -> Sighting:
    """What says most of the failures of a rank that are reported together with its first."""

    def together(one: Sighting) -> bool:
        near = one.file == first.file and abs(one.line - first.line) <= jobs.NEIGHBOURS
        began, time = times.get(id(first)), times.get(id(one))
        return near or (began is not None and time is not None and abs(time - began) <= _SAME_REPORT_S)

    return min(
        filter(together, group),
        key=lambda one: (one.found.kind is not Kind.SYMPTOM, is_generic(one), position_of(one)),
    )


def echoes_of(failures: Mapping[str, Sequence[Sighting]], first: FirstFailure | None, times: Times) -> tuple[Echo, ...]:
    """The other ranks with their first errors, in the order of time as far as it is known."""
    if first is None or first.is_alone:
        return ()
    began = times.get(id(first.sighting))
    echoes = []
    for who, group in failures.items():
        if who not in ("", first.who):
            one = min(group, key=lambda one: (times.get(id(one), float("inf")), position_of(one)))
            time = times.get(id(one))
            after = None if began is None or time is None else max(time - began, 0.0)
            echoes.append(Echo(who, _telling(group, one, times), after))
    return tuple(sorted(echoes, key=lambda echo: (echo.after_s is None, echo.after_s or 0.0)))


def _is_cause(one: Sighting, unexplained: Sequence[Sighting]) -> bool:
    """Whether a failure may be the cause of others."""
    if one.found.kind is Kind.EXCEPTION:
        return any(one is other for other in unexplained)
    return one.found.kind is Kind.MEMORY or any(not pitfall.consequence for pitfall in named_by(one))


def _is_device_fault(one: Sighting) -> bool:
    """Whether a sighting shows a fault of the hardware."""
    return any(pitfall.device_fault for pitfall in named_by(one))
