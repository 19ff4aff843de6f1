"""The chips of this node and what is known of each, from the best source that answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from npudoctor import knowledge
from npudoctor.facts.dcmi.answer import LibraryAnswer
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_nodes import FIRST_VIRTUAL_NUMBER, DeviceNodes
from npudoctor.facts.node.running_containers import running_containers
from npudoctor.facts.node.slices import (
    SHARED,
    SLICE,
    WHOLE,
    on_the_host,
    owners,
    parent_number,
    template_of,
    whole_name,
)
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.pci import PciCard, PciCards, normal_address
from npudoctor.records import record, replace
from npudoctor.sdk import Because, Host, Unavailable, probe


@record(frozen=True, kw_only=True)
class NodeChip:
    """One chip as a job sees it; None is what is not known.

    `mode` is whole, vnpu (a slice, with its `template`) or shared (several containers use the chip); `parent` is the
    subject of the chip that a slice is a part of, `owner` the pod or container that has it, where root sees it on the
    host. `device` is the N of its /dev/davinciN. `health` is npu-smi's word for it as printed: what follows from it is
    told by the check npu.health alone. `temp_c` in degrees Celsius, `power_w` in watts, `aicore_pct` in percent, memory
    in MiB: HBM, or DDR where the chip has no HBM. Fault codes, bit errors and links are facts of their own, since each
    takes a question to every chip: `HealthPages`, `PerChip[Ecc]`, `CardLinks`, by the same
    subjects.
    """

    subject: str
    npu_id: int | None = None
    chip_id: int | None = None
    device: int | None = None
    bus_id: str | None = None
    name: str | None = None
    family: str | None = None
    subsystem: str | None = None
    health: str | None = None
    temp_c: int | None = None
    power_w: float | None = None
    aicore_pct: int | None = None
    memory_used_mb: int | None = None
    memory_mb: int | None = None
    mode: str | None = None
    template: str | None = None
    parent: str | None = None
    owner: str | None = None


@record(frozen=True)
class Chips:
    """The chips of this node or container; `source` is dcmi, npu-smi, /dev or PCI. Empty where there is none.

    `slices` are the parts of a host's chips that containers use; in a container a slice is a chip of its own.
    """

    chips: tuple[NodeChip, ...]
    source: str
    slices: tuple[NodeChip, ...] = ()

    @property
    def only_slices(self) -> bool:
        """Whether a job sees slices here, and no whole chip."""
        return bool(self.chips) and all(chip.mode == SLICE for chip in self.chips)

    def of(self, subject: str) -> NodeChip | None:
        """The chip with a subject."""
        return next((chip for chip in self.chips if chip.subject == subject), None)

    def is_divided(self, subject: str) -> bool:
        """Whether several containers may use this chip at once: it is shared, or has slices."""
        chip = self.of(subject)
        return (chip is not None and chip.mode == SHARED) or any(one.parent == subject for one in self.slices)

    @property
    def count(self) -> int:
        """How many chips a job can use."""
        return len(self.chips)

    @property
    def families(self) -> tuple[str, ...]:
        """The families of these chips, each once."""
        return tuple(dict.fromkeys(chip.family for chip in self.chips if chip.family))

    @property
    def family(self) -> str | None:
        """The family, where all chips are of one."""
        return self.families[0] if len(self.families) == 1 else None


def subject_of(chip: Chip, chips: Iterable[Chip]) -> str:
    """How findings name a chip: by npu-smi's id, and by the chip's number only where its NPU has several."""
    several = any(other.npu_id == chip.npu_id and other.chip_id != chip.chip_id for other in chips)
    return f"npu:{chip.npu_id}/chip:{chip.chip_id}" if several and chip.chip_id is not None else f"npu:{chip.npu_id}"


def memory_of(chip: Chip) -> tuple[int | None, int | None]:
    """Used and total MiB of the memory that models live in: HBM, else DDR."""
    if chip.hbm_total_mb:
        return chip.hbm_used_mb, chip.hbm_total_mb
    return (chip.mem_used_mb, chip.mem_total_mb) if chip.mem_total_mb else (None, None)


@probe(of_the_moment=True)
def chips(
    info: NpuSmiInfo | None,
    nodes: DeviceNodes | None,
    pci: PciCards | None,
    container: Container | None,
    library: LibraryAnswer | None,
    host: Host,
) -> Chips:
    """From the table of the chips, else from /dev, else, outside a container, from the PCI bus."""
    on_bus = {card.slot: card for card in pci.cards} if pci else {}
    families = {card.family for card in on_bus.values()}
    only = next(iter(families)) if len(families) == 1 else None
    if info is not None and info.npus:
        devices = _devices(info, nodes)
        listed = tuple(
            _of_table(chip, info, on_bus, only, number) for chip, number in zip(info.npus, devices, strict=True)
        )
        there = tuple(_with_mode(chip, nodes, library) for chip in listed)
        return Chips(there, info.source, _slices(there, nodes, container, host))
    if nodes is not None and (nodes.cards or nodes.slices):
        numbers = [one.number for one in nodes.cards or nodes.slices]
        return Chips(
            tuple(
                NodeChip(
                    subject=f"npu:{number}",
                    npu_id=number,
                    device=number,
                    family=only,
                    mode=WHOLE if nodes.cards else SLICE,
                )
                for number in numbers
            ),
            "/dev",
        )
    if container is None and on_bus:
        slots = enumerate(on_bus.values())
        return Chips(
            tuple(
                NodeChip(subject=f"npu:{place}", bus_id=one.slot, family=one.family, subsystem=one.subsystem)
                for place, one in slots
            ),
            "PCI",
        )
    if nodes is None:
        raise Unavailable("NPUs unknown: no answer from npu-smi or /dev", because=Because.NOT_RECORDED)
    return Chips((), "/dev")


def _with_mode(chip: NodeChip, nodes: DeviceNodes | None, library: LibraryAnswer | None) -> NodeChip:
    """The chip, with what is known of how it is divided."""
    template = template_of(chip.name)
    if template or (nodes is not None and nodes.slices and not nodes.cards):
        number = chip.device if chip.device is not None and chip.device >= FIRST_VIRTUAL_NUMBER else None
        return replace(chip, mode=SLICE, template=template, parent=f"npu:{chip.npu_id}", device=number)
    told = library.chip(chip.subject) if library is not None else None
    return replace(chip, mode=SHARED if told is not None and told.told.get("share") == 1 else WHOLE)


def _slices(
    chips: tuple[NodeChip, ...], nodes: DeviceNodes | None, container: Container | None, host: Host
) -> tuple[NodeChip, ...]:
    """The slices of a host's chips; who has them is asked only where there are some."""
    there = on_the_host(nodes)
    if not there or container is not None:
        return ()
    having: dict[int, str] = {}
    with contextlib.suppress(Unavailable):
        having = owners(running_containers.function(host, container))
    found = []
    for node in there:
        number = node.number or 0
        whole = next((chip for chip in chips if chip.device == parent_number(number)), None)
        found.append(
            NodeChip(
                subject=f"npu:{number}",
                device=number,
                family=whole.family if whole else None,
                mode=SLICE,
                parent=whole.subject if whole else None,
                owner=having.get(number),
            )
        )
    return tuple(found)


def _of_table(
    chip: Chip, info: NpuSmiInfo, on_bus: Mapping[str, PciCard], only: str | None, number: int | None
) -> NodeChip:
    """A row of npu-smi's table, with what the PCI bus knows of it; `only` is the family where the bus has one."""
    slot = on_bus.get(normal_address(chip.bus_id)) if chip.bus_id else None
    named = knowledge.hardware().family_by_name(
        whole_name(chip.name) or "", hbm_total_mb=chip.hbm_total_mb, memory_total_mb=chip.mem_total_mb
    )
    subject = subject_of(chip, info.npus)
    used, total = memory_of(chip)
    return NodeChip(
        subject=subject,
        npu_id=chip.npu_id,
        chip_id=chip.chip_id,
        device=number,
        bus_id=chip.bus_id,
        name=chip.name,
        family=slot.family if slot else named.id if named else only,
        subsystem=slot.subsystem if slot else None,
        health=chip.health,
        temp_c=chip.temp_c or None,
        power_w=chip.power_w or None,
        aicore_pct=chip.aicore_pct,
        memory_used_mb=used,
        memory_mb=total,
    )


def _devices(info: NpuSmiInfo, nodes: DeviceNodes | None) -> Sequence[int | None]:
    """The N of /dev/davinciN of each row; None where rows and device nodes cannot be matched one to one."""
    unknown = [None] * len(info.npus)
    if nodes is None:
        return unknown
    there = nodes.numbers
    if nodes.slices and not nodes.cards:
        there = tuple(node.number for node in nodes.slices if node.number is not None)
    else:
        for number_of in (_own_number, lambda chip: chip.npu_id):
            known = [number_of(chip) for chip in info.npus]
            if len(set(known) - {None}) == len(known) and set(known) <= set(there):
                return known
    if len(there) != len(info.npus):
        return unknown
    order = sorted(range(len(info.npus)), key=lambda row: (info.npus[row].npu_id, info.npus[row].chip_id or 0))
    numbers = dict(zip(order, sorted(there), strict=True))
    return [numbers[row] for row in range(len(info.npus))]


def _own_number(chip: Chip) -> int | None:
    return chip.phy_id if chip.phy_id is not None else chip.device_id
