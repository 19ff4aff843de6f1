"""What the checks of a smoke run have in common: the findings on ranks that failed in a stage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.node.smoke import STAGES, SmokeFailure, SmokeRun
from npudoctor.knowledge.tables.pitfalls import Pitfall, is_command
from npudoctor.sdk import Because, Evidence, Finding, Message, NotApplicable, Severity, Unavailable

from .messages import smoke as messages

AT_WORK_S = 2.0
"""A rank that sent a message less long before is not stuck."""

_ERROR = r"[\w.]*(Error|Exception)\b"


def judge_stage(run: SmokeRun, stage: str) -> Iterator[Finding]:
    """The findings on the ranks that failed in this stage; raises Unavailable if the run did not reach it."""
    if stage not in run.planned:
        raise NotApplicable(messages.NOT_IN_THIS_RUN.text())
    broken = run.broken_in
    if broken is None:
        if any(stage not in done for done in run.stages.values()) or len(run.stages) == 0:
            raise Unavailable(messages.ENDED_BEFORE.text(stage=stage), because=Because.TIMED_OUT)
        return
    if broken == stage:
        yield from _failures(run, stage)
    elif STAGES.index(broken) < STAGES.index(stage):
        raise Unavailable(messages.FAILED_BEFORE.text(stage=broken), blocked_by=f"smoke.{broken}")


def _failures(run: SmokeRun, stage: str) -> Iterator[Finding]:
    blamed = [one for one in run.failures if one.first]
    waited = [one.rank for one in run.failures if not one.first]
    if not blamed:
        one = run.failures[0]
        everybody, place = messages.ALL_RANKS.text(), _place(one, stage)
        if run.nnodes > 1 or all(failure.cause == "ended" for failure in run.failures):
            yield _nobody(run, stage, place)
        elif run.timed_out:
            yield _finding(messages.RUN_TIMED_OUT[stage], run.failures, stage, place=place, more_time=True)
        elif one.since_s is not None and one.since_s < AT_WORK_S:
            message = messages.STAGE_TIMED_OUT[stage]
            params: dict[str, Any] = {"place": place, "ranks": everybody, "stage": stage}
            yield _finding(message, run.failures, stage, more_time=True, **params)
        else:
            yield _finding(messages.RANKS_STUCK[stage], run.failures, stage, place=place, ranks=everybody)
        return
    groups: dict[str, list[SmokeFailure]] = {}
    for one in blamed:
        alike = _without_numbers(one) or (one.cause if one.cause == "no-start" else str(one.rank))
        groups.setdefault(alike, []).append(one)
    for group in groups.values():
        ranks = _name_group(group) if len(group) < run.world_size or run.world_size == 1 else messages.ALL_RANKS.text()
        message, params = _what(group[0], stage)
        yield _finding(message, group, stage, waited=waited, ranks=ranks, **params)


def _nobody(run: SmokeRun, stage: str, place: str) -> Finding:
    """The finding where no rank of this node broke the run: its launcher, or another node, did."""
    causes = {one.cause for one in run.failures}
    ranks = _name_group([one for one in run.failures if one.cause != "waited"])
    if run.nnodes == 1:
        return _finding(messages.ENDED_BY_LAUNCHER[stage], run.failures, stage, unexplained=True, place=place)
    checks = "npudoctor check hccl.hostname hccl.interface hccl.firewall"
    if stage == "launch" and all(one.pid is None for one in run.failures):
        return _finding(messages.NODES_NOT_MET, run.failures, stage, unexplained=True, command=checks)
    message = messages.PEER_LOST if causes & {"exception", "ended"} else messages.NODE_AWAITED
    return _finding(message[stage], run.failures, stage, unexplained=True, command=checks, ranks=ranks, place=place)


def _name_group(group: Sequence[SmokeFailure]) -> list[str]:
    return [
        messages.RANK_ON.text(rank=one.rank, npu=one.card) if one.card else messages.RANK.text(rank=one.rank)
        for one in group
    ]


def _without_numbers(one: SmokeFailure) -> str:
    """The first line of its error message, without the numbers that differ from rank to rank."""
    return re.sub(r"\d+", "", (one.message or "").partition("\n")[0])


def _place(one: SmokeFailure, stage: str) -> str:
    return messages.AT.text(stage=stage, doing=one.doing) if one.doing else stage


def _what(one: SmokeFailure, stage: str) -> tuple[Message, dict[str, Any]]:
    """The message for this cause, and its parameters."""
    place = _place(one, one.stage)
    if one.cause == "signal":
        return messages.RANK_KILLED[stage], {"place": place, "signal": one.signal}
    if one.cause == "exit":
        status = messages.NOT_KNOWN.text() if one.exit_code is None else one.exit_code
        return messages.RANK_EXITED[stage], {"place": place, "status": status}
    if one.cause == "no-start" and stage == "launch":
        if one.last_line and re.match(_ERROR, one.last_line):
            return messages.ENDED_EARLY_WITH_ERROR, {"place": place, "error": _shorten(one.last_line)}
        return messages.ENDED_EARLY, {"place": place}
    if one.cause == "hang":
        return (messages.RANK_STOPPED if one.state == "T" else messages.RANK_HUNG)[stage], {"place": place}
    if one.cause == "world-size" and stage == "rendezvous":
        return messages.WRONG_WORLD_SIZE, {"error": one.message}
    return messages.RANK_FAILED[stage], {"place": place, "error": _error(one)}


def _error(one: SmokeFailure) -> str:
    """Its error in one short line."""
    if meaning := _meaning(one):
        return meaning
    return _shorten(one.message.splitlines()[0]) if one.message else messages.NO_ERROR_MESSAGE.text()


def _meaning(one: SmokeFailure) -> str | None:
    """What the first code of CANN or the driver means; torch_npu's own say no more than which of them was called."""
    for code in one.codes:
        spelled, _, meaning = code.partition(": ")
        if meaning and not spelled.startswith("ERR"):
            return messages.MEANING_OF_CODE.text(meaning=meaning, code=spelled)
    return None


def _shorten(text: str, limit: int = 120) -> str:
    """The text up to its limit: where it is longer, without places in source and folders of paths, ended at a word."""
    if len(text) > limit:
        text = re.sub(r"(?<![^\s'\"(])/\S{0,300}/", "", re.sub(r"(?<!\S)\S{1,300}\.(?:cpp|h|cc):\d{1,9} ", "", text))
    return text if len(text) <= limit else text[:limit].rpartition(" ")[0].rstrip(" ,;:(") + " …"


def _finding(
    message: Message,
    group: Sequence[SmokeFailure],
    stage: str,
    /,
    *,
    waited: Sequence[int] = (),
    more_time: bool = False,
    unexplained: bool = False,
    command: str | None = None,
    **params: Any,
) -> Finding:
    """`more_time`: the message's own hint says how the run gets more time, which may be all that it lacks.

    `unexplained`: this node's ranks did not break the run, so that what is known of their errors is no cause.
    """
    one = group[0]
    known = [pitfall for id in one.pitfalls if (pitfall := knowledge.pitfalls().pitfall(id)) is not None]
    known = [] if unexplained else known
    rank = one.rank
    told = one.message is not None and params.get("error") == one.message
    evidence = [
        Evidence(
            source=messages.RANK_IN_STAGE.text(rank=rank, stage=stage),
            expected=messages.COMPLETED.text(),
            actual=_progress(one),
        )
    ]
    if one.message and not told:
        source = messages.ERROR_MESSAGE.text(rank=rank)
        evidence.append(Evidence(source=source, actual=one.message.splitlines()[0][:300]))
    if one.last_line and one.last_line not in (one.message or ""):
        evidence.append(Evidence(source=messages.LAST_LINE.text(rank=rank), actual=one.last_line))
    if one.plog_line:
        evidence.append(Evidence(source=messages.LAST_CANN_ERROR.text(rank=rank), actual=one.plog_line))
    if one.stack:
        frames = [line.strip() for line in one.stack.splitlines() if line.strip().startswith("File")]
        evidence.append(Evidence(source=messages.STACK.text(rank=rank), actual=" < ".join(frames[:4])))
    if one.codes:
        evidence.append(Evidence(source=messages.ERROR_CODES.text(rank=rank), actual=", ".join(one.codes)))
    if waited:
        evidence.append(Evidence(source=messages.WAITING.text(), actual=", ".join(map(str, sorted(waited)))))
    foreseen = list(dict.fromkeys(id for pitfall in known for id in pitfall.foreseen_by))
    foreseen = [id for id in foreseen if not id.startswith("smoke.")]
    commands = (f"npudoctor check {' '.join(foreseen[:3])}",) if foreseen else (command,) if command else ()
    detail = "; ".join(one.codes) or (None if told or unexplained else one.message)
    return message.finding(
        subject=one.card if one.card and len(group) == 1 else "host",
        detail=messages.KNOWN_ISSUE.text(title=known[0].title, cause=known[0].cause) if known else detail,
        hint=None if more_time or unexplained else _of_known(known[0], foreseen) if known else _advice(one),
        commands=(*commands, "npudoctor smoke --keep-logs ./smoke-logs"),
        evidence=tuple(evidence),
        pitfall=known[0].id if known else None,
        **params,
    )


def _of_known(pitfall: Pitfall, foreseen: Sequence[str]) -> str | None:
    """What to do about a known issue: its first sentence, or the checks, which name the paths of this node."""
    if foreseen and pitfall.fix and is_command(pitfall.fix[0]):
        return messages.CHECKS_NAME_IT.text(count=len(foreseen[:3]))
    return next(iter(pitfall.advice), None)


def _progress(one: SmokeFailure) -> str:
    if one.since_s is None:
        return messages.NEVER_HEARD.text(cause=one.cause)
    return messages.LAST_HEARD.text(cause=one.cause, since_s=one.since_s)


def _advice(one: SmokeFailure) -> str | None:
    """What helps with this error; None where the message's own hint does."""
    if "No module named 'torch'" in (one.message or ""):
        return messages.NAME_THE_PYTHON.text()
    if one.signal == "SIGKILL":
        return messages.KILLED_FROM_OUTSIDE.text()
    if one.signal in ("SIGSEGV", "SIGABRT", "SIGBUS"):
        return messages.LIBRARY_CRASHED.text()
    return None


def soft(run: SmokeRun) -> Severity:
    """A warning on NPUs; info on the CPU."""
    return Severity.WARNING if run.device == "npu" else Severity.INFO


def subject_of(run: SmokeRun, rank: int) -> str:
    return run.cards.get(rank, "host")
