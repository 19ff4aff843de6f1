"""One cycle: run checks, record and publish the results, and apply the allowed fixes."""

from __future__ import annotations

import time
from collections.abc import Callable

from npudoctor import clock
from npudoctor.daemon import autofix, fitness, notify, state
from npudoctor.daemon.change_tracker import ChangeTracker
from npudoctor.daemon.history import History
from npudoctor.daemon.publisher import Board
from npudoctor.daemon.replies import CheckRunner, Lost, Paused, RunResult
from npudoctor.daemon.site import Places, Site
from npudoctor.daemon.snapshot import View
from npudoctor.daemon.store import Change
from npudoctor.daemon.timetable import Agenda, RunKind
from npudoctor.daemon.troubles import Troubles
from npudoctor.daemon_config import DaemonSettings
from npudoctor.findings import Severity
from npudoctor.host import hands_off
from npudoctor.records import replace

STUCK_S = 45.0
"""Seconds after its deadline at which a run counts as stuck: by then its process was restarted or killed."""

FIXING_S = 900.0
"""Seconds after which the fixes of a cycle count as stuck."""

CLOCK_SLIP_S = 120.0
"""Seconds by which wall clock and boot clock must differ to count as a clock change."""

NO_PRUNING_S = 86400.0
"""Seconds after such a change in which nothing is deleted by age."""

PRUNE_EVERY_S = 3600.0


class Rounds:
    """Runs cycles on request, one at a time. `until` is the deadline of the current work.

    `until` is a time of `time.monotonic`.
    """

    def __init__(
        self,
        places: Places,
        runner: CheckRunner,
        history: History,
        board: Board,
        troubles: Troubles,
        *,
        say: Callable[[str], None],
    ) -> None:
        self.places = places
        self.runner = runner
        self.history = history
        self.board = board
        self.troubles = troubles
        self.until = 0.0
        self.ending = False
        self._say = say
        self._tracker = ChangeTracker(history, say)
        self._boot = state.boot_id()
        self._pruned = time.monotonic()
        self._slip = clock.timestamp() - state.now_s()
        self._jumped: float | None = None

    def end(self) -> None:
        """Cancel the current work, and start nothing more."""
        self.ending = True
        self.runner.end()

    def run(self, kind: RunKind, site: Site, factor: int) -> RunResult:
        """Run one cycle; `factor` is the current back-off factor of the timetable. Raises Lost."""
        if why := hands_off.reason(self.places.hands_off):
            self._publish(self._tracker.miss(self.board.view, kind, why, written_s=state.now_s()))
            raise Paused(why)
        self._promise(kind, site.settings)
        try:
            seen = self._run_checks(kind, site)
        except Lost as problem:
            if not self.ending:
                self._publish(self._tracker.miss(self.board.view, kind, str(problem), written_s=state.now_s()))
            raise
        self._tell_leftovers(seen)
        self._enter(seen, site, factor)
        return seen

    def _run_checks(self, kind: RunKind, site: Site) -> RunResult:
        self.until = time.monotonic() + site.settings.timeout_s + STUCK_S
        return self.runner.run(kind, site)

    def _tell_leftovers(self, seen: RunResult) -> None:
        """Report tools that are not started while an earlier call of them cannot be killed."""
        said = ", ".join(f"{tool} (process {pid})" for tool, pid in seen.left.items())
        about = f"{said} hangs and cannot be killed; it is not started again" if said else None
        self.troubles.set("leftover", about)

    # Results

    def _enter(self, seen: RunResult, site: Site, factor: int) -> None:
        interval_s = _interval_s(seen, site.settings, factor)
        self._watch_the_clock()
        view, changes = self._next_view(seen, interval_s)
        self._publish(view)
        if seen.report is None or self.ending:
            return
        self.until = time.monotonic() + FIXING_S
        fixer = autofix.Fixer(
            history=self.history, apply=lambda fix: self.runner.fix(fix, site, self.places.journal), say=self._say
        )
        if fixer.after(seen.report, changes, site.config.policy, self._boot):
            view, _ = self._next_view(self._run_checks(RunKind(seen.report.profile), site), interval_s)
            self._publish(view)

    def _next_view(self, seen: RunResult, interval_s: float) -> tuple[View, list[Change]]:
        known = self.runner.known
        return self._tracker.take(self.board.view, seen, known, written_s=state.now_s(), interval_s=interval_s)

    def _publish(self, view: View) -> None:
        self.troubles.set("history", self.history.trouble)
        self._write_state(view)
        self.board.publish(view)
        errors = sum(one.severity == Severity.ERROR.value for one in view.issues)
        said = view.against or f"{len(view.cards)} chips healthy"
        notify.tell(f"STATUS={said}; {len(view.issues)} issues, {errors} of them errors")

    def _promise(self, kind: RunKind, settings: DaemonSettings) -> None:
        """Before a long run: keep the known state valid until it has ended."""
        view = self.board.view
        if kind is not RunKind.QUICK and view.looked_at is not None:
            view = replace(view, patience_s=settings.timeout_s + STUCK_S)
            self._write_state(view)
            self.board.publish(view)

    def _write_state(self, view: View) -> None:
        if view.looked_at is None or view.written_s is None:
            return
        said = state.State(
            boot_id=self._boot,
            written_s=view.written_s,
            interval_s=view.interval_s + view.patience_s / 2,
            cards=fitness.states(view.cards),
            problem=view.problem or fitness.without_node(view.cards),
            undetermined=view.undetermined,
        )
        try:
            state.write(self.places.state, said)
            self.troubles.set("state", None)
        except OSError as problem:
            self.troubles.set("state", f"cannot write the state {self.places.state}: {problem.strerror}")

    def _watch_the_clock(self) -> None:
        """Report a clock change, and do not count it as elapsed time."""
        now = time.monotonic()
        slip = clock.timestamp() - state.now_s()
        if abs(slip - self._slip) > CLOCK_SLIP_S:
            said = f"clock changed by {slip - self._slip:+.0f} s; times before and after are not comparable"
            self.history.note("clock", said)
            self._say(said)
            self._jumped = now
        self._slip = slip
        if now - self._pruned > PRUNE_EVERY_S:
            self._pruned = now
            self.history.prune(by_age=self._jumped is None or now - self._jumped > NO_PRUNING_S)


def _interval_s(seen: RunResult, settings: DaemonSettings, factor: int) -> float:
    """The next interval, judged by this run."""
    expected = Agenda(settings, 0.0)
    expected.factor = factor
    expected.plan_next(seen.kind, 0.0, seen.seconds, timed_out=seen.timed_out)
    return expected.effective_s(RunKind.QUICK)
