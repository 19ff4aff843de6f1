"""One run of checks: runs the engine and returns what the daemon needs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from npudoctor import engine
from npudoctor.config import Config
from npudoctor.daemon import cards
from npudoctor.daemon.replies import RunResult
from npudoctor.daemon.timetable import RunKind
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.driver.install import DriverInstall
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.findings import Because, Report
from npudoctor.host import STANDARD_PLACES, Host, Unavailable
from npudoctor.host.live import process_tree
from npudoctor.plugins import Catalog
from npudoctor.records import replace
from npudoctor.sdk import Options
from npudoctor.selection import Selection


def run_checks(
    catalog: Catalog, host: Host, kind: RunKind, options: Options, config: Config, *, deadline_s: float
) -> RunResult:
    """Run the profile, or read the chips' counters, within its deadline."""
    began = time.monotonic()
    report: Report | None = None
    facts: Mapping[type, Any]
    if kind is RunKind.COUNTERS:
        standard = replace(options, profile="standard")
        found = engine.gather(catalog, host, standard, facts=cards.COUNTED, deadline_s=deadline_s)
        facts = {probe.provides: value for probe, value in found.items()}
    else:
        selection = Selection(
            options=replace(options, profile=kind.value),
            fail_on=config.fail_on,
            severities=config.severity,
            silenced=config.silences_on(),
            deadline_s=deadline_s,
        )
        report, facts = _run(catalog, host, selection)
    late = any(isinstance(value, Unavailable) and value.because is Because.TIMED_OUT for value in facts.values())
    if report is not None:
        late = late or any(result.because is Because.TIMED_OUT for result in report.results)
    late = late or _answer_was_late(facts)
    return RunResult(
        kind=kind,
        report=report,
        cards=None if report is None else cards.read(report, facts),
        counted=None if kind is RunKind.QUICK else cards.count_readings(facts),
        versions=versions_of(facts),
        seconds=time.monotonic() - began,
        timed_out=late,
    )


def leftovers() -> dict[str, int]:
    """Vendor tools of an earlier run that could not be killed: name and process.

    A call into a hanging driver cannot be killed; another one would only wait behind it.
    """
    return process_tree.find_programs(STANDARD_PLACES, process_tree.children())


def _answer_was_late(facts: Mapping[type, Any]) -> bool:
    from npudoctor.facts.npu_smi.probes import NpuSmiAnswer

    answer = cards.fact_or_none(facts, NpuSmiAnswer)
    return bool(answer and answer.timed_out)


def _run(catalog: Catalog, host: Host, selection: Selection) -> tuple[Report | None, Mapping[type, Any]]:
    for event in engine.run(catalog, host, selection):
        if isinstance(event, engine.Done):
            return event.report, {probe.provides: value for probe, value in event.facts.items()}
    return None, {}


def versions_of(facts: cards.Facts) -> dict[str, str]:
    """The installed versions in these facts."""
    found: dict[str, str | None] = {}
    if info := cards.fact_or_none(facts, NpuSmiInfo):
        found["driver"] = info.driver_version
    if (driver := cards.fact_or_none(facts, DriverInstall)) and driver.file:
        found["driver"] = driver.file.version or found.get("driver")
    if (cann := cards.fact_or_none(facts, Cann)) and cann.active:
        found["cann"] = str(cann.active.version)
    if python := cards.fact_or_none(facts, PythonEnvironment):
        found["python"] = python.version
        for name in ("torch", "torch_npu"):
            one = getattr(python, name)
            found[name] = None if one is None else str(getattr(one, "version", one))
    return {name: text for name, text in found.items() if text}
