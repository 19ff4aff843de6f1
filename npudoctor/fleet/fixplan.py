"""Which fixes the findings of a fleet offer, and on which nodes: a plan that changes nothing.

A fix is applied on the node, by its operator: no engine carries a confirmation. What both ends of a link or all ranks
of a job must share is planned for a whole group of nodes at once.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from npudoctor.findings import Line
from npudoctor.fleet.lists import held_nodes
from npudoctor.fleet.targets import fold, is_name
from npudoctor.fleet.verdict import FleetReport
from npudoctor.models import Model
from npudoctor.records import replace

FOR_GROUPS: Mapping[str, str] = {
    "npu.tls-off": "links need the same TLS switch at both ends",
    "python.install-pair": "ranks of a job need one torch and torch_npu",
}
"""Fixes of what nodes share, with the reason: one node alone would differ from the others afterwards."""


_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,60}(?:\.[a-z0-9][a-z0-9_-]{0,60}){0,3}")
"""A node says what its fixes are called; what Ansible or a shell would evaluate is no name of one."""


class Planned(Model):
    """One fix for several nodes; `reason` is set where it is for the whole group, which is drained together."""

    id: Line
    nodes: tuple[Line, ...]
    summary: Line
    reason: Line | None = None


def plan(report: FleetReport, wanted: str | None = None) -> list[Planned]:
    """The fixes that findings offer, or one of them; those for most nodes first. Nodes on hold refuse a fix."""
    on_hold = held_nodes(report)
    groups = {row.name: row.group for row in report.nodes if row.group}
    nodes: dict[str, list[str]] = {}
    summaries: dict[str, str] = {}
    for result in report.report.results:
        for finding in result.open_findings:
            if finding.fix and wanted in (None, finding.fix.id) and _ID.fullmatch(finding.fix.id):
                on = filter(is_name, map(str, finding.params.get("nodes", ())))
                nodes.setdefault(finding.fix.id, []).extend(name for name in on if name not in on_hold)
                summaries.setdefault(finding.fix.id, finding.summary)
    rows = (
        Planned(id=id, nodes=tuple(dict.fromkeys(on)), summary=summaries[id], reason=FOR_GROUPS.get(id))
        for id, on in nodes.items()
        if on
    )
    rows = (_for_whole_groups(one, groups, on_hold) for one in rows)
    return sorted(rows, key=lambda one: (-len(one.nodes), one.id))


def _for_whole_groups(one: Planned, groups: Mapping[str, str], on_hold: set[str]) -> Planned:
    """What nodes share is planned for all nodes of their groups: one that is left out would differ afterwards."""
    if not one.reason:
        return one
    concerned = {groups[name] for name in one.nodes if name in groups}
    everyone = tuple(name for name, group in groups.items() if group in concerned and is_name(name))
    return replace(one, nodes=tuple(name for name in everyone if name not in on_hold) or one.nodes)


def render(rows: list[Planned], form: str) -> str:
    """The plan as text, as commands for a shell, or as a playbook; each only previews."""
    return "".join({"text": _text, "shell": _shell, "ansible": _ansible}[form](rows))


def _text(rows: list[Planned]) -> Iterator[str]:
    for one in rows:
        yield f"{one.id}  on {fold(one.nodes)}\n    {one.summary}\n"
        if one.reason:
            yield f"    scope: group ({one.reason}); drain and fix these nodes together\n"
    yield "Nothing was changed. On a node: npudoctor fix ID previews, asks, applies and verifies.\n"


def _shell(rows: list[Planned]) -> Iterator[str]:
    for one in rows:
        yield f"# {one.id}: {one.reason or 'each node by itself'}\n"
        for node in one.nodes:
            yield f"{shlex.join(['ssh', node, f'npudoctor fix {shlex.quote(one.id)} --dry-run'])}\n"


def _ansible(rows: list[Planned]) -> Iterator[str]:
    for one in rows:
        hosts = ",".join(one.nodes)
        yield f"# {one.reason or 'each node by itself'}; --dry-run previews and changes nothing\n"
        yield f"- hosts: {_quote(hosts)}\n  gather_facts: false\n  tasks:\n"
        yield f"    - command: {_quote(f'npudoctor fix {shlex.quote(one.id)} --dry-run')}\n      changed_when: false\n"


def _quote(text: str) -> str:
    """A YAML string."""
    import json

    return json.dumps(text)
