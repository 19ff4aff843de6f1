"""NPUs that one source lists and another does not: which they are, by the names that npu-smi would give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.dcmi.answer import LIBRARY, LibraryAnswer
from npudoctor.facts.node.chips import Chips, subject_of
from npudoctor.facts.node.context import CardPresence
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.slices import on_the_host
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.pci import DEVICES, PciCard, PciCards, normal_address
from npudoctor.sdk import Evidence, Finding

from ._together import by_fault, by_setting, on
from .messages import npu as messages

TABLE = "npu-smi info"
LISTS = "npudoctor facts dcmi.library"
"""What shows the chips where npu-smi does not."""


def chips_expected(cards: Chips | None, found: CardPresence | None) -> int:
    """How many chips there should be, 0 where not known: one that some source has lost is the finding of npu.count.

    Of an NPU with two chips (A3) no half is built in, so that an odd number is one too few.
    """
    known = [cards.count if cards else 0]
    known += [count or 0 for count in (found.pci, found.nodes, found.npu_smi)] if found else []
    family = knowledge.hardware().family((cards.family if cards else None) or "")
    each = family.chips_per_card[0] if family is not None else 1
    if found is not None and found.in_container:  # which may have one of the two
        each = 1
    return -(-max(known) // each) * each


def cross_check_sources(
    info: NpuSmiInfo, nodes: DeviceNodes | None, pci: PciCards | None, *, inside: bool = False
) -> Iterator[Finding]:
    """What is missing in one of npu-smi's table, the bus and the device nodes; the bus is left out where unknown, and
    `inside` a container."""
    lost: list[PciCard] = []
    gone: list[Chip] = []
    if pci is not None and pci.cards and all(_has_address(chip) for chip in info.npus):
        shown = {normal_address(chip.bus_id or "") for chip in info.npus}
        slots = {card.slot for card in pci.cards}
        lost = [card for card in pci.cards if card.slot not in shown]
        gone = [chip for chip in info.npus if normal_address(chip.bus_id or "") not in slots]
    missing = len(lost) * _per_address(info)
    if lost:
        yield from _not_started(lost, _without_a_row(info, nodes, missing), info)
    for group in by_fault(by_setting(gone, lambda chip: chip.npu_id), len({chip.npu_id for chip in info.npus})):
        yield _off_the_bus([chip for chips in group for chip in chips], info)
    if nodes is not None and len(nodes.slices) == len(on_the_host(nodes)):
        hint = messages.PASS_EXACTLY.text() if inside else None
        yield from _without_a_node(info, nodes, lost=missing, gone={_number(chip) for chip in gone}, hint=hint)


def _source(info: NpuSmiInfo) -> str:
    """Who lists these chips: npu-smi, or the driver's library where npu-smi is missing or gave no table."""
    return "npu-smi" if info.shown_by == TABLE else messages.LIST_OF_THE_DRIVER.text()


def no_answer_at_start(library: LibraryAnswer) -> Finding:
    """NPUs of which no chip answered when the library was initialised: it lists them with the id -1."""
    return messages.NO_ANSWER_AT_START.finding(
        count=library.lost_npus,
        commands=("npu-smi info -l", "dmesg | grep -i -e davinci -e devdrv | tail -40"),
        evidence=(Evidence(source=f"{LIBRARY}, dcmi_get_card_list", actual=messages.ID_IN_THE_LIST.text(id=-1)),),
    )


def fewer_than_the_product(info: NpuSmiInfo, cards: Chips) -> Iterator[Finding]:
    """One chip less than this board has, everywhere: known only for boards that are always full."""
    family = knowledge.hardware().family(cards.family or "")
    boards = {card.subsystem for card in cards.chips}
    board = next(iter(boards)) if len(boards) == 1 else None
    if family is None or board is None:
        return
    full = cards.count + family.chips_per_card[0]
    plan = knowledge.hardware().link_plan(family.id, full, board)
    joined = plan is not None and (plan.group_size or plan.module_size)
    if full not in family.devices_per_node or cards.count in family.devices_per_node or not joined:
        return
    ids = {chip.npu_id for chip in info.npus}
    gaps = sorted(set(range(max(ids) + 1)) - ids)
    evidence = Evidence(
        source=info.shown_by,
        expected=messages.CHIPS.text(count=full),
        actual=messages.NPUS_LISTED.text(npus=sorted(ids)),
    )
    commands = ("lspci -nn -d 19e5:",)
    if len(gaps) == 1:
        yield messages.FEWER_CHIPS_NAMED.finding(
            subject=f"npu:{gaps[0]}",
            npu=gaps[0],
            count=cards.count,
            full=full,
            commands=commands,
            evidence=(evidence,),
        )
    else:
        yield messages.FEWER_CHIPS.finding(count=cards.count, full=full, commands=commands, evidence=(evidence,))


def _has_address(chip: Chip) -> bool:
    """Whether its row names a slot; npu-smi prints zeros for a chip that does not answer."""
    return chip.bus_id is not None and normal_address(chip.bus_id) != "0000:00:00.0"


def _number(chip: Chip) -> int:
    """The number that its device node has: of the chip where npu-smi shows one, else of the NPU."""
    return next(number for number in (chip.phy_id, chip.device_id, chip.npu_id) if number is not None)


def _per_address(info: NpuSmiInfo) -> int:
    """The number of chips at one bus address: two on an Atlas 300I Duo."""
    return max(Counter(chip.bus_id for chip in info.npus).values(), default=1)


def _per_card(info: NpuSmiInfo) -> int:
    """The number of chips of an NPU."""
    return max(Counter(chip.npu_id for chip in info.npus).values(), default=1)


def _without_a_row(info: NpuSmiInfo, nodes: DeviceNodes | None, missing: int) -> list[int]:
    """The numbers of the chips that npu-smi does not show; none where that is not clear."""
    numbers = {_number(chip) for chip in info.npus}
    gaps = sorted((set(nodes.numbers) if nodes else set()) - numbers)
    gaps = gaps or sorted(set(range(max(numbers, default=-1) + 1)) - numbers)
    if not gaps and nodes is not None and len(nodes.slices) == len(on_the_host(nodes)):
        gaps = list(range(len(numbers), len(numbers) + missing))
    return gaps if len(gaps) == missing else []


def _subject(number: int, info: NpuSmiInfo) -> str | None:
    """What npu-smi calls the chip with this number, which it may not show; None where that is not clear."""
    chips = {_number(chip): chip for chip in info.npus}
    if number in chips:
        return subject_of(chips[number], info.npus)
    per_card = _per_card(info)
    if per_card == 1:
        return f"npu:{number}"
    card, place = divmod(number, per_card)
    beside = next((chip.npu_id for known, chip in chips.items() if known // per_card == card), None)
    if beside is None and any(known // per_card != chip.npu_id for known, chip in chips.items()):
        return None
    return f"npu:{card if beside is None else beside}/chip:{place}"


def _not_started(lost: Sequence[PciCard], numbers: Sequence[int], info: NpuSmiInfo) -> Iterator[Finding]:
    """For each NPU that npu-smi lacks, as far as it is clear which these are; three or more have one cause."""
    subjects = [subject for number in numbers if (subject := _subject(number, info))]
    if len(subjects) != len(numbers) or not subjects:
        yield _lost_finding(lost, ["host"], info)
        return
    for group in _npus(subjects, info):
        yield _lost_finding(lost, group, info)


def _npus(subjects: Sequence[str], info: NpuSmiInfo) -> list[list[str]]:
    """The chips of each NPU together; all of them where three NPUs or more have one cause."""
    npus = by_setting(subjects, lambda subject: subject.partition("/")[0])
    groups = by_fault(npus, len({chip.npu_id for chip in info.npus}))
    return [[chip for chips in group for chip in chips] for group in groups]


def _lost_finding(lost: Sequence[PciCard], subjects: Sequence[str], info: NpuSmiInfo) -> Finding:
    slots = [card.slot for card in lost]
    return messages.NOT_IN_NPU_SMI.finding(
        **on(subjects),
        slots=slots,
        count=len(slots),
        source=_source(info),
        commands=(
            f"dmesg | grep -i {' '.join(f'-e {card.slot}' for card in lost)} -e davinci -e devdrv",
            *(f"lspci -vv -s {card.slot}" for card in lost),
        ),
        evidence=(
            *(Evidence(source=f"{DEVICES}/{card.slot}", actual=_describe(card)) for card in lost),
            Evidence(
                source=info.shown_by,
                expected=messages.ROW_WITH_BUS_ID.text(slots=[slot.upper() for slot in slots]),
                actual=messages.NONE.text(),
            ),
        ),
    )


def _describe(card: PciCard) -> str:
    driver = card.driver or messages.NONE.text()
    if card.numa_node is None:
        return messages.PCI_DEVICE.text(device=card.device, driver=driver)
    return messages.PCI_DEVICE_NEAR.text(device=card.device, driver=driver, node=card.numa_node)


def _off_the_bus(gone: Sequence[Chip], info: NpuSmiInfo) -> Finding:
    """Chips of one NPU share its slot, or its fate."""
    npus = list(dict.fromkeys(chip.npu_id for chip in gone))
    subjects = [subject_of(chip, info.npus) for chip in gone]
    rows = dict.fromkeys((chip.npu_id, chip.bus_id) for chip in gone)
    slots = list(dict.fromkeys(normal_address(bus_id or "") for _, bus_id in rows))
    return messages.OFF_THE_BUS.finding(
        **on(subjects),
        npu=npus[0] if len(npus) == 1 else ", ".join(map(str, npus)),
        count=len(npus),
        slot=", ".join(slots),
        source="npu-smi" if info.shown_by == TABLE else messages.DRIVER.text(),
        commands=(
            f"dmesg | grep -i {' '.join(f'-e {slot}' for slot in slots)} -e davinci -e AER",
            "lspci -nn -d 19e5:",
        ),
        evidence=tuple(
            piece
            for npu, bus_id in rows
            for piece in (
                Evidence(source=info.shown_by, actual=messages.ROW_OF_NPU.text(npu=npu, bus_id=bus_id)),
                Evidence(source=DEVICES, expected=normal_address(bus_id or ""), actual=messages.NONE.text()),
            )
        ),
    )


def _without_a_node(
    info: NpuSmiInfo, nodes: DeviceNodes, *, lost: int, gone: set[int], hint: str | None
) -> Iterator[Finding]:
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
    source = _source(info)
    listed = TABLE if info.shown_by == TABLE else LISTS
    commands = ("ls -l /dev/davinci*", listed, *(() if hint else ("dmesg | grep -i -e davinci -e devdrv",)))
    evidence = (
        Evidence(source=info.shown_by, actual=messages.CHIPS.text(count=rows)),
        Evidence(
            source="/dev/davinci*",
            expected=messages.DEVICE_NODES.text(count=rows),
            actual=messages.DEVICE_NODES.text(count=there),
        ),
    )
    if not named:
        yield messages.NODES_MISMATCH.finding(
            chips=rows, nodes=there, source=source, hint=hint, commands=commands, evidence=evidence
        )
        return
    paths = [f"/dev/davinci{number}" for number in odd]
    message = messages.NODE_MISSING if fewer else messages.NODE_WITHOUT_CHIP
    subjects = list(dict.fromkeys(_subject(number, info) or "host" for number in odd))
    for group in [["host"]] if "host" in subjects else _npus(subjects, info):
        yield message.finding(
            **on(group),
            count=len(odd),
            chips=rows,
            nodes=there,
            source=source,
            paths=paths,
            hint=hint,
            commands=commands,
            evidence=evidence,
        )
