"""The host ports of HCCL are free."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.network.hccl import BASE_PORT, HcclPorts
from npudoctor.facts.network.ports import KernelPorts, Sockets
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import DriverStack
from npudoctor.facts.node.holders import CardHolders, JobsInSight
from npudoctor.facts.system.processes import Processes
from npudoctor.sdk import PREFLIGHT, Evidence, Finding, FixOffer, Options, Severity, check

from ._owners import Owner, free_base, need_several, owners, tell_of_the_rest


@check("hccl.ports-free", tags=(PREFLIGHT,), requires=(DriverStack,), after=("hccl.base-port",), fix="npu.release")
def ports_are_free(
    sockets: Sockets,
    ports: HcclPorts,
    cards: Chips | None,
    processes: Processes | None,
    holders: CardHolders | None,
    kernel: KernelPorts | None,
    container: Container | None,
    sight: JobsInSight | None,
    options: Options,
) -> Iterator[Finding]:
    """Nobody holds a host port of HCCL.

    Rank 0 of every communicator listens on one; a job that finds it taken ends with EJ0003 or EI0019.
    """
    need_several(cards, container)
    base = free_base(sockets, kernel, ports.possible, knowledge.hccl().ports.full_count)
    sight = None if options.expect_idle else sight
    taken = owners(sockets.holding(ports.certain), processes, holders, sight)
    for owner in taken:
        if not owner.perhaps_of_job:
            yield _taken(owner, ports, base, Severity.ERROR)
    for owner in owners(sockets.holding(ports.possible - ports.certain), processes, holders):
        yield _taken(owner, ports, base, Severity.INFO)
    tell_of_the_rest([owner for owner in taken if owner.perhaps_of_job], sight)


def _taken(owner: Owner, ports: HcclPorts, base: int | None, severity: Severity) -> Finding:
    many = len(owner.ports) > 1
    detail = "A job that starts now and needs them ends with EJ0003 or EI0019."
    if owner.of_live_job:
        detail = "A job that runs on the cards explains this. Another one beside it needs ports of its own."
    elif not owner.listens:
        detail += " The kernel gives such ports away unless they are reserved: see hccl.ports-reserved."
    first, last = min(ports.possible), max(ports.possible)
    move = (f"export {BASE_PORT}={base}  # or move HCCL to free ports",) if base is not None else ()
    orphan = owner.process is not None and owner.process.ppid == 1 and owner.process.name.startswith("python")
    return Finding(
        severity=severity,
        summary=f"HCCL's port{'s' if many else ''} {owner.ports} {'are' if many else 'is'} taken {owner.how}",
        detail=detail,
        hint="End it if it is left over from a job, or give this job a base port of its own.",
        commands=(f"ss -tanp '( sport >= :{first} and sport <= :{last} )'", *owner.look, *move),
        evidence=(
            Evidence(source="sockets", expected=f"{ports.possible} free", actual=f"{owner.ports} held by {owner}"),
            *owner.evidence,
        ),
        fix=FixOffer(id="npu.release", params={"pids": [owner.pid]}) if orphan and not owner.of_live_job else None,
        pitfall="P003",
        of_live_job=owner.of_live_job,
    )
