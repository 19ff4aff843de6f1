"""Network interfaces with their addresses, and the routes that lead out of this node."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Any

from npudoctor import knowledge
from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

Address = IPv4Address | IPv6Address


@record(frozen=True, kw_only=True)
class Interface:
    """One network interface. `speed_mbps` is in Mbit/s and `mtu` in bytes; None where unknown."""

    name: str
    up: bool
    addresses: tuple[IPv4Interface | IPv6Interface, ...] = ()
    speed_mbps: int | None = None
    mtu: int | None = None

    @property
    def loopback(self) -> bool:
        """Whether it leads nowhere but to this node itself."""
        return self.name == "lo" or self.name.startswith("lo:")

    @property
    def virtual(self) -> bool:
        """Whether its name says that it serves containers or virtual machines of this node."""
        return not self.loopback and self.name.startswith(knowledge.hccl().interface.unfit_prefixes)

    def of_family(self, version: int) -> tuple[Address, ...]:
        """Its addresses of IP version 4 or 6."""
        return tuple(address.ip for address in self.addresses if address.version == version)


@record(frozen=True)
class Interfaces:
    """The network interfaces of this network namespace, in the order in which the kernel has them."""

    interfaces: tuple[Interface, ...]

    def interface(self, name: str) -> Interface | None:
        """The interface with this name."""
        return next((interface for interface in self.interfaces if interface.name == name), None)

    def holding(self, address: Address) -> Interface | None:
        """The interface that has this very address."""
        return next(
            (one for one in self.interfaces if any(own.ip == address for own in one.addresses)),
            None,
        )

    def beside(self, address: Address) -> Interface | None:
        """The interface that is up and in whose subnet this address lies; the smallest subnet wins."""
        found = [
            (own.network.prefixlen, one)
            for one in self.interfaces
            for own in one.addresses
            if one.up and own.version == address.version and address in own.network
        ]
        return max(found, key=lambda pair: pair[0])[1] if found else None


def parse_address(text: str) -> Address | None:
    """An IP address, with a zone (`%eth0`) left out; None for anything else."""
    try:
        return ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None


def parse(rows: Iterable[Mapping[str, Any]]) -> Interfaces:
    """Read the `interfaces` of a recording; a speed of 0 is one that the driver does not tell.

    An address that is none is left out: the other addresses and interfaces stay known.
    """
    found = []
    for row in rows:
        addresses = []
        for text in row.get("addresses") or ():
            with contextlib.suppress(ValueError):
                addresses.append(ip_interface(str(text)))
        found.append(
            Interface(
                name=str(row.get("name")),
                up=bool(row.get("up")),
                addresses=tuple(addresses),
                speed_mbps=row.get("speed_mbps") or None,
                mtu=row.get("mtu") or None,
            )
        )
    return Interfaces(tuple(found))


@probe
def interfaces(host: Host) -> Interfaces:
    """From the kernel."""
    rows = host.measure("interfaces")
    if rows is None:
        raise Unavailable("network interfaces unknown", because=Because.NOT_RECORDED)
    return parse(rows)


@record(frozen=True)
class Routes:
    """IPv4 routes as pairs of a network and the interface that leads to it."""

    routes: tuple[tuple[IPv4Network, str], ...]

    def to(self, address: Address) -> str | None:
        """The interface of the longest route to an address; None where no route leads there."""
        leading = [(network.prefixlen, name) for network, name in self.routes if address in network]
        return max(leading, key=lambda pair: pair[0])[1] if leading else None


def parse_routes(text: str) -> Routes:
    """Read /proc/net/route: addresses and masks as words in the byte order of a little-endian machine."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0] == "Iface":
            continue
        try:
            target, flags, mask = (int(fields[place], 16) for place in (1, 3, 7))
            network = IPv4Network((struct.pack("<I", target), str(IPv4Address(struct.pack("<I", mask)))))
        except (ValueError, IndexError, struct.error) as problem:
            raise ParseError("not a row of /proc/net/route", line_number=number, line=line) from problem
        if flags & 1:
            found.append((network, fields[0]))
    return Routes(tuple(found))


@probe(of_the_moment=True)
def routes(host: Host) -> Routes:
    """From /proc/net/route."""
    return parse_routes(host.read("/proc/net/route"))
