"""What runs on the NPUs: memory in use, and the processes that hold it."""

from __future__ import annotations

import re
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.network.ports import PortRanges, Sockets
from npudoctor.facts.node.chips import Chips, memory_of, subject_of
from npudoctor.facts.node.container import Container as Box
from npudoctor.facts.node.current_user import Asker
from npudoctor.facts.node.holders import CardHolder, CardHolders, State
from npudoctor.facts.node.launch import LaunchVariables, left_alone, ranks_on_this_node
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import replace
from npudoctor.sdk import PREFLIGHT, Evidence, Finding, Options, Unavailable, check

from ._idle_memory import baseline_mb
from ._owners import release_of
from ._reset import reset_of
from ._together import by_fault, join, on
from .messages import npu as messages
from .npu import BEHIND_NPU_SMI, TABLE

_NAMED, _FEW = 8, 3
"""So many processes of a job have their evidence shown, and so many are named in one line."""


@check("npu.memory-free", tags=(PREFLIGHT,), after=BEHIND_NPU_SMI, explained_by=("npu.processes",))
def memory_is_free(
    info: NpuSmiInfo,
    holders: CardHolders | None,
    container: Box | None,
    cards: Chips | None,
    options: Options,
) -> Iterator[Finding]:
    """Memory in use explained by the driver or by processes.

    Memory that an earlier job left allocated, or that a job in another container holds, is not there for the next job,
    which fails with an out-of-memory error.
    """
    if all(memory_of(chip)[1] is None for chip in info.npus):
        raise Unavailable(messages.MEMORY_NOT_SHOWN.text())
    left: list[Finding] = []
    for chip in info.npus:
        used, total = memory_of(chip)
        if used is None or not total or (cards is not None and cards.is_divided(subject_of(chip, info.npus))):
            continue  # of a chip that others use too, their memory is not left over
        limit = knowledge.hardware().idle_limit_mb(total)
        if used <= limit:
            continue
        rows = holders.on(chip.npu_id, chip.chip_id) if holders else ()
        unexplained = used - sum(holder.row.memory_mb or 0 for holder in rows)
        if unexplained > limit:
            left.append(_unexplained_finding(chip, info, unexplained, limit, holders, cards, container))
        elif options.expect_idle and any(holder.state is State.LIVE for holder in rows):
            yield _held_finding(chip, info, used, limit, rows)
    for group in by_fault(left, len(info.npus), lambda one: (one.code, one.of_live_job)):
        yield _on_several(group, cards, holders, container) if len(group) > 1 else group[0]


def _on_several(
    group: Sequence[Finding], cards: Chips | None, holders: CardHolders | None, container: Box | None
) -> Finding:
    """One finding for several chips, whose resets are not that of the first alone."""
    if group[0].code == messages.MEMORY_HELD.code:
        return join(group)
    advice = messages.FIND_OWNER if container is None else messages.FIND_OWNER_ON_HOST
    reset = reset_of(group[0].subject, cards, holders, others=[each.subject for each in group[1:]])
    commands = (group[0].commands[1], *reset.commands)
    return replace(join(group), hint=reset.after(advice.text()), commands=commands)


def _held_finding(chip: Chip, info: NpuSmiInfo, used: int, limit: int, rows: tuple[CardHolder, ...]) -> Finding:
    return messages.MEMORY_HELD.finding(
        subject=subject_of(chip, info.npus),
        used_mb=used,
        pids=[holder.row.pid for holder in rows],
        count=len(rows),
        commands=(TABLE,),
        evidence=(
            Evidence(
                source=info.shown_by,
                expected=messages.IDLE_MEMORY.text(limit_mb=limit),
                actual=messages.MEMORY.text(memory_mb=used),
            ),
        ),
        of_live_job=True,
        symptom=True,
    )


def _unexplained_finding(
    chip: Chip,
    info: NpuSmiInfo,
    unexplained: int,
    limit: int,
    holders: CardHolders | None,
    cards: Chips | None,
    container: Box | None,
) -> Finding:
    used, total = memory_of(chip)
    subject = subject_of(chip, info.npus)
    rows = holders.on(chip.npu_id, chip.chip_id) if holders else ()
    message = messages.MEMORY_UNEXPLAINED if holders is not None else messages.MEMORY_WITHOUT_TABLE
    advice = messages.FIND_OWNER
    if container is not None:
        message, advice = messages.MEMORY_HELD_OUTSIDE, messages.FIND_OWNER_ON_HOST
    listed = (used or 0) - unexplained
    baseline = baseline_mb(info, holders, total or 0)
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
                source=info.shown_by,
                expected=messages.MEMORY_WITHOUT_PROCESS.text(limit_mb=limit),
                actual=messages.MEMORY_AND_PROCESSES.text(used_mb=used or 0, total_mb=total or 0, count=len(rows)),
            ),
        ),
        of_live_job=any(holder.state is not State.DEAD for holder in rows),
        symptom=True,
    )


def _device(subject: str, cards: Chips | None, chip: Chip) -> int:
    """The N of /dev/davinciN of a chip; the id of its NPU where it is not known."""
    known = next((one.device for one in cards.chips if one.subject == subject), None) if cards else None
    return chip.npu_id if known is None else known


@check("npu.processes", tags=(PREFLIGHT,), after=BEHIND_NPU_SMI, fix="npu.release")
def only_live_processes_hold_cards(
    info: NpuSmiInfo,
    holders: CardHolders,
    processes: Processes | None,
    container: Box | None,
    launched: LaunchVariables | None,
    cards: Chips | None,
    asker: Asker | None,
    sockets: Sockets | None,
) -> Iterator[Finding]:
    """Processes on NPUs: none dead or orphaned, a chip per rank.

    A process that an earlier job left behind keeps its chip, memory and ports: the next job fails to start, mostly with
    a message that names something else.
    """
    chips = {(chip.npu_id, chip.chip_id): subject_of(chip, info.npus) for chip in info.npus}
    ports = _ports_of(sockets)
    alone = left_alone(holders, processes, launched) if container is None else frozenset()
    jobs: dict[Hashable, list[CardHolder]] = {}
    for holder in holders.holders:
        jobs.setdefault(_job_of(holder, processes, launched, alone), []).append(holder)
    for held in jobs.values():
        names = [chips.get((one.row.npu_id, one.row.chip_id), f"npu:{one.row.npu_id}") for one in held]
        about = on(list(dict.fromkeys(names)))
        living = list(dict.fromkeys(one.process for one in held if one.process is not None))
        if held[0].state is State.DEAD:
            yield _dead_finding(held, about, cards, holders, info.shown_by)
        elif not living:
            yield _unseen_finding(held, about, container, info.shown_by)
        elif living[0].pid in alone:
            yield _orphan(held, living, about, launched, ports, asker)
        else:
            yield _live(held, living, about)
    if container is None and processes is not None:
        divided = {chip.subject for chip in cards.chips if cards.is_divided(chip.subject)} if cards else set()
        if not divided & set(chips.values()):  # which of them are in which slice is not known
            yield from _short_of_cards(info, holders, processes, launched, alone)


def _ports_of(sockets: Sockets | None) -> dict[int, PortRanges]:
    """The TCP ports on which each process listens."""
    found: dict[int, list[int]] = {}
    for socket in sockets.sockets if sockets is not None else ():
        if socket.pid is not None and socket.status == "LISTEN":
            found.setdefault(socket.pid, []).append(socket.port)
    return {pid: PortRanges.of(*((port, port) for port in ports)) for pid, ports in found.items()}


def _job_of(
    holder: CardHolder, processes: Processes | None, launched: LaunchVariables | None, alone: Container[int]
) -> Hashable:
    """What the processes of one job have in common; those of which nothing is known are taken together."""
    process = holder.process
    if process is None or processes is None:
        return holder.state
    if process.pid not in alone:
        return processes.job_of(process.pid)
    known = launched.by_pid.get(process.pid, {}) if launched else {}
    command = re.sub(r"[0-9]+", "", " ".join(process.cmdline))
    return known.get("TORCHELASTIC_RUN_ID"), command, process.username


def _short_of_cards(
    info: NpuSmiInfo,
    holders: CardHolders,
    processes: Processes,
    launched: LaunchVariables | None,
    alone: Container[int],
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
            yield _too_many_ranks(job, said, held, len(chips), info.shown_by)


def _too_many_ranks(
    job: list[Process], said: tuple[int, str], held: list[CardHolder], cards: int, table: str
) -> Finding:
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
                source=table,
                expected=messages.CHIPS.text(count=ranks),
                actual=messages.CHIPS.text(count=cards),
            ),
        ),
    )


def _memory(held: Sequence[CardHolder]) -> list[str]:
    """The memory of these rows together, as far as npu-smi shows it."""
    known = [one.row.memory_mb for one in held if one.row.memory_mb is not None]
    return [messages.MEMORY.text(memory_mb=sum(known))] if known else []


def _list_processes(held: Sequence[CardHolder]) -> list[str]:
    """Processes that npu-smi alone shows."""
    most = _NAMED if len(held) <= _FEW else _FEW - 1
    shown = []
    for holder in held[:most]:
        details = [*([holder.row.name] if holder.row.name else []), *_memory([holder])]
        pid = holder.row.pid
        shown.append(messages.LISTED.text(pid=pid, details=details) if details else str(pid))
    if len(held) <= most:
        return shown
    return [*shown, messages.AND_MORE_OF.text(count=len(held) - most, details=_memory(held))]


def _on_npus(held: Sequence[CardHolder], table: str) -> Iterator[Evidence]:
    for holder in held[:_NAMED]:
        actual = messages.PROCESS_ON_NPU.text(pid=holder.row.pid, npu=holder.row.npu_id)
        yield Evidence(source=table, actual=actual)


def _dead_finding(
    held: Sequence[CardHolder], about: Mapping[str, Any], cards: Chips | None, holders: CardHolders, table: str
) -> Finding:
    pids = list(dict.fromkeys(holder.row.pid for holder in held))
    first, *others = about.get("subjects", (about["subject"],))
    reset = reset_of(first, cards, holders, others=others)
    return messages.DEAD_PROCESS.finding(
        **about,
        process=_list_processes(held),
        count=len(pids),
        hint=reset.after(messages.WAIT_THEN_RESET.text(count=len(pids), npus=1 + len(others))),
        commands=(TABLE, f"ps -o pid,ppid,stat,user,lstart,args -p {','.join(map(str, pids))}", *reset.commands),
        evidence=(
            *_on_npus(held, table),
            *(
                Evidence(
                    source=messages.PROCESSES_OF_HOST.text(),
                    expected=messages.PROCESS_WITH_PID.text(pid=pid),
                    actual=messages.NONE_OR_ZOMBIE.text(),
                )
                for pid in pids[:_NAMED]
            ),
        ),
    )


def _unseen_finding(held: Sequence[CardHolder], about: Mapping[str, Any], container: Box | None, table: str) -> Finding:
    message = messages.IN_USE_BY_HOST if container is not None else messages.IN_USE_BY_UNSEEN
    count = len({holder.row.pid for holder in held})
    return message.finding(**about, process=_list_processes(held), count=count, evidence=tuple(_on_npus(held, table)))


def _orphan(
    held: Sequence[CardHolder],
    orphans: Sequence[Process],
    about: Mapping[str, Any],
    launched: LaunchVariables | None,
    ports: Mapping[int, PortRanges],
    asker: Asker | None,
) -> Finding:
    pids = [process.pid for process in orphans]
    listed = ",".join(map(str, pids))
    return messages.ORPHAN.finding(
        **about,
        process=_who_all(orphans, *_memory(held)),
        count=len(pids),
        commands=(f"ps -o pid,ppid,user,lstart,args -p {listed}", f"kill {' '.join(map(str, pids))}"),
        evidence=(
            *map(_command, orphans[:_NAMED]),
            *(
                Evidence(
                    source=messages.PARENT.text(pid=process.pid),
                    expected=messages.A_LAUNCHER.text(),
                    actual=messages.PROCESS_WITH_PID.text(pid=process.ppid),
                )
                for process in orphans[:_NAMED]
            ),
            *(piece for process in orphans[:_NAMED] for piece in _launcher_evidence(process, launched)),
            *(
                Evidence(source=messages.PORTS_OF.text(pid=pid), expected=messages.NONE.text(), actual=str(ports[pid]))
                for pid in pids
                if pid in ports
            ),
        ),
        fix=release_of(orphans, asker),
    )


def _launcher_evidence(process: Process, launched: LaunchVariables | None) -> Iterator[Evidence]:
    """The variables of its launcher."""
    known = launched.by_pid.get(process.pid, {}) if launched else {}
    given = ", ".join(f"{name}={known[name]}" for name in ("TORCHELASTIC_RUN_ID", "LOCAL_RANK") if name in known)
    if given:
        yield Evidence(source=f"/proc/{process.pid}/environ", actual=given)


def _live(held: Sequence[CardHolder], job: Sequence[Process], about: Mapping[str, Any]) -> Finding:
    listed = ",".join(str(process.pid) for process in job)
    return messages.IN_USE.finding(
        **about,
        process=_who_all(job, *_memory(held)),
        count=len(held),
        commands=(f"ps -o pid,ppid,user,lstart,args -p {listed}",),
        evidence=tuple(map(_command, job[:_NAMED])),
        of_live_job=True,
    )


def _who_all(job: Sequence[Process], *more: str) -> str:
    """The first process of a job, and how many others it has."""
    others = [messages.OTHERS.text(count=len(job) - 1)] if len(job) > 1 else []
    return _who(job[0], *others, *more)


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
