"""HCCL host ports free."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.network.hccl import BASE_PORT, HcclPorts
from npudoctor.facts.network.ports import KernelPorts, PortRanges, Sockets
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import DriverStack
from npudoctor.facts.node.current_user import Asker
from npudoctor.facts.node.holders import CardHolders, JobsInSight
from npudoctor.facts.node.launch import LaunchVariables
from npudoctor.facts.system.processes import Processes
from npudoctor.sdk import PREFLIGHT, Evidence, Finding, Options, Severity, check

from ._owners import Owner, free_base, need_several, owners, release_of, tell_of_the_rest
from .messages import hccl as messages


@check(
    "hccl.ports-free",
    tags=(PREFLIGHT,),
    requires=(DriverStack,),
    after=("hccl.base-port",),
    fix="npu.release",
)
def ports_are_free(
    sockets: Sockets,
    ports: HcclPorts,
    cards: Chips | None,
    processes: Processes | None,
    holders: CardHolders | None,
    kernel: KernelPorts | None,
    container: Container | None,
    sight: JobsInSight | None,
    asker: Asker | None,
    launched: LaunchVariables | None,
    options: Options,
) -> Iterator[Finding]:
    """HCCL host ports free.

    Rank 0 of every communicator listens on one of them; a job that finds it in use fails with EJ0003 or EI0019.
    """
    need_several(cards, container)
    base = free_base(sockets, kernel, ports.possible, knowledge.hccl().ports.full_count)
    sight = None if options.expect_idle else sight
    taken = owners(sockets.holding(ports.certain), processes, holders, sight, launched)
    for owner in taken:
        if not owner.perhaps_of_job:
            yield _taken_finding(owner, ports.certain, base, Severity.ERROR, asker)
    for owner in owners(sockets.holding(ports.possible - ports.certain), processes, holders):
        yield _taken_finding(owner, ports.possible, base, Severity.INFO, asker)
    tell_of_the_rest([owner for owner in taken if owner.perhaps_of_job], sight)


def _taken_finding(
    owner: Owner, ports: PortRanges, base: int | None, severity: Severity, asker: Asker | None
) -> Finding:
    count = len(owner.ports)
    detail = None
    if owner.of_live_job:
        detail = messages.TAKEN_BY_LIVE_JOB.text()
    elif not owner.listens:
        detail = messages.TAKEN_BY_CONNECTION.text(count=count)
    first, last = min(ports), max(ports)
    move = (f"export {BASE_PORT}={base}  # or move HCCL to free ports",) if base is not None else ()
    orphan = owner.process is not None and owner.process.ppid == 1 and owner.process.name.startswith("python")
    return messages.PORT_TAKEN.finding(
        ports=owner.ports,
        count=count,
        how=owner.how,
        severity=severity,
        detail=detail,
        hint=messages.ANOTHER_BASE.text() if owner.of_live_job else None,
        commands=(f"ss -tanp '( sport >= :{first} and sport <= :{last} )'", *owner.look, *move),
        evidence=(
            Evidence(
                source="sockets",
                expected=messages.FREE_PORTS.text(ports=ports),
                actual=messages.HELD_PORTS.text(ports=owner.ports, owner=owner),
            ),
            *owner.evidence,
        ),
        fix=release_of([owner.process, *owner.others], asker) if orphan and not owner.of_live_job else None,
        of_live_job=owner.of_live_job,
    )
