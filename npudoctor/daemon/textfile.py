"""Metrics of a single run as a file for node_exporter's textfile collector, replaced as a whole."""

from __future__ import annotations

import os

from npudoctor import clock
from npudoctor.daemon import cards, fitness, metrics
from npudoctor.daemon.run_checks import versions_of
from npudoctor.daemon.snapshot import RunStats, View
from npudoctor.engine import Done
from npudoctor.findings import Report
from npudoctor.host.live.safe_files import open_replacement
from npudoctor.sdk import PROFILES


def write(path: str, done: Done) -> None:
    """Write the metrics; raises OSError or Refused, and then leaves the old file in place.

    The draft is beside it under a name that the collector ignores.
    """
    facts = {probe.provides: value for probe, value in done.facts.items()}
    text = metrics.render(_view(done.report, facts, at=clock.timestamp(), seconds=done.report.duration_s))
    with open_replacement(path, mode=0o644) as file:
        os.fchmod(file.fileno(), 0o644)  # the collector is another user
        file.write(text)


def _view(report: Report, facts: cards.Facts, *, at: float, seconds: float) -> View:
    """The snapshot of a single run, as `check --metrics-file` writes it."""
    deep = PROFILES.index(report.profile) > 0
    return View(
        interval_s=0.0,
        reports={report.profile: report},
        results=report.results,
        runs={report.profile: RunStats(at=at, seconds=seconds, count=1)},
        cards=fitness.with_counts(cards.read(report, facts), cards.count_readings(facts)),
        versions=versions_of(facts),
        in_service=report.in_service,
        seen_at=at,
        counted_at=at if deep else None,
        looked_at=at,
        problem=fitness.node_problem(report),
        undetermined=fitness.why_unseen(report),
    )
