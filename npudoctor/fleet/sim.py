"""A simulated cluster: the answers of N nodes with seeded noise and planted faults, without a process for each.

The nodes are copies of one simulated node whose names, addresses, neighbours and readings differ as those of real
nodes do: 16 nodes in a rack, a switch for each NPU index in a block of 32 nodes.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from typing import Any

from npudoctor import plugins, sim
from npudoctor.data import to_data
from npudoctor.fleet import describe
from npudoctor.fleet.digest import Digest, RankTable, TableServer
from npudoctor.fleet.merge import Fleet, Reader
from npudoctor.fleet.outcomes import Outcome
from npudoctor.models import adapter
from npudoctor.selection import Selection

SCENARIO = "seed-910b1"
BLOCK = 32
RACK = 16
DEAD = ("route", "permission", "timed-out", "no-npudoctor")


_HOST = {
    "bonds": ["bond0: IEEE 802.3ad Dynamic link aggregation, eth0 25000Mbps, eth1 25000Mbps"],
    "shared storage": ["/data: nfs4 filer:/data"],
}


@functools.cache
def _base(scenario: str) -> dict[str, Any]:
    host = sim.simulate(scenario)
    try:
        digest = describe.of_node(plugins.load(), host, Selection(), name="base")
    finally:
        host.close()
    said: dict[str, Any] = to_data(digest)
    said["features"] += [["host.profile", title, value] for title, value in _HOST.items()]
    return said


def node_name(number: int) -> str:
    """r01n003: rack and node."""
    return f"r{number // RACK + 1:02}n{number + 1:04}"


def fleet(
    count: int, faults: Mapping[str, int], *, seed: int = 0, scenario: str = SCENARIO
) -> tuple[list[str], dict[str, Digest], dict[str, list[str]]]:
    """The names, the answers, and which nodes have which fault.

    Raises KeyError for an unknown fault, and ScenarioError where these nodes have nothing that a fault changes.
    """
    chance = random.Random(seed)  # noqa: S311 - noise, not a secret
    names = [node_name(number) for number in range(count)]
    said = {name: _node(number, name, chance, scenario) for number, name in enumerate(names)}
    free = names[:]
    chance.shuffle(free)
    planted: dict[str, list[str]] = {}
    for fault, number in faults.items():
        plant = FAULTS[fault]
        if fault in _OF_A_SWITCH:
            chosen = [name for name in names[:BLOCK] if name in said]
        else:
            wanted = max(number, 2) if fault in _OF_PAIRS else number  # one node alone equals no other
            chosen = [free.pop() for _ in range(min(wanted, len(free)))]
        planted[fault] = sorted(chosen)
        for place, name in enumerate(planted[fault]):
            if plant is None:
                del said[name]
                continue
            try:
                plant(said[name], place, said[planted[fault][0]])
            except (KeyError, StopIteration):
                raise sim.ScenarioError(f"{scenario}: no part that the fault {fault} changes") from None
    return names, {name: adapter(Digest).validate_python(one) for name, one in said.items()}, planted


def identity_of(base: dict[str, Any], number: int, name: str) -> dict[str, Any]:
    """The identity of one copy of a node: addresses and numbers of its own."""
    pod = {key: number if key == "server_index" else value for key, value in base["super_pod"].items()}
    return {
        **base,
        "hostname": name,
        "machine_id": f"{number:032x}",
        "boot_id": f"{number:08x}-0000",
        "addresses": [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"],
        "super_pod": pod,
        "npus": {
            device: {
                **npu,
                "address": f"29.{int(device) * 16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}",
                "netmask": "255.240.0.0",
                "gateway": f"29.{int(device) * 16}.255.254",
                "port": npu["port"] and f"200GE1/0/{number + 1}",
                "sdid": None if npu["sdid"] is None else npu["sdid"] + (number << 22),
            }
            for device, npu in base["npus"].items()
        },
    }


def _node(number: int, name: str, chance: random.Random, scenario: str) -> dict[str, Any]:
    base = _base(scenario)
    identity = identity_of(base["identity"], number, name)
    for device, npu in identity["npus"].items():
        npu |= {"switch": f"leaf-{number // BLOCK + 1}-{device}", "port": f"200GE1/0/{number % BLOCK + 1}"}
    measures = {
        title: {**one, "values": {key: round(value * chance.gauss(1, 0.01), 1) for key, value in one["values"].items()}}
        for title, one in base["measures"].items()
    }
    report = {**base["report"], "host": {**base["report"]["host"], "hostname": name}}
    return {**base, "name": name, "identity": identity, "measures": measures, "report": report}


# Faults: each changes one node; `first` is the first node of the same fault


def _feature(said: dict[str, Any], title: str, *value: str) -> None:
    said["features"] = [
        [source, each, list(value)] if each == title else [source, each, old] for source, each, old in said["features"]
    ]


def _ports(said: dict[str, Any]) -> list[dict[str, Any]]:
    """The network ports of its NPUs; raises KeyError where it has none."""
    if not said["identity"]["npus"]:
        raise KeyError("npus")
    return list(said["identity"]["npus"].values())


def _drift(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    _feature(said, "driver version", "24.1.0")
    _feature(said, "driver package", "24.1.0")


def _cann(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    _feature(said, "CANN", "8.0.RC2")


def _slow(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    said["measures"]["npu-smi latency"]["values"]["host"] = 9.5


def _hot(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    values = said["measures"]["temperature"]["values"]
    values[next(iter(values))] += 25


def _tls(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    for npu in _ports(said):
        npu["tls"] = 1


def _same_address(said: dict[str, Any], _place: int, first: dict[str, Any]) -> None:
    said["identity"]["npus"]["3"]["address"] = first["identity"]["npus"]["3"]["address"]


def _swap_links(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    one, other = said["identity"]["npus"]["1"], said["identity"]["npus"]["2"]
    for key in ("switch", "port"):
        one[key], other[key] = other[key], one[key]


def _fec(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    for npu in _ports(said):
        npu["fec"] = "no FEC mode"


def _kernel(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    _feature(said, "kernel", "4.19.90-odd.aarch64")


def _bond(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    _feature(said, "bonds", "bond0: IEEE 802.3ad Dynamic link aggregation, eth0 25000Mbps, eth1 down")


def _storage(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    _feature(said, "shared storage", "none")


def _torch(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    _feature(said, "package torch", "2.5.1")


def _variable(said: dict[str, Any], place: int, _first: dict[str, Any]) -> None:
    said["identity"]["variables"] = {**said["identity"]["variables"], "HCCL_IF_IP": f"10.99.0.{place + 1}"}


def _twin(said: dict[str, Any], _place: int, first: dict[str, Any]) -> None:
    for key in ("machine_id", "boot_id"):
        said["identity"][key] = first["identity"][key]


def _clock(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    said["clock"] = {**said["clock"], "timezone": "UTC"}


def _table(said: dict[str, Any], place: int, _first: dict[str, Any]) -> None:
    address = said["identity"]["npus"]["0"]["address"]
    table = RankTable(
        path="/tmp/ranks.json",  # noqa: S108 - a text
        digest="1" if place else "0",
        servers=(TableServer(id=said["name"], devices=((0, address, 0), (1, "29.0.0.1", 0))),),
    )
    said["identity"]["rank_table"] = to_data(table)


def _link_down(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    said["identity"]["npus"]["0"]["link"] = "DOWN"


def _unwell(said: dict[str, Any], _place: int, _first: dict[str, Any]) -> None:
    finding = {"code": "npu.health/alarm", "subject": "npu:2", "severity": "error", "summary": "NPU 2 reports Alarm"}
    results = [
        {**one, "status": "error", "findings": [finding]} if one["check"] == "npu.health" else one
        for one in said["report"]["results"]
    ]
    said["report"] = {**said["report"], "results": results, "verdict": "error", "exit_code": 1}
    said["exit_code"] = 1


FAULTS: Mapping[str, Callable[[dict[str, Any], int, dict[str, Any]], None] | None] = {
    "drift": _drift,
    "cann": _cann,
    "torch": _torch,
    "kernel": _kernel,
    "bond": _bond,
    "storage": _storage,
    "dead": None,
    "slow": _slow,
    "hot": _hot,
    "sick": _unwell,
    "tls": _tls,
    "dup-ip": _same_address,
    "swap": _swap_links,
    "fec": _fec,
    "variable": _variable,
    "twin": _twin,
    "timezone": _clock,
    "rank-table": _table,
    "switch": _link_down,
}
"""What can be planted, by name; `dead` nodes do not answer, `switch` takes a whole block of 32 nodes."""
_OF_A_SWITCH = frozenset({"switch"})
_OF_PAIRS = frozenset({"dup-ip", "twin"})


def merged_fleet(count: int, faults: Mapping[str, int], *, seed: int = 0) -> Fleet:
    """The same cluster as the fact that the checks take."""
    names, digests, _ = fleet(count, faults, seed=seed)
    reader = Reader()
    outcomes = {
        name: Outcome(node=name, kind="answered") if name in digests else outcome(name, place)
        for place, name in enumerate(names)
    }
    members = tuple(reader.member(name, digest, outcomes[name]) for name, digest in digests.items())
    return Fleet(names=tuple(names), outcomes=outcomes, members=members)


def outcome(name: str, place: int) -> Outcome:
    """What became of a node that does not answer."""
    return Outcome(node=name, kind=DEAD[place % len(DEAD)])
