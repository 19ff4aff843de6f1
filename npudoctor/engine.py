"""Runs checks: every fact once, in parallel where possible, results in catalogue order.

The consumer of `run` gets events as they happen: the command line, the terminal interface and the daemon read the same.
"""

from __future__ import annotations

import graphlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeGuard

from npudoctor import __version__, clock, inventory, schedule
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import Role, Service
from npudoctor.facts.python.target_python import PythonEnvironment, TargetPython
from npudoctor.facts.system.machine import Machine
from npudoctor.facts.system.platform import Platform
from npudoctor.findings import (
    Because,
    Finding,
    HostSummary,
    Report,
    Result,
    Severity,
    Skip,
    Status,
    apply_site_policy,
    count,
    judge,
    status_of,
)
from npudoctor.host import Host, ParseError, Unavailable
from npudoctor.host.live.masked import MaskedHost
from npudoctor.host.shortage import what_ran_out
from npudoctor.plugins import Catalog
from npudoctor.records import field, record, replace
from npudoctor.sdk import PREFLIGHT, Check, Need, Options, Probe, needs_of
from npudoctor.selection import Selection, select

CONTEXT = (Platform, Machine, Container, TargetPython, Role, Service)
"""The facts that a report names besides its results."""


@record(frozen=True)
class Started:
    """A check has started: the first of its facts is being obtained."""

    check: str


@record(frozen=True)
class Finished:
    """A check has ended."""

    result: Result


@record(frozen=True)
class Done:
    """The run has ended. `facts` maps probe names to facts, or to the reason why one is unknown."""

    report: Report
    facts: Mapping[Probe, Any] = field(default_factory=dict)


@record(frozen=True)
class Asked:
    """A fact is being obtained; `fact` is its name in `npudoctor facts`."""

    fact: str


@record(frozen=True)
class Answered:
    """A fact was obtained, or is known to be unavailable."""

    fact: str


Event = Started | Finished | Done | Asked | Answered


def run(
    catalog: Catalog, host: Host, selection: Selection, *, facts: Iterable[type] = (), workers: int = schedule.WORKERS
) -> Iterator[Event]:
    """Run the selected checks; the last event is `Done`. Raises UnknownName before anything is run.

    `facts` are obtained even if no selected check requires them. `workers` is the number of threads.
    """
    chosen = select(catalog, selection)
    work = _Run(catalog, host, selection, chosen)
    work.workers = workers
    work.add_facts(facts)
    return work.events()


def gather(
    catalog: Catalog, host: Host, options: Options, *, facts: Iterable[type] = (), deadline_s: float | None = None
) -> dict[Probe, Any]:
    """These facts (none named: all) and what they are made of, by probe name, or the Unavailable or `Crash` of each."""
    wanted = [fact for fact in (facts or catalog.probes) if fact in catalog.probes]
    work = _Run(catalog, host, Selection(options=options, deadline_s=deadline_s), ())
    work.add_facts(wanted)
    for _ in work.events():
        pass
    known = {catalog.probes[fact] for fact in (*wanted, *work.values) if fact in catalog.probes}
    probes = sorted(known, key=lambda probe: probe.name)
    late = Unavailable("time limit of the run reached before it was known", because=Because.TIMED_OUT)
    return {probe: work.values.get(probe.provides, late) for probe in probes}


@record(frozen=True)
class Crash:
    """An unexpected exception in a probe or a check."""

    reason: str
    detail: str


_Node = type | str
"""A fact by its type, a check by its id."""


class _Run:
    def __init__(self, catalog: Catalog, host: Host, selection: Selection, chosen: Sequence[Check]) -> None:
        self.workers = schedule.WORKERS
        self.catalog = catalog
        self.host = host
        self._asked = MaskedHost(host)
        self.selection = selection
        self.chosen = chosen
        self.values: dict[type, Any] = {**selection.known, Options: selection.options}
        self.results: dict[str, Result] = {}
        self._in_error: set[str] = set()
        self._graph: dict[_Node, set[_Node]] = {}
        for check in chosen:
            self._add_check(check)
        context = CONTEXT if not selection.names else (Platform, Container)
        self.add_facts(fact for fact in context if chosen and fact in catalog.probes)
        if any(PREFLIGHT in check.tags for check in chosen) and Service in catalog.probes:
            self.add_facts([Service])
        self._serialise_card_probes()

    # Planning

    def _add_check(self, check: Check) -> None:
        if check.id in self._graph:
            return
        causes = (*check.after, *check.explained_by)
        before = [self.catalog.checks[id] for id in causes if id in self.catalog.checks]
        facts = [*check.requires, *(need.fact for need in needs_of(check))]
        if PREFLIGHT in check.tags and Service in self.catalog.probes:
            facts.append(Service)
        self._graph[check.id] = {*(blocker.id for blocker in before), *self._to_obtain(facts)}
        self.add_facts(facts)
        for blocker in before:
            self._add_check(blocker)

    def add_facts(self, facts: Iterable[type]) -> None:
        """Request these facts, and the ones that they depend on."""
        for fact in self._to_obtain(facts):
            if fact in self._graph:
                continue
            probe = self.catalog.probes.get(fact)
            needed = {need.fact for need in needs_of(probe) if need.fact is not Host} if probe else set()
            self._graph[fact] = {*self._to_obtain(needed)}
            self.add_facts(needed)

    def _serialise_card_probes(self) -> None:
        """Run probes that open devices one after another, and after the checks whose errors make them pointless."""
        earlier: set[_Node] = set()
        for fact in sorted(filter(self._is_on_cards, self._graph), key=lambda fact: self.catalog.probes[fact].name):
            causes = {id for check in self._first_askers(fact) for id in (*check.after, *check.explained_by)}
            self._graph[fact] |= {id for id in causes if id in self._graph} | earlier
            earlier.add(fact)

    def _is_on_cards(self, node: _Node) -> TypeGuard[type]:
        return not isinstance(node, str) and node in self.catalog.probes and self.catalog.probes[node].on_cards

    def _first_askers(self, fact: type) -> list[Check]:
        """The checks of this run that require a fact, without those that run after another of them."""
        asking = {node for node, before in self._graph.items() if isinstance(node, str) and fact in before}
        checks = [self.catalog.checks[id] for id in self.catalog.checks if id in asking]
        return [check for check in checks if asking.isdisjoint((*check.after, *check.explained_by))]

    def _to_obtain(self, facts: Iterable[type]) -> list[type]:
        """The facts to obtain; the user's options are known from the start."""
        return [fact for fact in facts if fact not in self.values]

    # The run

    def events(self) -> Iterator[Event]:
        """Obtain the facts, run the checks, and yield events."""
        started_at = clock.now()
        began = time.monotonic()
        for result in self.catalog.broken:
            self.results[result.check] = result
            yield Finished(result)
        limit_s = self.selection.deadline_s
        try:
            yield from self._follow(None if limit_s is None else began + limit_s)
        except graphlib.CycleError as circle:
            names = " → ".join(node if isinstance(node, str) else node.__name__ for node in circle.args[1])
            yield from self._give_up(f"its facts and checks wait for each other: {names}", Because.FAILED)
        except schedule.TimeIsUp:
            yield from self._give_up(f"time limit of the run ({limit_s:g} s) reached before it ran", Because.TIMED_OUT)
        if self.chosen or self.catalog.broken:
            facts = {probe: self.values[fact] for fact, probe in self.catalog.probes.items() if fact in self.values}
            yield Done(self._report(started_at, time.monotonic() - began), facts)

    def _follow(self, deadline: float | None) -> Iterator[Event]:
        work = schedule.Schedule(self._graph, self._work, stop=self.host.close, workers=self.workers)
        waiting = {check.id for check in self.chosen}
        for what, node, outcome in work.run(deadline):
            if not isinstance(node, str) and (probe := self.catalog.probes.get(node)):
                yield (Asked if what == "begun" else Answered)(probe.name)
            if what == "begun":
                for id in self._begun_by(node, waiting):
                    waiting.discard(id)
                    yield Started(id)
            elif isinstance(node, str) and any(check.id == node for check in self.chosen):
                yield Finished(outcome)

    def _begun_by(self, node: _Node, waiting: set[str]) -> list[str]:
        if isinstance(node, str):
            return [node] if node in waiting else []
        return [check.id for check in self.chosen if check.id in waiting and node in self._graph[check.id]]

    def _give_up(self, reason: str, because: Because) -> Iterator[Event]:
        for check in self.chosen:
            if check.id not in self.results:
                yield Finished(self._keep(check.id, _skip_result(check, Unavailable(reason, because=because))))

    def _work(self, node: _Node) -> Any:
        if isinstance(node, str):
            result = self._judge(self.catalog.checks[node])
            if result.status is Status.ERROR:
                self._in_error.add(node)
            return self._keep(node, result)
        self.values[node] = value = self._obtain(node)
        return value

    def _keep(self, id: str, result: Result) -> Result:
        said = self.selection
        return self.results.setdefault(id, apply_site_policy(result, said.severities, said.silenced))

    def _obtain(self, fact: type) -> Any:
        probe = self.catalog.probes.get(fact)
        if probe is None:
            return Crash(f"no probe provides {fact.__name__}", "")
        asking = self._first_askers(fact) if probe.on_cards else []
        if asking and all(self._blocker(check.after) for check in asking):
            return Unavailable("every check that requires it is blocked by an error")
        try:
            return probe(**self._arguments(needs_of(probe)))
        except Unavailable as why:
            return self._with_kind(why, needs_of(probe))
        except ParseError as problem:
            return Unavailable(f"{probe.name} was not understood: {problem}", because=Because.FAILED)
        except _Crashed as crashed:
            return crashed.args[0]
        except Exception as problem:
            if reason := what_ran_out(problem):
                return Unavailable(f"{probe.name} could not be determined: {reason}", because=Because.FAILED)
            return _crash(problem, f"{probe.name} failed: ")

    def _arguments(self, needs: Iterable[Need]) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        for need in needs:
            value = self._asked if need.fact is Host else self.values[need.fact]
            if isinstance(value, (Unavailable, Crash)) and need.optional:
                failed = isinstance(value, Crash)
                why = Unavailable(value.reason, because=Because.FAILED) if failed else value
                value = why if need.with_reason else None
            elif isinstance(value, Unavailable):
                raise value
            elif isinstance(value, Crash):
                raise _Crashed(value)
            arguments[need.parameter] = value
        return arguments

    def _with_kind(self, why: Unavailable, needs: Iterable[Need]) -> Unavailable:
        """A reason that names no kind, with that of the tool whose failure left an optional fact unknown."""
        known = [(need.optional, self.values.get(need.fact)) for need in needs]
        own = all(value is not why for _, value in known)  # and not that of a fact that it requires
        if own and why.because is Because.ABSENT and not why.blocked_by:
            for one in (value for optional, value in known if optional):
                if isinstance(one, Unavailable) and one.because in (Because.TIMED_OUT, Because.FAILED):
                    return Unavailable(f"{why.reason}: {one.reason}", because=one.because, reported_by=one.reported_by)
        return why

    # One check

    def _judge(self, check: Check) -> Result:
        if blocker := self._blocker(check.after):
            return _skip_result(check, Unavailable(f"see {blocker}", blocked_by=blocker))
        began = time.monotonic()
        findings: list[Finding] = []
        reason, because = None, None
        try:
            required = tuple(Need(fact.__name__, fact, False) for fact in check.requires)
            self._arguments(required)
            for finding in check(**self._arguments(needs_of(check))):
                findings.append(self._with_run_context(finding))  # noqa: PERF401 - what came before an exception counts
        except Unavailable as unkind:
            why = self._with_kind(unkind, needs_of(check))
            if not findings:
                return _skip_result(check, why)
            reason, because = why.reason, why.because
        except _Crashed as crashed:
            return _crash_result(check, crashed.args[0])
        except Exception as problem:
            reason = what_ran_out(problem)
            if reason is None:
                return _crash_result(check, _crash(problem), findings)
            because = Because.FAILED
            if not findings:
                return _skip_result(check, Unavailable(reason, because=because))
        explained = [(finding, cause) for finding in findings if (cause := self._cause_of(finding, check))]
        findings = [finding for finding in findings if all(finding is not one for one, _ in explained)]
        if explained and not findings:
            symptom, cause = explained[0]
            return _skip_result(check, Unavailable(f"{symptom.summary}: see {cause}", blocked_by=cause))
        duration_s = round(time.monotonic() - began, 6)
        page = check.page if findings else None
        known: dict[str, Any] = {"reason": reason, "because": because, "duration_s": duration_s, "page": page}
        return _result(check, status_of(findings), findings=tuple(findings), **known)

    def _blocker(self, candidates: Sequence[str]) -> str | None:
        """The first check of the catalogue whose error, silenced or not, explains this one's."""
        causes = set()
        for id in candidates:
            result = self.results.get(id)
            if id in self._in_error:
                causes.add(id)
            elif result and result.blocked_by:
                causes.add(result.blocked_by)
        return next((id for id in self.catalog.checks if id in causes), None)

    def _cause_of(self, finding: Finding, check: Check) -> str | None:
        """The check that explains a symptom: by an error, or by any finding about the same chips.

        An error about other chips explains nothing about these.
        """
        if not finding.symptom:
            return None
        known = [self.results[id] for id in check.explained_by if id in self.results]
        elsewhere = {result.check for result in known if finding.chips and result.is_elsewhere(finding.chips)}
        moot = {result.check for result in known if result.with_cause_from(self.results) is not result}
        if cause := self._blocker([id for id in check.explained_by if id not in elsewhere | moot]):
            return cause
        return next((result.check for result in known if finding.chips and result.names(finding.chips)), None)

    def _with_run_context(self, finding: Finding) -> Finding:
        """The finding with the context of the run and the catalogue."""
        changes: dict[str, Any] = {}
        service = self._value(Service)
        if finding.of_live_job and service and service.in_service and not self.selection.options.expect_idle:
            changes["severity"] = Severity.INFO
        if finding.fix and finding.fix.id not in self.catalog.fixes:
            changes["fix"] = None
        return replace(finding, **changes) if changes else finding

    # The report

    def _report(self, started_at: datetime, duration_s: float) -> Report:
        named = {name for name in self.selection.names if name in self.catalog.checks}
        order = [*(result.check for result in self.catalog.broken), *(check.id for check in self.chosen)]
        results = tuple(self.results[id].with_cause_from(self.results) for id in order)
        if self.selection.names and all(result.status is Status.SKIPPED for result in results):
            named = set(order)  # a group was requested, and nothing of it was judged
        verdict, exit_code = judge(results, fail_on=self.selection.fail_on, named=named)
        role, service = self._value(Role), self._value(Service)
        return Report(
            tool_version=__version__,
            started_at=started_at.isoformat(timespec="seconds"),
            duration_s=round(duration_s, 3),
            host=self._host_summary(),
            profile=self.selection.options.profile,
            verdict=verdict,
            exit_code=exit_code,
            role=role.name if role else self.selection.options.role,
            in_service=service.in_service if service else None,
            environment=self.host.about.environment,
            fail_on=self.selection.fail_on,
            summary=count(results),
            results=results,
            inventory=inventory.of(self.values),
        )

    def _value(self, fact: type) -> Any:
        value = self.values.get(fact)
        return value if isinstance(value, fact) else None

    def _host_summary(self) -> HostSummary:
        platform, container, python = self._value(Platform), self._value(Container), self._value(TargetPython)
        environment = self._value(PythonEnvironment)
        about = self.host.about
        return HostSummary(
            hostname=about.hostname,
            machine=about.machine,
            os=platform.os if platform else None,
            kernel=platform.kernel if platform else None,
            container=container.runtime if container else None,
            python=python.path if python else None,
            python_user=environment.run_as if environment else None,
        )


class _Crashed(Exception):
    """A fact that a check or probe needs could not be obtained, because its probe crashed."""


def _crash(problem: Exception, where: str = "") -> Crash:
    try:
        import traceback  # costs two milliseconds that only a crash should pay

        detail = "".join(traceback.format_exception(problem))
    except OSError:  # no descriptor is left to read the module with
        detail = ""
    return Crash(f"{where}{type(problem).__name__}: {problem}", detail)


def _result(check: Check, status: Status, **rest: Any) -> Result:
    return Result(check=check.id, title=check.title, tags=check.tags, status=status, **rest)


def _skip_result(check: Check, why: Unavailable) -> Result:
    rest: dict[str, Any] = {"skip": Skip.COULD_NOT_LOOK, "because": why.because}
    if why.blocked_by:
        rest = {"skip": Skip.BLOCKED, "blocked_by": why.blocked_by}
    elif why.because is Because.NOT_APPLICABLE:
        rest = {"skip": Skip.NOT_APPLICABLE}
    return _result(check, Status.SKIPPED, reason=why.reason, reported_by=why.reported_by, **rest)


def _crash_result(check: Check, crash: Crash, findings: Sequence[Finding] = ()) -> Result:
    return _result(check, Status.CRASHED, reason=crash.reason, detail=crash.detail, findings=tuple(findings))
