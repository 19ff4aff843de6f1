"""Sets of ports, what the kernel does with its ports, and which sockets hold one."""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

LAST_PORT = 65535
RANGE_FILE = "/proc/sys/net/ipv4/ip_local_port_range"
RESERVED_FILE = "/proc/sys/net/ipv4/ip_local_reserved_ports"

_PART = r"(?a)(0|[1-9]\d{0,8})(?:-(0|[1-9]\d{0,8}))?"


@record(frozen=True)
class PortRanges:
    """A set of ports as disjoint spans in ascending order, written as the kernel writes it: 60000-60031,60040."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *spans: tuple[int, int]) -> PortRanges:
        """The union of spans, both ends included; neighbours become one span."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(span for span in spans if span[0] <= span[1]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @classmethod
    def parse(cls, text: str) -> PortRanges:
        """Read the kernel's form. Decimal only: the kernel would take 060000 for octal; no blanks: it refuses them."""
        spans = []
        for part in text.strip().split(",") if text.strip() else []:
            match = re.fullmatch(_PART, part)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if first > last or last > LAST_PORT:
                raise ParseError(f"{part!r} is not a port or a range of ports", line_number=1, line=text)
            spans.append((first, last))
        return cls.of(*spans)

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.spans)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __iter__(self) -> Iterator[int]:
        return (port for first, last in self.spans for port in range(first, last + 1))

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and any(first <= port <= last for first, last in self.spans)

    def __or__(self, other: PortRanges) -> PortRanges:
        return PortRanges.of(*self.spans, *other.spans)

    def __and__(self, other: PortRanges) -> PortRanges:
        return PortRanges.of(*((max(a, c), min(b, d)) for a, b in self.spans for c, d in other.spans))

    def __sub__(self, other: PortRanges) -> PortRanges:
        outside, start = [], 0
        for first, last in other.spans:
            outside.append((start, first - 1))
            start = last + 1
        return self & PortRanges.of(*outside, (start, LAST_PORT))

    def covers(self, other: PortRanges) -> bool:
        """Whether every port of the other set is in this one."""
        return not other - self


@record(frozen=True)
class KernelPorts:
    """The ports that the kernel gives to outgoing connections, and those among them that it leaves alone."""

    ephemeral: PortRanges
    reserved: PortRanges


def parse_port_range(text: str) -> PortRanges:
    """Read ip_local_port_range: two numbers, the first and the last."""
    numbers = [int(word) for word in text.split() if re.fullmatch("[0-9]{1,5}", word)]
    if len(numbers) != 2 or len(text.split()) != 2 or max(numbers) > LAST_PORT:
        raise ParseError("ip_local_port_range does not contain two ports", line_number=1, line=text)
    return PortRanges.of((numbers[0], numbers[1]))


@probe
def kernel_ports(host: Host) -> KernelPorts:
    """From the two files below /proc/sys/net/ipv4; they are those of this network namespace."""
    return KernelPorts(parse_port_range(host.read(RANGE_FILE)), PortRanges.parse(host.read(RESERVED_FILE)))


@record(frozen=True, kw_only=True)
class Socket:
    """A socket with a local port; `pid` is None where the owner is not visible to this user."""

    protocol: str
    address: str
    port: int
    status: str
    pid: int | None = None


_HOLDING = frozenset({"LISTEN", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "CLOSE_WAIT", "CLOSE", "NONE"})
"""States in which somebody keeps the port; the others are those of a farewell and pass within two minutes."""


@record(frozen=True)
class Sockets:
    """Every socket of this network namespace that has a local port."""

    sockets: tuple[Socket, ...]

    def holding(self, ports: PortRanges) -> tuple[Socket, ...]:
        """The TCP sockets that keep others from one of these ports."""
        return tuple(
            socket
            for socket in self.sockets
            if socket.protocol == "tcp" and socket.status in _HOLDING and socket.port in ports
        )


def parse_sockets(rows: Iterable[Mapping[str, Any]]) -> Sockets:
    """Read the `sockets` of a recording; a local address without a port is passed over."""
    found = []
    for row in rows:
        address, colon, port = str(row.get("laddr") or "").rpartition(":")
        if not colon or not re.fullmatch("[0-9]+", port):
            continue
        found.append(
            Socket(
                protocol=str(row.get("type") or "tcp"),
                address=address.strip("[]"),
                port=int(port),
                status=str(row.get("status") or "NONE"),
                pid=row.get("pid"),
            )
        )
    return Sockets(tuple(found))


_STATES = {
    "01": "ESTABLISHED", "02": "SYN_SENT", "03": "SYN_RECV", "04": "FIN_WAIT1", "05": "FIN_WAIT2", "06": "TIME_WAIT",
    "07": "CLOSE", "08": "CLOSE_WAIT", "09": "LAST_ACK", "0A": "LISTEN", "0B": "CLOSING", "0C": "SYN_RECV",
}  # fmt: skip


def parse_proc_net_tcp(text: str) -> tuple[Socket, ...]:
    """Read /proc/net/tcp or tcp6, where addresses are words in the byte order of a little-endian machine."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if len(fields) < 4 or fields[0] == "sl":
            continue
        try:
            address, port = fields[1].split(":")
            status = _STATES.get(fields[3].upper(), fields[3])
            found.append(Socket(protocol="tcp", address=_address(address), port=int(port, 16), status=status))
        except ValueError as problem:
            raise ParseError("not a row of /proc/net/tcp", line_number=number, line=line) from problem
    return tuple(found)


def _address(text: str) -> str:
    words = bytes.fromhex(text)
    if len(words) not in (4, 16):
        raise ValueError(text)
    order = struct.pack(f">{len(words) // 4}I", *struct.unpack(f"<{len(words) // 4}I", words))
    return str(IPv4Address(order) if len(order) == 4 else IPv6Address(order))


@probe(of_the_moment=True)
def sockets(host: Host) -> Sockets:
    """With their owners where these can be had, else from /proc/net/tcp and tcp6; these two alone are no recording of
    the sockets, because they tell nothing of who holds a port."""
    try:
        rows = host.measure("sockets")
    except Unavailable as why:
        if why.because is Because.NOT_RECORDED:
            raise
    else:
        if rows is None:
            raise Unavailable("sockets unknown", because=Because.NOT_RECORDED)
        return parse_sockets(rows)
    found = parse_proc_net_tcp(host.read("/proc/net/tcp"))
    with contextlib.suppress(Unavailable):
        found += parse_proc_net_tcp(host.read("/proc/net/tcp6"))
    return Sockets(found)
