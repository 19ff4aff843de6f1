"""What is known of each chip after a look: the table of npu-smi, its pages card by card, and how checks judge it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from npudoctor.daemon.answers import Card, Ecc, Fitness
from npudoctor.daemon.state import CardState
from npudoctor.facts.card_network import CardLinks
from npudoctor.facts.cards import Cards, memory_of, subject_of
from npudoctor.facts.device_nodes import DeviceNodes
from npudoctor.facts.npu_pages import ChipEcc
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.findings import Finding, Report, Result, Severity, Status
from npudoctor.sdk import HEALTH

MIB = 1 << 20
COUNTED = (ChipEcc, CardLinks)
"""The facts for which each card is asked by itself."""

READ = (NpuSmiInfo, Cards, DeviceNodes)
"""The facts that say which cards there are and how they are."""

Facts = Mapping[type, Any]
"""Facts by their type; what could not be had is another type's, or missing."""


def known(facts: Facts, kind: type) -> Any:
    """The fact, None where something else stands in its place."""
    found = facts.get(kind)
    return found if isinstance(found, kind) else None


def health_results(report: Report) -> list[Result]:
    """The results that judge whether cards are fit."""
    return [result for result in report.results if HEALTH in result.tags]


def unseen(report: Report) -> str | None:
    """Why the health of the cards could not be judged, in a clause; None where it was."""
    for result in health_results(report):
        if result.silenced:
            continue
        if result.leaves_undetermined:
            return result.reason or f"{result.check} crashed"
        if result.blocked_by and not _is_health(result.blocked_by, report):
            return _of_cause(result.blocked_by, report) or f"{result.check} stands behind {result.blocked_by}"
    return None


def _is_health(check: str, report: Report) -> bool:
    return any(result.check == check for result in health_results(report))


def _of_cause(check: str, report: Report) -> str | None:
    """What a check behind which others stand has found."""
    for result in report.results:
        if result.check == check and result.findings:
            return f"{result.findings[0].summary} ({check})"
    return None


def node_problem(report: Report) -> str | None:
    """What is wrong with the cards' health whichever card it is; None where nothing is."""
    for result, finding in _grave(report, (Severity.ERROR,)):
        if not finding.subject.startswith("npu:"):
            return f"{finding.summary} ({result.check})"
    return None


def _grave(report: Report, severities: Sequence[Severity]) -> Iterable[tuple[Result, Finding]]:
    for severity in severities:
        for result in health_results(report):
            for finding in () if result.silenced else result.findings:
                if finding.severity is severity:
                    yield result, finding


def read(report: Report, facts: Facts, counted: Facts) -> tuple[Card, ...]:
    """Every chip as of this look; `counted` holds the pages card by card, which may be older."""
    info, cards = known(facts, NpuSmiInfo), known(facts, Cards)
    devices = _devices(info, known(facts, DeviceNodes))
    rows = {subject_of(chip, info.npus): chip for chip in info.npus} if info else {}
    found = []
    for one in cards.chips if cards else ():
        chip = rows.get(one.subject)
        health, problem = _judged(report, one.subject)
        found.append(
            Card(
                subject=one.subject,
                npu_id=one.npu_id,
                chip_id=one.chip_id,
                device=devices.get(one.subject, one.npu_id if cards and cards.source == "/dev" else None),
                bus_id=one.bus_id,
                name=one.name,
                health=health,
                problem=problem,
                **(_table(chip) if chip else {}),
                link=_link(one.subject, known(counted, CardLinks)),
                ecc=_ecc(one.subject, known(counted, ChipEcc)),
            )
        )
    return tuple(found)


def _judged(report: Report, subject: str) -> tuple[Fitness, str | None]:
    for result, finding in _grave(report, (Severity.ERROR, Severity.WARNING)):
        if finding.subject == subject or subject.startswith(f"{finding.subject}/"):
            return Fitness(finding.severity.value), f"{finding.summary} ({result.check})"
    looked = any(
        result.check == "npu.health" and result.status is not Status.SKIPPED and result.status is not Status.CRASHED
        for result in report.results
    )
    return (Fitness.OK, None) if looked else (Fitness.UNKNOWN, unseen(report))


def _table(chip: Chip) -> dict[str, Any]:
    used, total = memory_of(chip)
    return {
        "said": chip.health,
        "temperature_celsius": chip.temp_c or None,
        "power_watts": chip.power_w or None,
        "memory_used_bytes": None if used is None else used * MIB,
        "memory_total_bytes": None if total is None else total * MIB,
        "ai_core_percent": chip.aicore_pct,
    }


def _link(subject: str, links: CardLinks | None) -> str | None:
    if links is None:
        return None
    return next((links.statuses.get(device) for device, name in links.subjects.items() if name == subject), None)


def _ecc(subject: str, pages: ChipEcc | None) -> tuple[Ecc, ...]:
    page = pages.by_subject.get(subject) if pages else None
    found = []
    for memory in ("hbm", "ddr") if page else ():
        counts = {name: getattr(page, f"{memory}_{name}") for name in Ecc.model_fields if name != "memory"}
        if any(count is not None for count in counts.values()):
            found.append(Ecc(memory=memory, **counts))
    return tuple(found)


def _devices(info: NpuSmiInfo | None, nodes: DeviceNodes | None) -> dict[str, int]:
    """The N of /dev/davinciN of each chip; none where the two cannot be matched one to one."""
    if info is None or nodes is None:
        return {}
    for number_of in (_own_number, _card_number):
        numbers = {subject_of(chip, info.npus): number_of(chip) for chip in info.npus}
        given = [number for number in numbers.values() if number is not None]
        if len(set(given)) == len(numbers) and set(given) <= set(nodes.numbers):
            return {subject: number for subject, number in numbers.items() if number is not None}
    order = sorted(info.npus, key=lambda chip: (chip.npu_id, chip.chip_id or 0))
    if len(order) != len(nodes.numbers):
        return {}
    return {subject_of(chip, info.npus): number for chip, number in zip(order, sorted(nodes.numbers), strict=True)}


def _own_number(chip: Chip) -> int | None:
    return chip.phy_id if chip.phy_id is not None else chip.device_id


def _card_number(chip: Chip) -> int | None:
    return chip.npu_id


def states(cards: Iterable[Card]) -> tuple[CardState, ...]:
    """What the health check of a container needs to know of each chip that has a device node."""
    return tuple(
        CardState(card.device, (card.problem or "not fit") if card.health is Fitness.ERROR else None)
        for card in cards
        if card.device is not None
    )


def without_node(cards: Iterable[Card]) -> str | None:
    """What is wrong with a chip of which nobody knows the device node: it may be anybody's."""
    return next(
        (f"{card.subject}: {card.problem}" for card in cards if card.device is None and card.health is Fitness.ERROR),
        None,
    )
