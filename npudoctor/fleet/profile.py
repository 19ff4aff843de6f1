"""The profile of the host: what equal nodes have alike in small files and tables of the kernel."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from npudoctor.facts.system.machine import BMC
from npudoctor.host import Host, Unavailable

FILES = {
    "kernel command line": "/proc/cmdline",
    "SMT": "/sys/devices/system/cpu/smt/control",
    "BIOS version": "/sys/class/dmi/id/bios_version",
    "BMC version": BMC,
    "server model": "/sys/class/dmi/id/product_name",
    "somaxconn": "/proc/sys/net/core/somaxconn",
    "tcp_max_syn_backlog": "/proc/sys/net/ipv4/tcp_max_syn_backlog",
    "hugepages": "/proc/sys/vm/nr_hugepages",
    "IPv6 disabled": "/proc/sys/net/ipv6/conf/all/disable_ipv6",
}
"""Small files that are compared by these titles."""

SHARED = ("nfs", "lustre", "gpfs", "ceph", "beegfs", "glusterfs", "cifs", "smb3", "9p", "dpc", "wekafs", "fuse.")
"""How the types of file systems begin that several nodes mount."""
_PRIVATE = ("fuse.gvfsd", "fuse.portal", "fuse.lxcfs", "fuse.snapfuse", "fuse.squashfuse", "nfsd")
_NOTABLE = frozenset({"ro", "noexec", "nosuid"})
_MOST = 200
"""So many network devices are read at most."""
_AT_PAGESZ = 6
"""The entry of the auxiliary vector that is the page size (getauxval(3))."""

Row = tuple[str, tuple[str, ...]]


def of_host(host: Host) -> Iterator[Row]:
    """Titles with values; what cannot be read is left out, and what the node lacks is `none`."""
    for title, path in FILES.items():
        if text := read(host, path):
            if title == "kernel command line":  # which kernel and which disk are compared, or differ, anyway
                text = " ".join(
                    word for word in text.split() if not word.startswith(("BOOT_IMAGE=", "root=", "resume="))
                )
            yield title, (text,)
    if host.exists("/sys/fs/cgroup"):
        yield "cgroup version", ("2" if host.exists("/sys/fs/cgroup/cgroup.controllers") else "1",)
    if host.exists("/sys/kernel/iommu_groups"):
        yield "IOMMU", ("on" if _names(host, "/sys/kernel/iommu_groups") else "off",)
    yield from _page_size(host)
    if host.exists("/proc/net/dev"):
        yield "bonds", tuple(_bonds(host)) or ("none",)
        yield "VLANs", tuple(_vlans(host)) or ("none",)
        yield "virtual functions", tuple(_virtual_functions(host)) or ("none",)
    try:
        yield "shared storage", tuple(shared_storage(host.read("/proc/mounts"))) or ("none",)
    except Unavailable:
        return


def read(host: Host, path: str) -> str | None:
    """A small file as one line; None where it cannot be read."""
    try:
        return " ".join(host.read(path).split())[:500] or None
    except Unavailable:
        return None


def _names(host: Host, path: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(host.list_dir(path)))[:_MOST]
    except Unavailable:
        return ()


def _page_size(host: Host) -> Iterator[Row]:
    try:
        raw = host.read_bytes("/proc/self/auxv", limit=4096)
    except Unavailable:
        return
    for key, value in struct.iter_unpack("@LL", raw[: len(raw) // 16 * 16]):
        if key == _AT_PAGESZ:
            yield "page size", (f"{value} bytes",)


def _bonds(host: Host) -> Iterator[str]:
    for name in _names(host, "/proc/net/bonding"):
        try:
            yield bond(name, host.read(f"/proc/net/bonding/{name}"))
        except Unavailable:
            continue


def bond(name: str, text: str) -> str:
    """One line on a bond, from its file in /proc/net/bonding: mode, and its members with speed, or down."""
    mode, members, member, up, speed = "unknown mode", [], "", False, ""
    for line in [*text.splitlines(), "Slave Interface: "]:
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "Bonding Mode":
            mode = value
        elif key == "Slave Interface":
            if member:
                members.append(f"{member} {speed}" if up else f"{member} down")
            member, up, speed = value, False, ""
        elif member and key == "MII Status":
            up = value == "up"
        elif member and key == "Speed":
            speed = value
    return f"{name}: {mode}, {', '.join(members) or 'no members'}"


def _vlans(host: Host) -> Iterator[str]:
    try:
        lines = host.read("/proc/net/vlan/config").splitlines()
    except Unavailable:
        return
    for line in lines:
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 3 and parts[1].isdigit():
            yield f"{parts[0]}: {parts[1]} on {parts[2]}"


def _virtual_functions(host: Host) -> Iterator[str]:
    for name in _names(host, "/sys/class/net"):
        number = read(host, f"/sys/class/net/{name}/device/sriov_numvfs")
        if number and number != "0":
            yield f"{name}: {number}"


def shared_storage(mounts: str) -> Iterator[str]:
    """The file systems of the network in /proc/mounts: where, type, source and notable options."""
    found = set()
    for line in mounts.splitlines():
        source, _, rest = line.partition(" ")
        place, kind, options = (*rest.split(" "), "", "", "")[:3]
        if kind.startswith(SHARED) and not kind.startswith(_PRIVATE):
            notable = sorted(_NOTABLE & set(options.split(",")))
            found.add(" ".join((f"{place}:", kind, source, *notable)))
    yield from sorted(found)
