"""Every offer resolves its finding, on every node; a fix without its main step does not, and is found."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from npudoctor.findings import Finding, Result, Severity
from npudoctor.plugins import Catalog
from npudoctor.records import replace
from npudoctor.sdk import Fix, Note, Step
from tests.fixes import offers, printed

ROOT = Path(__file__).resolve().parents[2]
NODES = {node.name: node for node in offers.nodes()}
CATALOG = offers.load()

NOT_OFFERED = {
    "cann.install": "it takes a folder that a person names; tests/fixes/test_cann_install.py",
    "npu.address": "it takes a table that a person names; tests/fixes/test_npu_address.py",
    "system.packages": "its checks are asked for with a folder; tests/fixes/test_system_packages.py",
    "driver.user": "its check is asked for with a folder; tests/fixes/test_driver_user.py",
    "service.install": "a person asks for it",
    "service.remove": "a person asks for it",
    "system.clean-logs": "the files of a simulated node have no age; tests/fixes/test_real.py",
}
"""The fixes that no node of the tests offers."""

OF_LITTLE_USE = {
    ("env.profile", ".bashrc"): "for a terminal that is no login; the simulation logs in",
}
"""Steps of a plan, by what they write, without which the finding is gone all the same, with the reason."""


@functools.cache
def offers_of(name: str) -> Mapping[str, list[tuple[Result, Finding]]]:
    """What the findings of a node offer, by fix."""
    return offers.offers(NODES[name], CATALOG)


@functools.cache
def offered() -> dict[str, list[str]]:
    """The nodes that offer a fix, by fix."""
    found: dict[str, list[str]] = {}
    for name in NODES:
        for id in offers_of(name):
            found.setdefault(id, []).append(name)
    return found


@pytest.mark.parametrize("name", NODES)
def test_what_is_offered_resolves_the_finding_and_is_undone(name: str) -> None:
    node = NODES[name]
    wrong = {id: found for id in offers_of(name) if (found := offers.problems(node, id, CATALOG))}
    assert wrong == {}


def test_every_fix_is_offered_by_some_node() -> None:
    assert offered().keys() | NOT_OFFERED.keys() == CATALOG.fixes.keys()
    assert not offered().keys() & NOT_OFFERED.keys()


def steps_of(name: str, id: str) -> list[Step]:
    """The steps of the plan for what a node offers."""
    node = NODES[name]
    host = node.build()
    with offers.with_its_rights(host, CATALOG.fixes[id].root) as acting:
        return [one.step for one in offers.planned(node, acting, id, offers_of(name)[id], CATALOG).steps]


def one_of_each_kind() -> list[tuple[str, str]]:
    """Fixes with a node that offers them, one for each set of findings that offers them."""
    kinds: dict[tuple[str, ...], tuple[str, str]] = {}
    for id, names in offered().items():
        for name in names:
            codes = sorted({finding.code or "" for _, finding in offers_of(name)[id]})
            kinds.setdefault((id, *codes), (id, name))
    return sorted(kinds.values())


NO_NOTES, NOTHING = "no notes", "nothing"


def with_fix(fix: Fix) -> Catalog:
    """The catalogue with another fix in the place of its own."""
    return replace(CATALOG, fixes={**CATALOG.fixes, fix.id: fix})


def without(fix: Fix, left_out: Step | str) -> Fix:
    """A fix whose plan lacks one of its steps; with NO_NOTES it prints nothing, with NOTHING it is whole."""

    @functools.wraps(fix.function)
    def planner(*facts: Any, **named: Any) -> Iterator[Step | Note]:
        for one in fix.function(*facts, **named):
            if one != left_out and not (isinstance(one, Note) and left_out == NO_NOTES):
                yield one

    changed = replace(fix, function=planner)
    vars(changed)["needs"] = fix.needs  # a wrapper's own parameters say nothing
    return changed


@pytest.mark.parametrize("id", sorted(CATALOG.fixes.keys() - NOT_OFFERED.keys()))
def test_a_fix_without_one_of_its_steps_is_found(id: str) -> None:
    survived: list[str] = []
    for name in (name for one, name in one_of_each_kind() if one == id):
        assert offers.problems(NODES[name], id, with_fix(without(CATALOG.fixes[id], NOTHING))) == []
        survived += [
            f"{name}: {type(step).__name__} {getattr(step, 'path', '')}"
            for step in (*steps_of(name, id),) or (NO_NOTES,)
            if not offers.problems(NODES[name], id, with_fix(without(CATALOG.fixes[id], step)))
        ]
    expected = tuple(end for one, end in OF_LITTLE_USE if one == id)
    assert [one for one in survived if not (expected and one.endswith(expected))] == []


def findings(name: str) -> list[tuple[str, Finding]]:
    """The findings of a node, with their checks."""
    node = NODES[name]
    report = node.diagnose(node.build(), CATALOG)
    return [(result.check, finding) for result in report.results for finding in result.findings]


@pytest.mark.parametrize("name", NODES)
def test_a_printed_command_is_in_the_table_and_resolves_its_finding(name: str) -> None:
    wrong = []
    found = findings(name)
    for check, finding in found:
        wrong += [f"no row for {one!r}" for one in finding.commands if printed.row_of(one) is None]
        if finding.severity is Severity.INFO or any(
            re.match(one, f"{name}: {finding.code}") for one in ALONE_NOT_ENOUGH
        ):
            continue
        host = NODES[name].build()
        try:
            later, ran = printed.carry_out(host, finding.commands)
        except printed.CannotBeSimulated:
            continue
        if not ran:
            continue
        after = NODES[name].diagnose(later, CATALOG)
        key = (check, finding.subject, finding.code)
        left = [(result.check, one.subject, one.code) for result in after.results for one in result.findings]
        if left.count(key) >= [(check, one.subject, one.code) for check, one in found].count(key):
            wrong.append(f"{finding.code} of {finding.subject} is still there after {finding.commands}")
    assert wrong == []


_WRITTEN = "what the import prints is written in the scenario"
ALONE_NOT_ENOUGH = {
    r".*: python\.import-torch": _WRITTEN,
    r"cuda-torch-known-by-its-import: ": _WRITTEN,
    r".*: stack\.": "pip chooses the release, and the simulated index has any",
}
"""Codes of findings that their printed commands do not resolve on the simulation, with the reason."""


def test_the_simulation_knows_nothing_of_fixes() -> None:
    """What carries out the steps must not share their planners' mistakes."""
    folders = ("npudoctor/sim", "npudoctor/host/simulated")
    for path in (path for folder in folders for path in (ROOT / folder).glob("*.py")):
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in one.names] if isinstance(one, ast.Import) else []
            names += [one.module or ""] if isinstance(one, ast.ImportFrom) else []
            for module in names:
                assert not module.startswith(("npudoctor.fixes", "fixes", "npudoctor.fixer", "npudoctor.steps")), path
