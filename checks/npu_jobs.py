"""What runs on the cards: memory in use, and the processes that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from npudoctor import knowledge
from npudoctor.facts.node.chips import memory_of, subject_of
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.holders import CardHolder, CardHolders, State
from npudoctor.facts.node.launch import LaunchVariables, is_left_alone, ranks_on_this_node, was_launched
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.sdk import PREFLIGHT, Evidence, Finding, FixOffer, Options, Severity, Unavailable, check

from .npu import BEHIND_NPU_SMI, TABLE


@check("npu.memory-free", tags=(PREFLIGHT,), after=BEHIND_NPU_SMI)
def memory_is_free(
    info: NpuSmiInfo, holders: CardHolders | None, container: Container | None, options: Options
) -> Iterator[Finding]:
    """The memory in use on every chip is the driver's own, or the process table explains it.

    What an earlier job has left behind, or a job in another container holds, is missing when the next one starts, and
    it ends with an out-of-memory error.
    """
    if all(memory_of(chip)[1] is None for chip in info.npus):
        raise Unavailable("npu-smi shows the memory of no chip")
    for chip in info.npus:
        used, total = memory_of(chip)
        if used is None or not total:
            continue
        limit = knowledge.hardware().idle_limit_mb(total)
        if used <= limit:
            continue
        rows = holders.on(chip.npu_id, chip.chip_id) if holders else ()
        unexplained = used - sum(holder.row.memory_mb or 0 for holder in rows)
        if unexplained > limit:
            yield _unexplained(chip, info, unexplained, limit, rows, holders is not None, container)
        elif options.expect_idle and any(holder.state is State.LIVE for holder in rows):
            yield _held(chip, info, used, limit, rows)


def _held(chip: Chip, info: NpuSmiInfo, used: int, limit: int, rows: tuple[CardHolder, ...]) -> Finding:
    pids = ", ".join(str(holder.row.pid) for holder in rows)
    return Finding(
        subject=subject_of(chip, info.npus),
        severity=Severity.WARNING,
        summary=f"{used} MB of memory are in use, held by process {pids}",
        detail="The node was expected to be idle; a job that is started now has only the rest.",
        hint="Wait for the job, or end it; see npu.processes for who it is.",
        commands=(TABLE,),
        evidence=(Evidence(source=TABLE, expected=f"at most {limit} MB on an idle card", actual=f"{used} MB"),),
        pitfall="P017",
        of_live_job=True,
    )


def _unexplained(
    chip: Chip,
    info: NpuSmiInfo,
    unexplained: int,
    limit: int,
    rows: tuple[CardHolder, ...],
    table: bool,
    container: Container | None,
) -> Finding:
    hidden = container is not None or not table
    why = (
        "a container does not see who holds it"
        if container is not None
        else "npu-smi names no process for it"
        if table
        else "this npu-smi lists no processes"
    )
    return Finding(
        subject=subject_of(chip, info.npus),
        severity=Severity.INFO if hidden else Severity.WARNING,
        summary=f"{unexplained} MB of memory are in use without an explanation: {why}",
        detail="An earlier job that was killed may still hold it, or a job in another container, which only the host "
        "sees. The next job that counts on the whole card ends with an out-of-memory error.",
        hint="Look for processes that have the card open, on the host and in all containers; the driver needs up to "
        "20 s to clean up after one. Memory that stays without an owner goes with a reset of the idle card.",
        commands=(f"fuser -v /dev/davinci{chip.npu_id}", f"npu-smi info -t proc-mem -i {chip.npu_id}"),
        evidence=(
            Evidence(
                source=TABLE,
                expected=f"at most {limit} MB without a process",
                actual=f"{memory_of(chip)[0]} of {memory_of(chip)[1]} MB in use, {len(rows)} processes listed",
            ),
        ),
        pitfall="P017",
        of_live_job=any(holder.state is not State.DEAD for holder in rows),
    )


@check("npu.processes", tags=(PREFLIGHT,), after=BEHIND_NPU_SMI, fix="npu.release")
def only_live_processes_hold_cards(
    info: NpuSmiInfo,
    holders: CardHolders,
    processes: Processes | None,
    container: Container | None,
    launched: LaunchVariables | None,
) -> Iterator[Finding]:
    """No dead process holds a card, no worker is left without its launcher, and every rank has a card.

    What an earlier job has left behind keeps its card, its memory and its ports: the next job fails to start, mostly
    with a message that names something else.
    """
    chips = {(chip.npu_id, chip.chip_id): subject_of(chip, info.npus) for chip in info.npus}
    alone = _left_alone(holders, processes, launched) if container is None else frozenset()
    for holder in holders.holders:
        row = holder.row
        subject = chips.get((row.npu_id, row.chip_id), f"npu:{row.npu_id}")
        if holder.state is State.DEAD:
            yield _dead(holder, subject)
        elif holder.process is None:
            yield _unseen(holder, subject, container)
        elif holder.process.pid in alone:
            yield _orphan(holder, holder.process, subject, launched)
        else:
            yield _live(holder, holder.process, subject)
    if container is None and processes is not None:
        yield from _short_of_cards(info, holders, processes, launched, alone)


def _left_alone(holders: CardHolders, processes: Processes | None, launched: LaunchVariables | None) -> frozenset[int]:
    """The workers whose launcher has ended."""
    living = [holder.process for holder in holders.holders if holder.process is not None]
    return frozenset(
        process.pid
        for process in living
        if is_left_alone(process, processes) and was_launched(process, launched, living)
    )


def _short_of_cards(
    info: NpuSmiInfo,
    holders: CardHolders,
    processes: Processes,
    launched: LaunchVariables | None,
    alone: frozenset[int],
) -> Iterator[Finding]:
    """Jobs that were started with more ranks than they hold cards."""
    jobs: dict[frozenset[int], list[CardHolder]] = {}
    for holder in holders.holders:
        if holder.process is not None and holder.process.pid not in alone:
            jobs.setdefault(processes.job_of(holder.process.pid), []).append(holder)
    for pids, held in jobs.items():
        job = [process for pid in sorted(pids) if (process := processes.get(pid)) is not None]
        rows = [holder.row for holder in held]
        chips = {
            (chip.npu_id, chip.chip_id)
            for chip in info.npus
            if any(row.npu_id == chip.npu_id and row.chip_id in (None, chip.chip_id) for row in rows)
        }
        said = ranks_on_this_node(job, launched)
        if said is not None and said[0] > len(chips):
            yield _too_many_ranks(job, said, held, len(chips))


def _too_many_ranks(job: list[Process], said: tuple[int, str], held: list[CardHolder], cards: int) -> Finding:
    ranks, source = said
    first = job[0]
    shared = len({holder.row.pid for holder in held}) > cards
    return Finding(
        severity=Severity.WARNING,
        summary=f"the job of {_who(first)} has {ranks} ranks on this node and holds {cards} "
        f"card{'' if cards == 1 else 's'}",
        detail="Ranks that share a card slow each other down and run out of its memory."
        if shared
        else "A rank that has not opened its card after the first minute has failed or hangs; the others wait for it.",
        hint="Start as many ranks as there are cards (ASCEND_RT_VISIBLE_DEVICES counts), and look into the logs of the "
        "rank that is missing.",
        commands=(f"ps -o pid,ppid,stat,lstart,args --ppid {first.pid}", TABLE),
        evidence=(
            Evidence(source=source, actual=str(ranks)),
            Evidence(source=TABLE, expected=f"{ranks} cards", actual=f"{cards} cards"),
        ),
        pitfall="P023",
    )


def _memory(holder: CardHolder) -> str:
    return f", {holder.row.memory_mb} MB" if holder.row.memory_mb is not None else ""


def _dead(holder: CardHolder, subject: str) -> Finding:
    row = holder.row
    return Finding(
        subject=subject,
        summary=f"process {row.pid} ({row.name or 'without a name'}) holds this card and no longer exists"
        + _memory(holder),
        detail="The driver still counts a process that has ended: its memory and its place on the card are not free.",
        hint="Wait 20 s and look again; what stays then goes with a reset of the card, which must be idle, or with a "
        "reboot. On A2 servers a reset of one card resets all.",
        commands=(TABLE, f"ps -o pid,ppid,stat,user,lstart,args -p {row.pid}"),
        evidence=(
            Evidence(source=TABLE, actual=f"process {row.pid} on NPU {row.npu_id}"),
            Evidence(source="processes of this host", expected=f"process {row.pid}", actual="none, or a zombie"),
        ),
        pitfall="P004",
    )


def _unseen(holder: CardHolder, subject: str, container: Container | None) -> Finding:
    row = holder.row
    why = "its pid is the host's" if container is not None else "this user does not see it"
    return Finding(
        subject=subject,
        severity=Severity.INFO,
        summary=f"process {row.pid} ({row.name or 'without a name'}) holds this card{_memory(holder)}; {why}",
        evidence=(Evidence(source=TABLE, actual=f"process {row.pid} on NPU {row.npu_id}"),),
    )


def _orphan(holder: CardHolder, process: Process, subject: str, launched: LaunchVariables | None) -> Finding:
    known = launched.by_pid.get(process.pid, {}) if launched else {}
    given = ", ".join(f"{name}={known[name]}" for name in ("TORCHELASTIC_RUN_ID", "LOCAL_RANK") if name in known)
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        summary=f"{_who(process)} holds this card, and the launcher that started it is gone{_memory(holder)}",
        detail="A worker of a distributed job does nothing useful once its launcher has ended, but it keeps its card.",
        hint="Make sure that no other node still works with it, then end it.",
        commands=(f"ps -o pid,ppid,user,lstart,args -p {process.pid}", f"kill {process.pid}"),
        evidence=(
            Evidence(source=f"process {process.pid}", actual=process.command),
            Evidence(source="its parent", expected="a launcher", actual=f"process {process.ppid}"),
            *([Evidence(source=f"/proc/{process.pid}/environ", actual=given)] if given else []),
        ),
        fix=FixOffer(id="npu.release", params={"pids": [process.pid]}),
        pitfall="P004",
    )


def _live(holder: CardHolder, process: Process, subject: str) -> Finding:
    return Finding(
        subject=subject,
        summary=f"{_who(process)} holds this card{_memory(holder)}",
        detail="A second job on the same card shares its memory, and fails where both listen on the card's own port.",
        hint="Wait for it, or give the next job other cards (ASCEND_RT_VISIBLE_DEVICES).",
        commands=(f"ps -o pid,ppid,user,lstart,args -p {process.pid}",),
        evidence=(Evidence(source=f"process {process.pid}", actual=process.command),),
        pitfall="P023",
        of_live_job=True,
    )


def _who(process: Process) -> str:
    owner = f" of {process.username}" if process.username else ""
    since = ""
    if process.create_time_s is not None:
        started = datetime.fromtimestamp(process.create_time_s, timezone.utc)
        since = f", since {started:%Y-%m-%d %H:%M} UTC"
    return f"{process.name or 'a process'} (pid {process.pid}{owner}{since})"
