"""What psutil would tell on the simulated node, in the shapes of a bundle's host.json, worked out when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from npudoctor.sim.driver import MOUNTED
from npudoctor.sim.node import Node

_DISK_BYTES = 944892805120
_LIMITS = {"nofile": (1048576, 1048576), "memlock": (-1, -1), "nproc": (4124516, 4124516), "core": (0, -1)}


class Measures(Mapping[str, Any]):
    """The measurements of a node by the keys of host.json; `limits` are those that a new login has got."""

    def __init__(self, node: Node, limits: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._node = node
        self._limits = limits or {}
        self._made = {key: make for key, make in _MEASURES.items() if key != "container" or node.scenario.container}

    def __getitem__(self, key: str) -> Any:
        found = self._made[key](self._node)
        return {**found, **{name: list(pair) for name, pair in self._limits.items()}} if key == "limits" else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _cpu(node: Node) -> dict[str, Any]:
    return {
        "logical": node.cpus,
        "physical": node.cpus,
        "numa_nodes": dict(node.product.numa_nodes),
        "allowed": f"0-{node.cpus - 1}",
    }


def _memory(node: Node) -> dict[str, Any]:
    total = node.memory_bytes
    return {"total": total, "available": total - (node.scenario.memory_used_gib << 30)}


def _disks(node: Node) -> list[dict[str, Any]]:
    kind = "overlay" if node.scenario.container else "ext4"
    free = int(node.scenario.disk_free_gib * (1 << 30))
    inodes = {"files_total": 58720256, "files_free": 55123456}
    return [{"mount": "/", "fstype": kind, "total": _DISK_BYTES, "free": free, **inodes}]


def _mounts(node: Node) -> list[dict[str, Any]]:
    root = {key: value for key, value in _disks(node)[0].items() if not key.startswith("files")}
    shm = node.shm_bytes
    found = [
        {**root, "options": "rw,relatime"},
        {
            "mount": "/dev/shm",  # noqa: S108
            "fstype": "tmpfs",
            "options": f"rw,nosuid,nodev,size={shm >> 10}k",
            "total": shm,
            "free": shm,
        },
    ]
    box = node.scenario.container
    if box is not None and box.driver_files:
        found += [{**root, "mount": path, "fstype": "ext4", "options": "ro,relatime"} for path in MOUNTED]
    return found


def _interfaces(node: Node) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "up": one.up,
            "addresses": list(one.addresses),
            "speed_mbps": one.speed,
            "mtu": one.mtu,
        }
        for one in node.interfaces
    ]


def _sockets(node: Node) -> list[dict[str, Any]]:
    return [
        {"family": "inet", "type": "tcp", "laddr": place, "status": "LISTEN", "pid": process.pid}
        for process in node.living_processes()
        for place in process.listen
    ]


def _processes(node: Node) -> list[dict[str, Any]]:
    return [
        {
            "pid": process.pid,
            "ppid": process.ppid,
            "name": process.name,
            "username": process.user,
            "status": process.status,
            "cmdline": list(process.cmdline),
            "create_time": process.started,
        }
        for process in sorted(node.living_processes(), key=lambda process: process.pid)
    ]


def _limits(node: Node) -> dict[str, Any]:
    return {name: list(pair) for name, pair in {**_LIMITS, **node.scenario.limits}.items()}


def _pci(node: Node) -> list[dict[str, Any]]:
    found = {
        chip.bus_id: {
            "slot": chip.bus_id,
            "vendor": "0x19e5",
            "device": node.product.device_id,
            "numa_node": chip.numa_node,
            "driver": "devdrv_device_driver" if node.has_driver else None,
        }
        for chip in node.chips_at("pci")
    }
    return [found[slot] for slot in sorted(found)]


def _container(node: Node) -> dict[str, Any]:
    box = node.scenario.container
    assert box is not None
    return {"runtime": box.runtime, "cgroup": box.cgroup}


_MEASURES: dict[str, Callable[[Node], Any]] = {
    "cpu": _cpu,
    "memory": _memory,
    "disks": _disks,
    "mounts": _mounts,
    "interfaces": _interfaces,
    "sockets": _sockets,
    "processes": _processes,
    "limits": _limits,
    "pci": _pci,
    "container": _container,
}
