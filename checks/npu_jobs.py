"""What runs on the NPUs: memory in use, and the processes that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips, memory_of, subject_of
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.current_user import Asker
from npudoctor.facts.node.holders import CardHolder, CardHolders, State
from npudoctor.facts.node.launch import LaunchVariables, is_left_alone, ranks_on_this_node, was_launched
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.sdk import PREFLIGHT, Evidence, Finding, Options, Unavailable, check

from ._owners import release_of
from ._reset import reset_of
from .messages import npu as messages
from .npu import BEHIND_NPU_SMI, TABLE


@check("npu.memory-free", tags=(PREFLIGHT,), after=BEHIND_NPU_SMI)
def memory_is_free(
    info: NpuSmiInfo,
    holders: CardHolders | None,
    container: Container | None,
    cards: Chips | None,
    options: Options,
) -> Iterator[Finding]:
    """Memory in use explained by the driver or by processes.

    Memory that an earlier job left allocated, or that a job in another container holds, is not there for the next job,
    which fails with an out-of-memory error.
    """
    if all(memory_of(chip)[1] is None for chip in info.npus):
        raise Unavailable(messages.MEMORY_NOT_SHOWN.text())
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
            yield _unexplained(chip, info, unexplained, limit, holders, cards, container)
        elif options.expect_idle and any(holder.state is State.LIVE for holder in rows):
            yield _held(chip, info, used, limit, rows)


def _held(chip: Chip, info: NpuSmiInfo, used: int, limit: int, rows: tuple[CardHolder, ...]) -> Finding:
    return messages.MEMORY_HELD.finding(
        subject=subject_of(chip, info.npus),
        used_mb=used,
        pids=[holder.row.pid for holder in rows],
        count=len(rows),
        commands=(TABLE,),
        evidence=(
            Evidence(
                source=TABLE,
                expected=messages.IDLE_MEMORY.text(limit_mb=limit),
                actual=messages.MEMORY.text(memory_mb=used),
            ),
        ),
        of_live_job=True,
    )


def _unexplained(
    chip: Chip,
    info: NpuSmiInfo,
    unexplained: int,
    limit: int,
    holders: CardHolders | None,
    cards: Chips | None,
    container: Container | None,
) -> Finding:
    used, total = memory_of(chip)
    subject = subject_of(chip, info.npus)
    rows = holders.on(chip.npu_id, chip.chip_id) if holders else ()
    message = messages.MEMORY_UNEXPLAINED if holders is not None else messages.MEMORY_WITHOUT_TABLE
    advice = messages.FIND_OWNER
    if container is not None:
        message, advice = messages.MEMORY_HELD_OUTSIDE, messages.FIND_OWNER_ON_HOST
    listed = (used or 0) - unexplained
    baseline = _baseline_mb(info, holders, total or 0)
    over = unexplained if listed else unexplained - baseline
    what = messages.OVER_BASELINE.text(baseline_mb=baseline)
    if listed:
        what = messages.BESIDE_PROCESSES.text(listed_mb=listed)
    reset = reset_of(subject, cards, holders)
    return message.finding(
        subject=subject,
        unexplained_mb=over,
        baseline=what,
        hint=reset.after(advice.text()),
        commands=(
            f"fuser -v /dev/davinci{_device(subject, cards, chip)}",
            f"npu-smi info -t proc-mem -i {chip.npu_id}",
            *reset.commands,
        ),
        evidence=(
            Evidence(
                source=TABLE,
                expected=messages.MEMORY_WITHOUT_PROCESS.text(limit_mb=limit),
                actual=messages.MEMORY_AND_PROCESSES.text(used_mb=used or 0, total_mb=total or 0, count=len(rows)),
            ),
        ),
        of_live_job=any(holder.state is not State.DEAD for holder in rows),
    )


def _device(subject: str, cards: Chips | None, chip: Chip) -> int:
    """The N of /dev/davinciN of a chip; the id of its NPU where it is not known."""
    known = next((one.device for one in cards.chips if one.subject == subject), None) if cards else None
    return chip.npu_id if known is None else known


def _baseline_mb(info: NpuSmiInfo, holders: CardHolders | None, total: int) -> int:
    """What an idle chip of this node uses: the median of those without a process, else what the table says."""
    limit = knowledge.hardware().idle_limit_mb(total)
    idle = sorted(
        used
        for chip in info.npus
        for used, size in (memory_of(chip),)
        if used is not None
        and size == total
        and used <= limit
        and not (holders and holders.on(chip.npu_id, chip.chip_id))
    )
    if idle:
        return idle[(len(idle) - 1) // 2]
    return min(knowledge.hardware().idle_rule.reserve_mb, limit)


@check("npu.processes", tags=(PREFLIGHT,), after=BEHIND_NPU_SMI, fix="npu.release")
def only_live_processes_hold_cards(
    info: NpuSmiInfo,
    holders: CardHolders,
    processes: Processes | None,
    container: Container | None,
    launched: LaunchVariables | None,
    cards: Chips | None,
    asker: Asker | None,
) -> Iterator[Finding]:
    """Processes on NPUs: none dead or orphaned, a chip per rank.

    A process that an earlier job left behind keeps its chip, memory and ports: the next job fails to start, mostly with
    a message that names something else.
    """
    chips = {(chip.npu_id, chip.chip_id): subject_of(chip, info.npus) for chip in info.npus}
    alone = _left_alone(holders, processes, launched) if container is None else frozenset()
    for holder in holders.holders:
        row = holder.row
        subject = chips.get((row.npu_id, row.chip_id), f"npu:{row.npu_id}")
        if holder.state is State.DEAD:
            yield _dead(holder, subject, cards, holders)
        elif holder.process is None:
            yield _unseen(holder, subject, container)
        elif holder.process.pid in alone:
            yield _orphan(holder, holder.process, subject, launched, asker)
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
    """Jobs with more ranks than devices."""
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
    message = messages.RANKS_SHARE_CHIPS if shared else messages.RANKS_WITHOUT_CHIPS
    return message.finding(
        ranks=ranks,
        process=_who(first),
        chips=cards,
        commands=(f"ps -o pid,ppid,stat,lstart,args --ppid {first.pid}", TABLE),
        evidence=(
            Evidence(source=source, actual=str(ranks)),
            Evidence(
                source=TABLE,
                expected=messages.CHIPS.text(count=ranks),
                actual=messages.CHIPS.text(count=cards),
            ),
        ),
    )


def _memory(holder: CardHolder) -> list[str]:
    return [messages.MEMORY.text(memory_mb=holder.row.memory_mb)] if holder.row.memory_mb is not None else []


def _listed(holder: CardHolder) -> str:
    """A process that npu-smi alone shows."""
    details = [*([holder.row.name] if holder.row.name else []), *_memory(holder)]
    return messages.LISTED.text(pid=holder.row.pid, details=details) if details else str(holder.row.pid)


def _on_npu(holder: CardHolder) -> Evidence:
    return Evidence(source=TABLE, actual=messages.PROCESS_ON_NPU.text(pid=holder.row.pid, npu=holder.row.npu_id))


def _dead(holder: CardHolder, subject: str, cards: Chips | None, holders: CardHolders) -> Finding:
    pid = holder.row.pid
    reset = reset_of(subject, cards, holders)
    return messages.DEAD_PROCESS.finding(
        subject=subject,
        process=_listed(holder),
        hint=reset.after(messages.WAIT_THEN_RESET.text()),
        commands=(TABLE, f"ps -o pid,ppid,stat,user,lstart,args -p {pid}", *reset.commands),
        evidence=(
            _on_npu(holder),
            Evidence(
                source=messages.PROCESSES_OF_HOST.text(),
                expected=messages.PROCESS_WITH_PID.text(pid=pid),
                actual=messages.NONE_OR_ZOMBIE.text(),
            ),
        ),
    )


def _unseen(holder: CardHolder, subject: str, container: Container | None) -> Finding:
    message = messages.IN_USE_BY_HOST if container is not None else messages.IN_USE_BY_UNSEEN
    return message.finding(subject=subject, process=_listed(holder), evidence=(_on_npu(holder),))


def _orphan(
    holder: CardHolder, process: Process, subject: str, launched: LaunchVariables | None, asker: Asker | None
) -> Finding:
    known = launched.by_pid.get(process.pid, {}) if launched else {}
    given = ", ".join(f"{name}={known[name]}" for name in ("TORCHELASTIC_RUN_ID", "LOCAL_RANK") if name in known)
    return messages.ORPHAN.finding(
        subject=subject,
        process=_who(process, *_memory(holder)),
        commands=(f"ps -o pid,ppid,user,lstart,args -p {process.pid}", f"kill {process.pid}"),
        evidence=(
            _command(process),
            Evidence(
                source=messages.PARENT.text(pid=process.pid),
                expected=messages.A_LAUNCHER.text(),
                actual=messages.PROCESS_WITH_PID.text(pid=process.ppid),
            ),
            *([Evidence(source=f"/proc/{process.pid}/environ", actual=given)] if given else []),
        ),
        fix=release_of(process, asker),
    )


def _live(holder: CardHolder, process: Process, subject: str) -> Finding:
    return messages.IN_USE.finding(
        subject=subject,
        process=_who(process, *_memory(holder)),
        commands=(f"ps -o pid,ppid,user,lstart,args -p {process.pid}",),
        evidence=(_command(process),),
        of_live_job=True,
    )


def _command(process: Process) -> Evidence:
    return Evidence(source=messages.PROCESS_WITH_PID.text(pid=process.pid), actual=process.command)


def _who(process: Process, *more: str) -> str:
    """The process by name, pid, user and start, as far as they are known, and what else is to be said of it."""
    details = [messages.PID.text(pid=process.pid)]
    if process.username:
        details.append(messages.USER.text(user=process.username))
    if process.create_time_s is not None:
        started = datetime.fromtimestamp(process.create_time_s, timezone.utc)
        details.append(messages.SINCE.text(started=f"{started:%Y-%m-%d %H:%M} UTC"))
    return messages.PROCESS.text(name=process.name or messages.NAMELESS.text(), details=[*details, *more])
