"""The daemon itself: the main thread runs the scheduler, one thread runs checks, one serves HTTP.

Signals: SIGTERM and SIGINT stop it, SIGHUP reloads the configuration. systemd's watchdog is fed only by a live
scheduler: not while a run exceeds its time, and not while the HTTP thread hangs.
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

from npudoctor import __version__, clock
from npudoctor.config import ConfigError
from npudoctor.control_characters import visible_lines
from npudoctor.daemon import notify, state
from npudoctor.daemon.cycle import STUCK_S, Rounds
from npudoctor.daemon.history import History
from npudoctor.daemon.listening import Listening, tcp_socket, unix_socket
from npudoctor.daemon.publisher import Board
from npudoctor.daemon.replies import CheckRunner, Lost, Paused, RunResult
from npudoctor.daemon.site import Places, Site
from npudoctor.daemon.snapshot import View
from npudoctor.daemon.timetable import Agenda, RunKind
from npudoctor.daemon.troubles import Troubles
from npudoctor.daemon.web import OnThisMachine, api, metrics_alone
from npudoctor.daemon_config import address_of

ENDING_S = 1.0
"""Seconds for the check thread to notice that its process has ended."""

LONGEST_PAUSE_S = 10.0


class Daemon:
    """One daemon, from `run` to its end. `runner` runs checks and fixes, `reload` reads the configuration."""

    def __init__(
        self,
        site: Site,
        places: Places,
        runner: CheckRunner,
        *,
        reload: Callable[[], Site],
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.site = site
        self.places = places
        self.runner = runner
        self._reload = reload
        self.say = say or _say
        self.troubles = Troubles(self.say)
        self._orders: queue.SimpleQueue[RunKind | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[RunResult | None] = queue.SimpleQueue()
        self._busy: tuple[RunKind, float] | None = None
        self._stopping = False
        self._hup = False
        self._turned = time.monotonic()
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    # Lifecycle

    def run(self) -> int:
        """Serve until a signal stops it; the exit code. Raises CannotListen and Untrusted before anything runs."""
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
            self.board = Board(
                View(interval_s=settings.quick_s),
                self.history,
                turned_s=lambda: time.monotonic() - self._turned,
                troubles=lambda: self.troubles.all,
            )
            self.rounds = Rounds(self.places, self.runner, self.history, self.board, self.troubles, say=self.say)
            everything = api(self.board)
            apps = [(inside, everything)]
            apps += [(loopback, OnThisMachine(everything))] if loopback else []
            apps += [(outside, metrics_alone(self.board))] if outside else []
            self.listening = Listening(apps)
            self.listening.start()
            self._serve()
        return 0

    def _serve(self) -> None:
        """Run the scheduler until a signal stops it."""
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        runner = threading.Thread(target=self._run_on_order, name="runs", daemon=True)
        runner.start()
        notify.tell("READY=1", "STATUS=first run")
        while not self._stopping:
            self._turn()
            self._rest()
        self._stop(runner)

    def _unlink(self) -> None:
        """Remove the socket, which would refuse, and the state, which would become stale: a regular stop."""
        for path in (self.places.socket, self.places.state):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._hup = True
        else:
            self._stopping = True

    def _tell_start(self) -> None:
        """Record the start, and how the previous daemon ended."""
        boot = state.boot_id()
        last = self.history.latest("started", "stopped")
        if last is not None and last.kind == "started":
            again = self.history.recall("boot") == boot
            how = "killed or crashed" if again else "the machine went down"
            at = clock.in_utc(last.at)
            lost = f"the daemon started at {at} did not stop regularly ({how}); its last run is lost"
            self.history.note("killed", lost)
            self.say(lost)
        self.history.remember("boot", boot)
        if known := self.runner.known.checks:
            self.history.forget_checks_but(check.id for check in known)
        self.history.note("started", f"npudoctor {__version__} started, process {os.getpid()}")
        self.troubles.set("history", self.history.trouble)
        self.say(f"started; {self.places.socket}")

    def _stop(self, runner: threading.Thread) -> None:
        notify.tell("STOPPING=1", "STATUS=ending")
        self.listening.stop()
        self.rounds.end()
        self._orders.put(None)
        runner.join(ENDING_S)
        self.listening.close()
        self.history.note("stopped", "npudoctor was stopped by a signal")
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
                self.agenda.plan_next(self._busy[0], now, seconds, timed_out=late)
            self._busy = None
            self.troubles.set("stuck", None)
        kind, due = self.agenda.next()
        if self._busy is None and due <= now:
            self._busy = (kind, now)
            self.rounds.until = now + self.site.settings.timeout_s + STUCK_S
            self._orders.put(kind)
        well = self._busy is None or now <= self.rounds.until
        if self._busy is not None and not well:
            began = clock.in_utc(clock.timestamp() - (now - self._busy[1]))
            self.troubles.set("stuck", f"the {self._busy[0].value} run started at {began} has not ended")
        answers = self.listening.answers()
        self.troubles.set("http", None if answers else "the HTTP thread hangs")
        self.troubles.set("accept", self.listening.trouble)
        if well and answers:
            self._turned = now
            notify.tell("WATCHDOG=1")

    def _rest(self) -> None:
        """Wait for a signal, the end of a run, the time of one, or the watchdog."""
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
            self.troubles.set("configuration", f"configuration rejected: {problem}")
            self.history.note("configured", f"configuration rejected: {problem}")
        else:
            self.troubles.set("configuration", None)
            kept = ("listen", "metrics_listen", "group", "kept_days")
            waiting = [name for name in kept if getattr(site.settings, name) != getattr(self.site.settings, name)]
            later = f"; restart required for {', '.join(waiting)}" if waiting else ""
            self.site = site
            self.agenda.apply(site.settings, now)
            self.history.note("configured", f"configuration reloaded{later}")
            self.say(f"configuration reloaded{later}")
        notify.tell("READY=1")

    def _run_on_order(self) -> None:
        """The check thread: no exception ends it."""
        while (kind := self._orders.get()) is not None:
            seen = None
            try:
                seen = self.rounds.run(kind, self.site, self.agenda.factor)
                self.troubles.set("run", None)
            except Paused as problem:
                self.troubles.set("run", str(problem))
            except Lost as problem:
                if not self._stopping:
                    self.troubles.set("run", f"the {kind.value} run failed: {problem}")
            except Exception as problem:
                said = f"the {kind.value} run failed: {type(problem).__name__}: {problem}"
                if said != self.troubles.get("run"):
                    self.say(traceback.format_exc())
                self.troubles.set("run", said)
            self._ended.put(seen)
            with contextlib.suppress(BlockingIOError):
                os.write(self._waker, b".")


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(f"npudoctor: {visible_lines(text)}", file=sys.stderr, flush=True)  # noqa: T201
