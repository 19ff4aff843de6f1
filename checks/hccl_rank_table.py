"""The rank table that a job was told to use, against this host."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.hccn.probes import PortSettings
from npudoctor.facts.network.hostname import OwnName
from npudoctor.facts.network.interfaces import Address, Interfaces, parse_address
from npudoctor.facts.network.rank_table import VARIABLE, RankServer, RankTable, RankTableFile
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Because, Evidence, Finding, FixOffer, Unavailable, check


@check("hccl.rank-table", requires=(SoftwareStack,), fix="env.profile")
def the_rank_table_fits_this_host(
    environment: JobEnvironment,
    file: RankTableFile | None,
    cards: Chips | None,
    nodes: DeviceNodes | None,
    interfaces: Interfaces | None,
    own: OwnName | None,
    network: PortSettings | None,
    container: Container | None,
) -> Iterator[Finding]:
    """The rank table, where one is named, is whole and fits this host.

    It is often left over from an earlier job: HCCL then builds links to cards and hosts that are not there, and ends
    with EI0003 or EI0004. Without the variable it negotiates.
    """
    if environment.filled(VARIABLE) is None:
        return
    if file is None:
        raise Unavailable("the rank table is not in this recording", because=Because.NOT_RECORDED)
    if file.problem is not None:
        yield _wrong(f"{VARIABLE} cannot be used: {file.problem}", "a regular file with a rank table", file.path)
    if file.table is None:
        return
    unsound = next(_unsound(file.table, environment), None)
    if unsound is not None:
        yield _wrong(f"the rank table {file.path} is not whole: {unsound[0]}", unsound[1], unsound[2])
        return
    if interfaces is None or not interfaces.interfaces:
        raise Unavailable("the addresses of this host are not known", because=Because.NOT_RECORDED)
    server = _server_here(file.table, interfaces, own) or _by_addresses(file.table, network)
    if server is not None:
        yield from _against_devices(file, server, cards, nodes, network)
    elif container is not None and container.host_network is not True:
        raise Unavailable("this container has addresses of its own, so that its host cannot be found in the rank table")
    else:
        own_addresses = {str(each.ip) for one in interfaces.interfaces if not one.loopback for each in one.addresses}
        listed = ", ".join(server.id or "?" for server in file.table.servers[:8])
        yield _wrong(f"the rank table {file.path} does not list this host", ", ".join(sorted(own_addresses)), listed)


def _wrong(summary: str, expected: str, actual: str) -> Finding:
    return Finding(
        summary=summary,
        detail="HCCL reads the table when the first communicator is made: EI0003, EI0004, or links that never come up.",
        hint="Unset it, so that HCCL negotiates, or have the scheduler write a new one.",
        commands=(f"unset {VARIABLE}",),
        evidence=(Evidence(source=VARIABLE, expected=expected, actual=actual),),
        fix=FixOffer(id="env.profile", params={"unset": [VARIABLE]}),
        pitfall="P047",
    )


def _unsound(table: RankTable, environment: JobEnvironment) -> Iterator[tuple[str, str, str]]:
    """What is wrong in the table itself: a clause, what is expected, and what is there."""
    known = knowledge.hccl().more["rank_table"]
    if table.status is not None and table.status.lower() != known["status"]:
        waiting = " (its writer has not finished)" if table.status == known["unfinished_status"] else ""
        yield f"its status is {table.status}{waiting}", known["status"], table.status
    count = len(table.servers)
    if table.stated_servers is not None and table.stated_servers != count:
        yield f"it counts {table.stated_servers} servers and lists {count}", str(count), str(table.stated_servers)
    ranks = [rank for rank in table.ranks if rank is not None]
    total = len(table.ranks)
    if ranks and sorted(ranks) != list(range(total)):
        twice = next((rank for rank in ranks if ranks.count(rank) > 1), None)
        missing = next((rank for rank in range(total) if rank not in ranks), None)
        problem = f"rank {twice} is there twice" if twice is not None else f"rank {missing} is missing"
        yield problem, f"ranks 0 to {total - 1}, each once", ", ".join(map(str, ranks[:32]))
    world = environment.get("WORLD_SIZE", "")
    if world.isdecimal() and total and int(world) != total:
        yield f"it has {total} ranks, and WORLD_SIZE is {world}", world, str(total)
    addresses = [device.device_ip for server in table.servers for device in server.devices if device.device_ip]
    double = next((address for address in addresses if addresses.count(address) > 1), None)
    if double is not None:
        yield f"two devices have the address {double}", "one device for each address", str(double)


def _server_here(table: RankTable, interfaces: Interfaces, own: OwnName | None) -> RankServer | None:
    """The row of this host, by any of its addresses or its name."""
    names = {str(address.ip) for one in interfaces.interfaces for address in one.addresses}
    names |= {own.name, own.name.partition(".")[0]} if own is not None else set()
    return next((server for server in table.servers if names.intersection(server.names)), None)


def _against_devices(
    file: RankTableFile,
    server: RankServer,
    cards: Chips | None,
    nodes: DeviceNodes | None,
    network: PortSettings | None,
) -> Iterator[Finding]:
    present = set(nodes.numbers) if nodes is not None and nodes.numbers else None
    if present is None and cards is not None and cards.count:
        present = set(range(cards.count))
    absent = [one.device_id for one in server.devices if present and one.device_id not in (None, *present)]
    if absent:
        yield _wrong(
            f"the rank table {file.path} gives this host device {absent[0]}, which it does not have",
            f"devices {', '.join(map(str, sorted(present or ())))}",
            ", ".join(str(one.device_id) for one in server.devices),
        )
        return
    configured = _addresses(network)
    for device in server.devices:
        known = configured.get(device.device_id) if device.device_id is not None else None
        if known is not None and device.device_ip is not None and known != device.device_ip:
            yield _wrong(
                f"the rank table {file.path} gives device {device.device_id} the address {device.device_ip}; it has "
                f"{known}",
                str(known),
                str(device.device_ip),
            )
            return


def _addresses(network: PortSettings | None) -> dict[int, Address]:
    """The addresses of the devices' network ports as /etc/hccn.conf sets them."""
    found = {}
    for number, settings in network.by_device.items() if network is not None else ():
        address = parse_address(settings.get("address", ""))
        if address is not None:
            found[number] = address
    return found


def _by_addresses(table: RankTable, network: PortSettings | None) -> RankServer | None:
    """The host by the addresses of its cards, where its own addresses do not tell."""
    known = set(_addresses(network).values())
    return next(
        (server for server in table.servers if any(device.device_ip in known for device in server.devices)), None
    )
