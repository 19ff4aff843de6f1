"""The cards themselves: there, complete, healthy, cool, and alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts import npu_smi
from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.node.chips import Chips, memory_of, subject_of
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import DRIVER_ONLY, CardPresence, Role
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.npu_smi.per_chip import HealthPages, HotMemories
from npudoctor.facts.system.pci import DEVICES, PciCards
from npudoctor.sdk import HEALTH, Because, Evidence, Finding, Options, Severity, Threshold, Unavailable, check

from ._lost import cross_check_sources

TABLE = "npu-smi info"
BEHIND_NPU_SMI = ("npu.present", "container.devices", "driver.installed", "driver.npu-smi")

_BUSY_FROM_PERCENT = 5
_SAME_SIZE = 0.05
_BY_WORD = {"WARNING": Severity.WARNING, "NOTHING": Severity.WARNING}


@check("npu.present", tags=(HEALTH,), after=("container.devices",))
def a_card_is_present(found: CardPresence, role: Role | None) -> Iterator[Finding]:
    """At least one Ascend card is here.

    Without one nothing that runs on the NPU can work. A card counts that is on the PCI bus, in /dev, or in npu-smi.
    """
    if found.cards:
        if role is not None and role.name == DRIVER_ONLY:
            yield Finding(
                severity=Severity.INFO,
                summary="this node has cards and a driver, and no CANN: containers bring their own",
                hint="Judge it as a node that trains by itself with --role full.",
            )
        return
    here = "in this container" if found.in_container else "on this host"
    looked = (
        (f"{DEVICES} (vendor 0x19e5, device 0xd100 … 0xd806)", found.pci),
        ("/dev/davinci*", found.nodes),
        (TABLE, found.npu_smi),
    )
    yield Finding(
        summary=f"there is no Ascend card {here}",
        detail="No accelerator is on the PCI bus, and neither /dev nor npu-smi shows one. On a server that has cards: "
        "they are not seated, not powered, or not passed through to this virtual machine.",
        hint="See what the bus shows; on a machine without a card, `npudoctor demo` shows what a diagnosis looks like.",
        commands=("lspci -nn -d 19e5:", "ls -l /dev/davinci*"),
        evidence=tuple(
            Evidence(source=source, expected="a card", actual="none" if count == 0 else "no answer")
            for source, count in looked
            if not (found.in_container and count is None)
        ),
        pitfall="P088",
    )


@check("npu.count", tags=(HEALTH,), after=BEHIND_NPU_SMI)
def sources_agree_on_the_cards(
    info: NpuSmiInfo, nodes: DeviceNodes | None, pci: PciCards | None, container: Container | None, cards: Chips | None
) -> Iterator[Finding]:
    """PCI bus, device nodes and npu-smi agree on how many chips there are.

    A card that has fallen off the bus, or that the driver could not start, is missing in one of them while jobs wait
    for it. A container's PCI bus is that of its host and is not compared.
    """
    found = list(cross_check_sources(info, nodes, pci if container is None else None))
    yield from found
    if container is None and not found and cards is not None:
        yield from _fewer_than_the_product(info, cards)


def _fewer_than_the_product(info: NpuSmiInfo, cards: Chips) -> Iterator[Finding]:
    """One card less than this board has, everywhere: known only for boards that are always full."""
    family = knowledge.hardware().family(cards.family or "")
    boards = {card.subsystem for card in cards.chips}
    board = next(iter(boards)) if len(boards) == 1 else None
    if family is None or board is None:
        return
    full = cards.count + family.chips_per_card[0]
    plan = knowledge.hardware().link_plan(family.id, full, board)
    if full not in family.devices_per_node or cards.count in family.devices_per_node or not (plan and plan.group_size):
        return
    ids = {chip.npu_id for chip in info.npus}
    gaps = sorted(set(range(max(ids) + 1)) - ids)
    yield Finding(
        subject=f"npu:{gaps[0]}" if len(gaps) == 1 else "host",
        severity=Severity.WARNING,
        summary=f"{cards.count} chips are here, and nodes of this board have {full}"
        + (f": NPU {gaps[0]} is missing everywhere" if len(gaps) == 1 else ""),
        detail="PCI bus, device nodes and npu-smi agree, so the card was not found when the node was started.",
        hint="See the server's management controller for the state of this card.",
        commands=("lspci -nn -d 19e5:",),
        evidence=(Evidence(source=TABLE, expected=f"{full} chips", actual=f"NPU {', '.join(map(str, sorted(ids)))}"),),
        pitfall="P052",
    )


@check("npu.health", tags=(HEALTH,), after=BEHIND_NPU_SMI)
def every_chip_is_healthy(
    info: NpuSmiInfo, pages: HealthPages | None, cards: Chips | None, cluster: Cluster | None
) -> Iterator[Finding]:
    """Every chip reports that it is healthy.

    The driver's verdict comes from the chip's own sensors: memory errors, heat, links. A chip that is not OK fails
    jobs, or will.
    """
    if info.npus and all(chip.health is None for chip in info.npus):
        raise Unavailable("npu-smi shows the health of no chip", because=Because.FAILED)
    families = {card.subject: card.family for card in cards.chips} if cards else {}
    for chip in info.npus:
        if chip.says_ok:
            continue
        subject = subject_of(chip, info.npus)
        page = pages.by_subject.get(subject) if pages else None
        yield _unhealthy(chip, subject, page, families.get(subject), single_node=not (cluster and cluster.several))


def _unhealthy(
    chip: Chip, subject: str, page: npu_smi.Health | None, family: str | None, *, single_node: bool
) -> Finding:
    word = chip.health or "nothing"
    known = {code: knowledge.errors().code(code) for code in (page.error_codes if page else ())}
    by_word = _BY_WORD.get(word.upper(), Severity.ERROR)
    severities = [
        Severity(row.severity_on(family, single_node=single_node)) if row else by_word for row in known.values()
    ]
    if not known:
        # Boards of the 310B show Alarm for a sensor that they lack: only the code tells.
        severities = [Severity.INFO if family == "310B" and page is None else by_word]
    meanings = [f"{code}: {row.meaning if row else 'not in our table'}" for code, row in known.items()]
    looks = [row.look for row in known.values() if row and row.look]
    pitfalls = [pitfall for row in known.values() if row for pitfall in row.pitfalls]
    where = f"-i {chip.npu_id}" + (f" -c {chip.chip_id}" if "/chip:" in subject else "")
    evidence = [Evidence(source=TABLE, expected="OK", actual=word)]
    if page is not None and (page.error_codes or page.error_info):
        actual = ", ".join(page.error_codes) or (page.error_info or "")
        evidence.append(Evidence(source=f"npu-smi info -t health {where}", expected="no fault code", actual=actual))
    return Finding(
        subject=subject,
        severity=max(severities),
        summary=f"{chip.name or 'the chip'} reports {word}" + (f" ({'; '.join(meanings)})" if meanings else ""),
        detail=(f"The chip says: {page.error_info}. " if page and page.error_info else "")
        + "A chip that is not OK fails jobs, or will.",
        hint=(f"Look first at: {'; '.join(looks)}. " if looks else "Look the fault code up. ")
        + "Until it is OK again, leave the card out of jobs (ASCEND_RT_VISIBLE_DEVICES).",
        commands=(f"npu-smi info -t health {where}", f"npu-smi info -t ecc {where}"),
        evidence=tuple(evidence),
        pitfall=next(iter(pitfalls), "P021"),
    )


WARM = Threshold(
    "temperature_warn_celsius",
    lambda: knowledge.hardware().temperature.warn_celsius,
    "°C",
    "npudoctor's own: busy chips with enough air stay well below; only the alarm at 95 °C is published",
)
HOT = Threshold(
    "temperature_fail_celsius",
    lambda: knowledge.hardware().temperature.fail_celsius,
    "°C",
    "the driver's own alarm for HBM",
)
ABOVE_PEERS = Threshold(
    "temperature_above_peers_celsius",
    lambda: knowledge.hardware().temperature.above_peers_celsius,
    "°C",
    "equally busy cards of a node differ by a few degrees only, by their place in the air flow",
)


WARM_HBM = Threshold(
    "temperature_hbm_warn_celsius",
    85,
    "°C",
    "the field's own: HBM runs a few degrees above its chip, and alarms at 95 °C",
)


@check("npu.temperature", after=BEHIND_NPU_SMI, thresholds=(WARM, HOT, ABOVE_PEERS, WARM_HBM))
def chips_are_cool(
    info: NpuSmiInfo, holders: CardHolders | None, memories: HotMemories | None, options: Options
) -> Iterator[Finding]:
    """No chip is hotter than its limit, or much hotter than the others that do the same.

    A hot chip slows down, then alarms, then stops; one that is hotter than its neighbours has a fan, a heat sink or a
    slot of its own to blame.
    """
    warn, fail, above = WARM.of(options), HOT.of(options), ABOVE_PEERS.of(options)
    measured = [(chip, chip.temp_c) for chip in info.npus if chip.temp_c]
    if not measured:
        raise Unavailable("npu-smi shows the temperature of no chip")
    peers: dict[bool, list[int]] = {True: [], False: []}
    for chip, celsius in measured:
        peers[_is_busy(chip, holders)].append(celsius)
    for chip, celsius in measured:
        alike = peers[_is_busy(chip, holders)]
        usual = sorted(alike)[(len(alike) - 1) // 2]
        if celsius >= warn:
            severity, limit = (Severity.ERROR, fail) if celsius >= fail else (Severity.WARNING, warn)
            yield _hot(chip, info.npus, celsius, severity, f"below {limit:g} °C (npudoctor's own limit)", "")
        elif len(alike) >= 3 and celsius > usual + above:
            more = f", {celsius - usual} °C more than its peers"
            yield _hot(chip, info.npus, celsius, Severity.WARNING, f"about {usual} °C, as its peers", more)
        elif memories is not None and chip.says_ok:
            memory = memories.by_subject.get(subject_of(chip, info.npus), 0)
            if memory >= WARM_HBM.of(options):
                yield _hot_memory(chip, info.npus, memory, WARM_HBM.of(options), HOT.of(options))


def _hot_memory(chip: Chip, chips: Iterable[Chip], celsius: int, warn: float, fail: float) -> Finding:
    return Finding(
        subject=subject_of(chip, chips),
        severity=Severity.ERROR if celsius >= fail else Severity.WARNING,
        summary=f"the memory (HBM) of {chip.name or 'the chip'} is at {celsius} °C",
        detail="Memory alarms above 95 °C; a chip whose memory is that hot is slowed down, then stopped.",
        hint="Look at the fans, the air flow and the heat sink of this slot; lower the load until it is cool.",
        commands=(f"npu-smi info -t memory -i {chip.npu_id}", f"npu-smi info -t temp -i {chip.npu_id}"),
        evidence=(
            Evidence(
                source=f"npu-smi info -t memory -i {chip.npu_id}",
                expected=f"below {warn:g} °C",
                actual=f"{celsius} °C",
            ),
        ),
        pitfall="P080",
    )


def _is_busy(chip: Chip, holders: CardHolders | None) -> bool:
    return (chip.aicore_pct or 0) >= _BUSY_FROM_PERCENT or bool(holders and holders.on(chip.npu_id, chip.chip_id))


def _hot(chip: Chip, chips: Iterable[Chip], celsius: int, severity: Severity, expected: str, more: str) -> Finding:
    return Finding(
        subject=subject_of(chip, chips),
        severity=severity,
        summary=f"{chip.name or 'the chip'} is at {celsius} °C{more}",
        detail="A chip slows down before it alarms; memory alarms above 95 °C.",
        hint="Look at the fans, the air flow and the heat sink of this slot; lower the load until it is cool.",
        commands=(f"npu-smi info -t temp -i {chip.npu_id}", f"npu-smi info -t common -i {chip.npu_id}"),
        evidence=(Evidence(source=TABLE, expected=expected, actual=f"{celsius} °C"),),
        pitfall="P080",
    )


@check("npu.uniform", after=BEHIND_NPU_SMI)
def chips_are_alike(info: NpuSmiInfo, boards: PerChip[npu_smi.Board] | None) -> Iterator[Finding]:
    """All chips have one model, one memory size, one firmware and one board revision.

    Collectives run at the pace of the slowest card, and a card of another kind may lack what the job uses.
    """
    chips = info.npus
    yield from _odd_ones([(subject_of(chip, chips), chip.name) for chip in chips], "model", TABLE)
    sizes = [(chip, total) for chip in chips if (total := memory_of(chip)[1])]
    usual = sorted(total for _, total in sizes)[(len(sizes) - 1) // 2] if sizes else 0
    for chip, total in sizes:
        if abs(total - usual) > usual * _SAME_SIZE:
            yield Finding(
                subject=subject_of(chip, chips),
                severity=Severity.WARNING,
                summary=f"{chip.name or 'the chip'} has {total} MB of memory, the others have {usual} MB",
                detail="A job that fits the others runs out of memory on this one.",
                hint="Leave it out of jobs, or size them for it.",
                commands=(TABLE,),
                evidence=(Evidence(source=TABLE, expected=f"{usual} MB", actual=f"{total} MB"),),
            )
    if boards is not None:
        pages = boards.by_subject.items()
        source = "npu-smi info -t board"
        yield from _odd_ones([(subject, page.firmware_version) for subject, page in pages], "firmware", source)
        yield from _odd_ones([(subject, page.board_id) for subject, page in pages], "board revision", source)
        if boards.why is not None:
            raise boards.why


def _odd_ones(values: Sequence[tuple[str, str | None]], what: str, source: str) -> Iterator[Finding]:
    known = [(subject, value) for subject, value in values if value]
    counts = Counter(value for _, value in known)
    if len(counts) < 2:
        return
    usual, most = counts.most_common(1)[0]
    odd = [(subject, value) for subject, value in known if value != usual]
    clear = most > len(known) / 2
    summary = ", ".join(f"{subject} {value}" for subject, value in odd)
    yield Finding(
        subject=odd[0][0] if clear and len(odd) == 1 else "host",
        severity=Severity.WARNING,
        summary=f"the cards are not of one {what}: {summary}, the others {usual}",
        detail="Collectives run at the pace of the slowest card; mixed firmware fails in ways that are hard to find.",
        hint="Bring the odd card to the same firmware." if what == "firmware" else "Use cards of one kind in one job.",
        commands=(source if source == TABLE else f"{source} -i {odd[0][0].removeprefix('npu:')}",),
        evidence=tuple(
            Evidence(source=f"{source}, {subject}", expected=usual, actual=value) for subject, value in odd[:4]
        ),
    )
