"""Publishes the current snapshot; every answer is rendered at most once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from npudoctor import clock
from npudoctor.daemon import answers, metrics, snapshot, state
from npudoctor.daemon.history import History
from npudoctor.daemon.snapshot import View
from npudoctor.data import to_json

ALIVE_S = 30.0
"""Seconds without an iteration after which the scheduler is not alive."""


class Board:
    """Holds the snapshot; one thread publishes, any may read. Nothing here can change the node."""

    def __init__(
        self, view: View, history: History, *, turned_s: Callable[[], float], troubles: Callable[[], tuple[str, ...]]
    ) -> None:
        self.history = history
        self.started_at = clock.timestamp()
        self._turned_s = turned_s
        self._troubles = troubles
        self._lock = threading.Lock()
        self._made: dict[str, bytes] = {}
        self.publish(view)

    def publish(self, view: View) -> None:
        """Publish a snapshot."""
        text = metrics.render(view, started_at=self.started_at, troubles=len(self._troubles()))
        with self._lock:
            self.view = view
            self.metrics = text
            self._made = {}

    def _once(self, name: str, make: Callable[[View], bytes]) -> bytes:
        with self._lock:
            view, made = self.view, self._made
        if name not in made:
            made[name] = make(view)
        return made[name]

    def live(self) -> answers.Live:
        """Whether the scheduler is alive."""
        ago = max(0.0, self._turned_s())
        return answers.Live(alive=ago < ALIVE_S, turned_s_ago=round(ago, 3))

    def ready(self) -> answers.Ready:
        """Whether the NPUs are known to be healthy from a recent run."""
        view = self.view
        reason = view.against
        if reason is None and view.written_s is not None:
            age_s = state.now_s() - view.written_s
            if not 0 <= age_s <= 2 * view.interval_s + view.patience_s:
                reason = f"stale: last run {age_s:.0f} s ago, interval {view.interval_s:g} s"
        return answers.Ready(
            ready=reason is None,
            reason=reason,
            looked_at=None if view.looked_at is None else answers.iso(view.looked_at),
            interval_s=view.interval_s,
            troubles=self._troubles(),
        )

    def report(self, profile: str | None) -> bytes | None:
        """The newest report, of any or of one profile; None before the first."""
        with self._lock:
            view = self.view
        report = view.newest if profile is None else view.reports.get(profile)
        if report is None:
            return None
        return self._once(f"report {profile}", lambda _: to_json(report).encode())

    def cards(self) -> bytes:
        """/v1/cards."""
        return self._once("cards", _cards)

    def issues(self, *, all_of_them: bool) -> bytes:
        """/v1/issues."""
        if not all_of_them:
            return self._once("issues", lambda view: _issues(view, [answers.issue(one) for one in view.issues]))
        with self._lock:
            view = self.view
        return _issues(view, [answers.issue(one) for one in self.history.issues(all_of_them=True)])

    def changes(self, limit: int, before: int | None) -> bytes:
        """/v1/history."""
        found = self.history.changes(limit=limit, before=before)
        more = found[-1].id if len(found) == limit else None
        said = answers.Changes(changes=tuple(answers.change(one) for one in found), next_before=more)
        return to_json(said).encode()


def _cards(view: View) -> bytes:
    said = answers.Cards(
        seen_at=None if view.seen_at is None else answers.iso(view.seen_at),
        counted_at=None if view.counted_at is None else answers.iso(view.counted_at),
        in_service=view.in_service,
        undetermined="no result yet: the first run has not ended" if view.looked_at is None else view.undetermined,
        cards=view.cards,
    )
    return to_json(said).encode()


def _issues(view: View, issues: list[answers.Issue]) -> bytes:
    unknown = snapshot.undetermined_reasons(view.results)
    if view.looked_at is None:
        unknown = ("no result yet: the first run has not ended",)
    elif view.undetermined and not any(view.undetermined in one for one in unknown):
        unknown = (view.undetermined, *unknown)
    said = answers.Issues(
        looked_at=None if view.looked_at is None else answers.iso(view.looked_at),
        undetermined=unknown,
        issues=tuple(issues),
    )
    return to_json(said).encode()
