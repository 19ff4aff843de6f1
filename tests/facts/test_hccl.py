"""Which ports and which interface HCCL takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.network import hccl
from npudoctor.facts.network.hccl import NameRule
from npudoctor.facts.network.interfaces import Interfaces, parse
from npudoctor.facts.network.ports import LAST_PORT
from npudoctor.sdk import ParseError


@pytest.mark.parametrize(
    ("variables", "count", "certain", "possible"),
    [
        ({}, 16, "60000-60015", "60000-60031"),
        ({}, 32, "60000-60031", "60000-60031"),
        ({}, None, "60000-60015", "60000-60031"),
        ({"HCCL_IF_BASE_PORT": "50000"}, 16, "50000-50015", "50000-50031"),
        ({"HCCL_IF_BASE_PORT": ""}, 16, "60000-60015", "60000-60031"),
        ({"HCCL_IF_BASE_PORT": "65520"}, 16, "65520-65535", "65520-65535"),
        ({"HCCL_HOST_SOCKET_PORT_RANGE": "60000, 60050-60100", "HCCL_IF_BASE_PORT": "5"}, 16, "60000,60050-60100",
         "60000,60050-60100"),
        ({"HCCL_HOST_SOCKET_PORT_RANGE": "  "}, 16, "60000-60015", "60000-60031"),
        ({"HCCL_HOST_SOCKET_PORT_RANGE": "auto"}, 16, "", ""),
    ],
)  # fmt: skip
def test_the_host_ports_follow_the_variables_and_the_release(
    variables: dict[str, str], count: int | None, certain: str, possible: str
) -> None:
    found = hccl.host_ports(variables, count)
    assert (str(found.certain), str(found.possible)) == (certain, possible)
    assert found.automatic is (variables.get("HCCL_HOST_SOCKET_PORT_RANGE") == "auto")


@pytest.mark.parametrize("text", ["1023", "65521", "60000 ", "+60000", "0x100", "6e4", "sixty", "٦"])
def test_a_base_port_that_hccl_refuses_is_not_understood(text: str) -> None:
    with pytest.raises(ParseError):
        hccl.parse_base_port(text)


@pytest.mark.parametrize("text", ["0", "65536", "5-4", "1-5,3", "1,1", "1,,2", "a", "1-2-3", "1,", "Auto"])
def test_a_list_of_ports_that_hccl_refuses_is_not_understood(text: str) -> None:
    with pytest.raises(ParseError):
        hccl.parse_port_list(text)


@given(st.integers(1024, 65520), st.sampled_from([16, 32, None]))
def test_the_certain_ports_are_possible_ones_and_there_are_always_16(base: int, count: int | None) -> None:
    found = hccl.host_ports({"HCCL_IF_BASE_PORT": str(base)}, count)
    assert found.possible.covers(found.certain)
    assert len(found.certain) >= 16 or base + (count or 16) - 1 > LAST_PORT
    assert base in found.certain


@given(st.text(alphabet="0123456789,- auto", max_size=30))
def test_any_list_is_a_set_of_ports_or_a_parse_error(text: str) -> None:
    try:
        found = hccl.parse_port_list(text)
    except ParseError:
        return
    assert all(1 <= first <= last <= LAST_PORT for first, last in found.spans)


NAMES = ("lo", "docker0", "enp1s0", "enp10s0", "bond0")


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("enp", ["enp1s0", "enp10s0"]),
        ("enp1", ["enp1s0", "enp10s0"]),
        ("=enp1s0", ["enp1s0"]),
        ("=enp1s0,bond0", ["enp1s0", "bond0"]),
        ("enp10, bond", ["enp10s0", "bond0"]),
        ("^enp", ["lo", "docker0", "bond0"]),
        ("^=enp1s0", ["lo", "docker0", "enp10s0", "bond0"]),
        ("=eth0", []),
    ],
)
def test_a_rule_takes_names_by_beginning_or_whole_or_all_others(text: str, taken: list[str]) -> None:
    assert [name for name in NAMES if NameRule.parse(text).takes(name)] == taken


@pytest.mark.parametrize("text", ["", "=", "^", "^=", ",", "= , "])
def test_a_rule_that_names_nothing_is_not_understood(text: str) -> None:
    with pytest.raises(ParseError):
        NameRule.parse(text)


def node(**addresses: str) -> Interfaces:
    return parse(
        [
            {"name": name, "up": not text.startswith("down "), "addresses": text.removeprefix("down ").split()}
            for name, text in addresses.items()
        ]
    )


HOST = node(
    lo="127.0.0.1/8 ::1/128",
    docker0="172.17.0.1/16",
    enp189s0="10.0.0.7/24 2001:db8::7/64",
    bond0="down 10.0.1.7/24",
    enp125s0="10.0.2.7/24",
    virbr0="192.168.122.1/24",
)


def name_of(choice: hccl.Choice | None) -> str | None:
    return choice.interface.name if choice else None


@pytest.mark.parametrize(
    ("rule", "family", "name", "address"),
    [
        (None, 4, "enp125s0", "10.0.2.7"),
        (None, 6, "enp189s0", "2001:db8::7"),
        ("enp", 4, "enp189s0", "10.0.0.7"),
        ("=bond0", 4, None, None),
        ("^enp,virbr,lo", 4, "docker0", "172.17.0.1"),
        ("virbr", 6, "virbr0", "192.168.122.1"),
    ],
)
def test_hccl_takes_the_first_interface_that_its_rule_lets_pass(
    rule: str | None, family: int, name: str | None, address: str | None
) -> None:
    choice = hccl.choose(HOST, NameRule.parse(rule) if rule else None, family)
    assert (name_of(choice), str(choice.address) if choice else None) == (name, address)


def test_docker_comes_before_the_loopback_and_after_all_others() -> None:
    assert name_of(hccl.choose(node(lo="127.0.0.1/8", docker0="172.17.0.1/16"))) == "docker0"
    assert name_of(hccl.choose(node(lo="127.0.0.1/8"))) == "lo"
    assert hccl.choose(node(lo="", eth0="down 10.0.0.1/8")) is None


def test_candidates_lead_to_other_nodes() -> None:
    assert [one.name for one in hccl.candidates(HOST)] == ["enp189s0", "enp125s0"]
    assert [one.name for one in hccl.candidates(HOST, 6)] == ["enp189s0"]


interface_names = st.sampled_from(["lo", "docker0", "docker1", "eth0", "eth10", "enp1s0", "bond0", "virbr0"])
nodes = st.dictionaries(interface_names, st.sampled_from(["10.1.2.3/8", "down 10.1.2.3/8", ""]), max_size=6).map(
    lambda found: node(**found)
)


@given(nodes)
def test_without_a_rule_the_choice_is_the_first_by_name_of_its_kind(found: Interfaces) -> None:
    choice = hccl.choose(found)
    usable = [one.name for one in found.interfaces if one.up and one.addresses]
    usual = [name for name in usable if not name.startswith(("lo", "docker"))]
    docker = [name for name in usable if name.startswith("docker")]
    assert name_of(choice) == min(usual or docker or usable, default=None)


@given(nodes, interface_names, st.sampled_from(["", "=", "^", "^="]))
def test_with_a_rule_the_choice_obeys_it(found: Interfaces, name: str, marks: str) -> None:
    rule = NameRule.parse(marks + name)
    choice = hccl.choose(found, rule)
    taken = [one.name for one in found.interfaces if one.up and one.addresses and rule.takes(one.name)]
    assert name_of(choice) == (taken[0] if taken else None)
