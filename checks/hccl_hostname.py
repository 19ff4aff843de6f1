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

from ._places import Change, start_again
from .messages import hccl as messages
from .messages import places

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
    """Host name and MASTER_ADDR reachable from other nodes.

    Launchers hand out the name of rank 0's host or the address that it resolves to; a loopback address sends every
    other node to itself, where no process listens.
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
        None,
    )
    change = Change(None, ("ip -brief address",))
    if reachable is not None:
        line = f"{own.line_number}s/^[^[:space:]]*/{reachable}/"
        change = Change(None, (f"sudo sed -i '{line}' {PATH}", f"getent hosts {own.name}"))
        if container is not None:
            change = start_again(
                container,
                f"--add-host {own.name}:{reachable}",
                pod=places.POD_HOSTS.text(name=own.name, address=reachable),
                request=places.SEND_HOSTS.text(name=own.name, address=reachable),
            )
    set_already = environment is not None and environment.non_empty(MASTER) is not None
    yield messages.NAME_IS_LOOPBACK.finding(
        name=own.name,
        address=own.address,
        hint=change.hint or (messages.MAP_THE_NAME.text() if set_already else None),
        commands=change.commands,
        evidence=(
            Evidence(
                source=f"{PATH}:{own.line_number}",
                expected=messages.NETWORK_ADDRESS.text(),
                actual=f"{own.address} {own.name}",
            ),
            _several(cluster),
        ),
    )


def _several(cluster: Cluster) -> Evidence:
    """What says that the job has several nodes."""
    source, value = cluster.evidence or (messages.JOB.text(), messages.SEVERAL_NODES.text())
    return Evidence(source=source, actual=value)


def _master_is_loopback(environment: JobEnvironment, cluster: Cluster) -> Iterator[Finding]:
    """A job of several nodes whose MASTER_ADDR is this very node's loopback, unless this node is the first."""
    named = environment.non_empty(MASTER) or ""
    address = parse_address(named)
    if named.lower() != "localhost" and (address is None or not address.is_loopback):
        return
    place = next(((name, value) for name in PLACES if (value := environment.non_empty(name)) is not None), None)
    if place is not None and place[1] == "0":
        return
    yield messages.MASTER_IS_LOOPBACK.finding(
        name=MASTER,
        value=named,
        severity=Severity.WARNING if place is None else None,
        commands=(f"export {MASTER}=ADDRESS  # ADDRESS: that of rank 0's node",),
        evidence=(
            Evidence(source=MASTER, expected=messages.REACHABLE_ADDRESS.text(), actual=named),
            _several(cluster),
            *([Evidence(source=place[0], actual=place[1])] if place else []),
        ),
    )
