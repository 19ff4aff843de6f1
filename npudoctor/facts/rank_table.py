"""The rank table: which card of which host is which rank, where a scheduler or a person has written it down.

Two forms are in use: `server_list` with a rank for each device (1.0, and 1.2 with SuperPoDs), and the older
`group_list`, whose devices have none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.facts.environment import JobEnvironment
from npudoctor.facts.interfaces import Address, parse_address
from npudoctor.records import dataclass
from npudoctor.sdk import Because, Host, NotApplicable, ParseError, Unavailable, probe

VARIABLE = "RANK_TABLE_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDevice:
    """One device of a host; what the table does not say is None."""

    device_id: int | None = None
    device_ip: Address | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankServer:
    """One host: its id (an address as a rule) and its further addresses, and its devices."""

    id: str
    addresses: tuple[str, ...] = ()
    devices: tuple[RankDevice, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All words by which it may be known."""
        return tuple(dict.fromkeys((self.id, *self.addresses)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTable:
    """The table: `stated_servers` is its own count of hosts, `status` what its writer says of it; None where unsaid."""

    servers: tuple[RankServer, ...]
    stated_servers: int | None = None
    status: str | None = None

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """The ranks in the order of the table."""
        return tuple(device.rank for server in self.servers for device in server.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTableFile:
    """The file that RANK_TABLE_FILE names. `problem` is a clause that says why HCCL cannot use it as it lies there;
    `table` is None where it could not be read."""

    path: str
    problem: str | None = None
    table: RankTable | None = None


def parse(text: str) -> RankTable:
    """Read a rank table of either form."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ParseError(f"it is not JSON: {problem}") from None
    if not isinstance(said, dict):
        raise ParseError("it is no JSON object", line_number=1, line=text[:80])
    rows = said.get("server_list")
    if rows is None:
        rows = [row for group in _list(said, "group_list") for row in _list(group, "instance_list")]
    servers = tuple(map(_server, _rows(rows, "server_list")))
    if not servers:
        raise ParseError("it names no server", line_number=1, line=text[:80])
    status = said.get("status")
    return RankTable(
        servers=servers,
        stated_servers=_number(said, "server_count"),
        status=status if isinstance(status, str) else None,
    )


def _list(row: Any, key: str) -> list[Any]:
    if not isinstance(row, dict) or not isinstance(row.get(key), list):
        raise ParseError(f"it has no list {key}")
    return list(row[key])


def _rows(rows: object, key: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(rows, list):
        raise ParseError(f"its {key} is no list")
    for row in rows:
        if not isinstance(row, dict):
            raise ParseError(f"an entry of its {key} is no object: {str(row)[:60]!r}")
        yield row


def _server(row: Mapping[str, Any]) -> RankServer:
    addresses = [row.get(key) for key in ("host_ip", "container_ip", "server_ip", "pod_ip", "pod_name", "host_nic_ip")]
    return RankServer(
        id=str(row.get("server_id") or ""),
        addresses=tuple(str(address) for address in addresses if address and isinstance(address, str)),
        devices=tuple(map(_device, _rows(row.get("device", row.get("devices", [])), "device"))),
    )


def _device(row: Mapping[str, Any]) -> RankDevice:
    text = row.get("device_ip")
    address = None
    if isinstance(text, str) and text:
        address = parse_address(text)
        if address is None:
            raise ParseError(f"{text[:60]!r} is no address of a device")
    return RankDevice(device_id=_number(row, "device_id"), device_ip=address, rank=_number(row, "rank_id"))


def _number(row: Mapping[str, Any], key: str) -> int | None:
    value = row.get(key)
    if value is None or value == "":
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, str))
        or not str(value).isdecimal()
        or len(str(value)) > 9
    ):
        raise ParseError(f"{key} is no number: {str(value)[:60]!r}")
    return int(value)


@probe
def rank_table_file(host: Host, environment: JobEnvironment) -> RankTableFile:
    """From the file that RANK_TABLE_FILE names."""
    path = environment.filled(VARIABLE)
    if path is None:
        raise NotApplicable(f"no rank table is named: {VARIABLE} is not set")
    if not path.startswith("/"):
        return RankTableFile(path=path, problem="it is no absolute path")
    target = host.read_link(path)
    try:
        kind = host.stat(path).kind
        text = host.read(path) if kind == "file" else ""
    except Unavailable as why:
        if why.because is Because.NOT_RECORDED:
            raise
        return RankTableFile(path=path, problem=why.reason)
    if kind != "file":
        return RankTableFile(path=path, problem=f"{path} is no regular file")
    try:
        table = parse(text)
    except ParseError as why:
        return RankTableFile(path=path, problem=f"{path} is no rank table: {why}")
    return RankTableFile(
        path=path, problem=f"it is a link (to {target}), which HCCL does not follow" if target else None, table=table
    )
