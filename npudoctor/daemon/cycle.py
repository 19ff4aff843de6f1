"""A round: the node is looked at, what was seen is entered and published, and what the site allows is mended."""

from __future__ import annotations

import time
from collections.abc import Callable

from npudoctor import clock
from npudoctor.daemon import autofix, fitness, notify, state
from npudoctor.daemon.history import History
from npudoctor.daemon.publisher import Board
from npudoctor.daemon.seen import Looker, Lost, Seen
from npudoctor.daemon.site import Places, Site
from npudoctor.daemon.snapshot import View
from npudoctor.daemon.store import Change
from npudoctor.daemon.timetable import Agenda, Look
from npudoctor.daemon.troubles import Troubles
from npudoctor.daemon.witness import Witness
from npudoctor.daemon_config import DaemonSettings
from npudoctor.findings import Severity
from npudoctor.records import replace

STUCK_S = 45.0
"""How long after its deadline a look counts as stuck: by then its process was started anew, or killed."""

FIXING_S = 900.0
"""How long the fixes after a look may take before they count as stuck."""

CLOCK_SLIP_S = 120.0
"""A clock of the day that moves by this much more or less than the boot clock has been set."""

NO_PRUNING_S = 86400.0
"""For so long after such a jump nothing is forgotten for its age."""

PRUNE_EVERY_S = 3600.0


class Rounds:
    """Looks on order, one round at a time. `until` is when the present piece of work must have ended.

    `until` is a time of `time.monotonic`.
    """

    def __init__(
        self,
        places: Places,
        looker: Looker,
        history: History,
        board: Board,
        troubles: Troubles,
        *,
        say: Callable[[str], None],
    ) -> None:
        self.places = places
        self.looker = looker
        self.history = history
        self.board = board
        self.troubles = troubles
        self.until = 0.0
        self.ending = False
        self._say = say
        self._witness = Witness(history, say)
        self._boot = state.boot_id()
        self._pruned = time.monotonic()
        self._slip = clock.timestamp() - state.now_s()
        self._jumped: float | None = None

    def end(self) -> None:
        """Give up what is under way; nothing is begun any more."""
        self.ending = True
        self.looker.end()

    def look(self, look: Look, site: Site, factor: int) -> Seen:
        """One round; `factor` is by how much the agenda backs off at present. Raises Lost."""
        self._promise(look, site.settings)
        try:
            seen = self._looked(look, site)
        except Lost as problem:
            if not self.ending:
                self._publish(self._witness.miss(self.board.view, look, str(problem), written_s=state.now_s()))
            raise
        self._tell_leftovers(seen)
        self._enter(seen, site, factor)
        return seen

    def _looked(self, look: Look, site: Site) -> Seen:
        self.until = time.monotonic() + site.settings.timeout_s + STUCK_S
        return self.looker.look(look, site)

    def _tell_leftovers(self, seen: Seen) -> None:
        """Say which tool is not started while an earlier call of it cannot be ended."""
        said = ", ".join(f"{tool} (process {pid})" for tool, pid in seen.left.items())
        about = f"{said} can neither end nor be ended, and is not asked again" if said else None
        self.troubles.set("leftover", about)

    # What was seen

    def _enter(self, seen: Seen, site: Site, factor: int) -> None:
        interval_s = _interval_s(seen, site.settings, factor)
        self._watch_the_clock()
        view, changes = self._taken(seen, interval_s)
        self._publish(view)
        if seen.report is None or self.ending:
            return
        self.until = time.monotonic() + FIXING_S
        fixer = autofix.Fixer(
            history=self.history, apply=lambda fix: self.looker.fix(fix, site, self.places.journal), say=self._say
        )
        if fixer.after(seen.report, changes, site.config.policy, self._boot):
            view, _ = self._taken(self._looked(Look(seen.report.profile), site), interval_s)
            self._publish(view)

    def _taken(self, seen: Seen, interval_s: float) -> tuple[View, list[Change]]:
        known = self.looker.known
        return self._witness.take(self.board.view, seen, known, written_s=state.now_s(), interval_s=interval_s)

    def _publish(self, view: View) -> None:
        self.troubles.set("history", self.history.trouble)
        self._write_state(view)
        self.board.publish(view)
        errors = sum(one.severity == Severity.ERROR.value for one in view.issues)
        said = view.against or f"{len(view.cards)} chips fit"
        notify.tell(f"STATUS={said}; {len(view.issues)} issues, {errors} of them errors")

    def _promise(self, look: Look, settings: DaemonSettings) -> None:
        """Before a look that may take long: what is known is to be believed until it has ended."""
        view = self.board.view
        if look is not Look.QUICK and view.looked_at is not None:
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
            self.troubles.set("state", f"the state {self.places.state} cannot be written: {problem.strerror}")

    def _watch_the_clock(self) -> None:
        """Tell a clock that was set, and do not take it for the passing of time."""
        now = time.monotonic()
        slip = clock.timestamp() - state.now_s()
        if abs(slip - self._slip) > CLOCK_SLIP_S:
            said = f"the clock was set by {slip - self._slip:+.0f} s; times before and after do not compare"
            self.history.note("clock", said)
            self._say(said)
            self._jumped = now
        self._slip = slip
        if now - self._pruned > PRUNE_EVERY_S:
            self._pruned = now
            self.history.prune(by_age=self._jumped is None or now - self._jumped > NO_PRUNING_S)


def _interval_s(seen: Seen, settings: DaemonSettings, factor: int) -> float:
    """How often it will look from now on, as far as this look tells."""
    expected = Agenda(settings, 0.0)
    expected.factor = factor
    expected.ended(seen.look, 0.0, seen.seconds, timed_out=seen.timed_out)
    return expected.effective_s(Look.QUICK)
