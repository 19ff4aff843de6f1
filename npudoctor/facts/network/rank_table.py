"""The rank table: which NPU of which host is which rank, where a scheduler or a person has written it down.

Two forms are in use: `server_list` with a rank for each device (1.0, and 1.2 with SuperPoDs), and the older
`group_list`, whose devices have none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.facts.network.interfaces import Address, parse_address
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.records import record
from npudoctor.sdk import Because, Host, NotApplicable, ParseError, Unavailable, probe

VARIABLE = "RANK_TABLE_FILE"
_ADDRESSES = ("host_ip", "container_ip", "server_ip", "pod_ip", "pod_name", "host_nic_ip")


@record(frozen=True, kw_only=True)
class RankDevice:
    """One device of a host; what the table does not say is None."""

    device_id: int | None = None
    device_ip: Address | None = None
    rank: int | None = None


@record(frozen=True, kw_only=True)
class RankServer:
    """One host: its id (usually an address) and its further addresses, and its devices."""

    id: str
    addresses: tuple[str, ...] = ()
    devices: tuple[RankDevice, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All words by which it may be known."""
        return tuple(dict.fromkeys((self.id, *self.addresses)))


@record(frozen=True, kw_only=True)
class RankTable:
    """The table: `stated_servers` is its own count of hosts, `status` what its writer says of it; None where unsaid."""

    servers: tuple[RankServer, ...]
    stated_servers: int | None = None
    status: str | None = None

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """The ranks in the order of the table."""
        return tuple(device.rank for server in self.servers for device in server.devices)


@record(frozen=True, kw_only=True)
class RankTableFile:
    """The file that RANK_TABLE_FILE names. `problem` is a clause that says why HCCL cannot use it as it is;
    `table` is None where it could not be read."""

    path: str
    problem: str | None = None
    table: RankTable | None = None


_NUMBERS = ("server_count", "device_id", "rank_id")
_LISTS = ("server_list", "group_list", "instance_list", "device", "devices")
_NAMES = ("server_id", "device_ip", *_ADDRESSES)
_NAME = r"[\w.:%-]{1,253}"


def reduce_rank_table(text: str) -> str:
    """A rank table as it may be recorded: what `parse` reads of it, and of any other file nothing but its shape."""
    try:
        return json.dumps(_reduce(json.loads(text)))
    except (ValueError, RecursionError) as problem:
        return "\n" * (min(getattr(problem, "lineno", 1), 10_000) - 1) + "?"


def _reduce(said: Any) -> Any:
    """An object with the known keys alone; a value of another kind as a sign that it is one."""
    if not isinstance(said, dict):
        return None
    kept: dict[str, Any] = {}
    for key, value in said.items():
        if key in _LISTS:
            kept[key] = [_reduce(row) for row in value] if isinstance(value, list) else None
        elif key in _NUMBERS and value not in (None, ""):
            kept[key] = value if _is_number(value) else "?"
        elif key in _NAMES and isinstance(value, str) and value:
            kept[key] = value if re.fullmatch(_NAME, value) else "?"
        elif key == "status" and isinstance(value, str):
            kept[key] = value if re.fullmatch(r"\w{1,32}", value) else "?"
    return kept


def _is_number(value: object) -> bool:
    return (
        isinstance(value, (int, str))
        and not isinstance(value, bool)
        and re.fullmatch("[0-9]{1,9}", str(value)) is not None
    )


def parse(text: str) -> RankTable:
    """Read a rank table of either form. An error quotes nothing: the file may be any that a variable names."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ParseError(f"not JSON (line {getattr(problem, 'lineno', 1)})") from None
    if not isinstance(said, dict):
        raise ParseError("not a JSON object")
    rows = said.get("server_list")
    if rows is None:
        rows = [row for group in _list(said, "group_list") for row in _list(group, "instance_list")]
    servers = tuple(map(_server, _rows(rows, "server_list")))
    if not servers:
        raise ParseError("names no server")
    status = said.get("status")
    return RankTable(
        servers=servers,
        stated_servers=_number(said, "server_count"),
        status=status if isinstance(status, str) else None,
    )


def _list(row: Any, key: str) -> list[Any]:
    if not isinstance(row, dict) or not isinstance(row.get(key), list):
        raise ParseError(f"no list {key}")
    return list(row[key])


def _rows(rows: object, key: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(rows, list):
        raise ParseError(f"{key} is not a list")
    for row in rows:
        if not isinstance(row, dict):
            raise ParseError(f"an entry of {key} is not an object")
        yield row


def _server(row: Mapping[str, Any]) -> RankServer:
    addresses = [row.get(key) for key in _ADDRESSES]
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
            raise ParseError("a device_ip is no address of a device")
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
        raise ParseError(f"{key} is not a number")
    return int(value)


@probe
def rank_table_file(host: Host, environment: JobEnvironment) -> RankTableFile:
    """From the file that RANK_TABLE_FILE names."""
    path = environment.non_empty(VARIABLE)
    if path is None:
        raise NotApplicable(f"no rank table: {VARIABLE} is not set")
    if not path.startswith("/"):
        return RankTableFile(path=path, problem="not an absolute path")
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
        return RankTableFile(path=path, problem=f"{path}: {why}")
    return RankTableFile(
        path=path, problem=f"it is a link (to {target}), which HCCL does not follow" if target else None, table=table
    )
