"""The rank table that RANK_TABLE_FILE names, against this host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.cann.startup_files import StartupFiles
from npudoctor.facts.network.hostname import OwnName
from npudoctor.facts.network.interfaces import Interfaces
from npudoctor.facts.network.rank_table import VARIABLE, RankServer, RankTable, RankTableFile
from npudoctor.facts.network.table_addresses import TableAddresses
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Because, Evidence, Finding, Message, Unavailable, check

from ._setting_lines import naming_lines
from .messages import hccl as messages


@check("hccl.rank-table", requires=(SoftwareStack,), fix="env.profile")
def the_rank_table_fits_this_host(
    environment: JobEnvironment,
    file: RankTableFile | None,
    cards: Chips | None,
    nodes: DeviceNodes | None,
    interfaces: Interfaces | None,
    own: OwnName | None,
    network: TableAddresses | None,
    container: Container | None,
    startup: StartupFiles | None,
) -> Iterator[Finding]:
    """Rank table complete and valid for this host.

    It is often left over from an earlier job: HCCL then connects to devices and hosts that do not exist, and ends with
    EI0003 or EI0004. Without RANK_TABLE_FILE it negotiates.
    """
    for found in _problems(environment, file, cards, nodes, interfaces, own, network, container):
        yield naming_lines(found, startup, environment, VARIABLE)


def _problems(
    environment: JobEnvironment,
    file: RankTableFile | None,
    cards: Chips | None,
    nodes: DeviceNodes | None,
    interfaces: Interfaces | None,
    own: OwnName | None,
    network: TableAddresses | None,
    container: Container | None,
) -> Iterator[Finding]:
    if environment.non_empty(VARIABLE) is None:
        return
    if file is None:
        raise Unavailable(messages.TABLE_NOT_RECORDED.text(), because=Because.NOT_RECORDED)
    if file.problem is not None:
        expected = messages.TABLE_FILE.text()
        yield _wrong_finding(messages.TABLE_UNUSABLE, expected, file.path, name=VARIABLE, problem=file.problem)
    if file.table is None:
        return
    inconsistent = next(_inconsistent_findings(file.path, file.table, environment), None)
    if inconsistent is not None:
        yield inconsistent
        return
    if interfaces is None or not interfaces.interfaces:
        raise Unavailable(messages.ADDRESSES_UNKNOWN.text(), because=Because.NOT_RECORDED)
    server = _server_here(file.table, interfaces, own) or _by_addresses(file.table, network)
    if server is not None:
        yield from _against_devices(file, server, cards, nodes, network)
    elif container is not None and container.host_network is not True:
        raise Unavailable(messages.TABLE_FOR_HOST.text())
    else:
        own_addresses = {str(each.ip) for one in interfaces.interfaces if not one.loopback for each in one.addresses}
        listed = ", ".join(server.id or "?" for server in file.table.servers[:8])
        yield _wrong_finding(messages.TABLE_WITHOUT_HOST, ", ".join(sorted(own_addresses)), listed, path=file.path)


def _wrong_finding(message: Message, expected: str, actual: str, **params: Any) -> Finding:
    return message.finding(
        detail=messages.READ_AT_START.text(),
        hint=messages.UNSET_OR_REWRITE.text(),
        commands=(f"unset {VARIABLE}",),
        evidence=(Evidence(source=VARIABLE, expected=expected, actual=actual),),
        **params,
    )


def _inconsistent_findings(path: str, table: RankTable, environment: JobEnvironment) -> Iterator[Finding]:
    """What is wrong in the table itself."""
    known = knowledge.hccl().more["rank_table"]
    if table.status is not None and table.status.lower() != known["status"]:
        message = messages.TABLE_STATUS
        if table.status == known["unfinished_status"]:
            message = messages.TABLE_UNFINISHED
        yield _wrong_finding(message, known["status"], table.status, path=path, status=table.status)
    stated, count = table.stated_servers, len(table.servers)
    if stated is not None and stated != count:
        yield _wrong_finding(
            messages.TABLE_SERVER_COUNT, str(count), str(stated), path=path, stated=stated, count=count
        )
    ranks = [rank for rank in table.ranks if rank is not None]
    total = len(table.ranks)
    if ranks and sorted(ranks) != list(range(total)):
        expected, listed = messages.RANKS_ONCE.text(last=total - 1), ", ".join(map(str, ranks[:32]))
        twice = next((rank for rank in ranks if ranks.count(rank) > 1), None)
        missing = next((rank for rank in range(total) if rank not in ranks), None)
        if twice is not None:
            yield _wrong_finding(messages.TABLE_RANK_TWICE, expected, listed, path=path, rank=twice)
        else:
            yield _wrong_finding(messages.TABLE_RANK_MISSING, expected, listed, path=path, rank=missing)
    world = environment.get("WORLD_SIZE", "")
    if world.isdecimal() and total and int(world) != total:
        yield _wrong_finding(messages.TABLE_WORLD_SIZE, world, str(total), path=path, count=total, world=world)
    addresses = [device.device_ip for server in table.servers for device in server.devices if device.device_ip]
    double = next((address for address in addresses if addresses.count(address) > 1), None)
    if double is not None:
        once = messages.ADDRESS_ONCE.text()
        yield _wrong_finding(messages.TABLE_ADDRESS_TWICE, once, str(double), path=path, address=double)


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
    network: TableAddresses | None,
) -> Iterator[Finding]:
    present = set(nodes.numbers) if nodes is not None and nodes.numbers else None
    if present is None and cards is not None and cards.count:
        present = set(range(cards.count))
    absent = [one.device_id for one in server.devices if present and one.device_id not in (None, *present)]
    if absent:
        yield _wrong_finding(
            messages.TABLE_DEVICE_MISSING,
            messages.DEVICES.text(numbers=sorted(present or ())),
            ", ".join(str(one.device_id) for one in server.devices),
            path=file.path,
            device=absent[0],
        )
        return
    configured = network.by_device if network is not None else {}
    for device in server.devices:
        known = configured.get(device.device_id) if device.device_id is not None else None
        if known is not None and device.device_ip is not None and known[0] != device.device_ip:
            yield _wrong_finding(
                messages.TABLE_DEVICE_ADDRESS,
                f"{known[0]} ({known[1]})",
                str(device.device_ip),
                path=file.path,
                device=device.device_id,
                address=device.device_ip,
                configured=known[0],
            )
            return


def _by_addresses(table: RankTable, network: TableAddresses | None) -> RankServer | None:
    """The host by the addresses of its NPUs, where its own addresses are not listed."""
    known = {address for address, _ in network.by_device.values()} if network is not None else set()
    return next(
        (server for server in table.servers if any(device.device_ip in known for device in server.devices)), None
    )
