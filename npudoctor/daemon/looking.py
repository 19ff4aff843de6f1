"""One look at the node: the engine is run, the history learns of it, and a new view is made of both."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from npudoctor import engine
from npudoctor.config import Config
from npudoctor.daemon import cards, view
from npudoctor.daemon.agenda import Look
from npudoctor.daemon.history import History
from npudoctor.daemon.store import Change
from npudoctor.daemon.view import Looked, View
from npudoctor.findings import Because, Report
from npudoctor.host import STANDARD_PLACES, Host, Unavailable
from npudoctor.plugins import Catalog
from npudoctor.records import dataclass, replace
from npudoctor.sdk import Check, Options
from npudoctor.selection import Selection

COUNTERS = "daemon.counters"
_CHILDREN = "/proc/self/task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a look brought. `report` is None for the counters; `seconds` is wall time."""

    look: Look
    report: Report | None
    facts: cards.Facts
    seconds: float
    timed_out: bool


def look_at(catalog: Catalog, host: Host, look: Look, options: Options, config: Config, *, deadline_s: float) -> Seen:
    """Run the profile, or ask the cards for what they count; kept to its deadline whatever the tools do."""
    began = time.monotonic()
    if look is Look.COUNTERS:
        report, facts = _counters(catalog, host, replace(options, profile="standard"), deadline_s)
    else:
        selection = Selection(
            options=replace(options, profile=look.value),
            fail_on=config.fail_on,
            severities=config.severity,
            silenced=config.silenced(),
            deadline_s=deadline_s,
        )
        report, facts = _run(catalog, host, selection)
    late = any(isinstance(value, Unavailable) and value.because is Because.TIMED_OUT for value in facts.values())
    if report is not None:
        late = late or any(result.because is Because.TIMED_OUT for result in report.results)
    late = late or _answer_was_late(facts)
    kept = report if look is not Look.COUNTERS else None
    return Seen(look=look, report=kept, facts=facts, seconds=time.monotonic() - began, timed_out=late)


def leftovers() -> dict[str, int]:
    """The vendor's tools that an earlier look has started and nobody could end: name and process.

    A call into a driver that hangs cannot even be killed; another one would only stand behind it.
    """
    found = {}
    with contextlib.suppress(OSError):
        for task in os.listdir(_CHILDREN):
            with open(f"{_CHILDREN}/{task}/children", encoding="ascii") as file:
                pids = file.read().split()
            for pid in pids:
                with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if (name := file.read().strip()) in STANDARD_PLACES:
                        found[name] = int(pid)
    return found


def _answer_was_late(facts: Mapping[type, Any]) -> bool:
    from npudoctor.facts.npu import NpuSmiAnswer

    answer = cards.known(facts, NpuSmiAnswer)
    return bool(answer and answer.timed_out)


def _counters(
    catalog: Catalog, host: Host, options: Options, deadline_s: float
) -> tuple[Report | None, Mapping[type, Any]]:
    asking = Check(
        id=COUNTERS,
        title="",
        why="",
        tags=(),
        profile="quick",
        after=(),
        requires=cards.COUNTED,
        fix=None,
        function=lambda: iter(()),
    )
    alone = replace(catalog, checks={COUNTERS: asking}, broken=())
    return _run(alone, host, Selection(names=(COUNTERS,), options=options, deadline_s=deadline_s))


def _run(catalog: Catalog, host: Host, selection: Selection) -> tuple[Report | None, Mapping[type, Any]]:
    for event in engine.run(catalog, host, selection):
        if isinstance(event, engine.Done):
            return event.report, {probe.provides: value for probe, value in event.facts.items()}
    return None, {}


class Witness:
    """Makes of each look the next view. `say` gets a line for the log about every change."""

    def __init__(self, catalog: Catalog, history: History, say: Callable[[str], None]) -> None:
        self.catalog = catalog
        self.history = history
        self._say = say
        self._facts: dict[type, Any] = {}
        self._counted: dict[type, Any] = {}

    def take(self, before: View, seen: Seen, *, written_s: float, interval_s: float) -> tuple[View, list[Change]]:
        """The view after a look, and what has changed by it."""
        now = time.time()
        last = before.looks.get(seen.look.value)
        looks = {
            **before.looks,
            seen.look.value: Looked(at=now, seconds=seen.seconds, count=1 + (last.count if last else 0)),
        }
        after = replace(before, looks=looks, interval_s=interval_s, patience_s=0.0)
        if seen.look is not Look.QUICK:
            self._counted = {kind: seen.facts[kind] for kind in cards.COUNTED if kind in seen.facts}
            after = replace(after, counted_at=now)
        changes: list[Change] = []
        report = seen.report
        if report is not None:
            changes = self._enter(report)
            self._facts = {kind: seen.facts[kind] for kind in cards.READ if kind in seen.facts}
            others = {profile: one for profile, one in before.reports.items() if profile != report.profile}
            reports = {**others, report.profile: report}
            after = replace(
                after,
                reports=reports,
                results=view.results_of(reports, self.catalog),
                issues=tuple(self.history.issues()),
                versions={**before.versions, **view.versions_of(seen.facts)},
                in_service=report.in_service,
                seen_at=now,
                looked_at=now,
                written_s=written_s,
                problem=cards.node_problem(report),
                undetermined=cards.unseen(report),
            )
        judged = report or after.newest
        if judged is not None:
            after = replace(after, cards=cards.read(judged, self._facts, self._counted))
        return after, changes

    def _enter(self, report: Report) -> list[Change]:
        changes = self.history.take(report)
        for one in changes:
            about = "" if one.subject in ("host", "python", "container") else f"{one.subject}: "
            self._say(f"{one.kind} {one.severity}: {about}{one.said} ({one.check})")
        return changes
