"""The daemon itself: the main thread turns the scheduler, one thread looks, one answers HTTP.

Signals: SIGTERM and SIGINT end it, SIGHUP reads the configuration anew. systemd's watchdog is fed only by a scheduler
that turns: not while a look is over its time, and not while the HTTP thread does not move.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

from npudoctor import __version__
from npudoctor.config import Config, ConfigError
from npudoctor.daemon import autofix, cards, notify, state
from npudoctor.daemon.agenda import Agenda, Look
from npudoctor.daemon.board import Board
from npudoctor.daemon.history import History
from npudoctor.daemon.listening import Listening, tcp_socket, unix_socket
from npudoctor.daemon.looking import Seen, Witness, leftovers, look_at
from npudoctor.daemon.view import View
from npudoctor.daemon.web import OnThisMachine, api, metrics_alone
from npudoctor.findings import Severity
from npudoctor.host import Host
from npudoctor.plugins import Catalog
from npudoctor.policy import DaemonSettings, address_of
from npudoctor.records import dataclass, replace
from npudoctor.sdk import Options

GRACE_S = 20.0
"""How long a look may go on after its deadline before it counts as stuck: fixes are applied in that time, too."""

ENDING_S = 10.0
LONGEST_PAUSE_S = 10.0
CLOCK_SLIP_S = 120.0
"""A clock of the day that moves by this much more or less than the boot clock has been set."""

NO_PRUNING_S = 86400.0
"""For so long after such a jump nothing is forgotten for its age."""

PRUNE_EVERY_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is decided outside: the configuration, what to look at, and how a node is opened."""

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


class Daemon:
    """One daemon, from `run` to its end. `open_host` opens the node anew, `reload` reads the configuration."""

    def __init__(
        self,
        site: Site,
        places: Places,
        catalog: Catalog,
        *,
        open_host: Callable[[Site], contextlib.AbstractContextManager[Host]],
        reload: Callable[[], Site],
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.site = site
        self.places = places
        self.catalog = catalog
        self._open_host = open_host
        self._reload = reload
        self.say = say or _say
        self.troubles: dict[str, str] = {}
        self._host: Host | None = None
        self._node = contextlib.ExitStack()
        self._orders: queue.SimpleQueue[Look | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Seen | None] = queue.SimpleQueue()
        self._busy: tuple[Look, float] | None = None
        self._stopping = False
        self._hup = False
        self._turned = time.monotonic()
        self._pruned = time.monotonic()
        self._slip = time.time() - state.now_s()
        self._jumped: float | None = None
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    # From beginning to end

    def run(self) -> int:
        """Serve until a signal ends it; the exit code. Raises CannotListen and Untrusted before anything runs."""
        settings = self.site.settings
        with contextlib.ExitStack() as bound:
            outside, loopback = (
                bound.enter_context(tcp_socket(*address_of(address))) if address else None
                for address in (settings.metrics_listen, settings.listen)
            )
            self.history = History(self.places.history, kept_days=settings.kept_days)
            bound.callback(self.history.close)
            inside = bound.enter_context(unix_socket(self.places.socket, settings.group))
            bound.callback(self._unlink)
            state.sweep(self.places.state)
            self._tell_start()
            self.agenda = Agenda(settings, time.monotonic())
            first = View(interval_s=settings.quick_s, troubles=tuple(self.troubles.values()))
            self.board = Board(first, self.history, turned_s=lambda: time.monotonic() - self._turned)
            self.witness = Witness(self.catalog, self.history, self.say)
            everything = api(self.board)
            apps = [(inside, everything)]
            apps += [(loopback, OnThisMachine(everything))] if loopback else []
            apps += [(outside, metrics_alone(self.board))] if outside else []
            self.listening = Listening(apps)
            self.listening.start()
            self._serve()
        return 0

    def _serve(self) -> None:
        """Turn the scheduler until a signal ends it."""
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signalled)
        looker = threading.Thread(target=self._look_on_order, name="looks", daemon=True)
        looker.start()
        notify.tell("READY=1", "STATUS=looking for the first time")
        while not self._stopping:
            self._turn()
            self._rest()
        self._stop(looker)

    def _unlink(self) -> None:
        """Leave no socket, which would refuse, and no state, which would grow stale: it ends by its own will."""
        for path in (self.places.socket, self.places.state):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _signalled(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._hup = True
        else:
            self._stopping = True

    def _tell_start(self) -> None:
        """Enter that it started, and how the one before ended."""
        boot = state.boot_id()
        last = self.history.latest("started", "stopped")
        if last is not None and last.kind == "started":
            again = self.history.remembered("boot") == boot
            how = "it was killed, or it crashed" if again else "the machine went down with it"
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(last.at))
            lost = f"the daemon that started at {at} did not end by itself: {how}; a look that it was in is lost"
            self.history.note("killed", lost)
            self.say(lost)
        self.history.remember("boot", boot)
        self.history.forget_checks_but(self.catalog.checks)
        self.history.note("started", f"npudoctor {__version__} started, process {os.getpid()}")
        self._note_history()
        self.say(f"started; {self.places.socket}")

    def _stop(self, looker: threading.Thread) -> None:
        notify.tell("STOPPING=1", "STATUS=ending")
        if self._host is not None and (close := getattr(self._host, "close", None)):
            close()
        self._orders.put(None)
        looker.join(ENDING_S)
        self.listening.close()
        self.history.note("stopped", "npudoctor was told to end")
        self.say("ended")

    # The scheduler

    def _turn(self) -> None:
        now = time.monotonic()
        if self._hup:
            self._hup = False
            self._read_again(now)
        while not self._ended.empty():
            seen = self._ended.get()
            if self._busy is not None:
                seconds, late = (seen.seconds, seen.timed_out) if seen else (now - self._busy[1], True)
                self.agenda.ended(self._busy[0], now, seconds, timed_out=late)
            self._busy = None
            self._trouble("stuck", None)
        look, due = self.agenda.next()
        if self._busy is None and due <= now:
            self._busy = (look, now)
            self._orders.put(look)
        well = True
        if self._busy is not None and now - self._busy[1] > self.site.settings.timeout_s + GRACE_S:
            well = False
            self._trouble("stuck", f"the {self._busy[0].value} look has not ended for {now - self._busy[1]:.0f} s")
        answers = self.listening.answers()
        self._trouble("http", None if answers else "the thread that answers HTTP does not move")
        if well and answers:
            self._turned = now
            notify.tell("WATCHDOG=1")

    def _rest(self) -> None:
        """Wait for the next thing to do: a signal, the end of a look, the time of one, or systemd's patience."""
        watchdog = notify.watchdog_s()
        pause = min(LONGEST_PAUSE_S, watchdog / 3 if watchdog else LONGEST_PAUSE_S)
        if self._busy is None:
            pause = min(pause, self.agenda.next()[1] - time.monotonic())
        if pause > 0:
            select.select([self._wake], [], [], pause)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 512)

    def _read_again(self, now: float) -> None:
        notify.tell("RELOADING=1", f"MONOTONIC_USEC={int(time.monotonic() * 1e6)}")
        try:
            site = self._reload()
        except (ConfigError, ValueError) as problem:
            self._trouble("configuration", f"the configuration was not taken: {problem}")
            self.history.note("configured", f"the configuration was not taken: {problem}")
        else:
            self._trouble("configuration", None)
            kept = ("listen", "metrics_listen", "group", "kept_days")
            waiting = [name for name in kept if getattr(site.settings, name) != getattr(self.site.settings, name)]
            later = f"; {', '.join(waiting)} only after a restart" if waiting else ""
            self.site = site
            self.agenda.changed(site.settings, now)
            self.history.note("configured", f"the configuration was read again{later}")
            self.say(f"the configuration was read again{later}")
        notify.tell("READY=1")

    # The looks

    def _look_on_order(self) -> None:
        while (look := self._orders.get()) is not None:
            seen = None
            try:
                seen = self._look(look)
                self._trouble("look", None)
            except Exception as problem:
                self._trouble("look", f"the {look.value} look failed: {type(problem).__name__}: {problem}")
                self.say(traceback.format_exc())
            self._ended.put(seen)
            with contextlib.suppress(BlockingIOError):
                os.write(self._waker, b".")

    def _look(self, look: Look) -> Seen:
        site = self.site
        self._promise(look, site.settings)
        host = self._host = self._opened(site, look)
        self._pass_over_leftovers(host)
        try:
            seen = look_at(self.catalog, host, look, site.options, site.config, deadline_s=site.settings.timeout_s)
            self._enter(seen, host, site)
        finally:
            if close := getattr(host, "close", None):
                close()
            _give_back()
        return seen

    def _pass_over_leftovers(self, host: Host) -> None:
        """Start no tool while an earlier call of it cannot be ended."""
        left = leftovers() if hasattr(host, "pass_over") else {}
        for tool, pid in left.items():
            why = f"an earlier call of it, process {pid}, can neither end nor be ended"
            host.pass_over(tool, why)  # type: ignore[attr-defined]
        said = ", ".join(f"{tool} (process {pid})" for tool, pid in left.items())
        self._trouble("leftover", f"{said} can neither end nor be ended, and is not asked again" if left else None)

    def _opened(self, site: Site, look: Look) -> Host:
        """The node, with nothing remembered; how a login is set up is asked again with every standard look."""
        fresh = getattr(self._host, "fresh", None)
        if fresh is not None and look is not Look.STANDARD:
            return fresh()  # type: ignore[no-any-return]
        self._node.close()
        return self._node.enter_context(self._open_host(site))

    def _enter(self, seen: Seen, host: Host, site: Site) -> None:
        interval_s = self._interval_s(seen)
        self._watch_the_clock()
        view, changes = self.witness.take(self.board.view, seen, written_s=state.now_s(), interval_s=interval_s)
        self._publish(view)
        if seen.report is None or self._stopping:
            return
        fixer = autofix.Fixer(catalog=self.catalog, history=self.history, journal=self.places.journal)
        boot = state.boot_id()
        if fixer.after(seen.report, changes, site.config.policy, host, site.options, boot):
            self._host = host.fresh()  # type: ignore[attr-defined]
            profile = Look(seen.report.profile)
            again = look_at(
                self.catalog, self._host, profile, site.options, site.config, deadline_s=site.settings.timeout_s
            )
            view, _ = self.witness.take(self.board.view, again, written_s=state.now_s(), interval_s=interval_s)
            self._publish(view)

    def _interval_s(self, seen: Seen) -> float:
        """How often it will look from now on, as far as this look tells."""
        expected = Agenda(self.site.settings, 0.0)
        expected.factor = self.agenda.factor
        expected.ended(seen.look, 0.0, seen.seconds, timed_out=seen.timed_out)
        return expected.effective_s(Look.QUICK)

    def _publish(self, view: View) -> None:
        self._note_history()
        view = replace(view, troubles=tuple(self.troubles.values()))
        self._write_state(view)
        self.board.publish(replace(view, troubles=tuple(self.troubles.values())))
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
            self._trouble("state", None)
        except OSError as problem:
            self._trouble("state", f"the state {self.places.state} cannot be written: {problem.strerror}")

    def _watch_the_clock(self) -> None:
        """Tell a clock that was set, and do not take it for the passing of time."""
        now = time.monotonic()
        slip = time.time() - state.now_s()
        if abs(slip - self._slip) > CLOCK_SLIP_S:
            said = f"the clock was set by {slip - self._slip:+.0f} s; times before and after do not compare"
            self.history.note("clock", said)
            self.say(said)
            self._jumped = now
        self._slip = slip
        if now - self._pruned > PRUNE_EVERY_S:
            self._pruned = now
            self.history.prune(by_age=self._jumped is None or now - self._jumped > NO_PRUNING_S)

    # What it has to say of itself

    def _note_history(self) -> None:
        self._trouble("history", self.history.trouble)

    def _trouble(self, about: str, said: str | None) -> None:
        if said is None:
            if self.troubles.pop(about, None) is not None:
                self.say(f"over: {about}")
        elif self.troubles.get(about) != said:
            self.troubles[about] = said
            self.say(said)


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(f"npudoctor: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _give_back() -> None:
    """Return what a look has used to the system, so that the daemon stays as small as it is between looks."""
    import ctypes
    import gc

    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
