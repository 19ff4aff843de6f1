"""What may be in a recording, source by source: what it is read for, and whether it tells who or where a node is.

A file that has no row here is kept only where everybody on the node may read it and no variable names it; what a user's
variable names is kept in the form that its reader understands, or not at all. A command or a measurement without a row
fails tests/security/test_recordings.py: add one that says what it contains.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from npudoctor.records import record

HOSTS, USERS, ADDRESSES, SERIALS, TEXT = "host names", "user names", "addresses", "serial numbers", "free text"
"""What a source may tell. TEXT: written by programs or people, so that only a person can say what it tells."""


@record(frozen=True)
class Source:
    """One kind of source: an expression for its whole name, what it is, and what in it identifies; nothing: ()."""

    pattern: str
    what: str
    identifies: tuple[str, ...] = ()


COMMANDS = (
    Source(r"npu-smi -v|npu-smi info( -l| -m)?|npu-smi info -t topo", "NPUs and their processes", (SERIALS,)),
    Source(r"npu-smi info -t (board|common|flash)\b.*", "boards and chips", (SERIALS,)),
    Source(r"npu-smi info -t proc-mem\b.*", "processes on the NPUs", (TEXT,)),
    Source(
        r"npu-smi info -t (health|ecc|usages|memory|pcie-err|hccs|phyid-remap|current-fault-event)\b.*",
        "state of the NPUs",
    ),
    Source(r"npu-smi info -t .*", "NPUs", (SERIALS, TEXT)),
    Source(r"dcmi", "answer of the driver's library about the NPUs, their ports and processes", (ADDRESSES, TEXT)),
    Source(r"hccn_tool -i \d+ -(ip|vnic|gateway|netdetect|route|ping)\b.*", "NPU network addresses", (ADDRESSES,)),
    Source(r"hccn_tool -i \d+ -lldp\b.*", "the switch at an NPU port", (HOSTS, ADDRESSES)),
    Source(r"hccn_tool -i \d+ -optical\b.*", "optical modules", (SERIALS,)),
    Source(r"hccn_tool -i \d+ -(link|net_health|tls|speed|fec|link_stat|stat|hw_stats|status)\b.*", "NPU ports"),
    Source(r"modinfo -F \w+ \w+|lsmod", "modules of the driver"),
    Source(r"nft list ruleset|iptables -S|ip6tables -S", "rules of the firewall", (ADDRESSES, TEXT)),
    Source(r"firewall-cmd --state|systemctl is-active \S+", "state of a service"),
    Source(r"timedatectl show", "clock"),
    Source(r"journalctl -k .*|dmesg.*", "kernel log lines", (HOSTS, USERS, ADDRESSES, SERIALS, TEXT)),
    Source(r"python environment", "packages of the target Python", (USERS, TEXT)),
    Source(r"python (import|device).*", "answer of the target Python", (USERS, TEXT)),
    Source(r"python smoke|.*\bsmoke --format jsonl.*", "events of a smoke run", (HOSTS, USERS, ADDRESSES, TEXT)),
)
FILES = (
    Source(r"/proc/\d+/environ", "variables of launchers"),
    Source(r"/proc/(self|\d+)/mountinfo|/proc/mounts", "mounts", (HOSTS, USERS, ADDRESSES)),
    Source(r"/proc/((self|\d+)/)?net/\w+", "routes and sockets", (ADDRESSES,)),
    Source(r"/proc/sys/kernel/(hostname|domainname)", "host name", (HOSTS,)),
    Source(r"/proc/(sys/.*|modules|meminfo|cpuinfo|filesystems|1/cgroup|self/cgroup)", "settings of the kernel"),
    Source(r"/sys/.*", "devices and modules"),
    Source(r"/etc/(passwd|group)", "accounts that concern the node", (USERS,)),
    Source(r"/etc/hosts", "names and addresses", (HOSTS, ADDRESSES)),
    Source(r"/etc/(hostname|machine-id)", "names of the node", (HOSTS, SERIALS)),
    Source(r"/etc/hccn\.conf", "NPU network addresses", (ADDRESSES,)),
    Source(r"(/etc|/usr/lib)/os-release", "operating system"),
    Source(r"/etc/ascend_install\.info|/etc/Ascend/\w+\.info", "installed Ascend packages", (USERS,)),
    Source(r"/etc/ld\.so\.conf(\.d/[^/]+\.conf)?", "folders of libraries", (USERS,)),
    Source(r"(/etc|/run|/usr/lib|/usr/local/lib|/lib)/sysctl\.(conf|d/[^/]+\.conf)", "settings at boot", (TEXT,)),
    Source(r"/etc/security/limits\.(conf|d/[^/]+\.conf)", "limits of users", (USERS, TEXT)),
    Source(r"/etc/docker/daemon\.json", "container engine", (HOSTS, ADDRESSES, TEXT)),
    Source(r"/boot/(efi/EFI/\w+/|grub2?/)(grubenv|grub\.cfg)", "kernels to boot"),
    Source(
        r".*/(version\.(info|cfg)|\w+_install\.info|set_env\.sh|TorchConfig\.cmake|pyvenv\.cfg)", "versions", (USERS,)
    ),
)
LIBRARY = Source("", "headers of a library", (USERS,))
STARTUP = Source(
    "", "lines of a start-up file that source others or set variables of a job", (HOSTS, USERS, ADDRESSES, TEXT)
)
RANK_TABLE = Source("", "rank table", (HOSTS, ADDRESSES))
WHITELIST = Source("", "whitelist of HCCL", (ADDRESSES,))
CONDA_LIST = Source("", "environments that conda noted", (USERS,))
PUBLIC = Source("", "file that everybody on the node may read", (HOSTS, USERS, ADDRESSES, TEXT))
"""Files that are told by who asked for them, not by their path."""

MEASURES: Mapping[str, tuple[str, ...]] = {
    **{f"container.{name}": () for name in ("runtime", "cgroup")},
    **{f"cpu.{name}": () for name in ("logical", "physical", "numa_nodes", "allowed")},
    **{f"memory.{name}": () for name in ("total", "available")},
    **{f"disks.{name}": () for name in ("fstype", "total", "free", "files_total", "files_free")},
    **{f"mounts.{name}": () for name in ("fstype", "total", "free")},
    **{f"interfaces.{name}": () for name in ("name", "up", "speed_mbps", "mtu")},
    **{f"limits.{name}": () for name in ("nofile", "memlock", "nproc", "core")},
    **{f"pci.{name}": () for name in ("slot", "vendor", "device", "numa_node", "driver")},
    **{f"processes.{name}": () for name in ("pid", "ppid", "status", "create_time")},
    **{f"sockets.{name}": () for name in ("family", "type", "status", "pid")},
    "disks.mount": (USERS,),
    "mounts.mount": (USERS,),
    "mounts.options": (HOSTS, ADDRESSES),
    "interfaces.addresses": (ADDRESSES,),
    "processes.name": (TEXT,),
    "processes.username": (USERS,),
    "processes.cmdline": (USERS, ADDRESSES, TEXT),
    "sockets.laddr": (ADDRESSES,),
}
"""What each field of a measurement tells."""

ABOUT: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("schema", "npudoctor", "machine", "recorded_at", "unrecorded", "umask"), ()),
    "hostname": (HOSTS,),
    **dict.fromkeys(("npudoctor_prefix", "environment", "tools", "user", "cwd"), (USERS,)),
    "redacted": (),
}
"""What each key of bundle.json tells."""


def command(key: str) -> Source | None:
    """The row of a command."""
    return next((source for source in COMMANDS if re.fullmatch(source.pattern, key)), None)


def file(place: str, asked: Collection[str], environ: Mapping[str, str], *, in_pieces: bool = False) -> Source | None:
    """The row of a file by its real path, else by the paths that it was asked for by; None where it has none."""
    from npudoctor.facts.cann import startup_files

    if in_pieces:
        return LIBRARY
    if found := next((source for source in FILES if re.fullmatch(source.pattern, place)), None):
        return found
    for path in asked:
        if path == environ.get("RANK_TABLE_FILE"):
            return RANK_TABLE
        if path == environ.get("HCCL_WHITELIST_FILE"):
            return WHITELIST
        if path.endswith("/.conda/environments.txt"):
            return CONDA_LIST
        if startup_files.is_one(path):
            return STARTUP
    return None
