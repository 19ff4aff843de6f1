"""What HCCL takes for its host side: which ports, which interface, and how its variables spell that."""

from __future__ import annotations

import re
from collections.abc import Mapping

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.network.interfaces import Address, Interface, Interfaces, parse_address
from npudoctor.facts.network.ports import LAST_PORT, PortRanges
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.slices import NO_HCCL
from npudoctor.facts.versions import CannVersion
from npudoctor.records import record
from npudoctor.sdk import NotApplicable, ParseError, Unavailable, probe

BASE_PORT = "HCCL_IF_BASE_PORT"
HOST_RANGE = "HCCL_HOST_SOCKET_PORT_RANGE"
NPU_RANGE = "HCCL_NPU_SOCKET_PORT_RANGE"
IF_IP, IFNAME, FAMILY = "HCCL_IF_IP", "HCCL_SOCKET_IFNAME", "HCCL_SOCKET_FAMILY"


@record(frozen=True, kw_only=True)
class HcclPorts:
    """The host ports of HCCL: `certain` are taken by the installed release, `possible` by some release or document.

    `source` is the variable that says so, with its value, or a clause. With `automatic` the kernel chooses. `count` is
    how many the installed release takes from the base port on, None where not known.
    """

    certain: PortRanges
    possible: PortRanges
    source: str
    automatic: bool = False
    count: int | None = None


def parse_base_port(text: str) -> int:
    """Read HCCL_IF_BASE_PORT: digits, 1024 to 65520."""
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ParseError(f"{text!r} is not a number")
    known = knowledge.hccl().ports
    if not known.base_min <= int(text) <= known.base_max:
        raise ParseError(f"{text} is not between {known.base_min} and {known.base_max}")
    return int(text)


def count_taken(version: CannVersion | None) -> int | None:
    """How many host ports a CANN release takes; None where the release is not known."""
    if version is None:
        return None
    known = knowledge.hccl().ports
    return known.full_count if version >= CannVersion.parse(known.full_from_cann) else known.certain_count


def parse_port_list(text: str) -> PortRanges:
    """Read HCCL_HOST_SOCKET_PORT_RANGE: ports and ranges from 1 to 65535 that do not overlap; blanks do not count.

    `auto` and blanks alone are the empty set.
    """
    bare = text.replace(" ", "")
    if bare in ("", "auto"):
        return PortRanges()
    spans: list[tuple[int, int]] = []
    for part in bare.split(","):
        match = re.fullmatch("([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if match is None:
            raise ParseError(f"{part!r} is neither a port nor a range of ports such as 60000-60031")
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise ParseError(f"the range {part} ends before it starts")
        if first < 1 or last > LAST_PORT:
            raise ParseError(f"{part} is not between 1 and {LAST_PORT}")
        if any(first <= b and a <= last for a, b in spans):
            raise ParseError(f"{part} overlaps another part")
        spans.append((first, last))
    return PortRanges.of(*spans)


def host_ports(environment: Mapping[str, str], count: int | None) -> HcclPorts:
    """The ports that these variables lead to; `count` is how many the installed release takes, None where not known.

    Raises ParseError for a value that HCCL would refuse.
    """
    stated = environment.get(HOST_RANGE, "")
    if stated.strip():
        listed = parse_port_list(stated)
        return HcclPorts(
            certain=listed, possible=listed, source=f"{HOST_RANGE}={stated}", automatic=stated.strip() == "auto"
        )
    known = knowledge.hccl().ports
    text = environment.get(BASE_PORT, "")
    base = parse_base_port(text) if text else known.base
    return HcclPorts(
        certain=ports_from(base, count or known.certain_count),
        possible=ports_from(base, known.full_count),
        source=f"{BASE_PORT}={text}" if text else f"HCCL's default, from {known.base} on",
        count=count,
    )


@probe(of_the_moment=True)
def hccl_ports(environment: JobEnvironment | None, cann: Cann | None, cards: Chips | None) -> HcclPorts:
    """From the job's variables and the installed CANN; without variables, HCCL's default. Slices have no HCCL."""
    if cards is not None and cards.only_slices:
        raise NotApplicable(NO_HCCL)
    release = cann.chosen if cann else None
    try:
        return host_ports(environment or {}, count_taken(release.version if release else None))
    except ParseError as problem:
        reason = f"HCCL's port variables are not legal: {problem.problem}"
        raise Unavailable(reason, blocked_by="hccl.base-port") from None


def ports_from(base: int, count: int) -> PortRanges:
    """So many ports from a base on, as far as there are ports."""
    return PortRanges.of((base, min(base + count - 1, LAST_PORT)))


@record(frozen=True, kw_only=True)
class NameRule:
    """HCCL_SOCKET_IFNAME: beginnings of names, or whole names with `exact`; `inverted` takes all others."""

    names: tuple[str, ...]
    exact: bool = False
    inverted: bool = False

    @classmethod
    def parse(cls, text: str) -> NameRule:
        """Read `eth,enp`, `=eth0`, `^docker` or `^=eth0`."""
        bare = text.strip()
        inverted = bare.startswith("^")
        exact = bare[inverted:].startswith("=")
        names = tuple(name for part in bare[inverted + exact :].split(",") if (name := part.strip()))
        if not names:
            raise ParseError(f"{text!r} names no interface")
        return cls(names=names, exact=exact, inverted=inverted)

    def takes(self, name: str) -> bool:
        """Whether the rule lets HCCL use the interface of this name."""
        named = name in self.names if self.exact else name.startswith(self.names)
        return named is not self.inverted


@record(frozen=True)
class Choice:
    """An interface and the address on it."""

    interface: Interface
    address: Address


def choose(interfaces: Interfaces, rule: NameRule | None = None, family: int = 4) -> Choice | None:
    """The interface that HCCL takes: with a rule the first one that it lets pass, else the first by name that is
    neither docker's nor the loopback, then docker's, then the loopback. An address of IP version `family` comes first,
    then one of the other version (FindHostIpByIfName and FindHostIPByNicClass in HCCL's bootstrap_ip.cc). None where
    there is nothing to take."""
    named = [one for one in interfaces.interfaces if one.up and (rule is None or rule.takes(one.name))]
    if rule is None:
        named.sort(key=lambda one: (_rank(one.name), one.name))
    for version in (family, 10 - family):
        for one in named:
            if addresses := one.of_family(version):
                return Choice(one, addresses[0])
    return None


def _rank(name: str) -> int:
    return 2 if name.startswith("lo") else 1 if name.startswith("docker") else 0


def choose_interface(environment: Mapping[str, str], interfaces: Interfaces) -> Choice | None:
    """What HCCL takes under these variables: HCCL_IF_IP goes before HCCL_SOCKET_IFNAME, and that before the default."""
    if text := environment.get(IF_IP):
        address = parse_address(text)
        interface = interfaces.holding(address) if address else None
        return Choice(interface, address) if interface and address else None
    rule = None
    if text := environment.get(IFNAME):
        try:
            rule = NameRule.parse(text)
        except ParseError:
            return None
    return choose(interfaces, rule, family_of(environment))


def family_of(environment: Mapping[str, str]) -> int:
    """The IP version that HCCL_SOCKET_FAMILY asks for, 4 without it."""
    return 6 if environment.get(FAMILY, "").strip() == "AF_INET6" else 4


def candidates(interfaces: Interfaces, family: int = 4) -> tuple[Interface, ...]:
    """The interfaces that can lead to other nodes: up, with an address, not the loopback, not for containers."""
    return tuple(
        one for one in interfaces.interfaces if one.up and one.of_family(family) and not (one.loopback or one.virtual)
    )
