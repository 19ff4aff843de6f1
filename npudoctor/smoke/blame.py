"""Finds the rank that broke a smoke run, as opposed to ranks that only waited for it or failed later.

How: a rank whose error is about a peer, or that its launcher ended, is never the first. Of the others the earliest is.
With several nodes each node sees its own ranks alone, so a node where no rank is left after this blames none: the rank
that broke is on another node, whose report names it. A rank that hangs is told from one that waits by its stack: the
latter is inside torch.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Mapping, Sequence

from npudoctor.knowledge.tables.errors import ErrorCode
from npudoctor.records import record
from npudoctor.smoke import launch
from npudoctor.smoke.events import Cause, RankFailed
from npudoctor.smoke.plan import Plan
from npudoctor.smoke.watch import RankState, log_tail

GUESS = 0.2
"""Suspects up to this weight are supported only by words common to many failures."""

_FOLLOWS = re.compile(
    r"onnection (closed|reset) by peer|ocket (closed|is closed|Timeout)|roken pipe|onnection refused"
    r"|recvValueWithTimeout|imed out (waiting|after)|wait timeout|Application timeout|store.{0,200}(closed|timed? ?out)"
    r"|heartbeat|remote process|EI0002|EI0006|DistStoreError|DistNetworkError.{0,200}(reset|closed)"
    r"|error code is (9|13|14|21)\b"  # HCCL: time-out, TCP or RoCE transfer, completion queue
)
SILENT_S = 2.0
"""A rank that was ended outside of torch, after it had been silent for so many seconds, hung."""

_ON_CPU = frozenset({"P018", "P020", "P033", "P050", "P062", "P065", "P075", "P079", "P094"})
"""Known issues that a run without an NPU can have: ports, torch, libgomp, host names, shared memory, disk, limits."""

_EXIT_CODE = re.compile(r"exitcode\s{0,9}: (-?\d{1,3})\)?(?: local_rank: \d{1,5})? \(pid: (\d{1,9})\)")
_FRAME = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')
_NOISE = re.compile(r"^(\s*$|\s+\^*$|\[W|Warning:|.*Warning: |Extension modules:|\s*warnings\.warn)")
_CLOSING = re.compile(r"Sending process (\d{1,9}) closing signal")


@record(frozen=True, kw_only=True)
class Late:
    """A stage whose deadline has passed, with the ranks that have not completed it."""

    stage: str
    ranks: tuple[int, ...]
    limit_s: float


def failed_ranks(states: Iterable[RankState], codes: Mapping[int | None, int | None]) -> list[int]:
    """The ranks that have failed, regardless of deadlines. `codes` are exit codes by rank."""
    return [
        state.rank
        for state in states
        if not state.bye
        and (
            state.failed is not None
            or state.gone_at is not None
            or state.terminated_at is not None
            or codes.get(state.rank) is not None
        )
    ]


def late(plan: Plan, states: Mapping[int, RankState], began: float) -> Late | None:
    """The first stage that exceeds its deadline, counted from when the last rank entered it: earlier stages have their
    own deadlines."""
    now = time.monotonic()
    for stage, limit_s in plan.planned.deadlines_s.items():
        starts = [state.began[stage] for state in states.values() if stage in state.began]
        start = began if stage == "launch" else max(starts) if len(starts) == len(states) else None
        if start is None or now < start + limit_s:
            continue
        waiting = tuple(state.rank for state in states.values() if stage not in state.ended and not state.over)
        if waiting:
            return Late(stage=stage, ranks=waiting, limit_s=limit_s)
    return None


def hung_first(
    ranks: Sequence[int],
    states: Mapping[int, RankState],
    stacks: Mapping[int, str],
    *,
    stage: str = "",
    several_nodes: bool = False,
) -> frozenset[int]:
    """The late ranks that the others wait for; empty where all are at the same place.

    With several nodes all ranks of this one may wait for another node, or be the ones that are waited for.
    """
    if len(ranks) == 1 and not several_nodes:
        return frozenset(ranks)
    mute = [rank for rank in ranks if states[rank].pid is None]
    if mute:
        return frozenset(mute if len(mute) < len(states) else ())
    if several_nodes and stage == "launch":  # in which no rank waits for another
        return frozenset(ranks)
    least = min(states[rank].number for rank in ranks)
    behind = frozenset(rank for rank in ranks if states[rank].number == least)
    if len(behind) < len(ranks):
        return behind
    held = frozenset(rank for rank in ranks if launch.state_of(states[rank].pid or 0) in ("T", "t", "D"))
    if held and (several_nodes or len(held) < len(ranks)):
        return held
    apart = frozenset(rank for rank in ranks if rank not in held and not in_torch(stacks.get(rank, "")))
    return apart if several_nodes or 0 < len(apart) < len(ranks) else frozenset()


def in_torch(stack: str) -> bool:
    """Whether the main thread, listed last, is inside torch."""
    frame = _FRAME.search(main_thread(stack))
    return frame is not None and ("/torch/" in frame[1] or "/torch_npu/" in frame[1])


def main_thread(stack: str) -> str:
    """The part of faulthandler's text about the training thread: the last one listed."""
    return stack.strip().rpartition("\n\n")[2]


def describe(
    plan: Plan,
    state: RankState,
    *,
    first: bool,
    at_s: float,
    folder: str,
    code: int | None = None,
    stack: str | None = None,
    hung: bool = False,
    waited: bool = False,
) -> RankFailed:
    """The failure of a rank."""
    log = log_tail(folder, f"rank-{state.rank}.log")
    message = state.failed["message"] if state.failed else None
    card = next((one.card for one in plan.planned.ranks if one.rank == state.rank), None)
    told = "\n".join(line for line in log[-3000:].splitlines() if not _NOISE.match(line))
    errors = plog_errors(folder, state.pid) if plan.planned.device == "npu" and state.pid else ()
    codes, pitfalls = known_of("\n".join(errors[-40:]), "" if hung or state.by_launcher else message or told)
    if plan.planned.device == "cpu":
        codes, pitfalls = (), tuple(one for one in pitfalls if one in _ON_CPU)
    return RankFailed(
        at_s=at_s,
        rank=state.rank,
        stage=stage_of(state, plan),
        cause=Cause.WAITED if waited else _cause(state, code, hung=hung),
        first=first,
        card=card,
        pid=state.pid,
        doing=state.doing,
        since_s=round(time.monotonic() - state.heard, 2) if state.heard is not None else None,
        signal="SIGTERM" if state.terminated_at is not None else _signal_name(code),
        exit_code=code if code is not None and code >= 0 and not hung else None,
        message=message,
        last_line=last_line(log),
        stack=main_thread(stack)[:4000] if stack else None,
        state=launch.state_of(state.pid) if hung and state.pid else None,
        plog_line=errors[-1][:300] if errors else None,
        codes=codes,
        pitfalls=pitfalls,
    )


def plog_errors(folder: str, pid: int) -> tuple[str, ...]:
    """The ERROR lines of CANN's log of a process during this run, in order."""
    found: list[str] = []
    for top, _, names in sorted(os.walk(os.path.join(folder, launch.PLOG))):
        for name in sorted(names):
            if re.match(rf"plog-{pid}_", name):
                lines = log_tail(top, name, limit=1 << 18).splitlines()
                found += [line.strip() for line in lines if line.startswith("[ERROR]")]
    return tuple(found)


def known_of(log: str, message: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The explanation of a failure: codes with their meaning, and the ids of likely known issues.

    CANN's log is searched before the message of torch_npu, which may only say that a call failed; a specific message is
    preferred to an unspecific log.
    """
    if not (log + message).strip():
        return (), ()
    from npudoctor.explain import diagnosis, scan, scoring

    found = []
    for text in (log, message):
        scanner = scan.Scanner()
        scanner.read("message", [text.encode("utf-8", "replace")])
        found.append(diagnosis.diagnose(scanner))
    spelled = (f"{seen.spelled}: {seen.code.meaning}" if seen.code else seen.spelled for d in found for seen in d.codes)
    plain = [any(suspect.weight >= scoring.STRONG for suspect in one.suspects) for one in found]
    order = found[::-1] if plain == [False, True] else found
    likely = [[suspect for suspect in one.suspects if suspect.weight > GUESS] for one in order]
    suspected = next(filter(None, likely), [])
    suspected = [one for one in suspected if 2 * one.weight >= suspected[0].weight]
    own = (one for d in found for seen in d.codes if seen.code and _tells(seen.code) for one in seen.code.pitfalls)
    pitfalls = [suspect.pitfall.id for suspect in suspected] or list(dict.fromkeys(own))
    return tuple(dict.fromkeys(spelled))[:4], tuple(pitfalls[:2])


def _tells(code: ErrorCode) -> bool:
    """Whether a code by itself names a known issue: HCCL's return value is what failed here, and wraps nothing."""
    return not code.generic or code.kind == "hccl-return"


def stage_of(state: RankState, plan: Plan) -> str:
    """The stage of a rank: the one it entered and did not complete, or the next."""
    stages = list(plan.planned.deadlines_s)
    if state.stage is None:
        return "launch"
    if state.stage not in state.ended:
        return state.stage
    place = stages.index(state.stage) + 1
    return stages[min(place, len(stages) - 1)]


def _cause(state: RankState, code: int | None, *, hung: bool) -> Cause:
    if hung:
        return Cause.HANG
    if state.failed is not None:
        return Cause.EXCEPTION
    if state.terminated_at is not None:
        return Cause.ENDED if state.by_launcher else Cause.SIGNAL
    if state.pid is None:
        return Cause.NO_START
    return Cause.SIGNAL if code is not None and code < 0 else Cause.EXIT


def _signal_name(code: int | None) -> str | None:
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return str(-code)


def last_line(log: str) -> str | None:
    """The last meaningful line of a log."""
    lines = [line.strip() for line in log.splitlines() if not _NOISE.match(line)]
    return lines[-1][:300] if lines else None


def exit_codes(log: str) -> dict[int, int]:
    """The exit codes by pid that torchrun prints at its end; negative: a signal."""
    return {int(pid): int(code) for code, pid in _EXIT_CODE.findall(log)}


def ended_by_launcher(log: str) -> frozenset[int]:
    """The pids that torchrun says it ended because another rank had failed."""
    return frozenset(map(int, _CLOSING.findall(log)))


def follows(state: RankState) -> bool:
    """Whether a rank's error is that a peer has gone, or its launcher has ended it."""
    if state.failed is not None:
        return bool(_FOLLOWS.search(state.failed["message"]))
    return state.terminated_at is not None and state.by_launcher


def hung_until_ended(ranks: Sequence[int], states: Mapping[int, RankState], stacks: Mapping[int, str]) -> list[int]:
    """The ranks that hung when their launcher ended them: silent for long, and not waiting inside torch."""
    return [
        rank
        for rank in ranks
        if (state := states[rank]).failed is None
        and state.terminated_at is not None
        and state.by_launcher
        and state.heard is not None
        and state.terminated_at - state.heard > SILENT_S
        and (stack := stacks.get(rank))
        and not in_torch(stack)
    ]


def firsts(ranks: Sequence[int], states: Mapping[int, RankState], *, several_nodes: bool = False) -> frozenset[int]:
    """The rank that failed first on its own: the earliest whose error is not about a peer.

    Empty where the launcher ended all of them, or, with several nodes, where the error of each is about a peer.
    """
    causes = [rank for rank in ranks if not follows(states[rank])]
    if not causes and not several_nodes:
        causes = [rank for rank in ranks if states[rank].failed is not None]
    if several_nodes and all(state.pid is None for state in states.values()):
        return frozenset()  # the launcher did not meet those of the other nodes
    if not causes:
        return frozenset()

    def when(rank: int) -> float:
        times = [states[rank].failed_at, states[rank].gone_at, states[rank].terminated_at]
        return min((one for one in times if one is not None), default=0.0)

    earliest = min(map(when, causes), default=0.0)
    complaints = {_normalised_error(states[rank]) for rank in causes}
    if len(complaints) == 1 and None not in complaints:
        return frozenset(causes)
    return frozenset(rank for rank in causes if when(rank) == earliest)


def _normalised_error(state: RankState) -> str | None:
    """The first line of an error without numbers, which differ between ranks with the same error."""
    if state.failed is None:
        return None
    return re.sub(r"\d+", "", str(state.failed["message"]).partition("\n")[0])
