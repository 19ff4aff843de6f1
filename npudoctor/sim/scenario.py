"""A scenario: what a TOML file says of a simulated node. All but `product` has a default that makes a healthy node."""

from __future__ import annotations

import sys
from typing import Any, Literal

from npudoctor.data import DataError, read
from npudoctor.host.live.safe_files import Unreadable, read_bounded
from npudoctor.records import field, record
from npudoctor.sim.products import PRODUCTS
from npudoctor.sim.releases import SYSTEMS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class ScenarioError(ValueError):
    """A scenario that cannot be used; the text is one line: which file, which key, what is expected."""


Place = Literal["pci", "npu-smi", "device-node"]
Health = Literal["OK", "Warning", "Alarm", "Critical", "UNKNOWN"]
Link = Literal["UP", "DOWN"]
Fault = Literal["", "hang", "crash", "slow", "no-device", "device-used", "board-type"]


@record(frozen=True, kw_only=True)
class Person:
    """The user who runs npudoctor; `groups` gives the number of each group, the first is the primary one."""

    name: str = "root"
    uid: int = 0
    groups: dict[str, int] = field(default_factory=lambda: {"root": 0})


@record(frozen=True, kw_only=True)
class Driver:
    """The driver. `loaded` is the version of the modules that run, `tool` that of npu-smi; both default to `version`.

    `processes` tells whether npu-smi prints a process table. `fault` makes npu-smi fail; `slow_s` is what `slow` takes.
    `hccn_for_all`: hccn_tool answers everybody, not only root. `finished`: the installer noted that it has finished.
    """

    version: str | None = None
    installed: bool = True
    loaded: str | None = None
    tool: str | None = None
    processes: bool = True
    for_all: bool = False
    fault: Fault = ""
    slow_s: float = 6.0
    hccn_for_all: bool = False
    finished: bool = True


@record(frozen=True, kw_only=True)
class Firmware:
    """The firmware; without a version the one of the driver's bundle. `fits` is what the board says of the pair.

    `says` is its word where it is no verdict: UNKNOWN.
    """

    version: str | None = None
    fits: bool = True
    says: Literal["", "UNKNOWN"] = ""


@record(frozen=True, kw_only=True)
class Cann:
    """The toolkit and its operators. `sourced`: set_env.sh is in force for the job; `nnal` is the version of ATB.
    `linked` is the version that the usual link leads to, where that is another one, which is not installed."""

    version: str | None = None
    linked: str | None = None
    installed: bool = True
    prefix: str = "/usr/local/Ascend"
    sourced: bool = True
    ops: str | None = None
    ops_version: str | None = None
    nnal: str | None = None


@record(frozen=True, kw_only=True)
class Python:
    """The target Python. `kind` is whose it is (plain: its own prefix); an empty torch or torch_npu is not installed.

    `packages` adds, replaces or (by an empty version) removes distributions; `user_packages` are copies in the user's
    own folder, which Python finds first; `requires` are the Requires-Dist lines of packages, in place of the usual.
    """

    version: str = "3.10.16"
    prefix: str = "/opt/miniforge3/envs/train"
    kind: Literal["conda", "venv", "plain", "system"] = "conda"
    torch: str = "2.5.1"
    torch_npu: str = "2.5.1.post1"
    cxx11_abi: bool = True
    packages: dict[str, str] = field(default_factory=dict)
    user_packages: dict[str, str] = field(default_factory=dict)
    requires: dict[str, list[str]] = field(default_factory=dict)


@record(frozen=True, kw_only=True)
class Chips:
    """Values of the chips. `missing` names where a chip is not seen; `codes` are npu-smi's fault codes.

    Powers are in W, temperatures in °C, memory in MB, frequencies in MHz: `aicore_mhz` when idle, `busy_mhz` at work.
    `link` is the state of the network port, `vnic` that of the port to the fabric of a SuperPoD; `link_falls` and
    `roce_errors` are what the network port has counted. PCIe in GT/s and lanes; an empty `affinity` shows none. The
    driver's calls to a `silent` chip time out. `slices` are templates of the vNPUs that a chip is divided into: on a
    host beside the chip, in a container in its place where `devices` names them (100 + 16 x N + place).
    """

    health: Health | tuple[Health, ...] | None = None
    codes: tuple[str, ...] | None = None
    power_w: float | tuple[float, ...] | None = None
    temp_c: int | tuple[int, ...] | None = None
    hbm_temp_c: int | tuple[int, ...] | None = None
    hbm_used_mb: int | tuple[int, ...] | None = None
    mem_used_mb: int | tuple[int, ...] | None = None
    aicore_pct: int | tuple[int, ...] | None = None
    aicore_mhz: int | tuple[int, ...] | None = None
    busy_mhz: int | tuple[int, ...] | None = None
    ecc_single: int | tuple[int, ...] | None = None
    ecc_double: int | tuple[int, ...] | None = None
    ecc_double_old: int | tuple[int, ...] | None = None
    ecc_isolated_pages: int | tuple[int, ...] | None = None
    link: Link | tuple[Link, ...] | None = None
    link_falls: int | tuple[int, ...] | None = None
    vnic: Link | tuple[Link, ...] | None = None
    fec: str | tuple[str, ...] | None = None
    roce_errors: int | tuple[int, ...] | None = None
    net_health: str | tuple[str, ...] | None = None
    tls: int | tuple[int, ...] | None = None
    address: str | tuple[str, ...] | None = None
    gateway: str | tuple[str, ...] | None = None
    affinity: str | tuple[str, ...] | None = None
    pcie_gts: float | tuple[float, ...] | None = None
    pcie_width: int | tuple[int, ...] | None = None
    pcie_fatal: int | tuple[int, ...] | None = None
    silent: bool | None = None
    slices: tuple[str, ...] | None = None
    missing: tuple[Place, ...] | None = None


@record(frozen=True, kw_only=True)
class AllChips(Chips):
    """Values of all chips, and how many NPUs there are."""

    count: int | None = None


@record(frozen=True, kw_only=True)
class OneCard(Chips):
    """Values of one NPU by npu-smi's id, or of one of its chips."""

    id: int
    chip: int | None = None


@record(frozen=True, kw_only=True)
class Process:
    """A process. `npu` and `chip` are the NPU that it holds, with `memory_mb` of it; `dead`: only the driver knows it.

    `listen` are TCP ports; `stuck`: no signal ends it. `age_s` is in seconds.
    """

    pid: int
    ppid: int = 1
    name: str = "python3"
    user: str = "root"
    command: str | None = None
    status: str = "sleeping"
    age_s: float = 3600.0
    npu: int | None = None
    chip: int = 0
    memory_mb: int = 0
    listen: tuple[str, ...] = ()
    dead: bool = False
    stuck: bool = False


@record(frozen=True, kw_only=True)
class Job:
    """A training job that runs: one rank per chip under torchrun. HCCL's rank 0 listens on `base_port`."""

    ranks: int
    user: str = "train"
    command: str = "train.py"
    memory_mb: int = 41000
    aicore_pct: int = 87
    power_w: float = 301.5
    temp_c: int = 57
    first_pid: int = 211400
    base_port: int = 60000
    master_port: int = 29500


@record(frozen=True, kw_only=True)
class Interface:
    """A network interface; `speed` is in Mbit/s."""

    name: str
    addresses: tuple[str, ...] = ()
    up: bool = True
    speed: int = 25000
    mtu: int = 1500


@record(frozen=True, kw_only=True)
class Box:
    """A container around npudoctor. `devices`: which /dev/davinciN are passed in; `managers`: the manager nodes are.

    `sources` are mount points with the path on the host that they show, where it is not the same. `working_dir` is
    where its first process, of this node's user, was started.
    """

    runtime: str = "docker"
    cgroup: Literal["v1", "v2"] = "v2"
    host_network: bool = False
    devices: tuple[int, ...] | Literal["all"] = "all"
    managers: bool = True
    driver_files: bool = True
    working_dir: str | None = None
    sources: dict[str, str] = field(default_factory=dict)


@record(frozen=True, kw_only=True)
class Topology:
    """`form` pasted: a listing as in a web page, its header at the margin; unreadable: npu-smi cannot read the PCI
    devices in /sys. `links` changes single pairs, "0-3"."""

    form: Literal["tool", "pasted", "unreadable"] = "tool"
    affinity: tuple[str, ...] | None = None
    links: dict[str, str] = field(default_factory=dict)


@record(frozen=True, kw_only=True)
class Command:
    """The whole answer of one command, in place of the rendered one."""

    stdout: str = ""
    stderr: str = ""
    returncode: int = 0
    timed_out: bool = False


@record(frozen=True, kw_only=True)
class Scenario:
    """A simulated node. `kernel_log` are lines beside the usual ones; `next_kernel` was installed and boots next."""

    about: str = ""
    product: str
    hostname: str = "npu-node-1"
    machine: Literal["aarch64", "x86_64"] | None = None
    system: str = "openeuler-22.03-sp4"
    kernel: str | None = None
    next_kernel: str | None = None
    kernel_log: tuple[str, ...] = ()
    user: Person = field(default_factory=Person)
    node_group: int = 1000
    node_mode: str = "0660"
    driver: Driver = field(default_factory=Driver)
    firmware: Firmware = field(default_factory=Firmware)
    cann: Cann = field(default_factory=Cann)
    python: Python = field(default_factory=Python)
    cards: AllChips = field(default_factory=AllChips)
    card: tuple[OneCard, ...] = ()
    process: tuple[Process, ...] = ()
    job: Job | None = None
    interface: tuple[Interface, ...] | None = None
    sysctl: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    commands: dict[str, Command] = field(default_factory=dict)
    container: Box | None = None
    topology: Topology = field(default_factory=Topology)
    memory_gib: int | None = None
    memory_used_gib: int = 96
    shm_gib: float | None = None
    disk_free_gib: float = 512.0
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)


def load(path: str) -> Scenario:
    """Read a scenario; raises ScenarioError."""
    try:
        said = tomllib.loads(read_bounded(path).decode())
    except Unreadable as problem:
        raise ScenarioError(str(problem)) from None
    except RecursionError:
        raise ScenarioError(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError as problem:
        raise ScenarioError(f"{path}: not valid TOML: {str(problem).partition(';')[0]}") from None
    return parse(said, path)


def parse(said: dict[str, Any], path: str) -> Scenario:
    """A scenario from the tables of a TOML file; raises ScenarioError with the first thing that is wrong."""
    try:
        scenario = read(Scenario, said, path, mapping="a table")
    except DataError as problem:
        raise ScenarioError(str(problem)) from None
    for key, value, known in (("product", scenario.product, PRODUCTS), ("system", scenario.system, SYSTEMS)):
        if value not in known:
            raise ScenarioError(f"{path}: {key}: expected one of {', '.join(sorted(known))}, found {value!r}")
    return scenario
