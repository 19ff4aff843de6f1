"""The state of each chip after a run: npu-smi's table, its per-chip pages, and the findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.daemon import fitness
from npudoctor.daemon.answers import Card, Ecc, Fitness
from npudoctor.daemon.seen import Counted
from npudoctor.facts.hccn.card_view import CardLinks
from npudoctor.facts.node.cards import Cards, memory_of, subject_of
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.npu_smi.per_chip import ChipEcc
from npudoctor.findings import Report, Severity, Status

MIB = 1 << 20
COUNTED = (ChipEcc, CardLinks)
"""The facts read chip by chip."""

Facts = Mapping[type, Any]
"""Facts by type; an unavailable fact is of another type, or missing."""


def known(facts: Facts, kind: type) -> Any:
    """The fact, None where it is unavailable."""
    found = facts.get(kind)
    return found if isinstance(found, kind) else None


def read(report: Report, facts: Facts) -> tuple[Card, ...]:
    """Every chip as of this run, without per-chip readings."""
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
                link=None,
                ecc=(),
            )
        )
    return tuple(found)


def counted(facts: Facts) -> dict[str, Counted]:
    """The per-chip readings."""
    links, pages = known(facts, CardLinks), known(facts, ChipEcc)
    subjects = [*(pages.by_subject if pages else ()), *(links.subjects.values() if links else ())]
    return {one: Counted(link=_link(one, links), ecc=_ecc(one, pages)) for one in dict.fromkeys(subjects)}


def _judged(report: Report, subject: str) -> tuple[Fitness, str | None]:
    for result, finding in fitness.grave(report, (Severity.ERROR, Severity.WARNING)):
        if finding.subject == subject or subject.startswith(f"{finding.subject}/"):
            return Fitness(finding.severity.value), f"{finding.summary} ({result.check})"
    looked = any(
        result.check == "npu.health" and result.status is not Status.SKIPPED and result.status is not Status.CRASHED
        for result in report.results
    )
    return (Fitness.OK, None) if looked else (Fitness.UNKNOWN, fitness.unseen(report))


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
