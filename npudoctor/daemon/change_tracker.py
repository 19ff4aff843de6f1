"""Turns the result of a run into history entries and the next snapshot."""

from __future__ import annotations

from collections.abc import Callable

from npudoctor import clock
from npudoctor.daemon import fitness, snapshot
from npudoctor.daemon.answers import Card
from npudoctor.daemon.history import History
from npudoctor.daemon.replies import Counted, Known, RunResult
from npudoctor.daemon.snapshot import RunStats, View
from npudoctor.daemon.store import Change
from npudoctor.daemon.timetable import RunKind
from npudoctor.findings import Report
from npudoctor.records import replace


class ChangeTracker:
    """Makes the next snapshot from each run. `say` gets a log line about every change."""

    def __init__(self, history: History, say: Callable[[str], None]) -> None:
        self.history = history
        self._say = say
        self._cards: tuple[Card, ...] = ()
        self._counted: dict[str, Counted] = {}

    def take(
        self, before: View, seen: RunResult, known: Known, *, written_s: float, interval_s: float
    ) -> tuple[View, list[Change]]:
        """The snapshot after a run with this catalogue, and the changes."""
        now = clock.timestamp()
        last = before.runs.get(seen.kind.value)
        runs = {
            **before.runs,
            seen.kind.value: RunStats(at=now, seconds=seen.seconds, count=1 + (last.count if last else 0)),
        }
        after = replace(before, runs=runs, interval_s=interval_s, patience_s=0.0)
        if seen.counted is not None:
            self._counted = seen.counted
            after = replace(after, counted_at=now)
        changes: list[Change] = []
        report = seen.report
        if report is not None:
            changes = self._enter(report)
            self._cards = seen.cards or ()
            others = {profile: one for profile, one in before.reports.items() if profile != report.profile}
            reports = {**others, report.profile: report}
            after = replace(
                after,
                reports=reports,
                results=snapshot.results_of(reports, {check.id: check.after for check in known.checks}),
                issues=tuple(self.history.issues()),
                versions={**before.versions, **seen.versions},
                in_service=report.in_service,
                seen_at=now,
                looked_at=now,
                written_s=written_s,
                problem=fitness.node_problem(report),
                undetermined=fitness.why_unseen(report),
            )
        cards = fitness.with_counts(self._cards, self._counted)
        if report is not None:
            self.history.sample(cards)
        return replace(after, cards=cards), changes

    def miss(self, before: View, kind: RunKind, why: str, *, written_s: float) -> View:
        """The snapshot after a failed run: the state of the chips is unknown."""
        if kind is RunKind.COUNTERS:
            return replace(before, patience_s=0.0)
        return replace(before, patience_s=0.0, looked_at=clock.timestamp(), written_s=written_s, undetermined=why)

    def _enter(self, report: Report) -> list[Change]:
        changes = self.history.take(report)
        for one in changes:
            about = "" if one.subject in (None, "host", "python", "container") else f"{one.subject}: "
            check = f" ({one.check})" if one.check else ""
            self._say(f"{' '.join(filter(None, (one.kind, one.severity)))}: {about}{one.said}{check}")
        return changes
