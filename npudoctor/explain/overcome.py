"""Complaints of a log that stopped nothing: the job ended well after them, or was stopped before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npudoctor import knowledge
from npudoctor.explain import exceptions
from npudoctor.explain.answers import Answer, AnswerKind
from npudoctor.explain.neighbours import OUT_OF_HOST_MEMORY
from npudoctor.explain.patterns import Kind
from npudoctor.explain.sightings import FileRead, Sighting
from npudoctor.explain.signs import Complaint

_SHUTDOWN_LINES = 300
"""Lines after a stop in which what fails follows from it; later ones may be of another command in the same log."""


_GOES_ON = 20
"""Lines after the last warning from which a job is taken to have gone on."""

_INTERRUPTS_ITSELF = "blas_thread_init: pthread_create"
"""What OpenBLAS prints before it raises SIGINT in its own process (driver/others/blas_server.c)."""

REPORTED_GRAVITY = 0.8
"""The least weight of a line that reports a failure."""

_PROBE = "P188"
"""The known issue that Kubernetes ended a container whose probe failed."""

_KILLED = ("-9\\b", "137\\b", "SIGKILL")
"""What the expressions of a bare SIGKILL have."""

_KILLED_LINES = 30
"""Lines before the line of a scheduler that ended the job, in which a launcher reports SIGKILL."""

_WARNINGS_THAT_STOP = frozenset({"P022", "P060", "P064", "P094"})
"""Known issues of the severity of a warning that stop a job where they matter: mixed releases of CANN, npu-smi absent,
torch_npu at each import of torch, too few processes."""


def divide(seen: Sequence[Sighting], files: Sequence[FileRead]) -> tuple[list[Sighting], list[Sighting]]:
    """The sightings that may tell why the job failed, and those after which it made progress, or ended well.

    What a command of a terminal session reports is past where a later one runs the same again. Faults of a device, and
    issues that make a job slow or wrong and stop none, are not overcome.
    """
    past = [
        one
        for one in seen
        if _may_be_overcome(one)
        and (one.offset < files[one.file].went_on_at or one.command in files[one.file].run_again)
    ]
    left_out = set(map(id, past))
    return [one for one in seen if id(one) not in left_out], past


def _may_be_overcome(one: Sighting) -> bool:
    if one.found.kind in (Kind.SYMPTOM, Kind.HINT):
        pitfall = knowledge.pitfalls().pitfall(one.found.what)
        stops = pitfall is None or pitfall.severity == "error" or pitfall.id in _WARNINGS_THAT_STOP
        return stops and not (pitfall and pitfall.device_fault)
    if one.found.kind is Kind.CODE:
        code = knowledge.errors().code(one.found.what)
        named = [knowledge.pitfalls().pitfall(id) for id in (code.pitfalls[:1] if code else ())]
        return not any(pitfall and pitfall.device_fault for pitfall in named)
    return one.found.kind in (Kind.EXCEPTION, Kind.MESSAGE, Kind.MEMORY, Kind.LIMIT)


def only_warned(seen: Sequence[Sighting], files: Sequence[FileRead]) -> set[int]:
    """The files of jobs that only warned, and went on: they made progress, or printed many lines after it.

    What they warn of stopped nothing. Of a file that complains in words of no known issue this is not known.
    """
    failed = {one.file for one in seen if one.gravity == 1.0 and not one.advice and one.found.kind is not Kind.ENDING}
    last = {one.file: one.line for one in sorted(seen, key=lambda one: one.line)}
    return {
        number
        for number, file in enumerate(files)
        if number not in failed
        and (
            file.went_on_at
            or (file.complains < Complaint.ERROR and file.lines - last.get(number, file.lines) >= _GOES_ON)
        )
    }


def _stops_in(seen: Sequence[Sighting], files: Sequence[FileRead]) -> list[Sighting]:
    """The lines that say who stopped the job; not those of an earlier job, after which this one made progress, and not
    where OpenBLAS, which could start no thread, interrupts itself."""
    stops = [one for one in seen if one.found.kind is Kind.STOP and one.offset >= files[one.file].went_on_at]
    return [] if any(_INTERRUPTS_ITSELF in one.text for one in seen) else stops


def stop_of(seen: Sequence[Sighting], files: Sequence[FileRead]) -> Sighting | None:
    """The first line that says who stopped the job."""
    return next((one for one in _stops_in(seen, files) if one.found.what and not one.advice), None)


def without_ends(seen: Sequence[Sighting]) -> list[Sighting]:
    """The sightings without those that only say how a process ended, where a failure is reported.

    Kubernetes ends what answers no probe; torchrun sends SIGKILL to ranks that do not end after the first failure,
    unless it names a SIGKILL as the first one; the kernel reports crashes of processes that failed before.
    """
    roots = [dict(one.found.values).get("exitcode", "") for one in seen if one.found.kind is Kind.ROOT_CAUSE]
    killed_first = any(code.startswith("-9") for code in roots)

    def is_end(one: Sighting) -> bool:
        if one.found.kind is not Kind.SYMPTOM:
            return one.found.by == exceptions.BY_KERNEL
        killed = _is_weak_sign_of_memory(one) and any(word in one.found.by for word in _KILLED)
        return one.found.what == _PROBE or (killed and not killed_first)

    ends = set(map(id, filter(is_end, seen)))
    others = [one for one in seen if id(one) not in ends and one.found.kind is not Kind.CODE] if ends else []
    failed = [one for one in others if one.gravity == 1.0 and is_failure(one)]
    return [one for one in seen if id(one) not in ends or not any(_precedes(other, one) for other in failed)]


def is_failure(one: Sighting) -> bool:
    """Whether a line reports a failure, not an attempt or advice."""
    if one.advice or one.attempt or one.gravity < REPORTED_GRAVITY:
        return False
    if one.found.kind is Kind.SYMPTOM:
        pitfall = knowledge.pitfalls().pitfall(one.found.what)
        return pitfall is not None and pitfall.severity == "error"
    return one.found.kind in (Kind.CODE, Kind.EXCEPTION, Kind.MEMORY)


def _precedes(failure: Sighting, end: Sighting) -> bool:
    """Whether a failure may be why a process was ended: a probe is reported apart from the program's own lines."""
    return end.found.what == _PROBE or failure.file != end.file or failure.offset < end.offset


def without_shutdown(seen: Sequence[Sighting], files: Sequence[FileRead]) -> list[Sighting]:
    """The sightings without those that follow from a stop, up to the next command in the same log."""
    stops = _stops_in(seen, files)
    ends = [(one, one.line + min([_SHUTDOWN_LINES, *(int(value) for _, value in one.found.values)])) for one in stops]
    return [
        one
        for one in seen
        if one.found.kind is Kind.STOP
        or not any(
            stop.file == one.file and (stop.line <= one.line < end or _is_killed_by(stop, one)) for stop, end in ends
        )
    ]


def _is_weak_sign_of_memory(one: Sighting) -> bool:
    """Whether a line shows by general words alone, such as a bare SIGKILL, that the host's memory was exhausted."""
    memory = knowledge.pitfalls().pitfall(OUT_OF_HOST_MEMORY)
    return memory is not None and one.found.by in memory.general


def _is_killed_by(stop: Sighting, one: Sighting) -> bool:
    """Whether a line reports SIGKILL shortly before a scheduler says that it ended the job: it writes its line last."""
    return (
        _is_weak_sign_of_memory(one) and "scheduler" in stop.found.what and 0 <= stop.line - one.line <= _KILLED_LINES
    )


def answer_of(
    failures: Mapping[str, Sequence[Sighting]], files: Sequence[FileRead], stop: Sighting | None
) -> Answer | None:
    """The answer where nothing that the log reports made the job end: it ended well, or somebody stopped it.

    `failures` are the sightings of failures, exceptions among them, without what was overcome.
    """
    endings = [file.good_ending for file in files if file.good_ending]
    if endings and not failures:
        title = "This log shows no failure: it ends with a report of success"
        because = "no line behind it reports a failure, and what is reported before it stopped nothing"
        return Answer(AnswerKind.NO_FAILURE, title, because, (), endings[-1])
    reported = [one for group in failures.values() for one in group if one.gravity == 1.0]
    if stop is not None and not any(one.file == stop.file and one.offset < stop.offset for one in reported):
        title = f"The job was stopped from outside, by {stop.found.what}"
        because = "no failure is reported before it; what is reported after it follows from it"
        return Answer(AnswerKind.STOPPED, title, because, (), stop)
    return None
