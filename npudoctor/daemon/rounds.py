"""A round: the node is looked at, what was seen is entered and published, and what the site allows is mended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from npudoctor.config import Config
from npudoctor.daemon import autofix, cards, notify, state
from npudoctor.daemon.agenda import Agenda, Look
from npudoctor.daemon.board import Board
from npudoctor.daemon.history import History
from npudoctor.daemon.looking import Seen, Witness, leftovers, look_at
from npudoctor.daemon.troubles import Troubles
from npudoctor.daemon.view import View
from npudoctor.findings import Severity
from npudoctor.host import Host
from npudoctor.plugins import Catalog
from npudoctor.policy import DaemonSettings
from npudoctor.records import dataclass, replace
from npudoctor.sdk import Options

GRACE_S = 20.0
"""How long a look may go on after its deadline before it counts as stuck."""

FIXING_S = 900.0
"""How long the fixes after a look may take before they count as stuck."""

CLOCK_SLIP_S = 120.0
"""A clock of the day that moves by this much more or less than the boot clock has been set."""

NO_PRUNING_S = 86400.0
"""For so long after such a jump nothing is forgotten for its age."""

PRUNE_EVERY_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is decided outside: the configuration, what to look at, and the daemon's own section of it."""

    config: Config
    options: Options
    settings: DaemonSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where its files lie: the socket, the state file, the history, and the journal of fixes (None: the usual one)."""

    socket: str
    state: str
    history: str
    journal: str | None = None


class Rounds:
    """Looks on order, one round at a time. `until` is when the present piece of work must have ended.

    `until` is a time of `time.monotonic`. `open_host` opens the node anew, as it is asked for at that time.
    """

    def __init__(
        self,
        places: Places,
        catalog: Catalog,
        history: History,
        board: Board,
        troubles: Troubles,
        *,
        open_host: Callable[[Site], contextlib.AbstractContextManager[Host]],
        say: Callable[[str], None],
    ) -> None:
        self.places = places
        self.catalog = catalog
        self.history = history
        self.board = board
        self.troubles = troubles
        self.until = 0.0
        self.ending = False
        self._say = say
        self._open_host = open_host
        self._witness = Witness(catalog, history, say)
        self._host: Host | None = None
        self._node = contextlib.ExitStack()
        self._pruned = time.monotonic()
        self._slip = time.time() - state.now_s()
        self._jumped: float | None = None

    def end(self) -> None:
        """Give up what a look waits for; nothing is begun any more."""
        self.ending = True
        if self._host is not None and (close := getattr(self._host, "close", None)):
            close()

    def look(self, look: Look, site: Site, factor: int) -> Seen:
        """One round; `factor` is by how much the agenda backs off at present."""
        self._promise(look, site.settings)
        host = self._host = self._opened(site, look)
        self._pass_over_leftovers(host)
        try:
            seen = self._looked(host, look, site)
            self._enter(seen, host, site, factor)
        finally:
            if close := getattr(host, "close", None):
                close()
            _give_back()
        return seen

    def _looked(self, host: Host, look: Look, site: Site) -> Seen:
        limit_s = site.settings.timeout_s
        self.until = time.monotonic() + limit_s + GRACE_S
        return look_at(self.catalog, host, look, site.options, site.config, deadline_s=limit_s)

    def _pass_over_leftovers(self, host: Host) -> None:
        """Start no tool while an earlier call of it cannot be ended."""
        left = leftovers() if hasattr(host, "pass_over") else {}
        for tool, pid in left.items():
            why = f"an earlier call of it, process {pid}, can neither end nor be ended"
            host.pass_over(tool, why)  # type: ignore[attr-defined]
        said = ", ".join(f"{tool} (process {pid})" for tool, pid in left.items())
        self.troubles.set("leftover", f"{said} can neither end nor be ended, and is not asked again" if left else None)

    def _opened(self, site: Site, look: Look) -> Host:
        """The node, with nothing remembered; how a login is set up is asked again with every standard look."""
        host = self._host
        fresh = getattr(host, "fresh", None)
        if host is not None and fresh and (look is not Look.STANDARD or host.about.source != "live"):
            return fresh()  # type: ignore[no-any-return]
        self._node.close()
        return self._node.enter_context(self._open_host(site))

    # What was seen

    def _enter(self, seen: Seen, host: Host, site: Site, factor: int) -> None:
        interval_s = _interval_s(seen, site.settings, factor)
        self._watch_the_clock()
        view, changes = self._witness.take(self.board.view, seen, written_s=state.now_s(), interval_s=interval_s)
        self._publish(view)
        if seen.report is None or self.ending:
            return
        self.until = time.monotonic() + FIXING_S
        fixer = autofix.Fixer(catalog=self.catalog, history=self.history, journal=self.places.journal, say=self._say)
        if fixer.after(seen.report, changes, site.config.policy, host, site.options, state.boot_id()):
            self._host = host.fresh()  # type: ignore[attr-defined]
            again = self._looked(self._host, Look(seen.report.profile), site)
            view, _ = self._witness.take(self.board.view, again, written_s=state.now_s(), interval_s=interval_s)
            self._publish(view)

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
            view = replace(view, patience_s=settings.timeout_s + GRACE_S)
            self._write_state(view)
            self.board.publish(view)

    def _write_state(self, view: View) -> None:
        if view.looked_at is None or view.written_s is None:
            return
        said = state.State(
            boot_id=state.boot_id(),
            written_s=view.written_s,
            interval_s=view.interval_s + view.patience_s / 2,
            cards=cards.states(view.cards),
            problem=view.problem or cards.without_node(view.cards),
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
        slip = time.time() - state.now_s()
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


def _give_back() -> None:
    """Return what a look has used to the system, so that the daemon stays as small as it is between looks."""
    import ctypes
    import gc

    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
