"""The answers about each chip, made from the report and the facts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.chip_problems import HEALTH_CHECK, problems
from npudoctor.daemon import fitness
from npudoctor.daemon.answers import Card, Ecc, Fitness
from npudoctor.daemon.replies import Counted
from npudoctor.facts import npu_smi
from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.hccn.card_view import CardLinks
from npudoctor.facts.node.chips import Chips
from npudoctor.findings import Report, Status
from npudoctor.injection import is_of
from npudoctor.sdk import HEALTH

MIB = 1 << 20
COUNTED = (PerChip[npu_smi.Ecc], CardLinks)
"""The facts read chip by chip."""

Facts = Mapping[type, Any]
"""Facts by type; an unavailable fact is of another type, or missing."""


def fact_or_none(facts: Facts, kind: type) -> Any:
    """The fact, None where it is unavailable."""
    found = facts.get(kind)
    return found if is_of(found, kind) else None


def read(report: Report, facts: Facts) -> tuple[Card, ...]:
    """Every chip as of this run, without per-chip readings."""
    chips = fact_or_none(facts, Chips)
    judged = [result for result in report.results if HEALTH in result.tags]
    looked = any(
        result.check == HEALTH_CHECK and result.status not in (Status.SKIPPED, Status.CRASHED) for result in judged
    )
    unseen = None if looked else fitness.why_unseen(report)
    found = []
    for chip in chips.chips if chips else ():
        worst = next(iter(problems(judged, chip.subject)), None)
        used, total = chip.memory_used_mb, chip.memory_mb
        found.append(
            Card(
                subject=chip.subject,
                npu_id=chip.npu_id,
                chip_id=chip.chip_id,
                device=chip.device,
                bus_id=chip.bus_id,
                name=chip.name,
                health=Fitness(worst.severity.value) if worst else Fitness.OK if looked else Fitness.UNKNOWN,
                problem=worst.text if worst else unseen,
                said=chip.health,
                temperature_celsius=chip.temp_c,
                power_watts=chip.power_w,
                memory_used_bytes=None if used is None else used * MIB,
                memory_total_bytes=None if total is None else total * MIB,
                ai_core_percent=chip.aicore_pct,
                link=None,
                ecc=(),
            )
        )
    return tuple(found)


def count_readings(facts: Facts) -> dict[str, Counted]:
    """The per-chip readings."""
    links, pages = fact_or_none(facts, CardLinks), fact_or_none(facts, PerChip[npu_smi.Ecc])
    up, errors = links.by_subject if links else {}, pages.by_subject if pages else {}
    return {one: Counted(link=up.get(one), ecc=_ecc(errors.get(one))) for one in {**errors, **up}}


def _ecc(page: npu_smi.Ecc | None) -> tuple[Ecc, ...]:
    found = []
    for memory in ("hbm", "ddr") if page else ():
        counts = {name: getattr(page, f"{memory}_{name}") for name in Ecc.__dataclass_fields__ if name != "memory"}
        if any(count is not None for count in counts.values()):
            found.append(Ecc(memory=memory, **counts))
    return tuple(found)
