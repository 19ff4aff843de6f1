"""The rules of the packet filters, as far as they are about ports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.network.firewall import Firewall, firewall, parse_state
from npudoctor.facts.network.firewall_rules import FirewallChain, parse_iptables, parse_nft
from npudoctor.host import Completed
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Because, ParseError, Unavailable

NFT = """table inet filter {
	set allowed {
		type ipv4_addr
		elements = { 10.0.0.1,
			10.0.0.2 }
	}

	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		iifname "lo" accept
		tcp dport { 22, 60000-60015 } counter packets 3 bytes 180 accept comment "drop by"
		tcp dport != 22 drop
		meta l4proto udp drop
		tcp dport 60000-60015 reject with tcp reset
		tcp dport ssh accept
		ip saddr @allowed drop
		jump more
	}

	chain more {
		drop
	}
}
table ip nat {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		oifname "eth0" masquerade
	}
}
"""
IPTABLES = """-P INPUT DROP
-P FORWARD ACCEPT
-N DOCKER
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m tcp --dport 60000:60015 -j DROP
-A INPUT -p tcp -m multiport --dports 22,16666 -m comment --comment "-j DROP" -j ACCEPT
-A INPUT ! -s 10.0.0.0/8 -p tcp -j REJECT --reject-with icmp-host-prohibited
-A INPUT -j DOCKER
-A DOCKER -p tcp -m tcp ! --dport 22 -j DROP
"""
Row = tuple[str | None, str | None, str, bool]


def rows(chain: FirewallChain) -> list[Row]:
    return [(rule.verdict, rule.protocol, str(rule.ports or "all"), rule.narrow) for rule in chain.rules]


def test_nftables_chains_and_their_rules_are_read() -> None:
    chains = parse_nft(NFT)
    assert [(chain.table, chain.name, chain.hook, chain.policy) for chain in chains] == [
        ("inet filter", "input", "input", "drop"),
        ("inet filter", "more", None, None),
        ("ip nat", "postrouting", "postrouting", "accept"),
    ]
    assert rows(chains[0]) == [
        ("accept", None, "all", True),
        ("accept", None, "all", True),
        ("accept", "tcp", "22,60000-60015", False),
        ("drop", None, "all", True),
        ("drop", "udp", "all", False),
        ("reject", "tcp", "60000-60015", False),
        ("accept", None, "all", True),
        ("drop", None, "all", True),
        ("jump more", None, "all", False),
    ]
    assert rows(chains[1]) == [("drop", None, "all", False)]


def test_iptables_chains_and_their_rules_are_read() -> None:
    chains = parse_iptables(IPTABLES)
    assert [(chain.name, chain.hook, chain.policy) for chain in chains] == [
        ("INPUT", "input", "drop"),
        ("FORWARD", "forward", "accept"),
        ("DOCKER", None, None),
    ]
    assert rows(chains[0]) == [
        ("accept", None, "all", True),
        ("drop", "tcp", "60000-60015", False),
        ("accept", "tcp", "22,16666", False),
        ("reject", "tcp", "all", True),
        ("jump DOCKER", None, "all", False),
    ]
    assert rows(chains[2]) == [("drop", "tcp", "all", True)]


def test_no_rules_at_all_are_an_answer_of_nftables_only() -> None:
    assert parse_nft("") == ()
    with pytest.raises(ParseError):
        parse_iptables("")


@pytest.mark.parametrize("parse", [parse_nft, parse_iptables])
def test_what_is_no_list_of_rules_is_refused(parse: object) -> None:
    with pytest.raises(ParseError):
        parse("hello\n")  # type: ignore[operator]


@given(st.data())
def test_a_damaged_list_is_refused_or_read(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([NFT, IPTABLES]))
    place, length = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 9))
    damaged = text[:place] + data.draw(st.text(max_size=4)) + text[place + length :]
    for parse in (parse_nft, parse_iptables):
        try:
            chains = parse(damaged)
        except ParseError:
            continue
        assert all(rule.text in damaged for chain in chains for rule in chain.rules)


def look(**given: str | Completed) -> Firewall:
    names = {"nft": "nft list ruleset", "iptables": "iptables -S", "firewalld": "firewall-cmd --state"}
    found = firewall.function(FakeHost(commands={names[tool]: answer for tool, answer in given.items()}))
    assert isinstance(found, Firewall)
    return found


def test_every_filter_that_answers_is_looked_at() -> None:
    found = look(nft=NFT, iptables=IPTABLES, firewalld="running\n")
    assert ([chain.tool for chain in found.chains], found.firewalld) == (["nft"] * 3 + ["iptables"] * 3, True)
    assert found.unseen == {}


def test_firewalld_that_does_not_run_says_so_with_a_status_of_its_own() -> None:
    found = look(nft="", firewalld=Completed(returncode=252, stderr="not running\n"))
    assert (found.firewalld, list(found.unseen)) == (False, ["iptables"])
    with pytest.raises(ParseError):
        parse_state("hello\n")


DENIED = Completed(returncode=1, stderr="Operation not permitted (you must be root)\n")


@pytest.mark.parametrize(
    ("answers", "because"),
    [
        ({}, Because.ABSENT),
        ({"nft": DENIED}, Because.NO_RIGHT),
        ({"nft": DENIED, "iptables": Completed(returncode=4, stderr="bad\n")}, Because.NO_RIGHT),
        ({"iptables": Completed(returncode=4, stderr="bad\n")}, Because.FAILED),
        ({"nft": Completed(returncode=None, timed_out=True, seconds=10.0)}, Because.TIMED_OUT),
        ({"nft": "hello\n"}, Because.FAILED),
    ],
)
def test_without_any_rules_it_is_not_known_whether_there_are_some(
    answers: dict[str, str | Completed], because: Because
) -> None:
    with pytest.raises(Unavailable) as caught:
        look(**answers)
    assert caught.value.because is because
