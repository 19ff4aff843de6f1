"""A smoke run from what a person asked to what it means: look at the node, plan, run, judge, as one stream of events.

The checks `smoke.*` of the catalogue judge it, as they do in `npudoctor check --profile full`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from npudoctor import __version__, engine
from npudoctor.facts import smoke as facts
from npudoctor.facts.cards import Cards, memory_of, subject_of
from npudoctor.facts.environment import JobEnvironment
from npudoctor.facts.hccl import HcclPorts
from npudoctor.facts.holders import CardHolders
from npudoctor.facts.npu_smi import NpuSmiInfo, Topology, parse_info
from npudoctor.facts.ports import Sockets
from npudoctor.facts.target_python import TargetPython
from npudoctor.findings import Finding, HostSummary, Result, Severity, count, judge
from npudoctor.host import Host, ParseError, Unavailable
from npudoctor.plugins import Catalog
from npudoctor.records import dataclass, field, replace
from npudoctor.sdk import Options, Probe, check
from npudoctor.selection import Selection
from npudoctor.smoke import plan, runner
from npudoctor.smoke.events import (
    Bandwidth,
    Done,
    Ended,
    Event,
    Judged,
    Planned,
    RankFailed,
    RankReport,
    RankStarted,
    Said,
    SmokeReport,
)
from npudoctor.smoke.plan import Known, Refused, Request

_QUICK = (TargetPython, JobEnvironment)
_OF_CARDS = (Cards, NpuSmiInfo, CardHolders, Topology, HcclPorts, Sockets)


@dataclass(frozen=True, kw_only=True)
class Session:
    """One smoke run on one node. `options` say which Python; `severities` and `silenced` what the site makes of it."""

    catalog: Catalog
    host: Host
    request: Request
    options: Options
    fail_on: Severity = Severity.ERROR
    severities: Mapping[str, Severity] = field(default_factory=dict)
    silenced: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> Iterator[Event]:
        """Everything that happens; the last event is `Done`. Raises Refused before anything is started."""
        started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        made = plan.make(self.request, self.look())
        sample = self._sample if made.planned.device == "npu" and self._sample() else None
        seen: list[Event] = []
        for event in runner.run(made, sample=sample):
            seen.append(event)
            yield event
        ended = seen[-1]
        assert isinstance(ended, Ended)
        if sample is not None:
            yield (said := Said(at_s=ended.at_s, text="the driver takes up to 20 s to let go of the cards"))
            seen.append(said)
        outcome = facts.of_events(event.model_dump(mode="json") for event in seen)
        results = self.judged(outcome)
        for result in results:
            yield Judged(at_s=ended.at_s, result=result)
        report = self._report(started_at, ended, seen, outcome, results)
        yield Done(at_s=ended.at_s, report=report)

    def look(self) -> Known:
        """What is known of the node, as far as this run needs it."""
        wanted = (*_QUICK, *(_OF_CARDS if self.request.device == "npu" else ()))
        values = gather(self.catalog, self.host, self.options, wanted)
        target = values.get(TargetPython)
        if target is None:
            raise Refused("no Python was found to run it with; name one with --python")
        environ = values.get(JobEnvironment)
        return Known(
            python=target.path,
            environ=dict(environ) if environ is not None else dict(os.environ),
            cards=values.get(Cards),
            info=values.get(NpuSmiInfo),
            holders=values.get(CardHolders),
            topology=values.get(Topology),
            hccl_ports=values.get(HcclPorts),
            sockets=values.get(Sockets),
        )

    def judged(self, outcome: facts.SmokeRun) -> tuple[Result, ...]:
        """What the checks `smoke.*` say of a run that was made, whatever else is wrong with the node."""
        own = {id: one for id, one in self.catalog.checks.items() if one.group == "smoke"}
        own = {id: replace(one, after=tuple(name for name in one.after if name in own)) for id, one in own.items()}
        given = Probe(lambda: outcome, facts.SmokeRun)
        only = replace(self.catalog, checks=own, probes={facts.SmokeRun: given}, broken=())
        selection = Selection(
            options=replace(self.options, profile="full"), severities=self.severities, silenced=self.silenced
        )
        results: tuple[Result, ...] = ()
        for event in engine.run(only, self.host, selection):
            if isinstance(event, engine.Done):
                results = event.report.results
        order = {f"smoke.{stage}": place for place, stage in enumerate(facts.STAGES)}
        return tuple(sorted(results, key=lambda result: order.get(result.check, len(order))))

    def _sample(self) -> dict[str, float]:
        """The memory in use on each card now, in MB; empty where npu-smi does not say."""
        stream = getattr(self.host, "run_streaming", None)
        if stream is None:
            return {}
        try:
            done = stream(["npu-smi", "info"], timeout=self.options.tool_timeout_s)
            chips = parse_info(done.stdout).npus
        except (Unavailable, ParseError):
            return {}
        used = {subject_of(chip, chips): memory_of(chip)[0] for chip in chips}
        return {card: float(value) for card, value in used.items() if value is not None}

    def _report(
        self,
        started_at: str,
        ended: Ended,
        seen: list[Event],
        outcome: facts.SmokeRun,
        results: tuple[Result, ...],
    ) -> SmokeReport:
        verdict, exit_code = judge(results, fail_on=self.fail_on)
        planned = next(event for event in seen if isinstance(event, Planned))
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


def gather(catalog: Catalog, host: Host, options: Options, wanted: tuple[type, ...]) -> dict[type, Any]:
    """These facts of the node, those that are known."""

    @check("smoke.plan", profile="quick", requires=())
    def nothing(host: Host) -> Iterator[Finding]:  # noqa: ARG001
        """The node has been looked at."""
        yield from ()

    asking = replace(nothing, requires=wanted)
    only = replace(catalog, checks={asking.id: asking}, broken=())
    found: dict[type, Any] = {}
    for event in engine.run(only, host, Selection(names=(asking.id,), options=options)):
        if isinstance(event, engine.Done):
            found = {probe.provides: value for probe, value in event.facts.items()}
    return {fact: found[fact] for fact in wanted if isinstance(found.get(fact), fact)}


def ranks_of(planned: Planned, seen: list[Event], outcome: facts.SmokeRun) -> Iterator[RankReport]:
    """What became of each rank."""
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
            first_loss=losses[0] if losses else None,
            last_loss=losses[-1] if losses else None,
            step_s=steps[len(steps) // 2] if steps else None,
            local_step_s=outcome.measured.get((one.rank, "local_step_s")),
            memory_mb=outcome.measured.get((one.rank, "memory_mb")),
        )
