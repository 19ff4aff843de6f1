"""The chip families and what is known of them: the typed form of hardware.json."""

from __future__ import annotations

import re
from collections.abc import Mapping

from npudoctor.knowledge import table
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Family:
    """One chip family: 910, A2, A3, 310P, 310, 310B, 950.

    `name_pattern` fits what npu-smi prints. `memory_mb`, `allocatable_mb` and `ai_cores` are by chip name (A3: `die`,
    and the number behind 910_). `chips_per_card` and `devices_per_node` list what exists. `device_nic` says whether
    each chip has a network port of its own, `prints_affinity` whether `-t topo` shows CPU affinities; None: not known.
    `nic_speed_mbps` is that port's speed. `single_server`: collectives stay in one server. `slow_dtypes` work, slowly.
    `reset_scope` is what a reset of one chip takes down: its `npu`, the `group` of its link plan, or the `server`
    (GetDevNumPerRing of mind-cluster's device plugin); None: not known.
    """

    id: str
    series: str
    soc_names: tuple[str, ...]
    name_pattern: str
    bf16: bool
    devices_per_node: tuple[int, ...]
    chips_per_card: tuple[int, ...]
    manager_nodes: tuple[str, ...]
    products: tuple[str, ...]
    confidence: str
    sources: tuple[str, ...]
    package_tag: str | None = None
    vllm_soc_version: str | None = None
    memory_mb: Mapping[str, int] | None = None
    allocatable_mb: Mapping[str, int] | None = None
    ai_cores: Mapping[str, int] | None = None
    allreduce_dtypes: tuple[str, ...] = ()
    slow_dtypes: tuple[str, ...] = ()
    device_nic: bool | None = None
    nic_speed_mbps: int | None = None
    prints_affinity: bool | None = None
    single_server: bool = False
    legal_job_sizes: str | None = None
    reset_scope: str | None = None
    notes: tuple[str, ...] = ()

    def memory_of(self, name: str) -> int | None:
        """The memory in MB of the chip that npu-smi calls so; None where it is not known."""
        known = self.memory_mb or {}
        return known.get(bare_name(name), known.get("die"))


@record(frozen=True)
class PciDevice:
    """An accelerator's PCI device id, with the boards known by their subsystem ids."""

    device: str
    family: str
    cards: str | None = None
    boards: Mapping[str, str] | None = None


@record(frozen=True, kw_only=True)
class LinkPlan:
    """The links that a product has between its chips, in the words of `npu-smi info -t topo`.

    Holds for nodes with as many chips as `chips` lists (empty: any) and these `subsystems` (None in it: not known;
    empty: any). Chips are counted from 0: those of one module of `module_size` are joined by one of `module_links`,
    those of one group of `group_size` by one of `group_links`, all others by one of `beyond_links`.
    """

    family: str
    name: str
    fact: str
    confidence: str
    sources: tuple[str, ...]
    chips: tuple[int, ...] = ()
    subsystems: tuple[str | None, ...] = ()
    module_size: int | None = None
    module_links: tuple[str, ...] = ()
    group_size: int | None = None
    group_links: tuple[str, ...] = ()
    beyond_links: tuple[str, ...] = ()

    def expected_links(self, one: int, other: int) -> tuple[str, ...] | None:
        """The words that are right between two chips; None where nothing is known, or they are the same chip."""
        if one == other:
            return None
        if self.module_size and one // self.module_size == other // self.module_size:
            return self.module_links or None
        if self.group_size and one // self.group_size == other // self.group_size:
            return self.group_links or None
        return self.beyond_links or None


@record(frozen=True, kw_only=True)
class IdleRule:
    """From which memory in use on, in MB, an idle NPU needs an explanation; `reserve_mb` is the driver's own."""

    reserve_mb: int
    unexplained_over_mb: int
    small_card_mb: int
    unexplained_over_share: float
    note: str
    confidence: str

    def limit_mb(self, total_mb: int) -> int:
        """The memory in use that an idle NPU of this size may show."""
        small = total_mb < self.small_card_mb
        return int(total_mb * self.unexplained_over_share) if small else self.unexplained_over_mb


@record(frozen=True, kw_only=True)
class Temperature:
    """Limits in °C for HBM and chip; only `hbm_alarm_celsius` is published, the others are defaults of this tool."""

    hbm_alarm_celsius: int
    warn_celsius: int
    fail_celsius: int
    above_peers_celsius: int
    codes: tuple[str, ...]
    note: str
    confidence: str
    sources: tuple[str, ...]


@record(frozen=True, kw_only=True)
class Hardware:
    """The whole table. `link_words` explains npu-smi's words, `numa` says by family how ranks are bound."""

    as_of: str
    families: tuple[Family, ...]
    pci_vendor: str
    pci: tuple[PciDevice, ...]
    link_plans: tuple[LinkPlan, ...]
    link_words: Mapping[str, str]
    idle_rule: IdleRule
    temperature: Temperature
    first_generation_hbm_mb: int
    numa: Mapping[str, str]

    def family(self, id: str) -> Family | None:
        """The family of this id."""
        return next((family for family in self.families if family.id == id), None)

    def family_by_name(
        self, name: str, *, hbm_total_mb: int | None = None, memory_total_mb: int | None = None
    ) -> Family | None:
        """The family of a chip by what npu-smi, acl or torch_npu call it; None for an unknown name.

        `910B` without a digit is of the first generation, unless the memory shows an Atlas A2: more than 32 GB of HBM
        and no DDR beside it. `Ascend910` is the A3.
        """
        bare = bare_name(name)
        if bare == "910B" and (hbm_total_mb or 0) > self.first_generation_hbm_mb and not memory_total_mb:
            return self.family("A2")
        return next((family for family in self.families if re.search(family.name_pattern, bare)), None)

    def family_by_pci(self, device: str, vendor: str | None = None) -> Family | None:
        """The family of a PCI device (`0xd802`, `D802`); None where it is no accelerator."""
        found = self.pci_device(device)
        ours = vendor is None or _hex(vendor) == self.pci_vendor
        return self.family(found.family) if found and ours else None

    def pci_device(self, device: str) -> PciDevice | None:
        """The accelerator with this PCI device id."""
        return next((each for each in self.pci if each.device == _hex(device)), None)

    def board(self, device: str, subsystem: str) -> str | None:
        """The product that a device and subsystem id name; None where it is not known."""
        found = self.pci_device(device)
        return ((found.boards or {}).get(_hex(subsystem)) or found.cards) if found else None

    def link_plan(self, family: str, chips: int, subsystem: str | None = None) -> LinkPlan | None:
        """The links that a node of so many chips should have; None where nothing is known of its board."""
        board = _hex(subsystem) if subsystem else None
        return next(
            (
                plan
                for plan in self.link_plans
                if plan.family == family
                and (not plan.chips or chips in plan.chips)
                and (not plan.subsystems or board in plan.subsystems)
            ),
            None,
        )

    def idle_limit_mb(self, total_mb: int) -> int:
        """The memory in use, in MB, that an idle NPU of this size may show without an explanation."""
        return self.idle_rule.limit_mb(total_mb)


def bare_name(name: str) -> str:
    """A chip's name as npu-smi's table prints it: 910B3 for `Ascend910B3` and `Ascend 910B3`, Ascend910 as it is."""
    text = name.strip()
    rest = text.removeprefix("Ascend").lstrip(" _")
    return text if rest in ("", "910") and " " not in text else rest.removeprefix("Ascend")


def _hex(text: str) -> str:
    return f"0x{text.strip().lower().removeprefix('0x').rjust(4, '0')}"


def load() -> Hardware:
    """Read hardware.json."""
    data = table.read("hardware")
    return table.record_of(Hardware, data, first_generation_hbm_mb=data["naming"]["first_generation_hbm_mb"])
