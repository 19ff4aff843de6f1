"""The verdict on a fleet: the checks across nodes, the nodes' own findings by kind, and what nodes in trouble share."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from npudoctor import __version__, engine, plugins
from npudoctor.findings import (
    Finding,
    Line,
    Report,
    Result,
    Severity,
    Verdict,
    apply_site_policy,
    count,
    judge,
    status_of,
)
from npudoctor.fleet import targets
from npudoctor.fleet.merge import Fleet, Member, groups_alike
from npudoctor.fleet.outcomes import Outcome
from npudoctor.host.recording.canned import FakeHost
from npudoctor.models import Model
from npudoctor.plugins import Catalog
from npudoctor.records import field, replace
from npudoctor.sdk import Fix, Probe
from npudoctor.selection import Selection

CHECKS = "npudoctor.fleet.checks"
FIXES = "npudoctor.fixes"
PLUGINS = "npudoctor.fleet"
"""The entry points of plug-ins with checks across nodes."""
FEWEST_FOR_A_CAUSE = 3
ALIKE = 0.9
"""So much of the nodes in trouble, and of those that share something, must be the same nodes."""


class NodeRow(Model):
    """One expected node: what became of it, and its own verdict. `group` is what it is compared with."""

    name: Line
    outcome: Line
    detail: Line | None = None
    verdict: Verdict | None = None
    exit_code: int | None = None
    group: Line | None = None
    profile: Line | None = None
    in_service: bool | None = None
    user: Line | None = None
    environment: Line | None = None
    findings: int = 0
    unlike: bool = False


class GroupRow(Model):
    """Nodes of equal hardware, with what most of them have."""

    name: Line
    nodes: int
    names: Line
    software: dict[Line, Line] = field(default_factory=dict)


class Change(Model):
    """A finding that an earlier run did not have on these nodes (`new`), or that is gone from them."""

    new: bool
    check: Line
    summary: Line
    nodes: tuple[Line, ...]


class FleetReport(Model):
    """The whole of one run: `npudoctor.fleet/1`. `causes` are what nodes in trouble share, the most telling first.

    `changes` are against the run `against`, where one was named.
    """

    schema: str = "npudoctor.fleet/1"
    run: Line | None = None
    engine: Line | None = None
    expected: int
    answered: int
    verdict: Verdict
    exit_code: int
    causes: tuple[Line, ...] = ()
    against: Line | None = None
    changes: tuple[Change, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    report: Report


def catalog_of(fleet: Fleet, files: Sequence[str] = ()) -> Catalog:
    """The checks across nodes, built-in, of entry points and of files, with the probe of this fleet."""
    found = plugins.load_kind(PLUGINS, CHECKS, files)
    probe = Probe(lambda: fleet, Fleet)
    probe.function.__annotations__["return"] = Fleet
    return replace(found, fixes=_Fixes(found.fixes), probes={**found.probes, Fleet: probe})


class _Fixes(Mapping[str, Fix]):
    """What the checks may offer, to be applied on the nodes: loaded when one of them offers a fix."""

    def __init__(self, own: Mapping[str, Fix]) -> None:
        self._own = own

    @functools.cached_property
    def _all(self) -> Mapping[str, Fix]:
        return {**self._own, **plugins.load_kind("", FIXES).fixes}

    def __getitem__(self, id: str) -> Fix:
        return self._all[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def judge_fleet(
    fleet: Fleet,
    selection: Selection,
    files: Sequence[str] = (),
    *,
    run: str | None = None,
    asked_by: str | None = None,
) -> FleetReport:
    """Run the checks across nodes, and fold the nodes' own findings into the same report."""
    for event in engine.run(catalog_of(fleet, files), FakeHost(), selection, workers=1):
        if isinstance(event, engine.Done):
            across = event.report
    own = (apply_site_policy(one, selection.severities, selection.silenced) for one in _own(fleet.members))
    results = (*across.results, *own)
    verdict, code = judge(results, fail_on=selection.fail_on)
    if code == 0 and (not fleet.members or len(fleet.missing) > fleet.allow_missing):
        verdict, code = Verdict.UNDETERMINED, 3
    report = replace(
        across,
        tool_version=__version__,
        host=replace(across.host, hostname=f"{len(fleet.members)} of {len(fleet.names)} nodes answered", machine=None),
        verdict=verdict,
        exit_code=code,
        environment="each node",
        summary=count(results),
        results=results,
    )
    return FleetReport(
        expected=len(fleet.names),
        answered=len(fleet.members),
        verdict=verdict,
        exit_code=code,
        causes=tuple(dict.fromkeys(causes(fleet, report))),
        groups=tuple(_groups(fleet)),
        nodes=tuple(_rows(fleet, across)),
        report=report,
        run=run,
        engine=asked_by,
    )


def _own(members: Sequence[Member]) -> Iterator[Result]:
    """The nodes' own findings: one result a check, one finding for all nodes where it says the same but for numbers."""
    rows: dict[str, dict[tuple[str, str, Severity], list[tuple[str, Finding]]]] = {}
    titles: dict[str, str] = {}
    for member in members:
        for check, title, finding in member.findings:
            titles[check] = title
            kind = (*_kind(finding), finding.severity)
            rows.setdefault(check, {}).setdefault(kind, []).append((member.name, finding))
    for check in sorted(rows, key=lambda one: (-max(kind[2].rank for kind in rows[one]), one)):
        found = []
        for same in sorted(rows[check].values(), key=lambda one: -len(one)):
            names = list(dict.fromkeys(name for name, _ in same))
            first = same[0][1]
            params = {**first.params, "nodes": names, "count": len(names)}
            summary = first.summary if len(names) == 1 else f"{first.summary} (and alike on {len(names) - 1} more)"
            if len({finding.summary for _, finding in same}) == 1:
                summary = first.summary
            where = f"{first.where}: " if first.where else ""
            found.append(
                replace(first, summary=f"{where}{summary}", subject=targets.fold(names), subjects=(), params=params)
            )
        yield Result(check=check, title=titles[check], status=status_of(found), findings=tuple(found))


def _rows(fleet: Fleet, across: Report) -> Iterator[NodeRow]:
    by_name = {member.name: member for member in fleet.members}
    unlike = {
        name
        for result in across.results
        for finding in result.open_findings
        if finding.severity > Severity.INFO and result.check != "fleet.answered"
        for name in finding.params.get("nodes", ())
        if not (finding.code or "").endswith("/tie") and len(finding.params.get("nodes", ())) < len(fleet.members)
    }
    for name in fleet.names:
        member = by_name.get(name)
        outcome = fleet.outcomes.get(name) or Outcome(node=name, kind="silent")
        row = NodeRow(name=name, outcome=outcome.kind, detail=outcome.detail)
        if member is not None:
            row = replace(
                row,
                verdict=member.verdict,
                exit_code=member.exit_code,
                group=member.group,
                profile=member.profile,
                in_service=member.in_service,
                user=member.identity.user,
                environment=member.environment,
                findings=len(member.findings),
                unlike=name in unlike,
            )
        yield row


_SHOWN = ("driver version", "CANN", "package torch", "package torch-npu", "operating system")


def _groups(fleet: Fleet) -> Iterator[GroupRow]:
    for name, members in fleet.groups.items():
        said: dict[str, Counter[str]] = {title: Counter() for title in _SHOWN}
        for features, having in groups_alike(members):
            for feature, value in features.items():
                if feature.title in said:
                    said[feature.title][", ".join(value)] += len(having)
        software = {
            title: max(sorted(values), key=values.__getitem__)
            + (f" (and {len(values) - 1} other)" if len(values) > 1 else "")
            for title, values in said.items()
            if values
        }
        yield GroupRow(
            name=name, nodes=len(members), names=targets.fold(one.name for one in members), software=software
        )


def changes(report: FleetReport, before: FleetReport) -> Iterator[Change]:
    """What is new and what is gone since an earlier run, by kind of finding and node."""
    now, then = _by_kind(report), _by_kind(before)
    for kind in dict.fromkeys((*now, *then)):
        summary, have = now.get(kind, ("", set()))
        said, had = then.get(kind, ("", set()))
        for new, nodes, text in ((True, have - had, summary), (False, had - have, said)):
            if nodes:
                yield Change(new=new, check=kind[0], summary=text, nodes=tuple(sorted(nodes)))


def _kind(finding: Finding) -> tuple[str, str]:
    """What findings that say the same share: code and parameters, but for numbers; without a code, the sentence."""
    said = str(sorted(finding.params.items())) if finding.code else finding.summary
    return finding.code or "", re.sub(r"\d+", "N", said)


def _by_kind(report: FleetReport) -> dict[tuple[str, str], tuple[str, set[str]]]:
    """The findings above info by check and code: what they say, and on which nodes."""
    found: dict[tuple[str, str], tuple[str, set[str]]] = {}
    for result in report.report.results:
        for finding in result.open_findings:
            if finding.severity > Severity.INFO:
                kind = (result.check, finding.code or re.sub(r"\d+", "N", finding.summary))
                nodes = found.setdefault(kind, (finding.summary, set()))[1]
                nodes.update(map(str, finding.params.get("nodes", ())))
    return found


# Causes across nodes


def causes(fleet: Fleet, report: Report) -> Iterator[str]:
    """What the nodes of a finding share and the other nodes lack: a switch, a rack, an image."""
    shared, everyone = _shared_things(fleet), {member.name for member in fleet.members}
    for result in report.results:
        for finding in result.open_findings:
            nodes = set(finding.params.get("nodes", ()))
            if finding.severity is Severity.INFO or len(nodes) < FEWEST_FOR_A_CAUSE or nodes >= everyone:
                continue
            if (finding.code or "").endswith("/tie"):
                continue
            for what, having in shared:
                both = len(nodes & having)
                if both >= ALIKE * max(len(nodes), len(having)) and not having >= everyone:
                    titled = finding.params.get("title")
                    if titled and str(titled) in what:
                        continue
                    yield f"{what} is shared by {both} of the {len(nodes)} nodes with: {finding.summary}"
                    break


def _shared_things(fleet: Fleet) -> list[tuple[str, set[str]]]:
    """What some nodes share, the physical things first: (what, the nodes)."""
    switches: dict[str, set[str]] = {}
    prefixes: dict[str, set[str]] = {}
    software: dict[str, set[str]] = {}
    for name in fleet.names:
        parts = re.findall(r"(?<![A-Za-z])[A-Za-z]+\d+", name.partition(".")[0])
        for end in range(1, len(parts)):
            head = name[: name.index(parts[end - 1]) + len(parts[end - 1])]
            prefixes.setdefault(f"The prefix {head}", set()).add(name)
    for member in fleet.members:
        for npu in member.identity.npus.values():
            if npu.switch:
                switches.setdefault(f"Switch {npu.switch}", set()).add(member.name)
    for features, having in groups_alike(fleet.members):
        for feature, value in features.items():
            if feature.title in (*_SHOWN, "kernel", "BIOS version", "server model"):
                software.setdefault(f"{feature.title} {', '.join(value)}", set()).update(having)
    return [*switches.items(), *prefixes.items(), *software.items()]
