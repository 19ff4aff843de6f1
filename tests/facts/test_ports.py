"""Port arithmetic, the kernel's settings, sockets."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.network import ports
from npudoctor.facts.network.ports import LAST_PORT, PortRanges
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Because, ParseError, Unavailable

port_numbers = st.integers(0, LAST_PORT)
spans = st.tuples(port_numbers, port_numbers).map(lambda pair: (min(pair), max(pair)))
range_sets = st.lists(spans, max_size=5).map(lambda found: PortRanges.of(*found))


@given(range_sets)
def test_the_canonical_text_of_a_set_reads_back_as_the_set(found: PortRanges) -> None:
    assert PortRanges.parse(str(found)) == found


@given(range_sets, range_sets, port_numbers)
def test_set_operations_agree_with_membership(one: PortRanges, other: PortRanges, port: int) -> None:
    assert (port in one | other) == (port in one or port in other)
    assert (port in one & other) == (port in one and port in other)
    assert (port in one - other) == (port in one and port not in other)


@given(range_sets, range_sets)
def test_a_set_is_covered_exactly_when_its_union_adds_nothing(one: PortRanges, other: PortRanges) -> None:
    assert one.covers(other) == (one | other == one)
    assert len(one) == len(one - other) + len(one & other)


@given(range_sets)
def test_spans_are_ascending_and_apart(found: PortRanges) -> None:
    assert all(last + 1 < first for (_, last), (first, _) in zip(found.spans, found.spans[1:], strict=False))


def test_ports_are_merged_and_sorted_as_the_kernel_does_it() -> None:
    assert str(PortRanges.parse("60010,60001,60000\n")) == "60000-60001,60010"
    assert list(PortRanges.parse("5,7-8")) == [5, 7, 8]
    assert PortRanges.parse("\n") == PortRanges()


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "5-4", "65536", "1,,2", ",1", "1 ,2", "0x100", "060000", "1-2-3", "٣", "1;2"]
)
def test_what_the_kernel_would_refuse_or_read_otherwise_is_not_understood(text: str) -> None:
    with pytest.raises(ParseError):
        PortRanges.parse(text)


@given(st.text(alphabet="0123456789,- xa\n", max_size=30))
def test_any_text_is_a_set_of_ports_or_a_parse_error(text: str) -> None:
    try:
        found = PortRanges.parse(text)
    except ParseError:
        return
    assert all(0 <= port <= LAST_PORT for span in found.spans for port in span)


def kernel_host(reserved: str = "\n", local: str = "32768\t60999\n") -> FakeHost:
    return FakeHost(files={ports.RANGE_FILE: local, ports.RESERVED_FILE: reserved})


def test_the_kernels_two_settings_are_read() -> None:
    found = ports.kernel_ports(kernel_host("60000-60015,61000\n"))
    assert (str(found.ephemeral), str(found.reserved)) == ("32768-60999", "60000-60015,61000")


def test_without_the_setting_the_reason_names_the_file() -> None:
    with pytest.raises(Unavailable, match="ip_local_port_range does not exist"):
        ports.kernel_ports(FakeHost())


@pytest.mark.parametrize("text", ["", "32768", "1 2 3", "a b", "32768 70000"])
def test_a_port_range_that_is_none_is_not_understood(text: str) -> None:
    with pytest.raises(ParseError):
        ports.parse_port_range(text)


ROW = "   0: 00000000:EA60 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 30000 1 0\n"
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def test_sockets_come_with_their_owner_from_the_measurement() -> None:
    rows = [
        {"family": "inet", "type": "tcp", "laddr": "0.0.0.0:60003", "status": "LISTEN", "pid": 4711},
        {"family": "inet6", "type": "tcp", "laddr": "[::1]:60004", "status": "ESTABLISHED"},
        {"family": "inet", "type": "udp", "laddr": "0.0.0.0:60005", "status": "NONE", "pid": 1},
        {"family": "inet", "type": "tcp", "laddr": "10.0.0.1:60006", "status": "TIME_WAIT"},
        {"family": "inet", "type": "tcp", "laddr": None, "status": "NONE"},
    ]
    found = ports.sockets(FakeHost(measures={"sockets": rows}, files={"/proc/net/tcp": HEADER + ROW}))
    held = found.holding(PortRanges.of((60000, 60031)))
    assert [(socket.port, socket.address, socket.pid) for socket in held] == [
        (60003, "0.0.0.0", 4711),
        (60004, "::1", None),
    ]


class Refusing(FakeHost):
    """A host where nobody may ask whose sockets there are."""

    def measure(self, key: str) -> Any:
        raise Unavailable(f"{key} may not be asked for", because=Because.NO_RIGHT)


def test_without_the_measurement_the_kernels_tables_are_read() -> None:
    six = HEADER + ROW.replace("00000000:EA60", "00000000000000000000000001000000:EA61")
    found = ports.sockets(Refusing(files={"/proc/net/tcp": HEADER + ROW, "/proc/net/tcp6": six}))
    assert [(socket.address, socket.port, socket.status) for socket in found.sockets] == [
        ("0.0.0.0", 60000, "LISTEN"),
        ("::1", 60001, "LISTEN"),
    ]


def test_without_measurement_and_tables_the_sockets_are_unknown() -> None:
    with pytest.raises(Unavailable, match="/proc/net/tcp does not exist"):
        ports.sockets(Refusing())


@pytest.mark.parametrize("measures", [{}, {"sockets": None}])
def test_a_recording_without_sockets_is_no_proof_that_a_port_is_free(measures: dict[str, Any]) -> None:
    with pytest.raises(Unavailable, match="sockets") as caught:
        ports.sockets(FakeHost(measures=measures, files={"/proc/net/tcp": HEADER + ROW}))
    assert caught.value.because is Because.NOT_RECORDED


@given(st.ip_addresses(), port_numbers)
def test_addresses_of_the_kernels_tables_are_turned_round(address: IPv4Address | IPv6Address, port: int) -> None:
    words = struct.unpack(f">{len(address.packed) // 4}I", address.packed)
    text = struct.pack(f"<{len(words)}I", *words).hex().upper()
    socket = ports.parse_proc_net_tcp(f"0: {text}:{port:04X} 00000000:0000 01 rest\n")[0]
    assert (socket.address, socket.port, socket.status) == (str(address), port, "ESTABLISHED")


@given(st.text(alphabet="0123456789ABCDEF: \nslx", max_size=120))
def test_any_text_is_a_table_of_sockets_or_a_parse_error(text: str) -> None:
    try:
        found = ports.parse_proc_net_tcp(text)
    except ParseError:
        return
    assert len(found) <= len(text.splitlines())


def test_a_socket_in_a_state_that_a_newer_kernel_has_costs_no_other_socket() -> None:
    rows = "0: 0100007F:EA60 00000000:0000 0D rest\n1: 0100007F:EA61 00000000:0000 0A rest\n"
    found = ports.parse_proc_net_tcp(rows)
    assert [(one.port, one.status) for one in found] == [(60000, "0D"), (60001, "LISTEN")]
