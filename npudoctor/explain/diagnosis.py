"""The diagnosis of a failing log: known issues, codes, and the rank that failed first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from npudoctor import knowledge
from npudoctor.explain import answers, figures, jobs, overcome, retries
from npudoctor.explain.answers import Answer, AnswerKind
from npudoctor.explain.figures import Memory
from npudoctor.explain.first_failure import Echo, FirstFailure, echoes_of, failures_in, first_of, shown_by
from npudoctor.explain.lines import QUOTED
from npudoctor.explain.patterns import Kind
from npudoctor.explain.scan import Scanner
from npudoctor.explain.scoring import (
    LATER_S,
    STRONG,
    Suspect,
    Times,
    is_error,
    is_general,
    is_generic,
    named_by,
    suspects,
)
from npudoctor.explain.sightings import FileRead, Sighting, position_of
from npudoctor.knowledge.tables.codes import Code
from npudoctor.knowledge.tables.errors import ErrorCode, ErrorText
from npudoctor.records import field, record

_OF_KERNELS = frozenset({"P006", "P034", "P056", "P104", "P114", "P117"})
"""Known issues that say that a kernel or a build failed, or that the operator compiler did not start."""

_REPORTED_LATE_S = 120.0
"""How long after an exception a fault of a device may be reported that is its cause: errors of memory make numbers NaN,
and the driver looks at heartbeats and counters now and then."""

_OF_THE_PROGRAM = (AnswerKind.NOT_THE_ENVIRONMENT, AnswerKind.STOPPED, AnswerKind.NO_FAILURE)
"""Answers beside which each known issue is a consequence."""


@record(frozen=True)
class CodeSeen:
    """A code in the log: its row of errors.json, that of codes.json, else the component that prints such codes."""

    spelled: str
    code: ErrorCode | None
    family: str | None
    count: int
    first: Sighting
    row: Code | None = None


@record(frozen=True, kw_only=True)
class Diagnosis:
    """The diagnosis. `unexplained` is the first exception without a known cause.

    `echoes` are the ranks that failed after the first, `nodes` those whose logs these are, where they are several.
    `shifts` are the seconds added to each file's stamps, so that all share a clock; `apart` are nodes whose clock is
    wrong, and by how much. `answer` explains what no known issue does; `notices` are issues beside it that stop no job.
    """

    suspects: tuple[Suspect, ...]
    codes: tuple[CodeSeen, ...]
    messages: tuple[tuple[ErrorText, Sighting], ...]
    first_failure: FirstFailure | None
    blamed: tuple[Sighting, ...]
    unexplained: Sighting | None
    files: tuple[FileRead, ...]
    counts: Mapping[tuple[Kind, str], int]
    echoes: tuple[Echo, ...] = ()
    nodes: tuple[str, ...] = ()
    shifts: tuple[float, ...] = ()
    apart: Mapping[str, float] = field(default_factory=dict)
    answer: Answer | None = None
    notices: tuple[Suspect, ...] = ()

    @property
    def knows(self) -> bool:
        """Whether any known error of the environment was found, or one that is not told from it."""
        kind = self.answer.kind if self.answer is not None else None
        seen = self.suspects or self.messages or any(code.code or code.row for code in self.codes)
        of_the_job = (*_OF_THE_PROGRAM, AnswerKind.PROGRAM_OR_PACKAGES)
        return kind not in of_the_job and bool(seen or kind is AnswerKind.JOB_TOO_LARGE)


def diagnose(scanner: Scanner, folders: Sequence[str] = ()) -> Diagnosis:
    """Diagnose from the sightings of a scanner; `folders` are those that the user named."""
    files = scanner.files
    nodes = jobs.nodes_of([file.name for file in files], folders)
    shown = retries.without_repeated(overcome.without_ends(overcome.without_shutdown(scanner.sightings, files)))
    every = jobs.attribute(shown, files, nodes)
    live, past = overcome.divide(every, files)
    seen, memories = figures.weigh(live)
    stop = overcome.stop_of(seen, files)
    shifts = jobs.clock_shifts(files, nodes)
    apart = jobs.clocks_apart(files, nodes, shifts)
    times = jobs.times_of([one for one in seen if nodes[one.file] not in apart], shifts)
    unexplained = _unexplained_exceptions(seen)
    failures = failures_in(seen, files)
    raised = _unexplained_exceptions(seen, generic=True)
    first = first_of(failures, seen, times, raised)
    ranked = _caused_by(suspects(seen, times), first)
    if memories and all(memory.others <= figures.OTHERS_GIB for memory in memories):
        ranked = tuple(suspect for suspect in ranked if suspect.pitfall.id != figures.FULL_DEVICE)
    least = (
        1.0 if any(one.gravity == 1.0 for group in failures.values() for one in group) else overcome.REPORTED_GRAVITY
    )
    limits = (one for one in seen if one.found.kind is Kind.LIMIT and not one.advice and one.gravity >= least)
    limit = min(limits, key=lambda one: one.gravity < 1.0, default=None)
    reasons = [one for one in (limit, answers.refusal_in(seen)) if one]
    ranked = tuple(one for one in ranked if not any(_follows_from(one, reason) for reason in reasons))
    ends = [one for one in (limit, stop) if one]
    sound = overcome.only_warned(seen, files)
    warned = [
        one for one in ranked if _only_warns(one, unexplained, ends, times) or {e.file for e in one.evidence} <= sound
    ]
    ranked = tuple(one for one in ranked if one not in warned)
    warned += [
        one for one in suspects(past, {}) if one.pitfall.id not in {each.pitfall.id for each in (*ranked, *warned)}
    ]
    stopped_nothing = {id(each) for one in warned for each in one.evidence if each.gravity < 1.0}
    told = {who: [one for one in group if id(one) not in stopped_nothing] for who, group in failures.items()}
    if stopped_nothing and any(told.values()):
        failures = {who: group for who, group in told.items() if group}
        first = first_of(failures, seen, times, raised)
    answer = None if ranked else overcome.answer_of(failures, files, stop)
    answer = answer or _answer(ranked, memories, seen, raised, first, times, limit)
    if answer is None and not ranked:
        answer = answers.of_launcher(seen) if not failures else answers.of_code(seen)
    own = answer is not None and answer.kind in _OF_THE_PROGRAM
    beside = [
        one
        for one in ranked
        if (own and not (one.pitfall.device_fault and one.weight >= STRONG))
        or (not is_error(one) and (answer or (failures and one.pitfall.severity == "info")))
    ]
    return Diagnosis(
        suspects=tuple(one for one in ranked if one not in beside and (answer is None or not _only_waits(one))),
        codes=_codes(every, scanner),
        messages=_messages(every),
        first_failure=shown_by(first, ranked),
        blamed=_culprits_in(seen),
        unexplained=min(unexplained, key=position_of, default=None),
        files=tuple(files),
        counts=scanner.counts,
        echoes=echoes_of(failures, first, times),
        nodes=tuple(dict.fromkeys(node for node in nodes if node)),
        shifts=shifts,
        apart=apart,
        answer=answer,
        notices=(*beside, *warned),
    )


def _caused_by(ranked: Sequence[Suspect], first: FirstFailure | None) -> tuple[Suspect, ...]:
    """The issues of the rank that failed first, and what refines them, in front, where more than the order names it."""
    if first is None or first.is_alone or first.by == "order":
        return tuple(ranked)
    source = first.sighting.source

    def later(suspect: Suspect) -> bool:
        own = any(one.source == source and one.found.kind is not Kind.HINT for one in suspect.evidence)
        return not own or suspect.pitfall.consequence or not is_error(suspect)

    enough = STRONG if ranked and not ranked[0].pitfall.consequence else 0.0  # a consequence is no cause of the first
    if not any(one.weight >= enough and not later(one) for one in ranked):
        return tuple(ranked)
    named = {one.pitfall.id for one in ranked if not later(one)}
    return tuple(sorted(ranked, key=lambda one: named.isdisjoint((one.pitfall.id, *one.pitfall.refines))))


def _answer(
    ranked: Sequence[Suspect],
    memories: Sequence[Memory],
    seen: Sequence[Sighting],
    raised: Sequence[Sighting],
    first: FirstFailure | None,
    times: Times,
    limit: Sighting | None,
) -> Answer | None:
    """What explains the failure where no known issue does but consequences, later ones of other ranks, and warnings."""
    exceptions = [one for one in sorted(raised, key=position_of) if not one.advice]
    too_large = answers.of_memory(memories)
    is_own = first and (first.sighting in exceptions or (too_large and figures.are_of(memories, first.sighting)))
    alone = first if first and is_own and not first.is_alone and first.by != "order" else None
    causes = [one for one in ranked if is_error(one) and not one.pitfall.consequence]
    if causes and not (alone and all(_is_echo(one, alone, times) for one in causes)):
        return None
    if too_large:
        return too_large
    if first and first.sighting in exceptions:
        exceptions = [first.sighting]
    elif waits := [each for one in ranked if one.pitfall.consequence for each in one.evidence]:
        began = min(map(position_of, waits))
        exceptions = [one for one in exceptions if position_of(one) < began and answers.is_own(one.found.what)]
    if limit is not None:
        return answers.of_limit(limit)
    if answer := answers.of_program(exceptions, seen):
        return answer
    if ranked:
        return answers.of_rank(alone.who, alone.sighting) if alone else None
    return answers.of_sentence(seen)


def _follows_from(suspect: Suspect, reason: Sighting) -> bool:
    """Whether an issue only repeats that a kernel failed, beside the line that says why."""
    one = suspect.evidence[0]
    follows = is_general(one, suspect.pitfall) and one.line > reason.line
    near = one.file == reason.file and (follows or abs(one.line - reason.line) <= jobs.NEIGHBOURS)
    return near and suspect.pitfall.id in _OF_KERNELS


def _culprits_in(seen: Sequence[Sighting]) -> tuple[Sighting, ...]:
    """The first lines that name each culprit; a rank that was waited for only where no line names a device."""
    told = [one for one in seen if one.found.kind is Kind.BLAME and one.gravity > QUOTED]
    devices = [one for one in told if not one.found.what.startswith("rank")]
    return tuple({one.found.what: one for one in reversed(devices or told)}.values())


def _is_echo(suspect: Suspect, first: FirstFailure, times: Times) -> bool:
    """Whether all that shows an issue comes from other ranks: well after the first failure, or by waiting for it."""
    began = times.get(id(first.sighting)) if first.by == "time" else None
    later_s = 0.0 if answers.is_own(first.sighting.found.what) else LATER_S
    if suspect.pitfall.device_fault:
        later_s = _REPORTED_LATE_S
    return all(
        one.source != first.sighting.source
        and (_waits(one) or (began is not None and times.get(id(one), began) > began + later_s))
        for one in suspect.evidence
    )


def _only_waits(suspect: Suspect) -> bool:
    """Whether an issue is only one more meaning of what a rank that waits prints."""
    return not suspect.pitfall.consequence and all(map(_waits, suspect.evidence))


def _only_warns(suspect: Suspect, unexplained: Sequence[Sighting], ends: Sequence[Sighting], times: Times) -> bool:
    """Whether an issue is only warned of, and the job went on: to an exception of the program that nothing explains,
    to a limit of it, or until somebody stopped it."""
    if any(one.gravity == 1.0 for one in suspect.evidence):
        return False
    own = (one for one in unexplained if one.place or answers.is_own(one.found.what))
    ended = [one for one in (*own, *ends) if one.gravity == 1.0 and not one.advice]
    return any(all(_comes_after(one, warned, times) for warned in suspect.evidence) for one in ended)


def _comes_after(one: Sighting, other: Sighting, times: Times) -> bool:
    """Whether a line follows another one: by its place in one file, else by time; a warning stops no other file."""
    if one.file == other.file:
        return position_of(one) > position_of(other)
    return times.get(id(one), float("inf")) >= times.get(id(other), float("-inf"))


def _waits(one: Sighting) -> bool:
    """Whether a code or symptom says first of all that a rank waited for another."""
    named = named_by(one)
    return bool(named) and all(pitfall.consequence for pitfall in named)


def _codes(seen: Iterable[Sighting], scanner: Scanner) -> tuple[CodeSeen, ...]:
    errors, table = knowledge.errors(), knowledge.codes()
    firsts: dict[str, Sighting] = {}
    for one in seen:
        if one.found.kind is Kind.CODE and one.gravity > QUOTED:
            firsts.setdefault(one.found.what, one)
    return tuple(
        CodeSeen(
            spelled,
            errors.code(spelled),
            errors.family(spelled),
            scanner.counts[Kind.CODE, spelled],
            first,
            table.of_id(spelled),
        )
        for spelled, first in firsts.items()
    )


def _messages(seen: Iterable[Sighting]) -> tuple[tuple[ErrorText, Sighting], ...]:
    firsts: dict[str, tuple[ErrorText, Sighting]] = {}
    for one in seen:
        text = knowledge.errors().message(one.found.what) if one.found.kind is Kind.MESSAGE else None
        if text:
            firsts.setdefault(text.text, (text, one))
    return tuple(firsts.values())


def _unexplained_exceptions(seen: Sequence[Sighting], *, generic: bool = False) -> list[Sighting]:
    """The exceptions without a known error near them; with `generic`, also those near mere wrappers."""
    kinds = (Kind.SYMPTOM, Kind.CODE, Kind.MESSAGE, Kind.MEMORY)
    known = [one for one in seen if one.found.kind in kinds and not ((generic and is_generic(one)) or _is_notice(one))]
    return [
        one
        for one in seen
        if one.found.kind is Kind.EXCEPTION
        and not any(
            other.file == one.file
            and abs(other.line - one.line) <= jobs.NEIGHBOURS
            and (other.source == one.source or other.source.shares(one.source) or not other.source.known)
            and (other.gravity == 1.0 or not answers.is_own(one.found.what))
            for other in known
        )
    ]


def _is_notice(one: Sighting) -> bool:
    """Whether this shows an issue that stops no job, and so explains no exception."""
    return one.found.kind is Kind.SYMPTOM and any(pitfall.severity != "error" for pitfall in named_by(one))
