"""The name of this host, as rank 0 publishes it to the other nodes."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.cluster import Cluster
from npudoctor.facts.container import Container
from npudoctor.facts.context import SoftwareStack
from npudoctor.facts.hostname import PATH, OwnName
from npudoctor.facts.interfaces import Interfaces
from npudoctor.sdk import Evidence, Finding, Severity, check


@check("hccl.hostname", requires=(SoftwareStack,))
def own_name_leads_to_the_network(
    own: OwnName, cluster: Cluster, interfaces: Interfaces | None, container: Container | None
) -> Iterator[Finding]:
    """This host's name does not lead back to itself where other nodes have to follow it.

    Launchers hand out the name of rank 0's host or the address that it resolves to; a loopback address sends every
    other node to itself, where nobody listens.
    """
    if own.address is None or not own.address.is_loopback or not cluster.several:
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
