"""A simulated node: what a scenario says, worked out for every chip and process, and changed by what is done to it."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

from npudoctor.host import User
from npudoctor.records import field, record, replace
from npudoctor.sim import kernel, releases
from npudoctor.sim.products import PRODUCTS, Product
from npudoctor.sim.scenario import Chips, Interface, Job, OneCard, Process, Scenario, ScenarioError

RECORDED_AT = "2026-11-21T02:10:45Z"
NOW = 1795227045.0
"""The same moment in seconds since 1970: simulated nodes do not age, so that a run can be compared with another."""

BOOTED = 1792000000.0


@record(kw_only=True)
class Chip:
    """One chip. `phy_id` is its number among the device nodes; `hbm_own_mb` is the HBM that no process accounts for."""

    npu: int
    chip: int
    phy_id: int
    bus_id: str
    numa_node: int
    affinity: str | None
    hbm_total_mb: int
    mem_total_mb: int
    mem_used_mb: int
    hbm_own_mb: int
    temp_c: int
    hbm_temp_c: int
    aicore_mhz: int
    address: str
    power_w: float | None = None
    health: str = "OK"
    codes: tuple[str, ...] = ()
    aicore_pct: int = 0
    ecc_single: int = 0
    ecc_double: int = 0
    ecc_double_old: int = 0
    ecc_isolated_pages: int = 0
    busy_mhz: int | None = None
    link: str = "UP"
    link_falls: int = 0
    vnic: str = "UP"
    fec: str = "rs FEC mode"
    roce_errors: int = 0
    gateway: str | None = None
    netmask: str = "255.255.255.0"
    netdetect: str | None = None
    pcie_gts: float = 16.0
    pcie_width: int = 16
    pcie_fatal: int = 0
    net_health: str = "Success"
    tls: int = 0
    silent: bool = False
    slices: tuple[str, ...] = ()
    slice_number: int | None = None
    template: str | None = None
    missing: frozenset[str] = frozenset()

    @property
    def suffix(self) -> str:
        """What the name of a vNPU has behind that of its chip."""
        return f"-{self.template}" if self.template else ""

    @property
    def slice_numbers(self) -> range:
        """The numbers of its vNPUs."""
        return range(first := 100 + 16 * self.phy_id, first + len(self.slices))


@record(kw_only=True)
class Running:
    """A process. `holds` are NPUs with the memory held there in MB; `dead` ones are known to the driver alone."""

    pid: int
    ppid: int
    name: str
    user: str
    cmdline: tuple[str, ...]
    status: str = "sleeping"
    started: float = NOW - 3600
    holds: list[tuple[int, int, int]] = field(default_factory=list)
    listen: tuple[str, ...] = ()
    dead: bool = False
    stuck: bool = False


class Node:
    """The state of a simulated node. Everything that is rendered is rendered from it, when it is asked for."""

    def __init__(self, scenario: Scenario, name: str) -> None:
        self.scenario = scenario
        self.name = name
        self.product: Product = PRODUCTS[scenario.product]
        self.machine = scenario.machine or self.product.machine
        self.system = releases.SYSTEMS[scenario.system]
        suffix = "" if self.system.id == "ubuntu" else f".{self.machine}"
        self.kernel = scenario.kernel or f"{self.system.kernel}{suffix}"
        self.driver = releases.driver(scenario.driver.version or self.product.driver)
        self.cann = releases.cann(scenario.cann.version or self.product.cann)
        self.firmware_version = scenario.firmware.version or self.driver.firmware
        self.chips = _chips(self.product, scenario)
        self.processes = {process.pid: process for process in _processes(scenario, self.chips)}
        self.sysctl = {**kernel.DEFAULTS, **scenario.sysctl}
        self.user = _user(scenario)
        self.interfaces = _interfaces(scenario)
        self.shm_bytes = _shm_bytes(scenario, self.product)

    @property
    def has_driver(self) -> bool:
        """Whether a driver is installed: never where there is no product to drive."""
        return self.scenario.driver.installed and self.product.name != "none"

    @property
    def has_cann(self) -> bool:
        """Whether a toolkit is installed."""
        return self.scenario.cann.installed and self.product.name != "none"

    @property
    def home(self) -> str:
        """The home of the user who asks."""
        return "/root" if self.user.uid == 0 else f"/home/{self.user.name}"

    @property
    def memory_bytes(self) -> int:
        """Host memory."""
        return (self.scenario.memory_gib or self.product.memory_gib) << 30

    @property
    def cpus(self) -> int:
        """How many logical CPUs there are."""
        return 1 + max(int(span.rpartition("-")[2]) for span in self.product.numa_nodes.values())

    def chips_at(self, where: str) -> list[Chip]:
        """The chips that are seen at a place: pci, npu-smi or device-node; a container has what is passed into it."""
        chips = [chip for chip in self.chips if where not in chip.missing]
        if where == "npu-smi" and self.product.family == "A3":  # an NPU that has lost a die has lost both
            whole = self.product.chips_per_card
            chips = [chip for chip in chips if sum(one.npu == chip.npu for one in chips) == whole]
        box = self.scenario.container
        if box is None or box.devices == "all" or where == "pci":
            return chips
        return [chip for chip in chips if chip.phy_id in box.devices or chip.slice_number in box.devices]

    def cards(self, where: str = "npu-smi") -> dict[int, list[Chip]]:
        """The chips that are seen, by npu-smi's id of their NPU."""
        cards: dict[int, list[Chip]] = {}
        for chip in self.chips_at(where):
            cards.setdefault(chip.npu, []).append(chip)
        return cards

    def lost_npus(self) -> list[int]:
        """The NPUs that the driver has on the bus and npu-smi does not show."""
        there = self.cards()
        return list(
            dict.fromkeys(chip.npu for chip in self.chips_at("pci") if chip.npu not in there and self._here(chip))
        )

    def _here(self, chip: Chip) -> bool:
        box = self.scenario.container
        return box is None or box.devices == "all" or chip.phy_id in box.devices or chip.slice_number in box.devices

    def holders(self, chip: Chip) -> list[tuple[Running, int]]:
        """The processes on a chip with the memory that they hold there in MB, by pid."""
        found = [
            (process, memory)
            for process in self.processes.values()
            for npu, number, memory in process.holds
            if (npu, number) == (chip.npu, chip.chip)
        ]
        return sorted(found, key=lambda one: one[0].pid)

    def hbm_used_mb(self, chip: Chip) -> int:
        """HBM in use: the chip's own and that of the processes on it."""
        return min(chip.hbm_total_mb, chip.hbm_own_mb + sum(memory for _, memory in self.holders(chip)))

    def mem_used_mb(self, chip: Chip) -> int:
        """DDR in use; processes hold DDR only where there is no HBM."""
        held = 0 if chip.hbm_total_mb else sum(memory for _, memory in self.holders(chip))
        return min(chip.mem_total_mb, chip.mem_used_mb + held)

    def aicore_pct(self, chip: Chip) -> int:
        """How busy the AI cores are, in percent: idle again when no process is left on the chip."""
        return chip.aicore_pct if self.holders(chip) or not self.scenario.job else 0

    def living_processes(self) -> Iterator[Running]:
        """The processes that the node's kernel knows."""
        return (process for process in self.processes.values() if not process.dead)

    def end(self, pid: int, number: int) -> None:
        """Send a signal to a process; raises ProcessLookupError or PermissionError as the kernel does."""
        process = self.processes.get(pid)
        if process is None or process.dead:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        if self.user.uid != 0 and process.user != self.user.name:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        deadly = number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
        if not deadly or process.stuck or pid == 1:
            return
        del self.processes[pid]
        for child in self.processes.values():
            if child.ppid == pid:
                child.ppid = 1

    def set_sysctl(self, key: str, value: str) -> None:
        """Write a kernel setting; raises OSError where the kernel would."""
        if key not in self.sysctl:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), kernel.path_of(key))
        if self.user.uid != 0:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), kernel.path_of(key))
        if self.scenario.container is not None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), kernel.path_of(key))
        self.sysctl[key] = kernel.accept(key, value, self.sysctl[key])


def _chips(product: Product, scenario: Scenario) -> list[Chip]:
    count = len(product.slots) if scenario.cards.count is None else scenario.cards.count
    if count > len(product.slots):
        raise ScenarioError(f"cards: count: {product.name} holds at most {len(product.slots)} NPUs, not {count}")
    chips: list[Chip] = []
    for position, (npu, seat) in enumerate(list(zip(product.slots, product.seats, strict=True))[:count]):
        near = scenario.topology.affinity
        for number, bus_id in enumerate(seat.bus_ids):
            place = len(chips)
            chip = Chip(
                npu=npu,
                chip=number,
                phy_id=place,
                bus_id=bus_id,
                numa_node=seat.numa_node,
                affinity=near[position % len(near)] if near else seat.affinity,
                hbm_total_mb=product.hbm_total_mb,
                mem_total_mb=_each(product.mem_total_mb, number),
                mem_used_mb=_each(product.mem_used_mb, place),
                hbm_own_mb=_each(product.hbm_used_mb, place),
                temp_c=_each(product.temp_c, place),
                hbm_temp_c=_each(product.temp_c, place) + 4,
                aicore_mhz=product.aicore_mhz[1],
                address=f"29.40.8.{11 + place}",
                power_w=None if number else _each(product.power_w, position),
            )
            chips.append(chip)
            _apply(chip, scenario.cards, place)
    for said in scenario.card:
        chosen = [chip for chip in chips if chip.npu == said.id and said.chip in (None, chip.chip)]
        if not chosen:
            raise ScenarioError(f"card: id {said.id}: {product.name} has the NPUs {', '.join(map(str, product.slots))}")
        for place, chip in enumerate(chosen):
            _apply(chip, said, place)
    return [one for chip in chips for one in _as_passed_in(chip, scenario)]


def _as_passed_in(chip: Chip, scenario: Scenario) -> list[Chip]:
    """The vNPUs of a chip that a container has, else the chip."""
    devices = scenario.container.devices if scenario.container else "all"
    found = []
    for number, template in zip(chip.slice_numbers, chip.slices, strict=True):
        if devices != "all" and number in devices:
            gigabytes = re.search(r"_([0-9]+)g", template)
            total = int(gigabytes[1]) << 10 if gigabytes else chip.hbm_total_mb // 2
            part = replace(chip, slice_number=number, template=template, hbm_total_mb=total, hbm_own_mb=total // 20)
            part.mem_total_mb, part.mem_used_mb = chip.mem_total_mb // 2, chip.mem_used_mb // 2
            found.append(part)
    return found or [chip]


def _each(values: tuple[Any, ...], place: int) -> Any:
    return values[place % len(values)]


def _apply(chip: Chip, said: Chips | OneCard, place: int) -> None:
    """Put what a scenario says of chips into one of them."""
    for name, value in vars(said).items():
        if value is None or name in ("count", "id", "chip"):
            continue
        if name == "missing":
            chip.missing = frozenset(value)
        elif name == "slices":
            chip.slices = value
        elif name == "codes":
            chip.codes = value
        else:
            one = _each(value, place) if isinstance(value, tuple) else value
            setattr(chip, "hbm_own_mb" if name == "hbm_used_mb" else name, one)


def _processes(scenario: Scenario, chips: list[Chip]) -> Iterator[Running]:
    box = scenario.container
    if box is not None:
        yield Running(pid=1, ppid=0, name="bash", user="root", cmdline=("/bin/bash",), started=NOW - 9000)
    else:
        yield _service(1, 0, "systemd", ("/usr/lib/systemd/systemd", "--switched-root", "--system"), ())
        yield _service(1482, 1, "sshd", ("/usr/sbin/sshd", "-D"), ("0.0.0.0:22",))
    shell = scenario.user
    yield Running(pid=917003, ppid=1482 if box is None else 1, name="bash", user=shell.name, cmdline=("-bash",))
    for said in scenario.process:
        if said.npu is not None and (said.npu, said.chip) not in {(chip.npu, chip.chip) for chip in chips}:
            raise ScenarioError(f"process: pid {said.pid}: there is no chip {said.chip} on an NPU {said.npu}")
        yield _from(said)
    if scenario.job:
        yield from _job(scenario.job, chips)


def _service(pid: int, ppid: int, name: str, cmdline: tuple[str, ...], listen: tuple[str, ...]) -> Running:
    return Running(
        pid=pid, ppid=ppid, name=name, user="root", cmdline=cmdline, started=BOOTED + 1 + pid / 100, listen=listen
    )


def _from(said: Process) -> Running:
    return Running(
        pid=said.pid,
        ppid=said.ppid,
        name=said.name,
        user=said.user,
        cmdline=tuple((said.command or said.name).split()),
        status="disk-sleep" if said.stuck else said.status,
        started=NOW - said.age_s,
        holds=[] if said.npu is None else [(said.npu, said.chip, said.memory_mb)],
        listen=said.listen,
        dead=said.dead,
        stuck=said.stuck,
    )


def _job(job: Job, chips: list[Chip]) -> Iterator[Running]:
    """A launcher and its ranks, one per chip; the chips get as busy as the job says."""
    launch = ("python3", "-m", "torch.distributed.run", f"--nproc_per_node={job.ranks}", job.command)
    yield Running(
        pid=job.first_pid,
        ppid=917003,
        name="python3",
        user=job.user,
        cmdline=launch,
        listen=(f"0.0.0.0:{job.master_port}",),
    )
    for rank, chip in enumerate(chips[: job.ranks]):
        chip.aicore_pct, chip.temp_c, chip.hbm_temp_c = job.aicore_pct, job.temp_c, job.temp_c + 4
        chip.power_w = None if chip.power_w is None else job.power_w
        yield Running(
            pid=job.first_pid + 12 + rank,
            ppid=job.first_pid,
            name="python3",
            user=job.user,
            cmdline=("python3", "-u", job.command),
            status="running",
            started=NOW - 3590,
            holds=[(chip.npu, chip.chip, job.memory_mb)],
            listen=() if rank else (f"0.0.0.0:{job.base_port}",),
        )


def _user(scenario: Scenario) -> User:
    said = scenario.user
    gids = tuple(said.groups.values()) or (said.uid,)
    return User(name=said.name, uid=said.uid, gid=gids[0], gids=gids, groups=tuple(said.groups) or (str(said.uid),))


def _interfaces(scenario: Scenario) -> tuple[Interface, ...]:
    loopback = Interface(name="lo", addresses=("127.0.0.1/8", "::1/128"), speed=0, mtu=65536)
    if scenario.interface is not None:
        return (loopback, *scenario.interface)
    if scenario.container and not scenario.container.host_network:
        return (loopback, Interface(name="eth0", addresses=("172.17.0.2/16",), speed=10000))
    return (
        loopback,
        Interface(name="enp189s0f0", addresses=("192.168.10.41/24",)),
        Interface(name="enp189s0f1", up=False, speed=0),
    )


def _shm_bytes(scenario: Scenario, product: Product) -> int:
    if scenario.shm_gib is not None:
        return int(scenario.shm_gib * (1 << 30))
    return (64 << 30) if scenario.container else ((scenario.memory_gib or product.memory_gib) << 30) // 2
