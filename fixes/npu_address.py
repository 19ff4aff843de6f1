"""The addresses of the NPUs' network ports, from a table of the site."""

from __future__ import annotations

import csv
import ipaddress
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import Service
from npudoctor.records import record
from npudoctor.sdk import (
    HCCN_CONF,
    HCCN_KEYS,
    CardAddresses,
    Host,
    Note,
    Parameters,
    Refused,
    Step,
    card_settings,
    fix,
    live_address,
    untrusted_writer,
    with_card_settings,
)

from . import messages

COLUMNS = ("host", "device", "address", "netmask", "gateway", "netdetect")
REQUIRED = ("device", "address", "netmask")
LARGEST_BYTES = 4 << 20


@record(frozen=True)
class Addresses(Parameters):
    """`table` is a CSV file with the columns device, address and netmask, and as wanted host, gateway and netdetect.
    `host` is the name of this node in it; empty for its host name."""

    table: str = ""
    host: str = ""


@record(frozen=True)
class Row:
    """One row of the table, with its line."""

    line: int
    host: str
    device: int
    address: str
    netmask: str
    gateway: str
    netdetect: str

    @property
    def values(self) -> tuple[str, str, str, str]:
        """In the order of HCCN_KEYS."""
        return self.address, self.netmask, self.gateway, self.netdetect


@fix("npu.address", resolves=("npu.network",), root=True)
def set_addresses(
    asked: Addresses,
    host: Host,
    devices: NetworkDevices,
    cards: Chips,
    service: Service | None,
    container: Container | None,
) -> Iterator[Step | Note]:
    """Set the network addresses of the NPUs from a table.

    Address, netmask, gateway and detect address of each NPU of this node, by hccn_tool and in /etc/hccn.conf together,
    read back afterwards. What the table does not name stays. The whole table is refused if an address is in it twice
    or lies outside its network. Refused while a job may be running. Undo sets the former values; an NPU that had no
    address keeps the new one until its next reset.
    """
    if container is not None:
        raise Refused(messages.ADDRESSES_OF_HOST.text())
    if service is None or service.in_service:
        raise Refused(messages.IN_SERVICE.text())
    if "950" in cards.families:
        raise Refused(messages.PORTS_OF_DIES.text())
    if not asked.table:
        raise Refused(messages.NAME_TABLE.text(), instead="--set table=/path/of/addresses.csv")
    name = asked.host or host.about.hostname or ""
    rows = [row for row in _table(host, asked.table) if row.host in ("", name, name.partition(".")[0])]
    if not rows:
        raise Refused(messages.NOT_IN_TABLE.text(path=asked.table, name=name), instead="--set host=NAME")
    _must_fit(rows, devices)
    now = {device: live_address(host, str(device)) for device in devices.subjects}
    _must_be_unique_here(rows, now)
    text = host.read(HCCN_CONF) if host.exists(HCCN_CONF) else None
    names = [str(row.device) for row in rows]
    old = card_settings(text or "", names)
    wanted = {
        f"{key}_{row.device}": value or old[f"{key}_{row.device}"]
        for row in rows
        for key, value in zip(HCCN_KEYS, row.values, strict=True)
    }
    content = with_card_settings(text or "", wanted)
    changed = [row for row in rows if any(value and now[row.device][key] != value for key, value in _pairs(row))]
    if content == (text or "") and not changed:
        return
    for row in changed:
        kept, net = now[row.device]["gateway"], ipaddress.IPv4Interface(f"{row.address}/{row.netmask}").network
        if kept and not row.gateway and ipaddress.IPv4Address(kept) not in net:
            problem = messages.OUTSIDE.text(what="gateway", address=kept, network=str(net))
            raise Refused(messages.BAD_ROW.text(path=asked.table, line=row.line, problem=problem))
    left = sorted(set(devices.subjects) - {row.device for row in rows})
    if left:
        yield Note(messages.DEVICES_STAY.text(devices=left))
    new = [row.device for row in changed if not now[row.device]["address"]]
    if new:
        yield Note(messages.NO_FORMER_ADDRESS.text(devices=new))
    yield Note(messages.OTHERS_NEED_THEM.text())
    yield CardAddresses(cards=tuple((str(row.device), *row.values) for row in changed), content=content, replaces=text)


def _pairs(row: Row) -> Iterator[tuple[str, str]]:
    return zip(HCCN_KEYS, row.values, strict=True)


def _table(host: Host, path: str) -> list[Row]:
    """The rows of a table, each by itself and all together as they should be."""
    if not posixpath.isabs(path):
        raise Refused(messages.NOT_A_PATH.text(path=path))
    if host.user.uid == 0 and (problem := untrusted_writer(host, path)):
        raise Refused(messages.TABLE_NOT_TRUSTED.text(problem=problem))
    lines = host.read_bytes(path, limit=LARGEST_BYTES).decode("utf-8-sig", "replace").splitlines()
    kept = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    read = [([cell.strip() for cell in row], number) for row, (number, _) in zip(_cells(kept), kept, strict=True)]
    head = [cell.lower() for cell in read[0][0]] if read else []
    if len(set(head)) != len(head) or not set(REQUIRED) <= set(head) <= set(COLUMNS):
        raise Refused(messages.NO_TABLE.text(path=path, columns=list(COLUMNS)))
    rows = [_row(path, number, head, cells) for cells, number in read[1:]]
    seen: dict[object, int] = {}
    for row in rows:
        device = messages.DEVICE.text(device=row.device)
        for what, key in ((device, (row.host, row.device)), (row.address, row.address)):
            other = seen.setdefault(key, row.line)
            if other != row.line:
                raise Refused(messages.TWICE_IN_TABLE.text(path=path, first=other, second=row.line, what=what))
    return rows


def _cells(kept: Sequence[tuple[int, str]]) -> Iterator[list[str]]:
    for _, line in kept:
        yield next(csv.reader([line]))


def _row(path: str, number: int, head: Sequence[str], cells: Sequence[str]) -> Row:
    """A row; raises Refused, with its line, for one that no port can have."""

    def refusal(problem: str) -> Refused:
        return Refused(messages.BAD_ROW.text(path=path, line=number, problem=problem))

    if len(cells) != len(head):
        raise refusal(messages.OTHER_CELLS.text())
    said = dict(zip(head, cells, strict=True))
    device = said["device"]
    if not (device.isascii() and device.isdigit() and len(device) <= 4):
        raise refusal(messages.NOT_A_DEVICE.text(device=device))
    try:
        own = ipaddress.IPv4Interface(f"{ipaddress.IPv4Address(said['address'])}/{said['netmask']}")
        others = {key: ipaddress.IPv4Address(said[key]) for key in ("gateway", "netdetect") if said.get(key)}
    except ValueError as problem:
        raise refusal(str(problem)) from problem
    net = own.network
    unfit = (net.network_address, net.broadcast_address) if net.prefixlen < 31 else ()
    if (
        own.ip in unfit
        or own.ip.is_multicast
        or own.ip.is_loopback
        or own.ip.is_unspecified
        or not 8 <= net.prefixlen <= 31
    ):
        raise refusal(messages.NOT_FOR_A_PORT.text(address=str(own)))
    gateway = others.get("gateway")
    if gateway is not None and (gateway not in net or gateway in (own.ip, *unfit)):
        raise refusal(messages.OUTSIDE.text(what="gateway", address=str(gateway), network=str(net)))
    detect = others.get("netdetect")
    if detect is not None and (detect == own.ip or (detect not in net and gateway is None)):
        raise refusal(messages.OUTSIDE.text(what="netdetect", address=str(detect), network=str(net)))
    return Row(
        line=number,
        host=said.get("host", ""),
        device=int(device),
        address=str(own.ip),
        netmask=str(net.netmask),
        gateway=str(gateway or ""),
        netdetect=str(detect or ""),
    )


def _must_fit(rows: Sequence[Row], devices: NetworkDevices) -> None:
    unknown = sorted({row.device for row in rows} - set(devices.subjects))
    if unknown:
        raise Refused(messages.NO_SUCH_DEVICES.text(devices=unknown, known=sorted(devices.subjects)))
    if len({row.device for row in rows}) != len(rows):
        raise Refused(messages.DEVICE_FOR_ALL_AND_ONE.text())


def _must_be_unique_here(rows: Sequence[Row], now: Mapping[int, Mapping[str, str]]) -> None:
    """Raise Refused where an NPU that keeps its address has one that the table gives to another."""
    named = {row.device for row in rows}
    for row in rows:
        for device, values in now.items():
            if device not in named and values["address"] == row.address:
                raise Refused(messages.ADDRESS_OF_ANOTHER.text(address=row.address, device=device))
