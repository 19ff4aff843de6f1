"""The chips of this node and what is known of each, from the best source that answers."""

from __future__ import annotations

from collections.abc import Iterable

from npudoctor import knowledge
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.pci import PciCards, normal_address
from npudoctor.records import record
from npudoctor.sdk import Because, Unavailable, probe


@record(frozen=True, kw_only=True)
class Card:
    """One chip as a job sees it. `memory_mb` is HBM, or DDR where the chip has no HBM; None is what is not known."""

    subject: str
    npu_id: int | None = None
    chip_id: int | None = None
    bus_id: str | None = None
    name: str | None = None
    family: str | None = None
    memory_mb: int | None = None
    subsystem: str | None = None


@record(frozen=True)
class Cards:
    """The chips of this node or container; `source` is npu-smi, /dev or PCI. Empty where there is none."""

    chips: tuple[Card, ...]
    source: str

    @property
    def count(self) -> int:
        """How many chips a job can use."""
        return len(self.chips)

    @property
    def families(self) -> tuple[str, ...]:
        """The families of these chips, each once."""
        return tuple(dict.fromkeys(card.family for card in self.chips if card.family))

    @property
    def family(self) -> str | None:
        """The family, where all chips are of one."""
        return self.families[0] if len(self.families) == 1 else None


def subject_of(chip: Chip, chips: Iterable[Chip]) -> str:
    """How findings name a chip: by npu-smi's id, and by the chip's number only where its card has several."""
    several = sum(other.npu_id == chip.npu_id for other in chips) > 1
    return f"npu:{chip.npu_id}/chip:{chip.chip_id}" if several and chip.chip_id is not None else f"npu:{chip.npu_id}"


def memory_of(chip: Chip) -> tuple[int | None, int | None]:
    """Used and total MiB of the memory that models live in: HBM, else DDR."""
    if chip.hbm_total_mb:
        return chip.hbm_used_mb, chip.hbm_total_mb
    return (chip.mem_used_mb, chip.mem_total_mb) if chip.mem_total_mb else (None, None)


@probe
def cards(
    info: NpuSmiInfo | None, nodes: DeviceNodes | None, pci: PciCards | None, container: Container | None
) -> Cards:
    """From npu-smi's table, else from /dev, else, outside a container, from the PCI bus."""
    on_bus = {card.slot: card for card in pci.cards} if pci else {}
    families = {card.family for card in on_bus.values()}
    only = next(iter(families)) if len(families) == 1 else None
    if info is not None and info.npus:
        chips = []
        for chip in info.npus:
            slot = on_bus.get(normal_address(chip.bus_id)) if chip.bus_id else None
            named = knowledge.hardware().family_by_name(
                chip.name or "", hbm_total_mb=chip.hbm_total_mb, memory_total_mb=chip.mem_total_mb
            )
            chips.append(
                Card(
                    subject=subject_of(chip, info.npus),
                    npu_id=chip.npu_id,
                    chip_id=chip.chip_id,
                    bus_id=chip.bus_id,
                    name=chip.name,
                    family=slot.family if slot else named.id if named else only,
                    memory_mb=memory_of(chip)[1],
                    subsystem=slot.subsystem if slot else None,
                )
            )
        return Cards(tuple(chips), "npu-smi")
    if nodes is not None and (nodes.cards or nodes.slices):
        found = nodes.cards or nodes.slices
        return Cards(tuple(Card(subject=f"npu:{one.number}", npu_id=one.number, family=only) for one in found), "/dev")
    if container is None and on_bus:
        slots = enumerate(on_bus.values())
        return Cards(
            tuple(
                Card(subject=f"npu:{place}", bus_id=one.slot, family=one.family, subsystem=one.subsystem)
                for place, one in slots
            ),
            "PCI",
        )
    if nodes is None:
        raise Unavailable("neither npu-smi nor /dev could be asked for cards", because=Because.NOT_RECORDED)
    return Cards((), "/dev")
