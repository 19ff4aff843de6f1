"""Whether every expected node answered, once, and with the same npudoctor."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.findings import Finding, Severity
from npudoctor.fleet.checks import messages as say
from npudoctor.fleet.checks._shared import by, on
from npudoctor.fleet.merge import Fleet, split
from npudoctor.sdk import check


@check("fleet.answered")
def answered(fleet: Fleet) -> Iterator[Finding]:
    """Answers of all expected nodes"""
    missing = fleet.missing
    severity = Severity.INFO if len(missing) <= fleet.allow_missing else Severity.WARNING
    for kind, outcomes in by(missing, lambda one: one.about).items():
        why = kind.summary if len(outcomes) > 1 or not outcomes[0].detail else f"{kind.summary} ({outcomes[0].detail})"
        names = [one.node for one in outcomes]
        yield on(say.MISSING, names, why=why, next=kind.hint, severity=severity)
    out = [one for one in fleet.outcomes.values() if one.kind == "scheduler"]
    for why, outcomes in by(out, lambda one: one.detail or "no reason").items():
        yield on(say.OUT, [one.node for one in outcomes], why=why)
    for owner, outcomes in by(fleet.outcomes.values(), lambda one: one.owner).items():
        if owner:
            yield on(say.OTHER_USER, [one.node for one in outcomes], owner=owner)
    for key, members in by(fleet.members, lambda one: one.identity.boot_id).items():
        if key and len(members) > 1:
            names = [one.name for one in members]
            yield on(say.TWICE, names, who=names)
    for key, members in by(fleet.members, lambda one: one.identity.machine_id).items():
        if key and len({one.identity.boot_id for one in members}) > 1:
            names = [one.name for one in members]
            yield on(say.CLONED, names, who=names)
    for (seen, there), members in by(fleet.members, lambda one: _count_hidden(one.identity.visible)).items():
        if seen < there:
            yield on(say.HIDDEN, [one.name for one in members], seen=seen, all=there)
    for held_by, members in by(fleet.members, lambda one: one.identity.hold).items():
        if held_by:
            yield on(say.ON_HOLD, [one.name for one in members], why=held_by)
    for ignored, members in by(fleet.members, lambda one: one.identity.hold_ignored).items():
        if ignored:
            yield on(say.HOLD_IGNORED, [one.name for one in members], why=ignored)
    crashed = [(one, *crash) for one in fleet.members for crash in one.crashes]
    for (check_id, why), rows in by(crashed, lambda row: row[1:]).items():
        yield on(say.UNDETERMINED, [one.name for one, _, _ in rows], check=check_id, why=why)
    found = split("npudoctor", "", fleet.members, lambda one: one.tool_version)
    usual = fleet.head or (found.norm if found else "")
    for version, members in by(fleet.members, lambda one: one.tool_version).items():
        if version != usual and usual:
            yield on(say.SKEW, [one.name for one in members], other=version, usual=usual)


def _count_hidden(visible: dict[str, int]) -> tuple[int, int]:
    there = visible.get("pci", 0)
    return min(visible.get("nodes", there), there), there
