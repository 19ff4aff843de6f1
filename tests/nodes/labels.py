"""Labelled nodes: each a file of what differs from a healthy node, and the truth about it, in labelled/*.toml.

    about = "set_env.sh was never sourced"
    pitfalls = ["P001"]

    [node]                      # a scenario of the simulator; a healthy 8 x 910B3 but for this
    cann = { sourced = false }

    [bundle.stat."/dev/hisi_hdc"]   # what no scenario says: merged into the recording's JSON files
    access = ""

    [options]                   # what the person who asks decides
    expect_idle = true

    [truth]                     # the keys of a truth.json; a `must` without a subject is about any
    must = [{ check = "cann.environment", severity = "error", subject = "host" }]
    skipped = { "python.devices" = "cann.environment" }
    says = ["system.clock"]     # what else is worth knowing, at severity info

Expanded into a recording on disk (`Label.diagnose(folder)`), a node goes the whole way that a real one goes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from npudoctor import plugins, sim
from npudoctor.findings import Report, Result, Severity, Status
from npudoctor.host import Host
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.sim import machine, scenario
from npudoctor.testing import run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "labelled"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "scenarios"
USUAL = {"product": "atlas-800t-a2-910b3"}

BEFORE_TRAINING = {f"P{number:03}" for number in range(1, 66)} - {
    "P019",  # a rank dies or is slow while the job runs; only a smoke run shows it
    "P032",  # the job's own code forks after it has touched a card
    "P038",  # pip's failure while installing; what it leaves behind is a node without torch
    "P043",  # a name that people misread; no state of a node
    "P044",  # the data type that a job chooses
    "P045",  # the tensors that a job passes
    "P046",  # the arguments of a job's collectives
    "P054",  # streams and events that a job uses up
    "P063",  # operators that a job lets the CPU do
}
"""The pitfalls up to P065 that a node shows before a job runs on it; each is on one of the labelled nodes."""


@dataclass(frozen=True)
class Label:
    """A node, and the truth about it."""

    name: str
    about: str
    pitfalls: tuple[str, ...]
    truth: Mapping[str, Any]
    said: Mapping[str, Any] = field(default_factory=dict)
    recording: Path | None = None

    @property
    def musts(self) -> list[Mapping[str, Any]]:
        return list(self.truth.get("must", ()))

    @property
    def needs_a_folder(self) -> bool:
        """Whether the simulated node alone is not the whole of it."""
        return "bundle" in self.said

    def diagnose(self, folder: Path | None = None) -> Report:
        """Run every check but the smoke run on the node: on its recording, expanded below `folder` where one is given.

        Without a folder it is the simulated node itself, which answers the same, sooner.
        """
        catalog = _catalog()
        names = sorted({check.group for check in catalog.checks.values()} - {"install", "smoke"})
        options = {"profile": "full", **self.said.get("options", {})}
        return run(self._host(folder), *names, catalog=catalog, **options)

    def _host(self, folder: Path | None) -> Host:
        if self.recording:
            return open_bundle(str(self.recording))
        host = machine.build(scenario.parse({**USUAL, **self.said.get("node", {})}, self.name), self.name)
        if folder is None:
            assert not self.needs_a_folder
            return host
        bundle = folder / self.name
        sim.write_bundle(host, str(bundle))
        for name, change in self.said.get("bundle", {}).items():
            path = bundle / f"{name}.json"
            known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            path.write_text(json.dumps(_merged(known, change)), encoding="utf-8")
        return open_bundle(str(bundle))


@cache
def _catalog() -> plugins.Catalog:
    return plugins.load()


def _merged(base: Any, change: Any) -> Any:
    """The base with the tables of the change laid over it."""
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{key: _merged(base.get(key), value) for key, value in change.items()}}
    return change


def written() -> list[Label]:
    """The nodes of this repository."""
    return [read(path) for path in sorted(FOLDER.glob("*.toml"))]


KEYS = {
    "": {"about", "pitfalls", "node", "bundle", "options", "truth"},
    "truth": {"healthy", "must", "must_not", "skipped", "allowed", "says", "ok"},
    "must": {"check", "severity", "subject"},
}
"""What a file may say; the simulator, the options and the recording refuse what they do not know themselves."""


def refuse_unknown(where: str, table: str, said: Mapping[str, Any]) -> None:
    """Raise ValueError for a key that nobody would read."""
    if unknown := sorted(said.keys() - KEYS[table]):
        raise ValueError(f"{where}: {unknown[0]}: no such key (expected one of {', '.join(sorted(KEYS[table]))})")


def read(path: Path) -> Label:
    said = tomllib.loads(path.read_text(encoding="utf-8"))
    refuse_unknown(path.name, "", said)
    refuse_unknown(f"{path.name}: truth", "truth", said["truth"])
    for must in said["truth"].get("must", ()):
        refuse_unknown(f"{path.name}: truth: must", "must", must)
    return Label(path.stem, said["about"], tuple(said.get("pitfalls", ())), said["truth"], said)


def recorded() -> list[Label]:
    """The nodes beside this repository."""
    return [
        Label(path.parent.name, truth["about"], (), truth, recording=path.parent / "bundle")
        for path in sorted(SHARED.glob("*/truth.json"))
        if (truth := json.loads(path.read_text(encoding="utf-8")))
    ]


@dataclass(frozen=True)
class Score:
    """How far a diagnosis is from the truth: what was missed, what was said in vain, what was wrongly skipped."""

    causes: int
    missed: tuple[str, ...]
    false: tuple[str, ...]
    wrong_skips: tuple[str, ...]

    @property
    def perfect(self) -> bool:
        return not (self.missed or self.false or self.wrong_skips)


def score(label: Label, report: Report) -> Score:
    """Compare a report with the truth."""
    results = {result.check: result for result in report.results}
    worse: dict[str, set[str]] = {}
    for result in report.results:
        for finding in result.findings:
            if finding.severity > Severity.INFO:
                worse.setdefault(result.check, set()).add(finding.subject)
    missed = [why for must in label.musts if (why := _why_missed(must, worse, results))]
    missed += [
        f"{check} says nothing"
        for check in label.truth.get("says", ())
        if not any(finding.severity is Severity.INFO for finding in results[check].findings)
    ]
    wanted = {must["check"] for must in label.musts} | set(label.truth.get("allowed", ()))
    false = [
        f"{check} ({finding.subject}: {finding.summary})"
        for check in worse
        if check not in wanted or check in label.truth.get("must_not", ())
        for finding in results[check].findings
        if finding.severity > Severity.INFO
    ]
    for check in sorted({must["check"] for must in label.musts} & set(worse)):
        right = _subjects(label, check)
        if right is not None:
            false += [f"{check} ({subject})" for subject in sorted(worse[check] - right)]
    false += [
        f"{result.check} crashed: {result.reason}" for result in report.results if result.status is Status.CRASHED
    ]
    return Score(len(label.musts), tuple(missed), tuple(false), tuple(_wrong_skips(label, results)))


def _subjects(label: Label, check: str) -> set[str] | None:
    """The subjects of which the truth speaks; None where any is right."""
    subjects: set[Any] = set()
    for must in label.musts:
        if must["check"] == check:
            said = must.get("subject")
            if said is None:
                return None
            subjects |= {said} if isinstance(said, str) else set(said)
    return subjects


def _why_missed(must: Mapping[str, Any], worse: Mapping[str, set[str]], results: Mapping[str, Result]) -> str | None:
    check, subject = must["check"], must.get("subject")
    if check not in results:
        return f"{check} is not in the catalogue"
    result = results[check]
    if check not in worse:
        return f"{check} is {result.status.value} ({result.reason or result.blocked_by or 'no finding'})"
    if subject is not None and not worse[check] & set(subject if isinstance(subject, list) else [subject]):
        return f"{check} is about {', '.join(sorted(worse[check]))}, not {subject}"
    wanted = must["severity"] if isinstance(must["severity"], list) else [must["severity"]]
    if result.worst is None or result.worst.value not in wanted:
        return f"{check} is {result.worst}, not {must['severity']}"
    return None


def _wrong_skips(label: Label, results: Mapping[str, Result]) -> Iterator[str]:
    for check, cause in label.truth.get("skipped", {}).items():
        if check not in results:
            yield f"{check} is not in the catalogue"
        elif (results[check].status, results[check].blocked_by) != (Status.SKIPPED, cause):
            result = results[check]
            yield f"{check} is {result.status.value} behind {result.blocked_by} ({result.reason}), not behind {cause}"
    for check in label.truth.get("ok", ()):
        if check not in results:
            yield f"{check} is not in the catalogue"
        elif results[check].status is not Status.OK:
            yield f"{check} is {results[check].status.value} ({results[check].reason}), not ok"
