"""One cause is one finding: what several chips have in common is told once, with the list of the chips.

A setting that is wrong on two NPUs was made once, so its findings are always joined. Two NPUs that are hot or have a
bad cable are two causes; from three alike on, or where all are alike, the cause is one: fans, power, a switch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from npudoctor.records import replace
from npudoctor.sdk import Finding

Item = TypeVar("Item")
MOST = 8
"""So many of the chips have their evidence shown."""

MANY = 3
"""From so many chips on a hardware fault that is alike is one cause."""


def on(subjects: Sequence[str]) -> dict[str, Any]:
    """The arguments of a finding about these chips; chips of one NPU are named by the first."""
    if len(subjects) == 1:
        return {"subject": subjects[0]}
    one_npu = len({subject.partition("/")[0] for subject in subjects}) == 1
    return {"subject": subjects[0] if one_npu else "host", "subjects": tuple(subjects)}


def by_setting(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """The items that are alike, group by group."""
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def by_fault(items: Iterable[Item], total: int, key: Callable[[Item], Hashable] = lambda _: None) -> list[list[Item]]:
    """The same where three are alike, or all of several; the others one by one. `total` counts the healthy ones too."""
    found: list[list[Item]] = []
    for group in by_setting(items, key):
        if len(group) >= MANY or len(group) == total > 1:
            found.append(group)
        else:
            found += [[item] for item in group]
    return found


def join(findings: Sequence[Finding]) -> Finding:
    """Findings that are alike but for their chips as one, with the texts of the first and the evidence of all."""
    first = findings[0]
    if len(findings) == 1:
        return first
    evidence = tuple(
        replace(piece, source=f"{piece.source}, {one.subject}") for one in findings[:MOST] for piece in one.evidence
    )
    return replace(first, **on([one.subject for one in findings]), evidence=evidence)
