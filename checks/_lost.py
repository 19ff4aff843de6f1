"""Cards that one source knows and another does not: which they are, by the names that npu-smi would give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from npudoctor.facts.node.chips import subject_of
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.pci import DEVICES, PciCard, PciCards, normal_address
from npudoctor.sdk import Evidence, Finding

TABLE = "npu-smi info"


def cross_check_sources(info: NpuSmiInfo, nodes: DeviceNodes | None, pci: PciCards | None) -> Iterator[Finding]:
    """What is missing in one of npu-smi's table, the bus and the device nodes; the bus is left out where unknown."""
    lost: list[PciCard] = []
    gone: list[Chip] = []
    if pci is not None and pci.cards and all(chip.bus_id for chip in info.npus):
        shown = {normal_address(chip.bus_id or "") for chip in info.npus}
        slots = {card.slot for card in pci.cards}
        lost = [card for card in pci.cards if card.slot not in shown]
        gone = [chip for chip in info.npus if normal_address(chip.bus_id or "") not in slots]
    missing = len(lost) * _per_address(info)
    if lost:
        yield from _not_started(lost, _without_a_row(info, nodes, missing), info)
    yield from (_off_the_bus(chip, info) for chip in gone)
    if nodes is not None and not nodes.slices:
        yield from _without_a_node(info, nodes, lost=missing, gone={_number(chip) for chip in gone})


def _number(chip: Chip) -> int:
    """The number that its device node has: of the chip where npu-smi shows one, else of the NPU."""
    return next(number for number in (chip.phy_id, chip.device_id, chip.npu_id) if number is not None)


def _per_address(info: NpuSmiInfo) -> int:
    """How many chips stand behind one address of the bus: two on an Atlas 300I Duo."""
    return max(Counter(chip.bus_id for chip in info.npus).values(), default=1)


def _without_a_row(info: NpuSmiInfo, nodes: DeviceNodes | None, missing: int) -> list[int]:
    """The numbers of the chips that npu-smi does not show; none where that is not clear."""
    numbers = {_number(chip) for chip in info.npus}
    gaps = sorted((set(nodes.numbers) if nodes else set()) - numbers)
    gaps = gaps or sorted(set(range(max(numbers, default=-1) + 1)) - numbers)
    if not gaps and nodes is not None and not nodes.slices:
        gaps = list(range(len(numbers), len(numbers) + missing))
    return gaps if len(gaps) == missing else []


def _subject(number: int, info: NpuSmiInfo) -> str | None:
    """What npu-smi calls the chip with this number, which it may not show; None where that is not clear."""
    chips = {_number(chip): chip for chip in info.npus}
    if number in chips:
        return subject_of(chips[number], info.npus)
    per_card = max(Counter(chip.npu_id for chip in info.npus).values(), default=1)
    if per_card == 1:
        return f"npu:{number}"
    card, place = divmod(number, per_card)
    beside = next((chip.npu_id for known, chip in chips.items() if known // per_card == card), None)
    if beside is None and any(known // per_card != chip.npu_id for known, chip in chips.items()):
        return None
    return f"npu:{card if beside is None else beside}/chip:{place}"


def _not_started(lost: Sequence[PciCard], numbers: Sequence[int], info: NpuSmiInfo) -> Iterator[Finding]:
    subjects = [subject for number in numbers if (subject := _subject(number, info))]
    if len(lost) == 1 or len(subjects) != len(numbers):
        for card in lost:
            for subject in subjects if len(lost) == 1 and subjects else ["host"]:
                yield _lost([card], subject)
        return
    yield from (_lost(lost, subject) for subject in subjects or ["host"])


def _lost(cards: Sequence[PciCard], subject: str) -> Finding:
    slots = ", ".join(card.slot for card in cards)
    node = cards[0].numa_node if len(cards) == 1 else None
    place = f" on NUMA node {node}" if node is not None else ""
    one = f"the card in PCI slot {slots}{place} is on the bus, and npu-smi does not show it"
    return Finding(
        subject=subject,
        summary=one if len(cards) == 1 else f"npu-smi does not show it; on the bus, and without a row, are {slots}",
        detail="The driver could not start this card, or has lost it: jobs on all cards of the node will fail.",
        hint="Read what the kernel says of this slot; a reboot starts the card again, and one that stays away needs "
        "to be reseated or replaced. Until then, leave it out with ASCEND_RT_VISIBLE_DEVICES.",
        commands=(
            f"dmesg | grep -i {' '.join(f'-e {card.slot}' for card in cards)} -e davinci -e devdrv",
            *(f"lspci -vv -s {card.slot}" for card in cards),
        ),
        evidence=(
            *(
                Evidence(
                    source=f"{DEVICES}/{card.slot}", actual=f"device {card.device}, driver {card.driver or 'none'}"
                )
                for card in cards
            ),
            Evidence(source=TABLE, expected=f"a row with Bus-Id {slots.upper()}", actual="none"),
        ),
        pitfall="P052",
    )


def _off_the_bus(chip: Chip, info: NpuSmiInfo) -> Finding:
    slot = normal_address(chip.bus_id or "")
    return Finding(
        subject=subject_of(chip, info.npus),
        summary=f"npu-smi shows a card in PCI slot {slot}, which is gone from the bus",
        detail="The card has dropped off the PCI bus while the driver still knows it; what runs on it hangs or fails.",
        hint="Drain the node and power it off and on; a card that drops again needs to be reseated or replaced.",
        commands=(f"dmesg | grep -i -e {slot} -e davinci -e AER", "lspci -nn -d 19e5:"),
        evidence=(
            Evidence(source=TABLE, actual=f"NPU {chip.npu_id}, Bus-Id {chip.bus_id}"),
            Evidence(source=DEVICES, expected=slot, actual="not there"),
        ),
        pitfall="P052",
    )


def _without_a_node(info: NpuSmiInfo, nodes: DeviceNodes, *, lost: int, gone: set[int]) -> Iterator[Finding]:
    """Device nodes and npu-smi's rows compared, without what the bus has already explained."""
    there, rows = len(nodes.cards), len(info.npus)
    if there in (rows, rows + lost):
        return
    numbers, ids = set(nodes.numbers), {_number(chip) for chip in info.npus}
    fewer = there < rows
    odd = sorted(ids - numbers if fewer else numbers - ids)
    if fewer and set(odd) <= gone and len(odd) == rows - there:
        return
    named = len(odd) == abs(there - rows)
    paths = ", ".join(f"/dev/davinci{number}" for number in odd)
    summary = (
        f"npu-smi shows {rows} chips, and {there} of them have a device node"
        if fewer
        else f"{there} cards have a device node, and npu-smi shows {rows} of them"
    )
    subjects = [_subject(number, info) or "host" for number in odd] if named else ["host"]
    for subject in dict.fromkeys(subjects):
        yield Finding(
            subject=subject,
            summary=summary + (f": {'without' if fewer else 'not'} {paths}" if named else ""),
            detail="A chip without a node cannot be opened by any job; a node without a chip answers none.",
            hint="Read what the kernel says of the card; into a container pass exactly the cards that it is to use.",
            commands=("ls -l /dev/davinci*", "npu-smi info", "dmesg | grep -i -e davinci -e devdrv"),
            evidence=(
                Evidence(source=TABLE, actual=f"{rows} chips"),
                Evidence(source="/dev/davinci*", expected=f"{rows} nodes", actual=f"{there} nodes"),
            ),
            pitfall="P052",
        )
