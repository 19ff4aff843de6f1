"""Which NPUs of the node a smoke run tests, and why it leaves out others.

A chip is unhealthy where a check says so: an error of one of `chip_problems.CHIP_CHECKS` about it. Such a chip is not
used without --force, is always named, and a run with it does not pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from npudoctor import chip_problems
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.holders import CardHolders
from npudoctor.findings import Result, Severity
from npudoctor.records import record, replace
from npudoctor.smoke.events import Absence, Excluded, Planned

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


def visible_devices(environ: Mapping[str, str], count: int) -> tuple[int, ...]:
    """The devices of so many that ASCEND_RT_VISIBLE_DEVICES does not hide."""
    text = environ.get(VISIBLE, "").strip()
    if not text:
        return tuple(range(count))
    numbers = [int(part) for part in text.split(",") if re.fullmatch(r"\s*[0-9]{1,9}\s*", part)]
    return tuple(number for number in numbers if number < count)


def why_not(number: int, chips: Chips, health: Iterable[Result], holders: CardHolders | None) -> Excluded | None:
    """Why a device is not used without --force; None where it is."""
    chip = chips.chips[number]
    worst = next(iter(chip_problems.problems(health, chip.subject)), None)
    if worst is not None and worst.severity is Severity.ERROR:
        return Excluded(npu=chip.subject, cause=Absence.UNHEALTHY, reason=worst.brief, check=worst.check)
    if chip.npu_id is not None and holders is not None and (held := holders.on(chip.npu_id, chip.chip_id)):
        names = ", ".join(f"{one.row.name or 'a process'} ({one.row.pid})" for one in held[:3])
        return Excluded(npu=chip.subject, cause=Absence.BUSY, reason=f"held by {names}")
    return None


def missing_npus(chips: Chips, health: Iterable[Result]) -> Iterator[Excluded]:
    """The NPUs that this node should have and a job cannot use, according to the check of their number."""
    known = [chip.subject for chip in chips.chips]
    for result in health:
        if result.check != chip_problems.COUNT_CHECK:
            continue
        for finding in result.open_findings:
            if finding.severity is Severity.INFO or any(chip_problems.is_about(finding, one) for one in known):
                continue
            reason = chip_problems.brief(finding.code, finding.params) or finding.summary
            for name in finding.chips or _names(finding.subject, finding.params):
                yield Excluded(npu=name, cause=Absence.MISSING, reason=reason, check=result.check)


def _names(subject: str, params: Mapping[str, object]) -> Sequence[str]:
    """The missing NPUs of a finding: its subject, else their slots, else as many as are missing."""
    if subject != "host":
        return [subject]
    slots = params.get("slots")
    if isinstance(slots, (list, tuple)) and slots:
        return [str(slot) for slot in slots]
    full, found = params.get("full"), params.get("count")
    lacking = full - found if isinstance(full, int) and isinstance(found, int) else 1
    return [f"NPU {place} of {lacking}" if lacking > 1 else "one NPU" for place in range(1, lacking + 1)]


def unhealthy_chips(planned: Planned, *health: Iterable[Result]) -> tuple[Excluded, ...]:
    """The chips of the run that a check calls unhealthy, before or after it."""
    found: dict[str, Excluded] = {}
    for card in (one.card for one in planned.ranks):
        for results in health if card is not None else ():
            worst = next(iter(chip_problems.problems(results, card or "")), None)
            if worst is not None and worst.severity is Severity.ERROR and card is not None:
                found[card] = Excluded(npu=card, cause=Absence.UNHEALTHY, reason=worst.brief, check=worst.check)
    return tuple(found.values())


def complete_plan(
    planned: Planned, chips: Chips | None, health: Sequence[Result], holders: CardHolders | None
) -> Planned:
    """A recorded plan with the NPUs of its node that took no part, where it does not name them itself."""
    if chips is None or not chips.chips or planned.device != "npu" or planned.chips:
        return planned
    taken = {one.card for one in planned.ranks}
    excluded = [
        why_not(number, chips, health, holders)
        or Excluded(npu=chip.subject, cause=Absence.NOT_SELECTED, reason="not part of the run")
        for number, chip in enumerate(chips.chips)
        if chip.subject not in taken
    ]
    everything = tuple(chip.subject for chip in chips.chips)
    return replace(planned, chips=everything, excluded=(*excluded, *missing_npus(chips, health)))


@record(frozen=True)
class Coverage:
    """How many NPUs (boards) and chips were tested, of how many; totals are None where they are unknown."""

    npus: int
    chips: int
    of_npus: int | None
    of_chips: int | None


def coverage(planned: Planned) -> Coverage:
    """The number of NPUs that a run tests. An NPU of several chips is tested where all of them are."""
    taken = {one.card or one.device for one in planned.ranks}
    gone = {one.npu for one in planned.excluded if one.cause is Absence.MISSING}
    everything = {*planned.chips, *gone}
    boards = {name: {chip for chip in everything | taken if _board(chip) == name} for name in map(_board, taken)}
    whole = sum(chips <= taken for chips in boards.values())
    if not planned.chips:
        return Coverage(whole, len(taken), None, None)
    return Coverage(whole, len(taken), len(set(map(_board, everything))), len(everything))


def _board(chip: str) -> str:
    return chip.partition("/")[0]


def is_complete(planned: Planned) -> bool:
    """Whether every NPU was tested that should be: all of the node, or those that the user chose."""
    return planned.chosen_by is not None or not planned.excluded
