"""What the JSON files of a bundle must look like. Keys that are not named are left alone: a later 1.x may have written
them."""

from __future__ import annotations

from typing import Annotated, Any

from npudoctor.data import DataError, read
from npudoctor.host import BundleError
from npudoctor.records import field, record
from npudoctor.value_rules import Between

Count = Annotated[int, Between(0, 1e20)]
Number = Annotated[float, Between(0, 1e20)]
FromMinusOne = Annotated[int, Between(-1, 1e20)]


@record(frozen=True, kw_only=True)
class Cpu:
    """Numbers of processors; `numa_nodes` are the processors of each NUMA node."""

    logical: Count | None = None
    physical: Count | None = None
    numa_nodes: dict[str, str] | None = None
    allowed: str | None = None


@record(frozen=True, kw_only=True)
class Memory:
    """Memory in bytes."""

    total: Number
    available: Number


@record(frozen=True, kw_only=True)
class Mount:
    """A mounted file system, sizes in bytes."""

    mount: str
    fstype: str | None = None
    total: Number | None = None
    free: Number | None = None
    options: str | None = None


@record(frozen=True, kw_only=True)
class Disk:
    """A file system on a disk, sizes in bytes."""

    mount: str
    fstype: str | None = None
    total: Number | None = None
    free: Number | None = None
    files_total: Number | None = None
    files_free: Number | None = None


@record(frozen=True, kw_only=True)
class Interface:
    """A network interface."""

    name: str
    up: bool = False
    addresses: tuple[str, ...] = ()
    speed_mbps: Annotated[float, Between(-1, 1e20)] | None = None
    mtu: Number | None = None


@record(frozen=True, kw_only=True)
class Socket:
    """An open socket."""

    laddr: str
    family: str | None = None
    type: str | None = None
    status: str | None = None
    pid: Count | None = None


@record(frozen=True, kw_only=True)
class Process:
    """A process; `create_time` in seconds since 1970."""

    pid: Count
    ppid: Count | None = None
    name: str | None = None
    username: str | None = None
    status: str | None = None
    cmdline: tuple[str, ...] | None = None
    create_time: Annotated[float, Between(0, 1e11)] | None = None


@record(frozen=True, kw_only=True)
class PciDevice:
    """A device on the PCI bus."""

    slot: str
    vendor: str
    device: str
    numa_node: FromMinusOne | None = None
    driver: str | None = None


@record(frozen=True, kw_only=True)
class Container:
    """The container that the node is."""

    runtime: str | None = None
    cgroup: str | None = None


@record(frozen=True, kw_only=True)
class HostFile:
    """host.json; a limit is its soft and its hard value."""

    cpu: Cpu = Cpu()
    memory: Memory = Memory(total=0, available=0)
    disks: tuple[Disk, ...] = ()
    mounts: tuple[Mount, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    sockets: tuple[Socket, ...] = ()
    processes: tuple[Process, ...] = ()
    limits: dict[str, tuple[FromMinusOne, FromMinusOne] | None] = field(default_factory=dict)
    pci: tuple[PciDevice, ...] = ()
    container: Container | None = None


@record(frozen=True, kw_only=True)
class UserEntry:
    """The user who recorded the node."""

    name: str = ""
    uid: Count = 0
    gid: Count = 0
    gids: tuple[Count, ...] = ()
    groups: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class BundleFile:
    """bundle.json."""

    hostname: str = ""
    recorded_at: str = ""
    npudoctor: str = ""
    machine: str = ""
    user: UserEntry = UserEntry()
    environment: str = ""
    unrecorded: str = ""
    cwd: str = ""
    umask: str = ""
    npudoctor_prefix: str = ""
    tools: dict[str, str] = field(default_factory=dict)


@record(frozen=True, kw_only=True)
class StatEntry:
    """What stat.json says of a path; `mode` in octal digits, `mtime` in seconds since 1970, `size` in bytes."""

    type: str = ""
    mode: str = ""
    uid: Count = 0
    gid: Count = 0
    access: str = ""
    mtime: Annotated[float, Between(-1e18, 1e20)] = 0
    rdev: str = ""
    size: Count = 0
    cut: bool = False


@record(frozen=True, kw_only=True)
class FailureEntry:
    """What failed.json says of a question that had no answer."""

    because: str = ""
    reason: str = ""


@record(frozen=True, kw_only=True)
class ResultFile:
    """result.json of a command, times in seconds."""

    returncode: Annotated[int, Between(-1e18, 1e20)] | None = None
    seconds: Number | None = None
    timed_out: bool | None = None
    truncated: bool | None = None


@record(frozen=True, kw_only=True)
class MissingFile:
    """missing.json."""

    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


def check(value: Any, shape: Any, where: str) -> None:
    """Compare JSON with the type of what it holds; raises BundleError."""
    try:
        read(shape, value, where, ignore_unknown=True)
    except DataError as problem:
        raise BundleError(str(problem)) from None
