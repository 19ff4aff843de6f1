"""From a request to the exact steps: facts are obtained, the planner is asked, and every step is previewed.

Planning only reads. `digest` is a hash over the steps and their inverses, the present state among them: the runner
plans again under the lock, and refuses where the node has changed since the preview.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from npudoctor import engine
from npudoctor.findings import Finding, FixOffer, Report, Result, Severity, Status
from npudoctor.fixer import control, messages, serialise
from npudoctor.host import Host, Refused, Unavailable
from npudoctor.injection import is_of
from npudoctor.plugins import Catalog
from npudoctor.records import field, record, replace
from npudoctor.sdk import Check, Fix, Options, Parameters
from npudoctor.selection import Selection
from npudoctor.steps import Note, Obstacle, Step, StepFailed

_FACTS = "fix.facts"


@record(frozen=True)
class Request:
    """A fix by id; `params` None takes what the findings offer."""

    id: str
    params: Mapping[str, Any] | None = None


@record(frozen=True)
class Aim:
    """A finding that a plan should resolve."""

    check: str
    subject: str
    summary: str


@record(frozen=True)
class Planned:
    """A step with its preview and its inverse as of now."""

    step: Step
    preview: str
    inverse: Step | None


@record(frozen=True, kw_only=True)
class FixPlan:
    """Everything that one fix would do. `refused` says why it cannot be; then there may be no steps.

    `before` maps the checks that prove it to their status; `aims` are the findings that should be gone.
    """

    fix: Fix
    params: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Planned, ...] = ()
    notes: tuple[str, ...] = ()
    unproved: str = ""
    refused: Refused | None = None
    obstacle: Obstacle | None = None
    aims: tuple[Aim, ...] = ()
    before: Mapping[str, Status] = field(default_factory=dict)
    digest: str = ""

    @property
    def empty(self) -> bool:
        """Whether the node already is as the fix would leave it."""
        return not self.steps and self.refused is None

    @property
    def irreversible(self) -> bool:
        """Whether a step cannot be undone."""
        return any(one.inverse is None for one in self.steps)

    def recheck(self, host: Host) -> str:
        """What is known after it was applied and no check verifies it; the effect of a command is not known."""
        there = all(one.step.holds(host) for one in self.steps)
        return (messages.AS_SHOWN if there else messages.NO_CHECK_VERIFIES).text()

    @property
    def preview(self) -> str:
        """Every change, byte for byte what will be applied."""
        return "".join(one.preview for one in self.steps)


def offers(report: Report) -> dict[str, list[tuple[Result, Finding]]]:
    """The findings that offer a fix, by fix."""
    found: dict[str, list[tuple[Result, Finding]]] = {}
    for result in report.results:
        for finding in result.findings:
            if finding.fix is not None:
                found.setdefault(finding.fix.id, []).append((result, finding))
    return found


def merge_params(offered: Iterable[FixOffer]) -> dict[str, Any]:
    """The parameters of several offers of one fix as one: lists united, mappings laid over each other."""
    found: dict[str, Any] = {}
    for offer in offered:
        for name, value in offer.params.items():
            known = found.get(name)
            if isinstance(value, (list, tuple)) and isinstance(known, (list, tuple)):
                found[name] = [*known, *(one for one in value if one not in known)]
            elif isinstance(value, Mapping) and isinstance(known, Mapping):
                found[name] = {**known, **value}
            else:
                found.setdefault(name, value)
    return found


def covers_offer(offer: FixOffer, params: Mapping[str, Any]) -> bool:
    """Whether a plan with these parameters does what a finding offers."""
    for name, value in offer.params.items():
        given = params.get(name)
        if isinstance(value, (list, tuple)):
            if not set(value) <= set(given or ()):
                return False
        elif isinstance(value, Mapping):
            if not set(value.items()) <= set((given or {}).items()):
                return False
        elif given != value:
            return False
    return True


def provers(catalog: Catalog, fix: Fix) -> tuple[str, ...]:
    """The checks that verify a fix: those that it claims to resolve and those that offer it."""
    return tuple(id for id, check in catalog.checks.items() if id in fix.resolves or check.fix == fix.id)


def make(catalog: Catalog, host: Host, request: Request, options: Options) -> FixPlan:
    """Plan one fix; why it is refused is in the plan. Raises Refused if there is none."""
    fix = catalog.fixes.get(request.id)
    if fix is None:
        raise Refused(messages.NO_SUCH_FIX.text(id=request.id, known=list(catalog.fixes)))
    report, facts = _look(catalog, host, fix, options)
    offered = [(result, one) for result, one in offers(report).get(fix.id, ()) if one.severity >= Severity.WARNING]
    params = (
        dict(request.params) if request.params is not None else merge_params(o for _, one in offered if (o := one.fix))
    )
    plan = FixPlan(
        fix=fix,
        params=params,
        aims=tuple(
            Aim(result.check, one.subject, one.summary)
            for result, one in offered
            if one.fix is not None and covers_offer(one.fix, params)
        ),
        before={result.check: result.status for result in report.results},
    )
    try:
        made = list(fix(**_arguments(fix, host, facts, options, params)))
        open_steps = [one for one in made if not isinstance(one, Note) and _is_open(one, host)]
        steps = tuple(Planned(one, one.preview(host), one.inverse(host)) for one in open_steps)
        obstacle = _foreign_owner(host, steps, options) or next(
            (found for one in steps if (found := one.step.obstacle(host))), None
        )
    except Refused as why:
        return replace(plan, refused=why)
    except (Unavailable, StepFailed) as why:
        return replace(plan, refused=Refused(str(why)))
    if obstacle is None and fix.root and steps and host.user.uid != 0:
        obstacle = Obstacle(messages.ONLY_ROOT.text(), root=True)
    notes = tuple(one.text for one in made if isinstance(one, Note))
    notes += control.on_network(host, (one.step for one in steps))
    notes += control.ignored_hold(host) if steps else ()
    unproved = next((one.unproved for one in made if isinstance(one, Note) and one.unproved), "")
    plan = replace(plan, unproved=unproved)
    return replace(plan, steps=steps, notes=notes, obstacle=obstacle, digest=_digest(fix, params, steps))


def _is_open(one: Step, host: Host) -> bool:
    return getattr(one, "again", False) or not one.holds(host)


def _foreign_owner(host: Host, steps: Sequence[Planned], options: Options) -> Obstacle | None:
    """That a file belongs to somebody else, who would write it anew."""
    from npudoctor.steps.owners import owner_of

    owner = next((found for one in steps if (found := owner_of(host, one.step, options.managed))), None)
    return Obstacle(owner.reason, owner=owner.name) if owner is not None else None


def _look(catalog: Catalog, host: Host, fix: Fix, options: Options) -> tuple[Report, Mapping[type, Any]]:
    """The checks that the fix has to do with, and the facts that it plans from, in one run."""
    needed = tuple(need.fact for need in fix.needs if need.fact in catalog.probes)
    asking = Check(
        id=_FACTS,
        title="",
        why="",
        tags=(),
        profile="quick",
        after=(),
        requires=needed,
        fix=None,
        function=lambda: iter(()),
    )
    ids = provers(catalog, fix)
    seen = replace(catalog, checks={**catalog.checks, _FACTS: asking}, broken=())
    report, facts = run_checks(seen, host, (*ids, _FACTS), options)
    results = tuple(result for result in report.results if result.check != _FACTS)
    return replace(report, results=results), facts


def run_checks(catalog: Catalog, host: Host, ids: Sequence[str], options: Options) -> tuple[Report, Mapping[type, Any]]:
    """Run some checks; the report, and the facts by their type."""
    for event in engine.run(catalog, host, Selection(names=tuple(ids), options=options)):
        if isinstance(event, engine.Done):
            return event.report, {probe.provides: value for probe, value in event.facts.items()}
    raise Refused(messages.NO_CHECK_RUN.text())


def _arguments(
    fix: Fix, host: Host, facts: Mapping[type, Any], options: Options, params: Mapping[str, Any]
) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    try:
        told = serialise.read(fix.parameters, dict(params))
    except serialise.InvalidData as problem:
        raise Refused(str(problem)) from problem
    for need in fix.needs:
        value: Any = facts.get(need.fact)
        if need.fact is Host:
            value = host
        elif need.fact is Options:
            value = options
        elif isinstance(need.fact, type) and issubclass(need.fact, Parameters):
            value = told
        if is_of(value, need.fact):
            arguments[need.parameter] = value
        elif need.optional:
            arguments[need.parameter] = None
        elif isinstance(value, Unavailable):
            raise value
        else:
            why = getattr(value, "reason", None) or messages.NOT_KNOWN.text(fact=need.fact.__name__)
            raise Refused(messages.CANNOT_BE_PLANNED.text(problem=why))
    return arguments


def _digest(fix: Fix, params: Mapping[str, Any], steps: Sequence[Planned]) -> str:
    data = [
        [serialise.write_step(one.step), None if one.inverse is None else serialise.write_step(one.inverse)]
        for one in steps
    ]
    return hashlib.sha256(json.dumps([fix.id, params, data], sort_keys=True, default=list).encode()).hexdigest()
