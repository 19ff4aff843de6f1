"""Measurements of this machine, by psutil and from the kernel's files, as they are in host.json of a recording."""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from npudoctor.findings import Because
from npudoctor.host import Unavailable
from npudoctor.host.live import proc
from npudoctor.host.shortage import what_ran_out
from npudoctor.privacy.command_lines import reduce_line

if TYPE_CHECKING:
    from npudoctor.host.live.local import LocalHost

NETWORK_FILESYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "ceph", "beegfs", "9p", "glusterfs", "afs", "dpc"),
        *("fuse.glusterfs", "fuse.juicefs", "fuse.ceph-fuse", "fuse.sshfs"),
    }
)
"""Their server may be gone, and then asking for their size hangs; they are listed without sizes."""

HUAWEI = "0x19e5"


def measure(key: str, host: LocalHost) -> Any:
    """Measure one fact; raises Unavailable where this machine cannot tell, KeyError for a key that is none."""
    try:
        return _MEASURES[key](host)
    except PermissionError as problem:
        raise Unavailable(f"{key}: {problem}", because=Because.NO_RIGHT) from problem
    except OSError as problem:
        if what_ran_out(problem):
            raise
        raise Unavailable(f"{key}: {problem}", because=Because.FAILED) from problem


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as the kernel writes lists: 0-3,8."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{low}-{high}" if low != high else str(low) for low, high in spans)


def _cpu(host: LocalHost) -> dict[str, Any]:
    import psutil

    nodes: dict[str, str] = {}
    with contextlib.suppress(Unavailable):
        for name in host.list_dir("/sys/devices/system/node"):
            if name.startswith("node") and name[4:].isdigit():
                nodes[name[4:]] = host.read(f"/sys/devices/system/node/{name}/cpulist").strip()
    return {
        "logical": psutil.cpu_count(),
        "physical": psutil.cpu_count(logical=False),
        "numa_nodes": nodes,
        "allowed": ranges(os.sched_getaffinity(0)),
    }


def _memory(_: LocalHost) -> dict[str, Any]:
    import psutil

    memory = psutil.virtual_memory()
    return {"total": memory.total, "available": memory.available}


def _mount_table(host: LocalHost) -> list[tuple[str, str, str]]:
    rows = []
    for line in _mounts_of_jobs(host).splitlines():
        fields = line.split()
        if len(fields) >= 4:
            mount = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            rows.append((mount, fields[2], fields[3]))
    return rows


def _mounts_of_jobs(host: LocalHost) -> str:
    """The mount table of those whose environment is judged: a hardened service reads as read-only what they write to.

    A login has that of the first process.
    """
    kind, _, pid = host.about.environment.partition(":")
    with contextlib.suppress(Unavailable):
        if pid := {"pid": pid, "login": "1"}.get(kind, ""):
            return host.read(f"/proc/{pid}/mounts")
    return host.read("/proc/mounts")


def _sizes(mount: str, fstype: str) -> dict[str, int]:
    if fstype in NETWORK_FILESYSTEMS or fstype.startswith("fuse"):
        return {}
    with contextlib.suppress(OSError):
        found = os.statvfs(mount)
        return {
            "total": found.f_blocks * found.f_frsize,
            "free": found.f_bavail * found.f_frsize,
            "files_total": found.f_files,
            "files_free": found.f_favail,
        }
    return {}


def _disks(host: LocalHost) -> list[dict[str, Any]]:
    kinds = {line.split()[-1] for line in host.read("/proc/filesystems").splitlines() if not line.startswith("nodev")}
    kinds |= {"overlay", "zfs", "btrfs"}
    return [
        {"mount": mount, "fstype": fstype, **_sizes(mount, fstype)}
        for mount, fstype, _ in _mount_table(host)
        if fstype in kinds and os.path.isdir(mount)
    ]


def _mounts(host: LocalHost) -> list[dict[str, Any]]:
    rows = []
    for mount, fstype, options in _mount_table(host):
        sizes = _sizes(mount, fstype) if fstype == "tmpfs" or mount == "/" else {}
        rows.append(
            {"mount": mount, "fstype": fstype, "options": options}
            | {key: sizes[key] for key in ("total", "free") if key in sizes}
        )
    return rows


def _interfaces(_: LocalHost) -> list[dict[str, Any]]:
    import psutil

    rows = []
    for name, addresses in psutil.net_if_addrs().items():
        known = [text for one in addresses if (text := _address_of(one)) is not None]
        up, mtu, speed = _state_of(name)
        up = bool(known) if up is None else up
        rows.append({"name": name, "up": up, "addresses": known, "speed_mbps": speed, "mtu": mtu})
    return rows


def _address_of(one: Any) -> str | None:
    """An IP address with the bits of its mask, as far as it has one; None for addresses of other kinds."""
    import ipaddress
    import socket

    if one.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    address = str(one.address).partition("%")[0]
    try:
        return f"{address}/{bin(int(ipaddress.ip_address(one.netmask))).count('1')}" if one.netmask else address
    except ValueError:
        return address


_GET_FLAGS, _GET_MTU = 0x8913, 0x8921
_RUNNING = 0x40
"""From linux/sockios.h and linux/if.h: the flag says what psutil calls up."""


def _state_of(name: str) -> tuple[bool | None, int, int]:
    """Whether an interface is up (None: it does not tell), its MTU in bytes, its speed in Mbit/s; 0 where not told.

    Each is asked by itself: psutil asks all of them for their speed by an ioctl of ethtool, and gives none of them
    where one has no such ioctl, as in a sandbox.
    """
    import fcntl
    import socket
    import struct

    found: dict[int, int | None] = {_GET_FLAGS: None, _GET_MTU: None}
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for question in found:
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asked.fileno(), question, struct.pack("16s24x", os.fsencode(name)[:15]))
                kind = "H" if question == _GET_FLAGS else "i"
                found[question] = struct.unpack_from(kind, answer, 16)[0]
    speed = 0
    with contextlib.suppress(OSError, ValueError), open(f"/sys/class/net/{name}/speed", encoding="ascii") as file:
        speed = max(0, int(file.read(16)))
    flags = found[_GET_FLAGS]
    return None if flags is None else bool(flags & _RUNNING), found[_GET_MTU] or 0, speed


def _sockets(_: LocalHost) -> list[dict[str, Any]]:
    import socket

    import psutil

    families = {socket.AF_INET: "inet", socket.AF_INET6: "inet6"}
    kinds = {socket.SOCK_STREAM: "tcp", socket.SOCK_DGRAM: "udp"}
    rows = []
    for one in psutil.net_connections("inet"):
        if not one.laddr:
            continue
        name = f"[{one.laddr.ip}]" if ":" in one.laddr.ip else one.laddr.ip
        row: dict[str, Any] = {
            "family": families.get(one.family, "inet"),
            "type": kinds.get(one.type, "tcp"),
            "laddr": f"{name}:{one.laddr.port}",
            "status": one.status,
        }
        if one.pid is not None:
            row["pid"] = one.pid
        rows.append(row)
    return sorted(rows, key=lambda row: (row["family"], row["type"], row["laddr"], row["status"], row.get("pid", -1)))


def _processes(_: LocalHost) -> list[dict[str, Any]]:
    return [{**row, "cmdline": list(reduce_line(row["cmdline"]))} for row in proc.processes()]


def _limits(_: LocalHost) -> dict[str, list[int]]:
    kinds = {"nofile": resource.RLIMIT_NOFILE, "memlock": resource.RLIMIT_MEMLOCK}
    kinds |= {"nproc": resource.RLIMIT_NPROC, "core": resource.RLIMIT_CORE}
    return {name: list(resource.getrlimit(kind)) for name, kind in kinds.items()}


def _pci(host: LocalHost) -> list[dict[str, Any]]:
    folder = "/sys/bus/pci/devices"
    rows = []
    for slot in host.list_dir(folder):
        with contextlib.suppress(Unavailable):
            if host.read(f"{folder}/{slot}/vendor").strip() != HUAWEI:
                continue
            rows.append({"slot": slot, "vendor": HUAWEI, **_pci_device(host, f"{folder}/{slot}")})
    return rows


def _pci_device(host: LocalHost, folder: str) -> dict[str, Any]:
    """What is known of one device; a kernel without NUMA has no numa_node."""
    node, driver = "", None
    device = host.read(f"{folder}/device").strip()
    with contextlib.suppress(Unavailable):
        node = host.read(f"{folder}/numa_node").strip()
    with contextlib.suppress(Unavailable):
        driver = host.read_link(f"{folder}/driver")
    return {
        "device": device,
        "numa_node": int(node) if re.fullmatch(r"-?[0-9]{1,9}", node) else -1,
        "driver": driver.rpartition("/")[2] if driver else None,
    }


_OF_GROUPS = {
    "kubepods": "kubernetes",
    "docker": "docker",
    "nerdctl": "containerd",
    "containerd": "containerd",
    "podman": "podman",
    "libpod": "podman",
    "isulad": "isula",
    "lxc": "lxc",
}
_OF_MOUNTS = {
    "/kubelet/pods/": "kubernetes",
    "/io.containerd.grpc.v1.cri/": "kubernetes",
    "/nerdctl/": "containerd",
    "/docker/containers/": "docker",
    "/overlay-containers/": "podman",
    "/isulad/": "isula",
}
"""What the path on the host contains of the files that a runtime mounts on those with the names of hosts."""


def _by_mounts(mountinfo: str) -> str | None:
    """The runtime of a container by who wrote its /etc/hosts: with cgroup v2 its control group has no name there."""
    rows = (line.split(" ") for line in mountinfo.splitlines())
    files = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
    shown = [row[3] for row in rows if len(row) > 4 and row[4] in files]
    return next((name for part, name in _OF_MOUNTS.items() if any(part in path for path in shown)), None)


def _container(host: LocalHost) -> dict[str, str] | None:
    runtime = None
    with contextlib.suppress(Unavailable):
        groups = host.read("/proc/1/cgroup")
        runtime = next((_OF_GROUPS[name] for name in _OF_GROUPS if name in groups), None)
    with contextlib.suppress(Unavailable):
        runtime = runtime or _by_mounts(host.read("/proc/self/mountinfo"))
    if runtime != "kubernetes":  # docker, too, may start the containers of a pod
        if host.exists("/run/.containerenv"):
            runtime = "podman"
        elif host.exists("/.dockerenv"):
            runtime = "docker"
    if "KUBERNETES_SERVICE_HOST" in os.environ and runtime:
        runtime = "kubernetes"
    if runtime is None:
        return None
    return {
        "runtime": runtime,
        "cgroup": "v2" if host.exists("/sys/fs/cgroup/cgroup.controllers") else "v1",
    }


_MEASURES: Mapping[str, Callable[[LocalHost], Any]] = {
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
