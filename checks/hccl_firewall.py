"""The packet filters of this host against the ports on which ranks meet."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.network.firewall import Firewall
from npudoctor.facts.network.firewall_verdict import Dropped, dropped_ports
from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.network.ports import LAST_PORT, PortRanges
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Evidence, Finding, Severity, check

from ._owners import need_several
from .messages import hccl as messages


@check("hccl.firewall", profile="standard", after=("hccl.base-port",), requires=(SoftwareStack,))
def no_filter_drops_the_ports(
    firewall: Firewall,
    ports: HcclPorts,
    environment: JobEnvironment | None,
    cards: Chips | None,
    cluster: Cluster | None,
    container: Container | None,
) -> Iterator[Finding]:
    """HCCL ports open in the packet filter.

    Ranks meet on the host's network before they use the NPU network. A port that a filter drops looks like a host that
    does not answer: EI0015 or EI0006 after the timeout.
    """
    need_several(cards, container)
    wanted = ports.certain | _master(environment)
    inside = dropped_ports(firewall.chains, wanted, over_loopback=True)
    outside = dropped_ports(firewall.chains, wanted, over_loopback=False)
    several = cluster is not None and cluster.several
    if inside:
        yield messages.DROPS_LOCAL.finding(
            ports=_ports(inside), commands=_allow(inside, firewall), evidence=_rules(inside)
        )
    elif outside:
        yield messages.DROPS_REMOTE.finding(
            ports=_ports(outside),
            severity=None if several else Severity.INFO,
            hint=None if several else messages.OPEN_FOR_SEVERAL_NODES.text(),
            commands=_allow(outside, firewall),
            evidence=_rules(outside),
        )


def _master(environment: JobEnvironment | None) -> PortRanges:
    """The port of torch's store."""
    text = (environment.non_empty("MASTER_PORT") if environment is not None else None) or ""
    port = int(text) if text.isdecimal() and 1 <= int(text) <= LAST_PORT else knowledge.hccl().ports.master
    return PortRanges.of((port, port))


def _ports(found: tuple[Dropped, ...]) -> PortRanges:
    return PortRanges.of(*(span for one in found for span in one.ports.spans))


def _rules(found: tuple[Dropped, ...]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            source=f"{one.tool} {one.chain}",
            expected=messages.ALLOWED_PORTS.text(ports=one.ports),
            actual=one.rule,
        )
        for one in found[:4]
    )


def _allow(found: tuple[Dropped, ...], firewall: Firewall) -> tuple[str, ...]:
    """The commands that open these ports, in the words of the tool that drops them."""
    ports, first = _ports(found), found[0]
    if firewall.firewalld:
        listed = " ".join(f"--add-port={low}-{high}/tcp" for low, high in ports.spans)
        return f"sudo firewall-cmd --permanent {listed}", "sudo firewall-cmd --reload"
    if first.tool == "iptables":
        listed = ",".join(str(low) if low == high else f"{low}:{high}" for low, high in ports.spans[:7])
        return (f"sudo iptables -I INPUT -p tcp -m multiport --dports {listed} -j ACCEPT",)
    listed = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ports.spans)
    return (f"sudo nft insert rule {first.chain} tcp dport {{ {listed} }} accept",)
