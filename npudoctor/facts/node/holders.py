"""Who holds the NPUs: the rows of npu-smi's process table, compared with the processes that live here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from npudoctor import knowledge
from npudoctor.facts.node.chips import memory_of
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.npu_smi import NpuProcess, NpuSmiInfo
from npudoctor.facts.npu_smi.probes import NpuSmiAnswer
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import record
from npudoctor.sdk import Host, NotApplicable, probe

READER = "npudoctor/host/live/read_dcmi.py"
NAME_LENGTH = 15
"""npu-smi cuts names of processes here."""


class State(str, Enum):
    """What is known of a process that npu-smi lists. UNKNOWN: its pid means nothing here, or not all are visible."""

    LIVE = "live"
    DEAD = "dead"
    UNKNOWN = "unknown"


@record(frozen=True)
class CardHolder:
    """One row of the table, and the process here that it is; None unless it lives."""

    row: NpuProcess
    state: State
    process: Process | None = None


@record(frozen=True)
class CardHolders:
    """Every process that npu-smi lists on a chip."""

    holders: tuple[CardHolder, ...]

    @property
    def pids(self) -> frozenset[int]:
        """The pids, as they are here, of the live ones."""
        return frozenset(holder.process.pid for holder in self.holders if holder.process is not None)

    @property
    def in_service(self) -> bool:
        """Whether a job is, or may be, at work: the driver lists no process without reason."""
        return any(holder.state is not State.DEAD for holder in self.holders)

    def on(self, npu_id: int | None, chip_id: int | None) -> tuple[CardHolder, ...]:
        """Those on one chip; a row without a chip counts for every chip of its NPU."""
        return tuple(
            holder
            for holder in self.holders
            if holder.row.npu_id == npu_id and (holder.row.chip_id is None or holder.row.chip_id == chip_id)
        )


@record(frozen=True)
class JobsInSight:
    """Whether it is known which jobs are at work on the NPUs; `reason` is a clause that says why not."""

    known: bool
    reason: str = ""


@probe(of_the_moment=True)
def jobs_in_sight(
    holders: CardHolders | None, answer: NpuSmiAnswer | None, info: NpuSmiInfo | None, nodes: DeviceNodes | None
) -> JobsInSight:
    """From npu-smi's table of processes; without one, no job is at work where there is no NPU, or where none of them
    has more memory in use than the driver itself needs."""
    if holders is not None or (nodes is not None and not nodes.cards and info is None):
        return JobsInSight(True)
    if info is not None:
        memory = [memory_of(chip) for chip in info.npus]
        if memory and all(
            used is not None and total and used <= knowledge.hardware().idle_limit_mb(total) for used, total in memory
        ):
            return JobsInSight(True)
        return JobsInSight(False, "this npu-smi shows no table of processes")
    return JobsInSight(False, (answer.reason if answer else None) or "npu-smi's answer is not known")


@probe(of_the_moment=True)
def card_holders(host: Host, info: NpuSmiInfo, processes: Processes | None, container: Container | None) -> CardHolders:
    """From npu-smi; known to be dead are only those on a host whose processes this user sees, all of them."""
    if info.idle_npus is None and not info.processes:
        raise NotApplicable("this npu-smi shows no table of processes")
    known: Mapping[int, Process] = processes.by_pid if processes else {}
    rows = [row for row in info.processes if not _is_reader(known.get(row.pid), ("root", host.user.name))]
    if container is not None:
        return CardHolders(tuple(_in_container(row, known) for row in rows))
    everyone = processes is not None and (host.user.uid == 0 or 1 in known)
    return CardHolders(tuple(_on_host(row, known, everyone=everyone) for row in rows))


def _is_reader(process: Process | None, users: Collection[str]) -> bool:
    """Whether it is a process of npudoctor's that asks the driver's library: it computes nothing."""
    return (
        process is not None and process.username in users and any(word.endswith(READER) for word in process.cmdline[:4])
    )


def _on_host(row: NpuProcess, known: Mapping[int, Process], *, everyone: bool) -> CardHolder:
    """`everyone`: all processes are visible; where /proc hides those of others, it hides the first one, too."""
    process = known.get(row.pid)
    if process is not None:
        return CardHolder(row, State.DEAD if process.dead else State.LIVE, None if process.dead else process)
    return CardHolder(row, State.DEAD if everyone else State.UNKNOWN)


def _in_container(row: NpuProcess, known: Mapping[int, Process]) -> CardHolder:
    """The pid is the host's, unless the container shares the host's: then the name is the same, too."""
    if row.container_pid is not None and (process := known.get(row.container_pid)) is not None:
        return CardHolder(row, State.LIVE, process)
    process = known.get(row.pid)
    if process is not None and row.name and process.name[:NAME_LENGTH] == row.name[:NAME_LENGTH]:
        return CardHolder(row, State.LIVE, process)
    return CardHolder(row, State.UNKNOWN)
