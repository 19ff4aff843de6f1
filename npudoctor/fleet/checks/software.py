"""What is installed and set on the nodes, compared within each group of equal hardware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npudoctor.compare.features import FIRMWARE, GENERIC, Feature, Values
from npudoctor.findings import Finding
from npudoctor.fleet.checks import messages as say
from npudoctor.fleet.checks._shared import by, differing, names, on, value_text
from npudoctor.fleet.merge import Fleet, Member, feature_splits
from npudoctor.sdk import check

VERSIONS = {
    "driver": "driver version",
    "driver package": "driver package",
    "firmware": FIRMWARE,
    "firmware package": "firmware package",
    "cann": "CANN",
    "cann in use": "CANN in use",
    "ops": "operators of CANN",
    "nnal": "NNAL",
    "torch": "package torch",
    "torch_npu": "package torch-npu",
}
"""The titles of features by the names that a baseline file uses."""
_WITH = {
    "driver version": ("driver package",),
    FIRMWARE: ("firmware package",),
    "CANN": ("CANN in use", "operators of CANN"),
}
"""What an upgrade changes together with a title, to the same versions."""
_SYSTEM = ("system.", "host.profile", "network.", "node.container", "node.role")
_ANYWAY = frozenset({"NPUs", "TLS switch"})


def kind_of(feature: Feature) -> str:
    """Which check compares a feature; empty for one that others do, or that differs anyway."""
    title = feature.title
    if title in VERSIONS.values():
        return "versions"
    if title.startswith("variable "):
        return "environment"
    if feature.source.startswith("python.") or title.startswith("package "):
        return "python"
    if feature.source == "findings" or feature.source.startswith(("hccn.", "npu_smi.")) or title in _ANYWAY:
        return ""
    if feature.source.startswith(_SYSTEM) and (feature.rank < GENERIC or feature.source != "network.rank_table_file"):
        return "system"
    return "other"


@check("fleet.versions")
def versions(fleet: Fleet) -> Iterator[Finding]:
    """Versions of driver, firmware, CANN and torch on all nodes

    Ranks of one job need one CANN (HCCL ends with EI0008) and usually one driver and torch_npu.
    """
    upgraded: set[tuple[str, str]] = set()
    for group, members in fleet.groups.items():
        stated = fleet.baseline.get(group.rpartition(" (")[0]) or fleet.baseline.get("") or {}
        if wanted := {**dict(_together(members, stated)), **stated}:
            upgraded |= {(group, title) for title in wanted}
            yield from _upgrade(group, members, wanted)
    splits = feature_splits(fleet, lambda one: kind_of(one) == "versions")
    found = (one for one in splits if (one.group, one.title) not in upgraded)
    yield from differing(say.VERSION, say.VERSION_TIE, found, {"CANN": say.SAME_CANN.text()})


def _together(members: list[Member], stated: Mapping[str, tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """What has only the versions of a stated title: it is upgraded with it."""
    for title, versions in stated.items():
        for other in _WITH.get(title, ()):
            if all(_state(member, other, *versions) != "neither" for member in members):
                yield other, versions


def _upgrade(group: str, members: list[Member], wanted: Mapping[str, tuple[str, str]]) -> Iterator[Finding]:
    rows = [
        (member, {title: _state(member, title, *versions) for title, versions in wanted.items()}) for member in members
    ]
    done = [member for member, said in rows if set(said.values()) <= {"new", ""}]
    yield on(say.UPGRADE, names(done), group=group, done=len(done), all=len(members))
    for said, same in by(rows, lambda row: tuple(row[1].items())).items():
        which = {word: [title for title, one in said if one == word] for word in ("new", "old")}
        if which["new"] and which["old"]:
            yield on(say.HALF, names(one for one, _ in same), **which)
    for title, (old, new) in wanted.items():
        odd = [(value_text(value_of(member, title)), member) for member, said in rows if said[title] == "neither"]
        for value, having in by(odd, lambda row: row[0]).items():
            yield on(say.NEITHER, names(one for _, one in having), title=title, value=value, old=old, new=new)


def _state(member: Member, title: str, old: str, new: str) -> str:
    said = {part.rpartition(" × ")[2] for part in value_of(member, title)}
    return "" if not said else "new" if said == {new} else "old" if said == {old} else "neither"


def value_of(member: Member, title: str) -> Values:
    """What a node has of a title; nothing where it is unknown."""
    return next((value for one, value in member.node.features.items() if one.title == title), ())


@check("fleet.system", after=())
def system(fleet: Fleet) -> Iterator[Finding]:
    """Operating system, kernel and host settings on all nodes"""
    yield from differing(say.SYSTEM, say.SYSTEM_TIE, feature_splits(fleet, lambda one: kind_of(one) == "system"))


@check("fleet.python")
def python(fleet: Fleet) -> Iterator[Finding]:
    """Python, its path and its packages on all nodes"""
    yield from differing(say.PYTHON, say.PYTHON_TIE, feature_splits(fleet, lambda one: kind_of(one) == "python"))


@check("fleet.environment")
def environment(fleet: Fleet) -> Iterator[Finding]:
    """Environment variables of a job on all nodes

    HCCL_IF_IP must be each node's own address; the other variables of HCCL, Ascend and Gloo must be equal.
    """
    ours = lambda one: kind_of(one) == "environment" and one.title != "variable HCCL_IF_IP"  # noqa: E731
    yield from differing(say.ENVIRONMENT, say.ENVIRONMENT_TIE, feature_splits(fleet, ours))
    said = [(member, member.identity.variables.get("HCCL_IF_IP")) for member in fleet.members]
    stated = [(member, value) for member, value in said if value]
    for value, rows in by(stated, lambda row: row[1]).items():
        if len(rows) > 1:
            yield on(say.ADDRESS_SHARED, [one.name for one, _ in rows], value=value)
    for member, value in stated:
        if member.identity.addresses and value not in member.identity.addresses:
            yield on(say.ADDRESS_NOT_OWN, [member.name], value=value, node=member.name)


@check("fleet.other")
def other(fleet: Fleet) -> Iterator[Finding]:
    """Other values that differ between nodes

    They are information: most follow from a difference that another check reports.
    """
    known = {
        frozenset(one.odd and names(one.odd))
        for one in feature_splits(fleet, lambda one: kind_of(one) in ("versions", "python", "system", "environment"))
    }
    rest = (one for one in feature_splits(fleet, lambda one: kind_of(one) == "other") if one.norm is not None)
    yield from differing(say.OTHER, say.OTHER, (one for one in rest if frozenset(names(one.odd)) not in known))
