"""The packet filters of this host against the ports on which ranks meet."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.network.firewall import Firewall
from npudoctor.facts.network.firewall_verdict import Dropped, dropped
from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.network.ports import LAST_PORT, PortRanges
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Evidence, Finding, Severity, check

from ._owners import need_several


@check("hccl.firewall", profile="standard", after=("hccl.base-port",), requires=(SoftwareStack,))
def no_filter_drops_the_ports(
    firewall: Firewall,
    ports: HcclPorts,
    environment: JobEnvironment | None,
    cards: Chips | None,
    cluster: Cluster | None,
    container: Container | None,
) -> Iterator[Finding]:
    """No packet filter of this host drops connections to HCCL's ports.

    Ranks meet on the host's network before they talk over the cards'. A port that a filter drops looks like a host that
    does not answer: EI0015 or EI0006 when the time is up.
    """
    need_several(cards, container)
    wanted = ports.certain | _master(environment)
    inside = dropped(firewall.chains, wanted, over_loopback=True)
    outside = dropped(firewall.chains, wanted, over_loopback=False)
    several = cluster is not None and cluster.several
    if inside:
        yield _dropped(inside, "even those of one node", firewall, Severity.WARNING)
    elif outside:
        severity = Severity.WARNING if several else Severity.INFO
        yield _dropped(outside, "those of other nodes", firewall, severity)


def _master(environment: JobEnvironment | None) -> PortRanges:
    """The port of torch's store."""
    text = (environment.filled("MASTER_PORT") if environment is not None else None) or ""
    port = int(text) if text.isdecimal() and 1 <= int(text) <= LAST_PORT else knowledge.hccl().ports.master
    return PortRanges.of((port, port))


def _dropped(found: tuple[Dropped, ...], whose: str, firewall: Firewall, severity: Severity) -> Finding:
    ports = PortRanges.of(*(span for one in found for span in one.ports.spans))
    first = found[0]
    if firewall.firewalld:
        listed = " ".join(f"--add-port={low}-{high}/tcp" for low, high in ports.spans)
        commands: tuple[str, ...] = (f"sudo firewall-cmd --permanent {listed}", "sudo firewall-cmd --reload")
    elif first.tool == "iptables":
        listed = ",".join(str(low) if low == high else f"{low}:{high}" for low, high in ports.spans[:7])
        commands = (f"sudo iptables -I INPUT -p tcp -m multiport --dports {listed} -j ACCEPT",)
    else:
        listed = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ports.spans)
        commands = (f"sudo nft insert rule {first.chain} tcp dport {{ {listed} }} accept",)
    hint = "Let these ports through, from the nodes of the cluster at least."
    if severity is Severity.INFO:
        hint = "One node does not need them open to others; a job with several nodes does."
    return Finding(
        severity=severity,
        summary=f"a packet filter of this host drops connections to the ports {ports}, {whose}",
        detail="Ranks wait for each other until HCCL_CONNECT_TIMEOUT is up: EI0015, EI0006, or `The client socket has "
        "timed out`.",
        hint=hint,
        commands=commands,
        evidence=tuple(
            Evidence(source=f"{one.tool} {one.chain}", expected=f"{one.ports} let through", actual=one.rule)
            for one in found[:4]
        ),
        pitfall="P005",
    )
