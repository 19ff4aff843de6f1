"""The NPUs themselves: present, complete, healthy, cool, uniform."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.facts import npu_smi
from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.dcmi.answer import LibraryAnswer
from npudoctor.facts.dcmi.both import ToolPages
from npudoctor.facts.dcmi.pages import table
from npudoctor.facts.node.chips import Chips, memory_of, subject_of
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import DRIVER_ONLY, CardPresence, Role
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.node.slices import template_of
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.npu_smi.per_chip import HealthPages, HotMemories
from npudoctor.facts.npu_smi.probes import NpuSmiAnswer
from npudoctor.facts.system.pci import DEVICES, PciCards
from npudoctor.records import replace
from npudoctor.sdk import HEALTH, Because, Evidence, Finding, Message, Options, Severity, Threshold, Unavailable, check

from ._lost import cross_check_sources, fewer_than_the_product, no_answer_at_start
from ._reset import reset_of
from ._silent import DRIVER_LINES, is_silent, silent_finding
from ._sources import disagreement, listed_by_either, lists_differ, page_from
from ._together import by_fault, by_setting, on
from .messages import npu as messages

TABLE = "npu-smi info"
BEHIND_NPU_SMI = ("npu.present", "container.devices", "driver.installed", "driver.npu-smi")

_BUSY_FROM_PERCENT = 5
_SAME_SIZE = 0.05
_BY_WORD = {"ALARM": messages.ALARM, "CRITICAL": messages.CRITICAL, "WARNING": messages.WARNING}


@check("npu.present", tags=(HEALTH,), after=("container.devices",))
def a_card_is_present(found: CardPresence, role: Role | None) -> Iterator[Finding]:
    """Ascend NPUs present.

    Without one nothing that runs on the NPU can work. An NPU counts that is on the PCI bus, in /dev, or in npu-smi.
    """
    if found.cards:
        if role is not None and role.name == DRIVER_ONLY:
            yield messages.DRIVER_ONLY.finding()
        return
    looked = (
        (f"{DEVICES} (vendor 0x19e5, device 0xd100 … 0xd806)", found.pci),
        ("/dev/davinci*", found.nodes),
        (TABLE, found.npu_smi),
    )
    missing = messages.MISSING_IN_CONTAINER if found.in_container else messages.MISSING
    yield missing.finding(
        commands=("lspci -nn -d 19e5:", "ls -l /dev/davinci*"),
        evidence=tuple(
            Evidence(
                source=source,
                expected=messages.AN_NPU.text(),
                actual=messages.NONE.text() if count == 0 else messages.NO_ANSWER.text(),
            )
            for source, count in looked
            if not (found.in_container and count is None)
        ),
    )


@check("npu.count", tags=(HEALTH,), after=BEHIND_NPU_SMI)
def sources_agree_on_the_cards(
    info: NpuSmiInfo,
    nodes: DeviceNodes | None,
    pci: PciCards | None,
    container: Container | None,
    cards: Chips | None,
    library: LibraryAnswer | None,
    answer: NpuSmiAnswer | None,
    pages: ToolPages | None,
    options: Options,
) -> Iterator[Finding]:
    """Chip count equal on PCI bus, in /dev and in npu-smi.

    An NPU that has dropped off the bus, or that the driver could not start, is missing from one of them while jobs wait
    for it. A container sees the PCI bus of its host, which is not compared.
    """
    by_tool = answer.info if answer is not None else None
    differ = library is not None and lists_differ(info, by_tool)
    inside = container is not None
    found = list(cross_check_sources(listed_by_either(info, by_tool), nodes, None if inside else pci, inside=inside))
    yield from found
    if library is not None and library.lost_npus and not found:
        yield no_answer_at_start(library)
    elif container is None and not found and not differ and cards is not None:
        yield from fewer_than_the_product(info, cards)
    if library is not None and (options.profile == "full" or differ):
        with contextlib.suppress(Unavailable):
            yield from disagreement(table(library), by_tool, pages)


@check("npu.health", tags=(HEALTH,), after=BEHIND_NPU_SMI)
def every_chip_is_healthy(
    info: NpuSmiInfo,
    pages: HealthPages | None,
    cards: Chips | None,
    holders: CardHolders | None,
    cluster: Cluster | None,
) -> Iterator[Finding]:
    """Health of every chip.

    The driver's verdict comes from the chip's own sensors: memory errors, heat, links. Jobs on an unhealthy chip fail.
    """
    if info.npus and all(chip.health is None for chip in info.npus):
        raise Unavailable(messages.HEALTH_NOT_SHOWN.text(), because=Because.FAILED)
    families = {card.subject: card.family for card in cards.chips} if cards else {}
    single_node = not (cluster and cluster.several)
    found = []
    for chip in info.npus:
        subject = subject_of(chip, info.npus)
        if chip.says_ok:
            if is_silent(chip, info.npus):
                found.append(silent_finding(chip, info, reset_of(subject, cards, holders), subject))
            continue
        family = families.get(subject)
        one = _unhealthy_finding(chip, subject, pages, family, table=info.shown_by, single_node=single_node)
        found.append(one)
    if len(found) == len(info.npus) > 1 and len({(one.severity, one.summary) for one in found}) == 1:
        yield replace(found[0], **on([one.subject for one in found]))
    else:
        yield from found


def _unhealthy_finding(
    chip: Chip, subject: str, pages: HealthPages | None, family: str | None, *, table: str, single_node: bool
) -> Finding:
    page = pages.by_subject.get(subject) if pages else None
    known = {code: knowledge.errors().code(code) for code in (page.error_codes if page else ())}
    message = _BY_WORD.get(chip.health.upper(), messages.OTHER_HEALTH) if chip.health else messages.NO_HEALTH
    severities = [
        Severity(row.severity_on(family, single_node=single_node)) if row else message.severity
        for row in known.values()
    ]
    if not known:
        # Boards of the 310B show Alarm for a sensor that they lack: only the code tells.
        severities = [Severity.INFO if family == "310B" and page is None else message.severity]
    meanings = {code: row.meaning if row is not None else _published_meaning(code) for code, row in known.items()}
    faults = [messages.FAULT.text(code=code, meaning=meaning) for code, meaning in meanings.items() if meaning]
    if unknown := [code for code, meaning in meanings.items() if meaning is None]:
        faults.append(messages.UNKNOWN_FAULT.text(codes=unknown, count=len(unknown)))
    if not faults:
        faults = [messages.FAULT_NOT_READ.text() if page is None else messages.NO_FAULT_CODE.text()]
    places = [row.look for row in known.values() if row and row.look]
    pitfalls = [pitfall for row in known.values() if row for pitfall in row.pitfalls]
    information = "; ".join(page.error_info.splitlines()) if page and page.error_info else None
    without_a_code = messages.WITHOUT_A_CODE.text()
    card, own = f"-i {chip.npu_id}", "" if chip.chip_id is None else f" -c {chip.chip_id}"
    where = card + own
    evidence = [Evidence(source=table, expected="OK", actual=chip.health or messages.NONE.text())]
    if pages is not None and page is not None and (page.error_codes or page.error_info):
        actual = ", ".join(page.error_codes) or (page.error_info or "")
        source = page_from(pages.sources, subject, f"npu-smi info -t health {where}")
        evidence.append(Evidence(source=source, expected=messages.NO_FAULT_CODE.text(), actual=actual))
    return message.finding(
        subject=subject,
        severity=max(severities),
        chip=_name(chip),
        faults=faults,
        health=chip.health,
        detail=messages.FAULT_INFORMATION.text(information=information) if information else None,
        hint=messages.CHECK_FIRST.text(places="; ".join(places))
        if places
        else None
        if known or page is None
        else without_a_code,
        commands=(
            f"npu-smi info -t health {where}",
            *(() if known or page is None else (DRIVER_LINES,)),
            *(f"npudoctor explain {code}" for code, row in known.items() if row is None),
            f"npu-smi info -t ecc {card}",
        ),
        evidence=tuple(evidence),
        pitfall=next(iter(pitfalls), "P021"),
    )


def _published_meaning(code: str) -> str | None:
    """The meaning of a fault code by the vendor's own lists, where the table of errors does not have it."""
    found = knowledge.codes().of_id(code)
    return found.meaning if found is not None else None


def _name(chip: Chip) -> str:
    """The chip's model, as far as npu-smi shows it."""
    return chip.name or messages.CHIP.text()


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
    "equally busy NPUs of a node differ by only a few degrees, by their place in the air flow",
)


WARM_HBM = Threshold(
    "temperature_hbm_warn_celsius",
    85,
    "°C",
    "npudoctor's own: HBM is a few degrees warmer than its chip, and alarms at 95 °C",
)


@check("npu.temperature", after=BEHIND_NPU_SMI, thresholds=(WARM, HOT, ABOVE_PEERS, WARM_HBM))
def chips_are_cool(
    info: NpuSmiInfo, holders: CardHolders | None, memories: HotMemories | None, options: Options
) -> Iterator[Finding]:
    """Temperatures of chips and HBM.

    A hot chip slows down, then alarms, then stops. A chip much hotter than equally busy ones points to a fan, a heat
    sink or a slot.
    """
    warn, fail, above = WARM.of(options), HOT.of(options), ABOVE_PEERS.of(options)
    measured = [(chip, chip.temp_c) for chip in info.npus if chip.temp_c]
    if not measured:
        raise Unavailable(messages.TEMPERATURE_NOT_SHOWN.text())
    peers: dict[bool, list[int]] = {True: [], False: []}
    for chip, celsius in measured:
        peers[_is_busy(chip, holders)].append(celsius)
    hot: list[tuple[Message, Chip, int]] = []
    for chip, celsius in measured:
        alike = peers[_is_busy(chip, holders)]
        usual = sorted(alike)[(len(alike) - 1) // 2]
        pages = memories.by_subject if memories is not None and chip.says_ok else {}
        memory = pages.get(subject_of(chip, info.npus), 0)
        if celsius >= fail:
            hot.append((messages.HOT_CHIP, chip, celsius))
        elif memory >= fail:
            hot.append((messages.HOT_MEMORY, chip, memory))
        elif celsius >= warn:
            hot.append((messages.WARM_CHIP, chip, celsius))
        elif len(alike) >= 3 and celsius > usual + above:
            expected = messages.AS_PEERS.text(celsius=usual)
            yield _hot(messages.HOTTER_THAN_PEERS, [(chip, celsius)], info, expected, difference=celsius - usual)
        elif memory >= WARM_HBM.of(options):
            hot.append((messages.WARM_MEMORY, chip, memory))
    for group in by_fault(hot, len(measured), lambda one: one[0].code):
        message, chips = group[0][0], [(chip, celsius) for _, chip, celsius in group]
        if message in (messages.HOT_MEMORY, messages.WARM_MEMORY):
            limit = fail if message is messages.HOT_MEMORY else WARM_HBM.of(options)
            yield _hot_memory(message, chips, info.npus, limit, memories.sources if memories else {})
        else:
            limit = fail if message is messages.HOT_CHIP else warn
            yield _hot(message, chips, info, messages.BELOW_CELSIUS.text(limit=limit), limit=limit)


Heat = Sequence[tuple[Chip, int]]
"""Chips with their temperature in °C, or that of their HBM."""


def _hot_memory(
    message: Message, hot: Heat, chips: Iterable[Chip], limit: float, sources: Mapping[str, str]
) -> Finding:
    first = hot[0][0]
    return message.finding(
        **on([subject_of(chip, chips) for chip, _ in hot]),
        chip=_name(first),
        celsius=_span(hot),
        limit=limit,
        commands=(f"npu-smi info -t memory -i {first.npu_id}", f"npu-smi info -t temp -i {first.npu_id}"),
        evidence=tuple(
            Evidence(
                source=page_from(sources, subject_of(chip, chips), f"npu-smi info -t memory -i {chip.npu_id}"),
                expected=messages.BELOW_CELSIUS.text(limit=limit),
                actual=f"{celsius} °C",
            )
            for chip, celsius in hot
        ),
    )


def _span(hot: Heat) -> int | str:
    """The temperatures as a number, or from the lowest to the highest."""
    values = sorted({celsius for _, celsius in hot})
    return values[0] if len(values) == 1 else f"{values[0]}–{values[-1]}"


def _is_busy(chip: Chip, holders: CardHolders | None) -> bool:
    return (chip.aicore_pct or 0) >= _BUSY_FROM_PERCENT or bool(holders and holders.on(chip.npu_id, chip.chip_id))


def _hot(message: Message, hot: Heat, info: NpuSmiInfo, expected: str, **params: Any) -> Finding:
    first, chips, table = hot[0][0], info.npus, info.shown_by
    return message.finding(
        **on([subject_of(chip, chips) for chip, _ in hot]),
        chip=_name(first),
        celsius=_span(hot),
        commands=(f"npu-smi info -t temp -i {first.npu_id}", f"npu-smi info -t common -i {first.npu_id}"),
        evidence=tuple(
            Evidence(
                source=table if len(hot) == 1 else f"{table}, {subject_of(chip, chips)}",
                expected=expected,
                actual=f"{celsius} °C",
            )
            for chip, celsius in hot
        ),
        hint=messages.COOL_THE_NODE.text() if len(hot) > 1 else None,
        **params,
    )


@check("npu.uniform", after=BEHIND_NPU_SMI)
def chips_are_alike(info: NpuSmiInfo, boards: PerChip[npu_smi.Board] | None) -> Iterator[Finding]:
    """Same model, memory, firmware and board on all NPUs.

    Collectives run at the pace of the slowest NPU, and an NPU of another kind may lack what the job uses. A vNPU is
    compared with those of the same template, a whole NPU with whole NPUs.
    """
    groups: dict[str | None, list[Chip]] = {}
    for chip in info.npus:
        groups.setdefault(template_of(chip.name), []).append(chip)
    for template, chips in groups.items():
        yield from _odd_chips(chips, info, boards if template is None else None)


def _odd_chips(chips: Sequence[Chip], info: NpuSmiInfo, boards: PerChip[npu_smi.Board] | None) -> Iterator[Finding]:
    models = [(subject_of(chip, info.npus), chip.name) for chip in chips]
    yield from _odd_ones(models, messages.MODEL_MISMATCH, info.shown_by)
    usual_model = Counter(name for _, name in models).most_common(1)[0][0] if models else None
    other_model = {subject.partition("/")[0] for subject, name in models if name != usual_model}
    sizes = [(subject_of(chip, info.npus), total) for chip in chips if (total := memory_of(chip)[1])]
    yield from _odd_sizes([one for one in sizes if one[0].partition("/")[0] not in other_model], info.shown_by)
    if boards is None:
        return
    pages = [(one, page) for one, page in boards.by_subject.items() if one.partition("/")[0] not in other_model]
    source = "npu-smi info -t board", boards.sources
    boards_found = list(_odd_ones([(one, page.board_id) for one, page in pages], messages.BOARD_MISMATCH, *source))
    yield from boards_found
    other_board = {chip for found in boards_found for chip in found.chips}
    firmware = [(one, page.firmware_version) for one, page in pages if one not in other_board]
    yield from _odd_ones(firmware, messages.FIRMWARE_MISMATCH, *source)
    if boards.why is not None:
        yield messages.BOARD_NOT_READ.finding(**on(list(boards.failed)), reason=boards.why.reason)


def _odd_sizes(sizes: Sequence[tuple[str, int]], table: str) -> Iterator[Finding]:
    """Chips whose memory differs by more than 5 % from that of most."""
    usual = sorted(total for _, total in sizes)[(len(sizes) - 1) // 2] if sizes else 0
    odd = [(subject, total) for subject, total in sizes if abs(total - usual) > usual * _SAME_SIZE]
    for group in by_setting(odd, lambda one: one[1]):
        total = group[0][1]
        yield messages.MEMORY_MISMATCH.finding(
            **on([subject for subject, _ in group]),
            total_mb=total,
            usual_mb=usual,
            commands=(TABLE,),
            evidence=(
                Evidence(
                    source=table,
                    expected=messages.MEMORY.text(memory_mb=usual),
                    actual=messages.MEMORY.text(memory_mb=total),
                ),
            ),
        )


def _odd_ones(
    values: Sequence[tuple[str, str | None]], message: Message, table: str, sources: Mapping[str, str] | None = None
) -> Iterator[Finding]:
    known = [(subject, value) for subject, value in values if value]
    counts = Counter(value for _, value in known)
    if len(counts) < 2:
        return
    usual, most = counts.most_common(1)[0]
    odd = [(subject, value) for subject, value in known if value != usual]
    clear = most > len(known) / 2
    told = {one: page_from(sources or {}, one, f"{table}, {one}") for one, _ in odd}
    yield message.finding(
        **on([subject for subject, _ in odd] if clear else ["host"]),
        odd=[f"{subject} {value}" for subject, value in odd],
        usual=usual,
        commands=(TABLE if sources is None else f"{table} -i {odd[0][0].removeprefix('npu:')}",),
        evidence=tuple(Evidence(source=told[one], expected=usual, actual=value) for one, value in odd[:4]),
    )
