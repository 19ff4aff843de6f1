"""The owner of a port, and whether it is a job on the NPUs."""

from __future__ import annotations

import re
from collections.abc import Container, Hashable, Iterable, Sequence

from npudoctor.facts.network.ports import KernelPorts, PortRanges, Socket, Sockets
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container as Box
from npudoctor.facts.node.current_user import Asker
from npudoctor.facts.node.holders import CardHolders, JobsInSight
from npudoctor.facts.node.launch import LaunchVariables, left_alone
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import record
from npudoctor.sdk import Evidence, FixOffer, NotApplicable, Unavailable

from .messages import hccl as messages

_JOB_NAMES = ("python", "torchrun", "ray", "pt_main_thread")


@record(frozen=True, kw_only=True)
class Owner:
    """An owner of ports: `pid` is None where not visible, `of_live_job` where a job on the NPUs explains it.

    `perhaps_of_job`: it resembles one, and the jobs on the NPUs are unknown. `others` are processes of its job that
    hold some of the ports.
    """

    pid: int | None
    process: Process | None
    ports: PortRanges
    listens: bool
    of_live_job: bool
    perhaps_of_job: bool = False
    others: tuple[Process, ...] = ()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that are visible here."""
        return () if self.pid is None else (self.pid, *(other.pid for other in self.others))

    def __str__(self) -> str:
        return messages.AND_OTHERS.text(owner=self._first, count=len(self.others)) if self.others else self._first

    @property
    def _first(self) -> str:
        if self.pid is None:
            return messages.HIDDEN_PROCESS.text()
        if self.process is None:
            return messages.PROCESS.text(pid=self.pid)
        name, user = self.process.name, self.process.username
        if not name:
            return messages.UNNAMED_PROCESS.text(pid=self.pid)
        if not user:
            return messages.NAMED_PROCESS.text(name=name, pid=self.pid)
        return messages.PROCESS_OF_USER.text(name=name, pid=self.pid, user=user)

    @property
    def how(self) -> str:
        """The owner as the end of a sentence that says that a port is in use."""
        if self.listens:
            return messages.BY_PROCESS.text(owner=self)
        return messages.BY_CONNECTION.text(owner=self)

    @property
    def look(self) -> tuple[str, ...]:
        """The command that shows it."""
        return (f"ps -o pid,ppid,user,lstart,args -p {','.join(map(str, self.pids))}",) if self.pids else ()

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Its command line, where it is visible."""
        return (
            (Evidence(source=messages.PROCESS.text(pid=self.pid), actual=self.process.command),) if self.process else ()
        )


def release_of(job: Sequence[Process | None], asker: Asker | None) -> FixOffer | None:
    """The fix that ends leftover processes; None for those of another user, or that could be mistaken for others."""
    if asker is None:
        return None
    ours = [one for one in job if one and one.username == asker.user.name and one.create_time_s is not None]
    if len(ours) < len(job) or not ours:
        return None
    return FixOffer(id="npu.release", params={"pids": [process.pid for process in ours]})


def need_several(cards: Chips | None, container: Box | None) -> None:
    """Raise where no job here can need HCCL's host ports; an unknown number of chips may."""
    if cards is None or cards.count > 1:
        return
    if cards.count == 1:
        raise NotApplicable(messages.ONE_CHIP.text())
    raise Unavailable(messages.NO_CHIP.text(), blocked_by="container.devices" if container else "npu.present")


def owners(
    held: Iterable[Socket],
    processes: Processes | None,
    holders: CardHolders | None,
    sight: JobsInSight | None = None,
    launched: LaunchVariables | None = None,
) -> list[Owner]:
    """The owners of these sockets in the order of their ports, each with all that it and its job hold."""
    unknown = holders is None and sight is not None and not sight.known
    alone = left_alone(holders, processes, launched) if holders is not None else frozenset()
    by_job: dict[Hashable, list[Socket]] = {}
    for socket in sorted(held, key=lambda socket: socket.port):
        by_job.setdefault(_job(socket.pid, processes, alone), []).append(socket)
    found = []
    for sockets in by_job.values():
        pid, *others = dict.fromkeys(socket.pid for socket in sockets)
        found.append(
            Owner(
                pid=pid,
                process=processes.get(pid) if processes else None,
                ports=PortRanges.of(*((socket.port, socket.port) for socket in sockets)),
                listens=any(socket.status == "LISTEN" for socket in sockets),
                of_live_job=holders is not None and holders.in_service and _of_job(pid, processes, holders),
                perhaps_of_job=unknown and _like_a_job(pid, processes),
                others=tuple(one for other in others if processes and (one := processes.get(other)) is not None),
            )
        )
    return found


def _job(pid: int | None, processes: Processes | None, alone: Container[int]) -> Hashable:
    """What the processes of one job have in common: their launcher, or without one their command and user."""
    process = processes.get(pid) if processes is not None else None
    if processes is None or process is None:
        return pid
    if process.pid in alone:
        return re.sub(r"[0-9]+", "", " ".join(process.cmdline)), process.username
    return processes.job_of(process.pid)


def tell_of_the_rest(doubtful: Sequence[Owner], sight: JobsInSight | None) -> None:
    """Raise where somebody holds ports who may be a job at work: not seeing it is no reason to accuse it."""
    if doubtful:
        first = doubtful[0]
        reason = sight.reason if sight else ""
        raise Unavailable(messages.PERHAPS_OF_JOB.text(ports=first.ports, owner=first, reason=reason))


def _like_a_job(pid: int | None, processes: Processes | None) -> bool:
    """Whether a process may belong to a job: one of these names, or not visible."""
    process = processes.get(pid) if processes else None
    return process is None or process.name.lower().startswith(_JOB_NAMES)


def _of_job(pid: int | None, processes: Processes | None, holders: CardHolders) -> bool:
    """Whether the owner belongs to a job on the NPUs; an invisible one is assumed to."""
    if pid is None or pid in holders.pids:
        return True
    if processes is None:
        return False
    if not holders.pids:
        # The pids that npu-smi shows in a container are those of its host: tell by the name instead.
        return processes.get(pid) is not None and _like_a_job(pid, processes)
    return any(pid in processes.job_of(holder) for holder in holders.pids)


def free_base(sockets: Sockets, kernel: KernelPorts | None, taken: PortRanges, count: int) -> int | None:
    """A base for HCCL from which so many ports are free and safe from outgoing connections; None without one."""
    busy = taken | PortRanges.of(*((socket.port, socket.port) for socket in sockets.sockets))
    if kernel:
        busy |= kernel.ephemeral - kernel.reserved
    bases = (*range(61000, 65500, count), *range(20000, 32000, count))
    return next((base for base in bases if not PortRanges.of((base, base + count - 1)) & busy), None)
