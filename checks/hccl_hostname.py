"""The name of this host, as rank 0 publishes it to the other nodes."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.network.hostname import PATH, OwnName
from npudoctor.facts.network.interfaces import Interfaces, parse_address
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Evidence, Finding, Severity, check

MASTER = "MASTER_ADDR"
PLACES = ("NODE_RANK", "GROUP_RANK", "SLURM_NODEID")
"""Which node of the job this one is."""


@check("hccl.hostname", requires=(SoftwareStack,))
def own_name_leads_to_the_network(
    own: OwnName,
    cluster: Cluster,
    interfaces: Interfaces | None,
    container: Container | None,
    environment: JobEnvironment | None,
) -> Iterator[Finding]:
    """Neither this host's name nor MASTER_ADDR leads back to itself where several nodes have to meet.

    Launchers hand out the name of rank 0's host or the address that it resolves to; a loopback address sends every
    other node to itself, where nobody listens.
    """
    if not cluster.several:
        return
    if environment is not None:
        yield from _master_is_loopback(environment, cluster)
    if own.address is None or not own.address.is_loopback:
        return
    reachable = next(
        (
            str(address)
            for one in (interfaces.interfaces if interfaces is not None else ())
            if one.up and not one.loopback and not one.virtual
            for address in one.of_family(4)
        ),
        "<address>",
    )
    source, value = cluster.evidence or ("the job", "several nodes")
    line = f"{own.line_number}s/^[^[:space:]]*/{reachable}/"
    yield Finding(
        severity=Severity.WARNING,
        summary=f"the name of this host, {own.name}, leads to {own.address}, and the job has several nodes",
        detail="Where rank 0 is on this host, the others connect to themselves: `The client socket has timed out`.",
        hint="Let the name lead to an address that the other nodes reach, or give MASTER_ADDR an address.",
        commands=(
            f"sudo sed -i '{line}' {PATH}" if container is None else f"docker run --add-host {own.name}:{reachable} …",
            f"getent hosts {own.name}",
        ),
        evidence=(
            Evidence(
                source=f"{PATH}:{own.line_number}",
                expected="an address of the network",
                actual=f"{own.address} {own.name}",
            ),
            Evidence(source=source, actual=value),
        ),
        pitfall="P050",
    )


def _master_is_loopback(environment: JobEnvironment, cluster: Cluster) -> Iterator[Finding]:
    """A job of several nodes whose MASTER_ADDR is this very node's loopback, unless this node is the first."""
    named = environment.filled(MASTER) or ""
    address = parse_address(named)
    if named.lower() != "localhost" and (address is None or not address.is_loopback):
        return
    place = next(((name, value) for name in PLACES if (value := environment.filled(name)) is not None), None)
    if place is not None and place[1] == "0":
        return
    source, value = cluster.evidence or ("the job", "several nodes")
    yield Finding(
        severity=Severity.WARNING if place is None else Severity.ERROR,
        summary=f"{MASTER}={named} is this node itself, and the job has several nodes",
        detail="Only on the node of rank 0 does somebody listen there: `The client socket has timed out`.",
        hint="Give all nodes the address of rank 0's node.",
        commands=(f"export {MASTER}=<address of rank 0's node>",),
        evidence=(
            Evidence(source=MASTER, expected="an address that all nodes reach", actual=named),
            Evidence(source=source, actual=value),
            *([Evidence(source=place[0], actual=place[1])] if place else []),
        ),
        pitfall="P050",
    )
