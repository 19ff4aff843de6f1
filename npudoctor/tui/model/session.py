"""The node of a session, opened for each run of checks, live screens and fixes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

from npudoctor.injection import is_of
from npudoctor.records import record, replace

if TYPE_CHECKING:
    from npudoctor.engine import Event
    from npudoctor.findings import Result
    from npudoctor.fixer.progress import Change
    from npudoctor.host import Host, MutableHost
    from npudoctor.plugins import Catalog
    from npudoctor.selection import Selection


class CannotPlan(Exception):
    """There is no plan for a folder of packages; the text says why."""


def _cannot_plan(_: Sequence[str]) -> Any:
    raise CannotPlan("this session cannot plan an installation")


@record(frozen=True, kw_only=True)
class Node:
    """The settings of the command line: what to check, how, and how to reach the node.

    `words` are the options that name the node, for commands shown to the user. `plan_setup` plans an installation
    for options of `npudoctor setup`; raises CannotPlan. `set_up` runs that command with options, hands on each of its
    lines, and returns its exit code; None where this session installs nothing. `pending` is the option that goes on
    with an installation of this node that has not ended; empty where there is none.
    """

    catalog: Catalog
    selection: Selection
    open: Callable[[], AbstractContextManager[Host]]
    words: tuple[str, ...] = ()
    plan_setup: Callable[[Sequence[str]], Any] = _cannot_plan
    set_up: Callable[[Sequence[str], Callable[[str], None]], int] | None = None
    pending: Callable[[], str] = str


class CannotOpen(Exception):
    """The node, its configuration or a recording cannot be opened; the text is the one line that says why."""


class ReadOnly(Exception):
    """A change was refused in a read-only session; the text says how it was started."""


class NoLogin(Exception):
    """The environment of the next login is unknown; the text says why. The session judges that of this process."""


class Session:
    """Loads late, so that the first frame does not wait for it; every method but `close` may take seconds.

    A live node is opened anew for each run, because a host answers each command once; others stay open.
    `read_only` says why this session changes nothing, writes no file and starts no job; None where it is not read-only.
    `at_login` says that the environment of the next login is judged, and used by fixes and smoke runs.
    """

    def __init__(self, load: Callable[[], Node], read_only: str | None = None) -> None:
        self._load = load
        self.read_only = read_only
        self._lock = threading.RLock()
        self._node: Node | None = None
        self._kept: Host | None = None
        self._open = contextlib.ExitStack()
        self._busy: set[Host] = set()
        self._closed = False
        self.at_login = False
        self.facts: dict[type, Any] = {}

    @property
    def node(self) -> Node:
        """The node; raises CannotOpen."""
        with self._lock:
            if self._node is None:
                self._node = self._load()
            return self._node

    @property
    def source(self) -> str:
        """`live`, `bundle` or `simulated`; empty until the node was opened."""
        return self._kept.about.source if self._kept else "live" if self._node else ""

    @contextlib.contextmanager
    def looking(self) -> Iterator[Host]:
        """The opened node; its running tools are ended on leaving."""
        if self._kept is not None:
            yield self._kept
            return
        with contextlib.ExitStack() as until:
            with self._lock:
                host = self._kept or until.enter_context(self.node.open())
                if host.about.source != "live" and self._kept is None:
                    self._kept = host
                    self._open.push(until.pop_all())
                self._busy.add(host)
            try:
                if self._closed:
                    host.close()
                yield host
            finally:
                self._busy.discard(host)

    @contextlib.contextmanager
    def judging(self) -> Iterator[Host]:
        """The opened node in the environment that is judged; raises NoLogin where that of a login is unknown."""
        from npudoctor.host import Unavailable, is_mutable

        problem = "a recording has the environment variables of one moment"
        with self.looking() as host:
            if not self.at_login:
                yield host
                return
            try:
                if host.about.source == "bundle" or not is_mutable(host):
                    raise Unavailable(problem)
                there = host.after_login()
                _ = there.environ
            except (Unavailable, ValueError) as why:
                self.at_login = False
                raise NoLogin(str(getattr(why, "reason", why))) from why
            self._busy.add(there)
            try:
                if self._closed:
                    there.close()
                yield there
            finally:
                self._busy.discard(there)
                if there.about.source == "live":
                    there.close()

    def must_allow_changes(self) -> None:
        """Raise ReadOnly in a read-only session; called before every change, write or start."""
        if self.read_only:
            raise ReadOnly(self.read_only)

    def run(self) -> Iterator[Event]:
        """Run the checks, and keep their facts."""
        from npudoctor import engine

        with self.judging() as host:
            for event in engine.run(self.node.catalog, host, self.node.selection):
                if isinstance(event, engine.Done):
                    self.facts = {probe.provides: value for probe, value in event.facts.items()}
                yield event

    def gather(self) -> Mapping[type, Any]:
        """Every fact of the node, or why it is unknown."""
        from npudoctor import engine

        options, limit_s = self.node.selection.options, self.node.selection.deadline_s
        with self.judging() as host:
            found = engine.gather(self.node.catalog, host, options, deadline_s=limit_s)
        return {probe.provides: value for probe, value in found.items()}

    def ask(self, *wanted: type, check: str) -> tuple[Mapping[type, Any], tuple[Result, ...]]:
        """These facts as they are now, or why they are unknown, and the results of one check.

        They are those of profile quick where the driver's library answers, by a process that stays between two
        readings: no tool is started then, and what is not of the moment is that of the last run of checks.
        """
        from npudoctor import engine
        from npudoctor.facts.dcmi.answer import answer_or_none

        catalog = self.node.catalog.alone(check)
        facts: dict[type, Any] = {}
        results: tuple[Result, ...] = ()
        with self.looking() as host:
            options = self.node.selection.options
            quick = replace(options, profile="quick")
            known: dict[type, Any] = {}
            if answer_or_none(host, quick) is not None:
                options, known = quick, self._lasting()
            selection = replace(self.node.selection, names=(), options=options, known=known)
            for event in engine.run(catalog, host, selection, facts=wanted):
                if isinstance(event, engine.Done):
                    facts = {probe.provides: value for probe, value in event.facts.items()}
                    results = event.report.results
        return facts, results

    def _lasting(self) -> dict[type, Any]:
        """What the last run of checks knew that is not of the moment, nor made of what is."""
        from npudoctor.sdk import needs_of

        probes = self.node.catalog.probes
        passing = {fact for fact, probe in probes.items() if probe.of_the_moment}
        while more := {
            fact
            for fact, probe in probes.items()
            if fact not in passing and not passing.isdisjoint(need.fact for need in needs_of(probe))
        }:
            passing |= more
        return {one: value for one, value in self.facts.items() if one not in passing and is_of(value, one)}

    def history(self) -> Sequence[Mapping[str, Any]]:
        """Every run of the journal, newest first, with its stage; none on a recorded node.

        Raises Refused for a journal that cannot be read or trusted.
        """
        from npudoctor.fixer import progress, runner

        with self.looking() as host:
            if host.about.source == "bundle":
                return []
            resolves = progress.resolving(self.node.catalog.fixes)
            runs = progress.of_runs(runner.history(cast("MutableHost", host)), resolves, host)
            return list(reversed(runs))

    def changes(self) -> tuple[tuple[Change, ...], str | None]:
        """The applied runs of the journal, newest last, and when the node was booted, in UTC."""
        from npudoctor.fixer import progress
        from npudoctor.host import Refused, Unavailable

        try:
            applied = progress.changes(self.history(), progress.resolving(self.node.catalog.fixes))
        except (Refused, Unavailable, OSError, ValueError):  # the history screen says why
            applied = ()
        with self.looking() as host:
            return applied, progress.booted_at(host)

    def fact(self, fact: type) -> Any:
        """A fact of the last run; None where it is unknown."""
        value = self.facts.get(fact)
        return value if is_of(value, fact) else None

    def close(self) -> None:
        """Stop everything that runs on the node."""
        self._closed = True
        for host in [*self._busy, *([self._kept] if self._kept else [])]:
            host.close()
