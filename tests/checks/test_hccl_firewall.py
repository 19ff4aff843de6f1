"""The packet filters of a host against HCCL's ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.network.firewall_rules import parse_iptables, parse_nft
from npudoctor.facts.network.firewall_verdict import dropped_ports
from npudoctor.facts.network.ports import PortRanges
from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status

Nodes = Callable[..., Any]
ID = "hccl.firewall"
WANTED = PortRanges.of((29500, 29500), (60000, 60015))
SEVERAL = {"MASTER_ADDR": "192.168.10.99"}

FIREWALLD = """table inet firewalld {
	chain filter_INPUT {
		type filter hook input priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		ct state invalid drop
		jump filter_INPUT_ZONES
		reject with icmpx admin-prohibited
	}

	chain filter_INPUT_ZONES {
		iifname "enp189s0f0" goto filter_IN_public
		goto filter_IN_public
	}

	chain filter_IN_public {
		jump filter_IN_public_allow
		meta l4proto { icmp, ipv6-icmp } accept
		reject with icmpx admin-prohibited
	}

	chain filter_IN_public_allow {
		tcp dport 22 accept
		PLACE
	}
}
"""


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


def rules(text: str, environ: dict[str, str] | None = None) -> dict[str, Any]:
    """What a scenario says of a node whose filter is this one: nft's listing or iptables' rules."""
    answers = {"iptables -S" if text.startswith("-P") else "nft list ruleset": {"stdout": text}}
    if text.startswith("table inet firewalld"):
        answers["firewall-cmd --state"] = {"stdout": "running\n"}
    return {"commands": answers, "environ": environ or {}}


def test_without_filters_nothing_is_dropped(node: Nodes) -> None:
    result = node().check(ID)
    assert (result.status, result.findings) == (Status.OK, ())


def test_who_may_not_see_the_rules_judges_nothing(node: Nodes) -> None:
    result = node(user={"name": "dev", "uid": 1005, "groups": {"dev": 1005, "HwHiAiUser": 1000}}).check(ID)
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.NO_RIGHT)


def test_where_no_filter_is_installed_nothing_is_judged(node: Nodes) -> None:
    result = node(container={"host_network": True}).check(ID)
    assert (result.status, result.because) == (Status.SKIPPED, Because.ABSENT)


@pytest.mark.parametrize(("environ", "expected"), [({}, Severity.INFO), (SEVERAL, Severity.WARNING)])
def test_a_firewall_before_other_nodes_matters_with_several(
    node: Nodes, environ: dict[str, str], expected: Severity
) -> None:
    finding = only(node(**rules(FIREWALLD.replace("PLACE", ""), environ)).check(ID))
    assert (finding.severity, finding.pitfall) == (expected, "P005")
    assert finding.summary == "Packet filter drops connections from other nodes to ports 29500,60000-60015"
    assert finding.commands[0].startswith("sudo firewall-cmd --permanent --add-port=29500-29500/tcp")


def test_ports_that_are_let_through_are_no_finding(node: Nodes) -> None:
    for place in ("tcp dport { 29500, 60000-60031 } accept", "ip saddr 192.168.10.0/24 accept"):
        assert node(**rules(FIREWALLD.replace("PLACE", place), SEVERAL)).check(ID).findings == ()


def test_a_rule_that_drops_the_ports_hits_one_node_as_well(node: Nodes) -> None:
    text = "-P INPUT ACCEPT\n-A INPUT -p tcp -m tcp --dport 60000:60015 -j DROP\n"
    finding = only(node(**rules(text)).check(ID))
    assert finding.severity is Severity.WARNING
    assert finding.summary == "Packet filter drops connections to ports 60000-60015, even within this node"
    assert finding.evidence[0].actual == "-A INPUT -p tcp -m tcp --dport 60000:60015 -j DROP"


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("-P INPUT ACCEPT\n", "", ""),
        ("-P INPUT DROP\n", "29500,60000-60015", "29500,60000-60015"),
        ("-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n", "", "29500,60000-60015"),
        ("-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n-A INPUT -p tcp --dport 29500 -j ACCEPT\n", "", "60000-60015"),
        ("-P INPUT DROP\n-A INPUT -s 10.0.0.0/8 -j ACCEPT\n", "", ""),
        ("-P INPUT DROP\n-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -i lo -j ACCEPT\n",
         "", "29500,60000-60015"),
        ("-P INPUT ACCEPT\n-A INPUT -s 10.9.9.9/32 -p tcp --dport 60000 -j DROP\n", "", ""),
        ("-P INPUT ACCEPT\n-A INPUT -p udp -j DROP\n-A INPUT -p icmp -j DROP\n", "", ""),
        ("-P INPUT ACCEPT\n-N X\n-A INPUT -p tcp -j X\n-A X -p tcp --dport 60003 -j RETURN\n-A X -j REJECT\n",
         "29500,60000-60002,60004-60015", "29500,60000-60002,60004-60015"),
        ("-P INPUT ACCEPT\n-P FORWARD DROP\n", "", ""),
        ("-P INPUT ACCEPT\n-N A\n-A INPUT -j A\n-A A -j A\n", "", ""),
        ("-P INPUT DROP\n-A INPUT -p tcp -m conntrack --ctstate NEW -j ACCEPT\n", "", ""),
    ],
)  # fmt: skip
def test_the_rules_are_walked_in_their_order(text: str, inside: str, outside: str) -> None:
    for over_loopback, expected in ((True, inside), (False, outside)):
        found = dropped_ports(parse_iptables(text), WANTED, over_loopback=over_loopback)
        ports = PortRanges.of(*(span for one in found for span in one.ports.spans))
        assert str(ports) == expected


_RULE = st.tuples(
    st.sampled_from(["INPUT", "A", "B"]),
    st.sampled_from(["", "-p tcp", "-p udp", "-i lo", "-s 10.0.0.1/32", "-p tcp --dport 60000:60007"]),
    st.sampled_from(["ACCEPT", "DROP", "RETURN", "A", "B", "LOG"]),
).map(lambda parts: f"-A {parts[0]} {parts[1]} -j {parts[2]}".replace("  ", " "))


@given(st.lists(_RULE, max_size=12), st.booleans(), st.sampled_from(["ACCEPT", "DROP"]))
def test_any_set_of_rules_ends_with_ports_that_were_asked_for(rows: list[str], loopback: bool, policy: str) -> None:
    text = "\n".join([f"-P INPUT {policy}", "-N A", "-N B", *rows])
    found = dropped_ports(parse_iptables(text), WANTED, over_loopback=loopback)
    assert all(WANTED.covers(one.ports) for one in found)


def test_a_listing_without_chains_drops_nothing() -> None:
    assert dropped_ports(parse_nft(""), WANTED, over_loopback=False) == ()
