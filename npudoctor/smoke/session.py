"""A whole smoke run: collect facts, plan, run, and judge, as one stream of events.

The checks `smoke.*` of the catalogue judge it, as they do in `npudoctor check --profile full`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from npudoctor import __version__, chip_problems, clock, engine, knowledge
from npudoctor.data import to_data
from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.network.ports import Sockets
from npudoctor.facts.node import smoke as facts
from npudoctor.facts.node.chips import Chips, memory_of, subject_of
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.npu_smi import NpuSmiInfo, Topology, parse_info
from npudoctor.facts.python.target_python import TargetPython
from npudoctor.findings import HostSummary, Result, Severity, Verdict, count, judge
from npudoctor.host import Because, Host, ParseError, Unavailable, hands_off, is_mutable
from npudoctor.injection import is_of
from npudoctor.plugins import Catalog
from npudoctor.records import field, record, replace
from npudoctor.sdk import Options, Probe
from npudoctor.selection import Selection
from npudoctor.smoke import blame, coverage, history, plan, runner
from npudoctor.smoke.events import (
    Bandwidth,
    Done,
    Ended,
    Event,
    Excluded,
    Judged,
    Measured,
    Planned,
    RankFailed,
    RankReport,
    RankStarted,
    Said,
    SmokeReport,
    read,
)
from npudoctor.smoke.plan import Known, Refused, Request, clause

LET_GO_S = 20.0
"""Seconds for the driver to free the memory of an ended process."""

UNDETERMINED = 3
"""The exit code of a run that did not test every NPU that it should."""

_NAMED = 3
"""So many NPUs are named that a run cannot use, where it can use none."""

HELD_MB = 100
"""The least memory of a process on an NPU, in MB."""

_QUICK = (TargetPython, JobEnvironment)
_OF_CARDS = (Chips, DeviceNodes, NpuSmiInfo, CardHolders, Topology, HcclPorts, Sockets)


@record(frozen=True, kw_only=True)
class Session:
    """One smoke run on one node. `options` name the Python; `severities` and `silenced` are the site's.

    `state` is the folder of the history of runs; None is this user's. While the file `hands_off` exists, no run on NPUs
    begins, and one that is under way is ended.
    """

    catalog: Catalog
    host: Host
    request: Request
    options: Options
    fail_on: Severity = Severity.ERROR
    severities: Mapping[str, Severity] = field(default_factory=dict)
    silenced: Mapping[str, Any] = field(default_factory=dict)
    state: str | None = None
    hands_off: str = hands_off.PATH

    def run(self) -> Iterator[Event]:
        """All events; the last is `Done`. Raises Refused before anything is started, or when the driver is changed."""
        if self.request.device == "npu" and (why := hands_off.reason(self.hands_off)):
            raise Refused(why)
        started_at = clock.now().isoformat(timespec="seconds")
        found = self.look()
        made = plan.make(self.request, found)
        before = self._sample() if made.planned.device == "npu" else {}
        sample = self._sample if before else None
        seen: list[Event] = []
        off = self.hands_off if made.planned.device == "npu" else None
        for event in runner.run(made, sample=sample, hands_off=off):
            seen.append(event)
            yield event
        ended = seen[-1]
        assert isinstance(ended, Ended)
        if sample is not None:
            yield Said(at_s=ended.at_s, text="waiting up to 20 s for the driver to release the devices")
            yield (said := Said(at_s=ended.at_s, text=let_go(_on_cards_of(made.planned, before), sample)))
            seen.append(said)
        folder = self.state or history.default_folder()
        if sample is not None and (usual := history.usual_bus_gb_s(made.planned, folder)) is not None:
            yield (known := Measured(at_s=ended.at_s, name="earlier-bus-gb-s", value=usual))
            seen.append(known)
        again = self._health(self.host.fresh()) if sample is not None and is_mutable(self.host) else ()
        sick = coverage.unhealthy_chips(made.planned, found.health, again)
        report = yield from self._judging(started_at, seen, sick)
        if sample is not None and not sick and judge(report.results, fail_on=self.fail_on)[1] == 0:
            least = knowledge.baselines().smoke.min_judged_mib << 20
            history.remember(made.planned, report.bandwidth, folder, min_bytes=least)
        yield Done(at_s=ended.at_s, report=report)

    def play(self) -> Iterator[Event]:
        """The run of a recorded or simulated node, judged anew; raises Refused where it has none."""
        target = self._facts(TargetPython).get(TargetPython)
        if target is None:
            raise Refused("this node has no Python for a smoke run")
        try:
            told = facts.output_of_smoke(self.host, target)
            seen = [event for event in map(read, told.stdout.splitlines()) if not isinstance(event, (Judged, Done))]
        except Unavailable as why:
            reason = "record it with --profile full" if why.because is Because.NOT_RECORDED else str(why)
            raise Refused(f"the recording holds no smoke run: {reason}") from why
        except ValueError as why:
            raise Refused("the recording's smoke run has an unknown format") from why
        if not (seen and isinstance(seen[0], Planned) and any(isinstance(event, Ended) for event in seen)):
            said = (told.stderr.strip().splitlines() or ["it did not start or did not end"])[-1]
            named = "" if seen else _absent_text(self.look())
            raise Refused(f"cannot run: {said.removeprefix('npudoctor: ')}{named}")
        known = self.look()
        planned = coverage.complete_plan(seen[0], known.cards, known.health, known.holders)
        seen = [planned, *(_explain(one) if isinstance(one, RankFailed) else one for one in seen[1:])]
        yield from seen
        sick = coverage.unhealthy_chips(planned, known.health)
        report = yield from self._judging(self.host.about.recorded_at or "", seen, sick)
        yield Done(at_s=report.duration_s, report=report)

    def _judging(
        self, started_at: str, seen: Sequence[Event], sick: tuple[Excluded, ...]
    ) -> Generator[Event, None, SmokeReport]:
        """Judge a finished run; its report."""
        ended = next(event for event in seen if isinstance(event, Ended))
        outcome = facts.of_events(to_data(event) for event in seen)
        results = self.results_of(outcome)
        for result in results:
            yield Judged(at_s=ended.at_s, result=result)
        return self._report(started_at, ended, seen, outcome, results, sick)

    def look(self) -> Known:
        """The facts of the node that this run needs."""
        wanted = (*_QUICK, *(_OF_CARDS if self.request.device == "npu" else ()))
        values = self._facts(*wanted)
        target = values.get(TargetPython)
        if target is None:
            raise Refused("no Python found; name one with --python")
        try:
            user = self.host.target_user(target.path)
            environ = self.host.target_environ(target.path)
        except Unavailable as why:
            raise Refused(why.reason) from why
        return Known(
            python=target.path,
            environ=dict(environ),
            user=user if self.host.user.uid == 0 else None,
            cards=values.get(Chips),
            nodes=values.get(DeviceNodes),
            health=self._health(self.host) if Chips in wanted else (),
            holders=values.get(CardHolders),
            topology=values.get(Topology),
            hccl_ports=values.get(HcclPorts),
            sockets=values.get(Sockets),
        )

    def results_of(self, outcome: facts.SmokeRun) -> tuple[Result, ...]:
        """The results of the checks `smoke.*` for a run, regardless of other problems of the node."""
        own = self.catalog.alone(*(id for id, one in self.catalog.checks.items() if one.group == "smoke"))
        given = Probe(lambda: outcome, facts.SmokeRun)
        own = replace(own, probes={facts.SmokeRun: given})
        results = self._results(own, self.host, replace(self.options, profile="full"))
        order = {f"smoke.{stage}": place for place, stage in enumerate(facts.STAGES)}
        return tuple(sorted(results, key=lambda result: order.get(result.check, len(order))))

    def _health(self, host: Host) -> tuple[Result, ...]:
        """The results of the checks of the chips."""
        own = self.catalog.alone(*chip_problems.CHIP_CHECKS)
        return self._results(own, host, replace(self.options, profile="standard"))

    def _results(self, catalog: Catalog, host: Host, options: Options) -> tuple[Result, ...]:
        selection = Selection(options=options, severities=self.severities, silenced=self.silenced)
        for event in engine.run(catalog, host, selection):
            if isinstance(event, engine.Done):
                return event.report.results
        return ()

    def _facts(self, *wanted: type) -> dict[type, Any]:
        """These facts of the node, those that are known."""
        found = engine.gather(self.catalog, self.host, self.options, facts=wanted)
        return {probe.provides: fact for probe, fact in found.items() if is_of(fact, probe.provides)}

    def _sample(self) -> dict[str, tuple[float, tuple[int, ...]]]:
        """The current memory use of each chip in MB, and its processes; empty where npu-smi has no data."""
        if not is_mutable(self.host):
            return {}
        try:
            done = self.host.run_streaming(["npu-smi", "info"], timeout=self.options.tool_timeout_s)
            info = parse_info(done.stdout)
        except (Unavailable, ParseError):
            return {}
        found = {}
        for chip in info.npus:
            used = memory_of(chip)[0]
            mine = [row for row in info.processes if row.npu_id == chip.npu_id and row.chip_id in (None, chip.chip_id)]
            if used is not None:
                found[subject_of(chip, info.npus)] = (float(used), tuple(row.pid for row in mine))
        return found

    def _report(
        self,
        started_at: str,
        ended: Ended,
        seen: Sequence[Event],
        outcome: facts.SmokeRun,
        results: tuple[Result, ...],
        sick: tuple[Excluded, ...],
    ) -> SmokeReport:
        verdict, exit_code = judge(results, fail_on=self.fail_on)
        planned = next(event for event in seen if isinstance(event, Planned))
        if sick:
            verdict, exit_code = Verdict.ERROR, 1
        elif exit_code == 0 and not coverage.is_complete(planned):
            verdict, exit_code = Verdict.UNDETERMINED, UNDETERMINED
        about = self.host.about
        alone, together = next(iter(outcome.of_all("alone_s").values()), None), outcome.of_all("together_s")
        efficiency = alone / max(together.values()) if alone and together else None
        return SmokeReport(
            tool_version=__version__,
            started_at=started_at,
            duration_s=ended.at_s,
            host=HostSummary(hostname=about.hostname, machine=about.machine, python=planned.python),
            plan=planned,
            verdict=verdict,
            exit_code=exit_code,
            fail_on=self.fail_on,
            interrupted=ended.interrupted,
            complete=coverage.is_complete(planned),
            unhealthy=sick,
            summary=count(results),
            ranks=tuple(ranks_of(planned, seen, outcome)),
            loss=outcome.mean_losses(),
            reference_loss=outcome.reference(),
            bandwidth=tuple(event for event in seen if isinstance(event, Bandwidth)),
            efficiency=efficiency,
            speedup=efficiency * outcome.world_size if efficiency is not None else None,
            failures=tuple(event for event in seen if isinstance(event, RankFailed)),
            notes=(*planned.notes, *(event.text for event in seen if isinstance(event, Said))),
            logs=self.request.keep_logs,
            results=results,
        )


def _on_cards_of(planned: Planned, before: Mapping[str, tuple[float, tuple[int, ...]]]) -> dict[str, float]:
    """The memory use of each chip before the run, in MB."""
    return {one.card: before[one.card][0] for one in planned.ranks if one.card is not None and one.card in before}


def let_go(before: Mapping[str, float], sample: runner.Sample, *, patience_s: float = LET_GO_S) -> str:
    """Wait until memory use is back to the value before the run; the outcome as a clause."""
    if not before:
        return f"the driver may take up to {LET_GO_S:g} s to release the devices"
    began = time.monotonic()
    while True:
        now = sample()
        held = [card for card, used in before.items() if card in now and now[card][0] - used >= HELD_MB]
        spent = time.monotonic() - began
        if not held:
            return f"the driver released all devices {spent:.0f} s after the run"
        if spent > patience_s:
            return f"memory still in use {spent:.0f} s after the run: {', '.join(held)}"
        time.sleep(1.0)


def ranks_of(planned: Planned, seen: Sequence[Event], outcome: facts.SmokeRun) -> Iterator[RankReport]:
    """The outcome of each rank."""
    pids = {event.rank: event.pid for event in seen if isinstance(event, RankStarted)}
    failures = {event.rank: event for event in seen if isinstance(event, RankFailed)}
    for one in planned.ranks:
        stages = outcome.stages.get(one.rank, {})
        losses = [loss for loss in outcome.losses.get(one.rank, ()) if loss is not None]
        steps = sorted(outcome.step_s.get(one.rank, ()))
        failure = failures.get(one.rank)
        yield RankReport(
            rank=one.rank,
            device=one.device,
            card=one.card,
            pid=pids.get(one.rank),
            cpus=one.cpus,
            stages_s=dict(stages),
            reached=next((stage for stage in reversed(list(planned.deadlines_s)) if stage in stages), None),
            failed=failure.stage if failure else None,
            first=failure.first if failure else False,
            cause=failure.cause if failure else None,
            first_loss=losses[0] if losses else None,
            last_loss=losses[-1] if losses else None,
            step_s=steps[len(steps) // 2] if steps else None,
            local_step_s=outcome.measured.get((one.rank, "local_step_s")),
            memory_mb=outcome.measured.get((one.rank, "memory_mb")),
        )


def _absent_text(known: Known) -> str:
    """Why the NPUs cannot be used, in brackets; the first three by name."""
    cards = known.cards
    numbers = range(len(cards.chips) if cards else 0)
    absent = [
        reason for one in numbers if cards and (reason := coverage.why_not(one, cards, known.health, known.holders))
    ]
    more = [f"and {len(absent) - _NAMED} more"] if len(absent) > _NAMED else []
    listed = ", ".join([*map(clause, absent[:_NAMED]), *more])
    return f" ({listed})" if listed else ""


def _explain(failed: RankFailed) -> RankFailed:
    """The failure of a rank with what is known of its message, which a simulated run does not say."""
    if not failed.message or failed.codes or failed.pitfalls:
        return failed
    codes, pitfalls = _known_of(failed.message)
    return replace(failed, codes=codes, pitfalls=pitfalls)


@functools.lru_cache(maxsize=16)
def _known_of(message: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return blame.known_of("", message)
