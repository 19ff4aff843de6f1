"""The diagnosis of a failing log: known issues, codes, and the rank that failed first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from npudoctor import knowledge
from npudoctor.explain import answers, figures, jobs, overcome, retries
from npudoctor.explain.answers import Answer, AnswerKind
from npudoctor.explain.figures import Memory
from npudoctor.explain.lines import QUOTED
from npudoctor.explain.patterns import Kind
from npudoctor.explain.scan import Scanner
from npudoctor.explain.scoring import LATER_S, STRONG, Suspect, Times, is_error, is_general, is_generic, suspects
from npudoctor.explain.sightings import FileRead, Sighting
from npudoctor.knowledge.tables.codes import Code
from npudoctor.knowledge.tables.errors import ErrorCode, ErrorText
from npudoctor.knowledge.tables.pitfalls import Pitfall
from npudoctor.records import field, record

_OF_KERNELS = frozenset({"P006", "P034", "P056", "P104", "P114", "P117"})
"""Known issues that say that a kernel or a build failed, or that the operator compiler did not start."""

_OF_THE_PROGRAM = (AnswerKind.NOT_THE_ENVIRONMENT, AnswerKind.STOPPED, AnswerKind.NO_FAILURE)
"""Answers beside which each known issue is a consequence."""

_place = attrgetter("file", "offset")
_SAME_INSTANT_S = 1.0
_SAME_REPORT_S = 5.0


@record(frozen=True)
class CodeSeen:
    """A code in the log: its row of errors.json, that of codes.json, else the component that prints such codes."""

    spelled: str
    code: ErrorCode | None
    family: str | None
    count: int
    first: Sighting
    row: Code | None = None


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
    failures = _failures(seen, files)
    first = _first_failure(failures, seen, times, unexplained)
    ranked = _caused_by(suspects(seen, times), first)
    if memories and all(memory.others <= figures.OTHERS_GIB for memory in memories):
        ranked = tuple(suspect for suspect in ranked if suspect.pitfall.id != figures.FULL_DEVICE)
    limits = (one for one in seen if one.found.kind is Kind.LIMIT and not one.advice)
    limit = min(limits, key=lambda one: one.gravity < 1.0, default=None)
    reasons = [one for one in (limit, answers.refusal_in(seen)) if one]
    ranked = tuple(one for one in ranked if not any(_follows_from(one, reason) for reason in reasons))
    ends = [one for one in (limit, stop) if one]
    sound = overcome.only_warned(seen, files)
    warned = [one for one in ranked if _only_warns(one, unexplained, ends) or {e.file for e in one.evidence} <= sound]
    ranked = tuple(one for one in ranked if one not in warned)
    warned += [
        one for one in suspects(past, {}) if one.pitfall.id not in {each.pitfall.id for each in (*ranked, *warned)}
    ]
    answer = None if ranked else overcome.answer_of(failures, files, stop)
    answer = answer or _answer(ranked, memories, seen, first, times, limit)
    if answer is None and not ranked:
        answer = answers.of_launcher(seen) if not failures else answers.of_code(seen)
    own = answer is not None and answer.kind in _OF_THE_PROGRAM
    beside = [
        one
        for one in ranked
        if own or (not is_error(one) and (answer or (failures and one.pitfall.severity == "info")))
    ]
    return Diagnosis(
        suspects=tuple(one for one in ranked if one not in beside and (answer is None or not _only_waits(one))),
        codes=_codes(every, scanner),
        messages=_messages(every),
        first_failure=first,
        blamed=_culprits_in(seen),
        unexplained=min(unexplained, key=_place, default=None),
        files=tuple(files),
        counts=scanner.counts,
        echoes=_echoes(failures, first, times),
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


def _echoes(failures: Mapping[str, Sequence[Sighting]], first: FirstFailure | None, times: Times) -> tuple[Echo, ...]:
    """The other ranks with their first errors, in the order of time as far as it is known."""
    if first is None or first.is_alone:
        return ()
    began = times.get(id(first.sighting))
    echoes = []
    for who, group in failures.items():
        if who not in ("", first.who):
            one = min(group, key=lambda one: (times.get(id(one), float("inf")), _place(one)))
            time = times.get(id(one))
            after = None if began is None or time is None else max(time - began, 0.0)
            echoes.append(Echo(who, _telling(group, one, times), after))
    return tuple(sorted(echoes, key=lambda echo: (echo.after_s is None, echo.after_s or 0.0)))


def _answer(
    ranked: Sequence[Suspect],
    memories: Sequence[Memory],
    seen: Sequence[Sighting],
    first: FirstFailure | None,
    times: Times,
    limit: Sighting | None,
) -> Answer | None:
    """What explains the failure where no known issue does but consequences, later ones of other ranks, and warnings."""
    exceptions = [one for one in sorted(_unexplained_exceptions(seen, generic=True), key=_place) if not one.advice]
    too_large = answers.of_memory(memories)
    is_own = first and (first.sighting in exceptions or (too_large and figures.are_of(memories, first.sighting)))
    alone = first if first and is_own and not first.is_alone and first.by != "order" else None
    causes = [one for one in ranked if is_error(one) and not one.pitfall.consequence]
    if causes and not (alone and all(_echoes_of(one, alone, times) for one in causes)):
        return None
    if too_large:
        return too_large
    if first and first.sighting in exceptions:
        exceptions = [first.sighting]
    elif waits := [each for one in ranked if one.pitfall.consequence for each in one.evidence]:
        began = min(map(_place, waits))
        exceptions = [one for one in exceptions if _place(one) < began and answers.is_own(one.found.what)]
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


def _echoes_of(suspect: Suspect, first: FirstFailure, times: Times) -> bool:
    """Whether all that shows an issue comes from other ranks: well after the first failure, or by waiting for it."""
    began = times.get(id(first.sighting)) if first.by == "time" else None
    later_s = 0.0 if answers.is_own(first.sighting.found.what) else LATER_S
    return all(
        one.source != first.sighting.source
        and (_waits(one) or (began is not None and times.get(id(one), began) > began + later_s))
        for one in suspect.evidence
    )


def _only_waits(suspect: Suspect) -> bool:
    """Whether an issue is only one more meaning of what a rank that waits prints."""
    return not suspect.pitfall.consequence and all(map(_waits, suspect.evidence))


def _only_warns(suspect: Suspect, unexplained: Sequence[Sighting], ends: Sequence[Sighting]) -> bool:
    """Whether an issue is only warned of, and the job went on: to an exception of the program that nothing explains,
    to a limit of it, or until somebody stopped it."""
    last = max(map(_place, suspect.evidence))
    own = (one for one in unexplained if one.place or answers.is_own(one.found.what))
    ended = any(one.gravity == 1.0 and not one.advice and _place(one) > last for one in (*own, *ends))
    return ended and all(one.gravity < 1.0 for one in suspect.evidence)


def _waits(one: Sighting) -> bool:
    """Whether a code or symptom says first of all that a rank waited for another."""
    named = _named_by(one)
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
    return one.found.kind is Kind.SYMPTOM and any(pitfall.severity != "error" for pitfall in _named_by(one))


def _is_cause(one: Sighting, unexplained: Sequence[Sighting]) -> bool:
    """Whether a failure may be the cause of others."""
    if one.found.kind is Kind.EXCEPTION:
        return any(one is other for other in unexplained)
    return one.found.kind is Kind.MEMORY or any(not pitfall.consequence for pitfall in _named_by(one))


def _is_device_fault(one: Sighting) -> bool:
    """Whether a sighting shows a fault of the hardware."""
    return any(pitfall.device_fault for pitfall in _named_by(one))


def _named_by(one: Sighting) -> tuple[Pitfall, ...]:
    """The known issue that a symptom, or a code that is not generic, names first."""
    if one.found.kind is Kind.CODE:
        code = knowledge.errors().code(one.found.what)
        ids = code.pitfalls[:1] if code and not code.generic else ()
    else:
        ids = (one.found.what,)
    return tuple(pitfall for id in ids if (pitfall := knowledge.pitfalls().pitfall(id)) is not None)


def _failures(seen: Sequence[Sighting], files: Sequence[FileRead]) -> dict[str, list[Sighting]]:
    """The failures of each rank, process, file or kernel."""
    failures: dict[str, list[Sighting]] = {}
    told = (one for one in seen if one.gravity == 1.0 or not jobs.is_of_scheduler(files[one.file].name))
    for one in filter(overcome.is_failure, told):
        is_named = one.source.known or len(files) == 1
        who = one.source.label if is_named else jobs.writer_of(files[one.file].name, one.source.node)
        failures.setdefault(who, []).append(one)
    return failures


def _first_failure(
    failures: Mapping[str, list[Sighting]], seen: Sequence[Sighting], times: Times, unexplained: Sequence[Sighting]
) -> FirstFailure | None:
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
        first = min(earliest, key=lambda item: (item not in causes, began[item[0]], _place(item[1][0])))
        faulty = [item for item in groups if any(map(_is_device_fault, item[1]))]
        if first not in causes and faulty:  # what timed out waited for the rank of the faulty device
            return _failure_of(min(faulty, key=lambda item: began[item[0]]), "cause", times, of)
        return _failure_of(first, "time", times, of)
    told = [item for item in groups if named and item[1][0].source.rank == named.source.rank]
    if len(told) == 1 and named and named.source.rank is not None:
        return _failure_of(told[0], "launcher", times, of)
    one_file = len({one.file for _, group in groups for one in group}) == 1
    if one_file or len(causes) == 1:
        first = min(causes or groups, key=lambda item: _place(item[1][0]))
        return _failure_of(first, "order" if one_file and len(causes) in (0, len(groups)) else "cause", times, of)
    return None


def _failure_of(item: tuple[str, list[Sighting]], by: str, times: Times, of: int) -> FirstFailure:
    who, group = item
    first = min(group, key=lambda one: (times.get(id(one), float("inf")) if by == "time" else 0, _place(one)))
    return FirstFailure(who, _telling(group, first, times), by, of)


def _telling(group: Sequence[Sighting], first: Sighting, times: Times) -> Sighting:
    """What says most of the failures of a rank that are reported together with its first."""

    def together(one: Sighting) -> bool:
        near = one.file == first.file and abs(one.line - first.line) <= jobs.NEIGHBOURS
        began, time = times.get(id(first)), times.get(id(one))
        return near or (began is not None and time is not None and abs(time - began) <= _SAME_REPORT_S)

    return min(
        filter(together, group),
        key=lambda one: (one.found.kind is not Kind.SYMPTOM, is_generic(one), _place(one)),
    )
