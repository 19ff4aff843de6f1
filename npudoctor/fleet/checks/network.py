"""The network ports of the NPUs, compared across nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_interface

from npudoctor.findings import Finding, FixOffer, Severity
from npudoctor.fleet.checks import messages as say
from npudoctor.fleet.checks._shared import by, differing, names, on, peers, repeated_keys, value_text
from npudoctor.fleet.digest import Npu
from npudoctor.fleet.merge import Fleet, Member, split
from npudoctor.messages import Message
from npudoctor.records import replace
from npudoctor.sdk import check

FEW_WRONG = 0.1
"""Where a larger share of the NPUs is on a wrong switch, the network follows another rule."""
MANY_LINKS = 3
"""From this number of nodes on, links that are down have one cause rather than many."""


def of_all(member: Member, value_of: Callable[[Npu], object]) -> tuple[str, ...] | None:
    """The distinct values of all NPUs of a node; None where none is known."""
    found = {str(value) for npu in member.identity.npus.values() if (value := value_of(npu)) is not None}
    return tuple(sorted(found)) or None


@check("fleet.tls")
def tls(fleet: Fleet) -> Iterator[Finding]:
    """TLS switch of the NPUs on all nodes

    HCCL checks it from HDK 25.2.0 on and only with root info (EI0016); before, links time out without a reason.
    """
    switch = lambda npu: None if npu.tls is None else "on" if npu.tls else "off"  # noqa: E731
    found = split("TLS of the NPUs", "", fleet.members, lambda one: of_all(one, switch), fleet.golden)
    if found is None:
        return
    if found.norm is None:
        yield from (replace(one, fix=FixOffer(id="npu.tls-off")) for one in differing(say.TLS, say.TLS_TIE, [found]))
    for value, having in found.others if found.norm is not None else ():
        said = {"value": " and ".join(value), "norm": " and ".join(found.norm), "peers": peers(found)}
        yield on(say.TLS, names(having), fix="npu.tls-off", **said)


@check("fleet.card-addresses")
def card_addresses(fleet: Fleet) -> Iterator[Finding]:
    """NPU addresses unique and in one network for each index

    HCCL names an address conflict as a cause of links that time out. Super pods may have networks of their own.
    """
    used = [
        ((npu.address, member.identity.super_pod.get("super_pod_id")), member.name, device)
        for member in fleet.members
        for device, npu in member.identity.npus.items()
        if npu.address
    ]
    conflicts = repeated_keys(used, lambda row: row[0], lambda row: f"{row[1]} {row[2]}")
    for same in by(conflicts.items(), lambda item: tuple(sorted({name for _, name, _ in item[1]}))).items():
        nodes, found = same
        (address, _), rows = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        where = [f"{name} NPU {device}" for _, name, device in rows]
        yield on(say.CONFLICT, nodes, address=f"{address}{more}", count=len(rows), where=where)
    for group, members in fleet.groups.items():
        mask_of = lambda one: of_all(one, lambda npu: npu.netmask)  # noqa: E731
        masks = split("netmask of the NPUs", group, members, mask_of, fleet.golden)
        if masks is not None and masks.norm is not None:
            yield from differing(say.PREFIX, say.PREFIX, [masks])
        yield from _per_device(say.SEGMENT, fleet, group, members, _network)


def _network(npu: Npu) -> str | None:
    try:
        return str(ip_interface(f"{npu.address}/{npu.netmask}").network) if npu.address and npu.netmask else None
    except ValueError:
        return None


def _per_device(
    message: Message, fleet: Fleet, group: str, members: list[Member], value_of: Callable[[Npu], str | None]
) -> Iterator[Finding]:
    """What the NPUs of one index have otherwise than those of the other nodes; nodes with the same oddity together."""
    rows = []
    for device in sorted({device for member in members for device in member.identity.npus}):

        def value(member: Member, device: int = device) -> str | None:
            npu = member.identity.npus.get(device)
            return value_of(npu) if npu else None

        found = split(str(device), group, members, value, fleet.golden)
        if found is not None and found.norm is not None:
            rows += [(device, found, odd, having) for odd, having in found.others]
    for having, alike in by(rows, lambda row: names(row[3])).items():
        device, found, odd, _ = alike[0]
        devices = ", ".join(str(one) for one, *_ in alike)
        yield on(
            message, having, device=devices, value=value_text(odd), norm=value_text(found.norm), peers=peers(found)
        )


Cable = tuple[str, int, str]


@check("fleet.rails")
def rails(fleet: Fleet) -> Iterator[Finding]:
    """Switches that the NPUs of each index are connected to

    By LLDP: in a rail-optimised network each switch has the NPUs of one index, in others one switch has all NPUs of
    a node. An NPU is on a wrong switch where nearly all others keep one of these rules.
    """
    for rows, usual in misplaced_cables(cables_of(fleet)):
        name, device, switch = rows[0]
        also = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
        yield on(say.RAIL, [name], device=f"{device}{also}", node=name, switch=switch, usual=usual)
    ports = [
        (f"{npu.switch} {npu.port}", member.name, device)
        for member in fleet.members
        for device, npu in member.identity.npus.items()
        if npu.switch and npu.port
    ]
    twice = repeated_keys(ports, lambda row: row[0], lambda row: row[1])
    for nodes, found in by(twice.items(), lambda item: tuple(dict.fromkeys(row[1] for row in item[1]))).items():
        port, uses = found[0]
        where = [f"{name} NPU {number}" for _, name, number in uses]
        yield on(say.PORT_TWICE, nodes, port=port, count=len(uses), where=where)


def cables_of(fleet: Fleet) -> list[Cable]:
    """Node, NPU and switch of every port whose switch is known."""
    return [
        (member.name, device, npu.switch)
        for member in fleet.members
        for device, npu in member.identity.npus.items()
        if npu.switch
    ]


def misplaced_cables(cables: Sequence[Cable]) -> Iterator[tuple[list[Cable], object]]:
    """The cables of each node that are on a wrong switch, and what is usual for the first of them."""
    at_switch = by(cables, lambda row: row[2])
    rail = {switch: _usual([device for _, device, _ in rows]) for switch, rows in at_switch.items()}
    of_node = {name: _usual([row[2] for row in rows]) for name, rows in by(cables, lambda row: row[0]).items()}
    by_rail = [row for row in cables if rail[row[2]] not in (None, row[1])]
    by_node = [row for row in cables if of_node[row[0]] not in (None, row[2])]
    expected: tuple[Callable[[Cable], object], ...] = (
        lambda row: f"NPUs {rail[row[2]]}",
        lambda row: of_node[row[0]],
    )
    for wrong, usual in zip((by_rail, by_node), expected, strict=True):
        if wrong and len(wrong) <= FEW_WRONG * len(cables):
            for rows in by(wrong, lambda row: row[0]).values():
                yield rows, usual(rows[0])


def _usual(values: Sequence[object]) -> object:
    """What at least three of these, and more than three quarters, are; None where they are too mixed."""
    value, number = Counter(values).most_common(1)[0]
    return value if number >= 3 and 4 * number > 3 * len(values) else None


@check("fleet.link-settings")
def link_settings(fleet: Fleet) -> Iterator[Finding]:
    """Speed, FEC, PFC and state of the NPU links on all nodes"""
    for group, members in fleet.groups.items():
        settings: tuple[tuple[str, Callable[[Npu], object]], ...] = (
            ("link speed in Mbit/s", lambda npu: npu.speed_mbps),
            ("FEC", lambda npu: npu.fec),
            ("PFC", lambda npu: npu.pfc),
        )
        found = [
            one
            for title, of in settings
            if (one := split(title, group, members, lambda member, of=of: of_all(member, of), fleet.golden))  # type: ignore[misc]
        ]
        yield from differing(say.LINK_SETTING, say.LINK_SETTING_TIE, found)
        down = {
            member.name: sum(npu.link is not None and npu.link != "UP" for npu in member.identity.npus.values())
            for member in members
        }
        with_down = [name for name, number in down.items() if number]
        if len(with_down) >= MANY_LINKS:
            yield on(say.LINKS_DOWN, with_down, number=sum(down.values()))


@check("fleet.master-sysctls")
def master_sysctls(fleet: Fleet) -> Iterator[Finding]:
    """Connection queues of the master for the ranks of all nodes

    A job on all these nodes connects every rank to the master at once.
    """
    ranks = sum(len(member.identity.npus) or member.identity.visible.get("npu_smi", 0) for member in fleet.members)
    masters = {member.identity.variables.get("MASTER_ADDR") for member in fleet.members} - {None}
    for name, key in (("somaxconn", "net.core.somaxconn"), ("tcp_max_syn_backlog", "net.ipv4.tcp_max_syn_backlog")):
        low = []
        for member in fleet.members:
            text = next((value[0] for one, value in member.node.features.items() if one.title == name and value), "")
            own = {member.name, member.identity.hostname, *member.identity.addresses}
            is_low = text.isascii() and text.isdigit() and len(text) < 10 and int(text) < ranks
            if is_low and (not masters or masters & own):
                low.append((text, member))
        for text, rows in by(low, lambda row: row[0]).items():
            affected = [member.name for _, member in rows]
            severity = Severity.WARNING if masters else Severity.INFO  # which node is the master is not known
            yield on(
                say.SYSCTL,
                affected,
                severity=severity,
                name=name,
                key=key,
                value=text,
                ranks=ranks,
                needed=_power(ranks),
            )


def _power(number: int) -> int:
    return 1 << max(number - 1, 1).bit_length()
