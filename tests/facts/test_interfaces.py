"""Interfaces, addresses and routes."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.network import interfaces
from npudoctor.findings import Because
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import ParseError, Unavailable

ROWS: list[dict[str, Any]] = [
    {"name": "lo", "up": True, "addresses": ["127.0.0.1/8", "::1/128"], "speed_mbps": 0, "mtu": 65536},
    {"name": "enp1s0", "up": True, "addresses": ["10.0.0.7/24", "fe80::1%enp1s0/64"], "speed_mbps": 25000, "mtu": 1500},
    {"name": "bond0", "up": True, "addresses": ["10.0.0.130/25"], "speed_mbps": 0, "mtu": 9000},
    {"name": "docker0", "up": False, "addresses": ["172.17.0.1/16"]},
]

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
enp1s0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
bond0\t0002A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
bond1\t0003A8C0\t00000000\t0000\t0\t0\t100\t00FFFFFF\t0\t0\t0
"""


def test_an_interface_is_found_by_its_name_its_address_and_its_subnet() -> None:
    found = interfaces.interfaces(FakeHost(measures={"interfaces": ROWS}))
    enp = found.interface("enp1s0")
    assert enp is not None and (enp.speed_mbps, enp.mtu, enp.up) == (25000, 1500, True)
    assert found.holding(ip_address("10.0.0.7")) is enp
    assert found.holding(ip_address("10.0.0.8")) is None
    assert found.beside(ip_address("10.0.0.9")) is enp
    assert found.beside(ip_address("10.0.0.200")) is found.interface("bond0")
    assert found.beside(ip_address("172.17.0.2")) is None, "docker0 is down"


def test_a_speed_that_the_driver_does_not_tell_is_unknown() -> None:
    found = interfaces.parse(ROWS).interface("bond0")
    assert found is not None and found.speed_mbps is None


def test_loopback_and_interfaces_of_containers_are_told_apart() -> None:
    found = interfaces.parse([{"name": name} for name in ("lo", "eth0", "docker0", "veth12", "cali9")])
    assert [one.name for one in found.interfaces if one.loopback] == ["lo"]
    assert [one.name for one in found.interfaces if one.virtual] == ["docker0", "veth12", "cali9"]


def test_an_address_that_is_none_costs_no_other_address_and_no_other_interface() -> None:
    found = interfaces.parse([{"name": "eth0", "addresses": ["10.0.0/33", "10.0.0.5/24", ""]}, *ROWS])
    assert [one.name for one in found.interfaces] == ["eth0", *(row["name"] for row in ROWS)]
    assert [str(one) for one in found.interfaces[0].addresses] == ["10.0.0.5/24"]


def test_without_the_measurement_the_interfaces_are_unknown() -> None:
    with pytest.raises(Unavailable) as why:
        interfaces.interfaces(FakeHost())
    assert why.value.because is Because.NOT_RECORDED


@pytest.mark.parametrize(
    ("target", "name"), [("192.168.2.9", "bond0"), ("192.168.3.9", "enp1s0"), ("8.8.8.8", "enp1s0")]
)
def test_the_longest_route_that_is_up_leads_to_an_address(target: str, name: str) -> None:
    found = interfaces.routes(FakeHost(files={"/proc/net/route": ROUTES}))
    assert found.to(ip_address(target)) == name


def test_no_route_leads_to_an_address_of_the_other_version() -> None:
    assert interfaces.parse_routes(ROUTES).to(ip_address("2001:db8::1")) is None


@given(st.text(alphabet="0123456789ABCDEF \t\neth", max_size=120))
def test_any_text_is_a_table_of_routes_or_a_parse_error(text: str) -> None:
    try:
        found = interfaces.parse_routes(text)
    except ParseError:
        return
    assert len(found.routes) <= len(text.splitlines())


@pytest.mark.parametrize("text", ["", "localhost", "10.0.0.256", "10.0.0.7/24"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert interfaces.parse_address(text) is None


def test_a_zone_is_no_part_of_an_address() -> None:
    assert interfaces.parse_address(" fe80::1%eth0 ") == ip_address("fe80::1")
