"""The simulated node's own files: /etc, /proc and /sys, as far as somebody looks at them."""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Iterator
from functools import partial

from npudoctor.host.simulated.tree import Content
from npudoctor.sim import driver, kernel
from npudoctor.sim.node import BOOTED, NOW, Chip, Node
from npudoctor.sim.scenario import Interface

SYSCTL_FILE = "/etc/sysctl.d/60-hccl-ports.conf"
FOLDERS = ("/tmp", "/run", "/var/log", "/etc/profile.d", "/etc/sysctl.d", "/etc/security/limits.d", "/boot")  # noqa: S108
"""Folders that are there although nothing may be in them."""


def files(node: Node) -> Iterator[tuple[str, Content]]:
    """Every file of the operating system."""
    yield from _etc(node)
    yield from _proc(node)
    yield from _sys(node)
    yield from _firmware(node)
    if node.scenario.container is None:
        for release in filter(None, (node.kernel, node.scenario.next_kernel)):
            yield f"/boot/vmlinuz-{release}", ""
            yield f"/lib/modules/{release}/modules.dep", ""
            yield f"/lib/modules/{release}/build/Makefile", ""
            yield f"/lib/modules/{release}/build/Makefile", ""
        yield "/boot/grub2/grubenv", f"# GRUB Environment Block\nsaved_entry={_saved_entry(node)}\n"
    yield "/usr/sbin/usermod", ""
    yield "/usr/bin/gpasswd", ""
    yield f"{node.home}/.bashrc", "# .bashrc\n[ -f /etc/bashrc ] && . /etc/bashrc\n"


def _saved_entry(node: Node) -> str:
    """The title of the menu entry that boots next."""
    return f"{node.system.name} ({node.scenario.next_kernel or node.kernel}) {node.system.version}"


def _etc(node: Node) -> Iterator[tuple[str, Content]]:
    name, system = node.scenario.hostname, node.system
    yield "/etc/hostname", f"{name}\n"
    address = next((one.addresses[0] for one in node.interfaces[1:] if one.addresses), "127.0.0.1/8")
    yield "/etc/hosts", f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n{address.partition('/')[0]}\t{name}\n"
    yield (
        "/etc/os-release",
        f'NAME="{system.name}"\nVERSION="{system.version}"\nID="{system.id}"\nVERSION_ID="{system.version_id}"\n'
        f'PRETTY_NAME="{system.pretty}"\n',
    )
    yield "/etc/sysctl.conf", "# settings are in /usr/lib/sysctl.d, /run/sysctl.d and /etc/sysctl.d\n"
    yield "/usr/lib/sysctl.d/50-default.conf", "kernel.sysrq = 16\nnet.ipv4.conf.all.rp_filter = 2\n"
    reserved = node.sysctl[kernel.RESERVED_PORTS]
    if reserved and node.scenario.container is None:
        yield SYSCTL_FILE, f"# host ports of HCCL\n{kernel.RESERVED_PORTS} = {reserved}\n"
    yield "/etc/group", _groups(node)
    yield "/etc/passwd", _users(node)


def _groups(node: Node) -> str:
    groups = {"root": 0, "HwHiAiUser": node.scenario.node_group, **node.scenario.user.groups}
    if node.product.name == "none":
        del groups["HwHiAiUser"]
    primary = next(iter(node.scenario.user.groups), "")
    members = {name: node.user.name for name in node.scenario.user.groups if name != primary}
    return "".join(f"{name}:x:{gid}:{members.get(name, '')}\n" for name, gid in groups.items())


def _users(node: Node) -> str:
    lines = ["root:x:0:0:root:/root:/bin/bash"]
    if node.product.name != "none":
        lines.append(f"HwHiAiUser:x:1000:{node.scenario.node_group}::/home/HwHiAiUser:/bin/bash")
    if node.user.uid:
        lines.append(f"{node.user.name}:x:{node.user.uid}:{node.user.gid}::{node.home}:/bin/bash")
    return "".join(f"{line}\n" for line in lines)


def _firmware(node: Node) -> Iterator[tuple[str, Content]]:
    """What the server's firmware reports of it."""
    folder = "/sys/class/dmi/id"
    yield f"{folder}/sys_vendor", "Huawei\n"
    yield f"{folder}/product_name", "TaiShan 200\n" if node.product.name == "none" else f"{node.product.name}\n"
    yield f"{folder}/bios_version", "1.80\n"
    yield f"{folder}/bios_date", "03/14/2025\n"


def _proc(node: Node) -> Iterator[tuple[str, Content]]:
    for key in node.sysctl:
        yield kernel.path_of(key), partial(_setting, node, key)
    yield "/proc/sys/kernel/osrelease", f"{node.kernel}\n"
    yield "/proc/sys/kernel/hostname", f"{node.scenario.hostname}\n"
    yield "/proc/version", f"Linux version {node.kernel} (gcc version 10.3.1) #1 SMP Mon Jul 14 10:21:07 CST 2025\n"
    yield "/proc/uptime", f"{NOW - BOOTED:.2f} {(NOW - BOOTED) * node.cpus * 0.97:.2f}\n"
    yield "/proc/stat", f"cpu  118234 0 99817 41233918 1021 0 2311 0 0 0\nbtime {BOOTED:.0f}\nprocesses 918244\n"
    yield "/proc/loadavg", "0.42 0.37 0.40 1/3120 918244\n"
    total = node.memory_bytes >> 10
    free = total - (node.scenario.memory_used_gib << 20)
    yield "/proc/meminfo", f"MemTotal: {total} kB\nMemAvailable: {free} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
    yield "/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    yield "/proc/net/tcp", lambda: _tcp(node)
    yield "/proc/net/tcp6", TCP_TITLE
    yield "/proc/net/route", _routes(node)
    rows = (f"{name} {size} {users} - Live 0x0000000000000000\n" for name, size, users in driver.modules(node))
    yield "/proc/modules", "".join(rows)
    yield from _container(node)


def _setting(node: Node, key: str) -> str:
    return f"{node.sysctl[key]}\n"


def _container(node: Node) -> Iterator[tuple[str, Content]]:
    box = node.scenario.container
    if box is None:
        yield "/proc/1/cgroup", "0::/init.scope\n"
        return
    if box.runtime == "docker":
        yield "/.dockerenv", ""
    elif box.runtime == "podman":
        yield "/run/.containerenv", ""
    inside = "0::/\n" if box.cgroup == "v2" else "12:devices:/docker/5f1d\n1:name=systemd:/docker/5f1d\n"
    yield "/proc/1/cgroup", inside
    yield "/proc/self/cgroup", inside
    if box.cgroup == "v1":
        numbers = [overlay.rdev for overlay in driver.devices(node).values()]
        rows = "".join(f"c {number} rwm\n" for number in ("1:3", "1:5", "5:0", *numbers))
        yield "/sys/fs/cgroup/devices/devices.list", rows
    rows = "612 580 0:71 / / rw,relatime - overlay overlay rw\n615 612 0:75 / /dev/shm rw,nosuid,nodev - tmpfs shm rw\n"
    for place, path in enumerate(driver.MOUNTED if box.driver_files else ()):
        if path not in node.scenario.remove:
            source = box.sources.get(path, path)
            rows += f"{640 + place} 612 253:0 {source} {path} ro,relatime - ext4 /dev/mapper/openeuler-root rw\n"
    yield "/proc/self/mountinfo", rows


TCP_TITLE = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def _tcp(node: Node) -> str:
    rows: list[str] = []
    for process in node.living_processes():
        for place in process.listen:
            address, _, port = place.rpartition(":")
            local = f"{int.from_bytes(ipaddress.IPv4Address(address).packed, 'little'):08X}:{int(port):04X}"
            rows.append(
                f"{len(rows):4}: {local} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
                f"{30000 + len(rows)} 1 0000000000000000 100 0 0 10 0\n"
            )
    return TCP_TITLE + "".join(rows)


def _routes(node: Node) -> str:
    rows = ["Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"]
    for interface in node.interfaces[1:]:
        for address in interface.addresses:
            own = ipaddress.ip_interface(address)
            if own.version == 4 and interface.up:
                first = own.network.network_address + 1
                if len(rows) == 1:
                    rows.append(_route(interface.name, "0.0.0.0", str(first), "0003", "0.0.0.0"))  # noqa: S104
                network = own.network
                rows.append(
                    _route(interface.name, str(network.network_address), "0.0.0.0", "0001", str(network.netmask))  # noqa: S104
                )
    return "".join(f"{row}\n" for row in rows)


def _route(name: str, to: str, gateway: str, flags: str, mask: str) -> str:
    to, gateway, mask = (
        f"{int.from_bytes(ipaddress.IPv4Address(one).packed, 'little'):08X}" for one in (to, gateway, mask)
    )
    return f"{name}\t{to}\t{gateway}\t{flags}\t0\t0\t0\t{mask}\t0\t0\t0"


def _sys(node: Node) -> Iterator[tuple[str, Content]]:
    for chip in _one_per_address(node):
        yield from _pci(node, chip)
    for interface in node.interfaces:
        yield from _network(node, interface)
    for number, span in node.product.numa_nodes.items():
        yield f"/sys/devices/system/node/node{number}/cpulist", f"{span}\n"
    for cpu in (0, 1, node.cpus - 1):
        yield f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "performance\n"
    yield "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"


def _one_per_address(node: Node) -> list[Chip]:
    return list({chip.bus_id: chip for chip in node.chips_at("pci")}.values())


def _pci(node: Node, chip: Chip) -> Iterator[tuple[str, Content]]:
    folder = f"/sys/bus/pci/devices/{chip.bus_id}"
    values = {
        "vendor": "0x19e5",
        "device": node.product.device_id,
        "class": "0x120000",
        "subsystem_vendor": "0x19e5",
        "subsystem_device": node.product.subsystem_id,
        "numa_node": chip.numa_node,
        "current_link_speed": f"{chip.pcie_gts:.1f} GT/s PCIe",
        "max_link_speed": "16.0 GT/s PCIe",
        "current_link_width": chip.pcie_width,
        "max_link_width": 16,
        "aer_dev_fatal": f"Undefined 0\nDLP {chip.pcie_fatal}\nSDES 0\nTLP 0\nTOTAL_ERR_FATAL {chip.pcie_fatal}",
    }
    for name, value in values.items():
        yield posixpath.join(folder, name), f"{value}\n"


def _network(node: Node, interface: Interface) -> Iterator[tuple[str, Content]]:
    folder = _network_folder(node, interface)
    yield f"{folder}/operstate", "unknown\n" if interface.name == "lo" else "up\n" if interface.up else "down\n"
    yield f"{folder}/mtu", f"{interface.mtu}\n"


def _network_folder(node: Node, interface: Interface) -> str:
    virtual = interface.name == "lo" or (node.scenario.container and not node.scenario.container.host_network)
    return f"/sys/devices/{'virtual' if virtual else 'pci0000:74/0000:74:00.0'}/net/{interface.name}"


def links(node: Node) -> dict[str, str]:
    """The symbolic links of the operating system."""
    found = {
        f"/sys/class/net/{one.name}": "../.." + _network_folder(node, one).removeprefix("/sys")
        for one in node.interfaces
    }
    box = node.scenario.container
    return found | ({"/proc/1/cwd": box.working_dir} if box is not None and box.working_dir else {})
