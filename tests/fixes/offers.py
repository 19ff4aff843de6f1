"""Every offer resolves its finding: a fix is applied to a simulated node, which is then diagnosed anew.

`problems(node, fix)` applies what the findings of a node offer and returns what is wrong with it: the finding is still
there, something new has come, or undoing it has left something behind. Nothing of the fix itself is trusted: neither
its proof nor its account of what it changed. A fix that only prints is judged by carrying out what it prints.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from npudoctor import plugins, sim
from npudoctor.findings import Finding, Report, Result, Severity, Status
from npudoctor.fixer import handover, plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host import User
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.plugins import Catalog
from npudoctor.sdk import Effect, Options
from npudoctor.sim import machine, scenario
from npudoctor.testing import run
from tests.fixes import printed, recorded_machine, states
from tests.nodes import labels

Key = tuple[str, str, str | None]


@dataclass(frozen=True)
class Node:
    """A node that can be changed, made anew by each call of `build`; `options` are those of the run."""

    name: str
    build: Callable[[], SimulatedHost]
    options: Mapping[str, Any] = field(default_factory=dict)

    def diagnose(self, host: SimulatedHost, catalog: Catalog) -> Report:
        """Every check but the smoke run."""
        names = sorted({check.group for check in catalog.checks.values()} - {"install", "smoke"})
        return run(host, *names, catalog=catalog, **{"profile": "full", **self.options})


def nodes() -> list[Node]:
    """The labelled nodes of this repository and beside it, and those that npudoctor ships."""
    found = [_labelled(label) for label in labels.written() if not label.needs_a_folder]
    found += [_recorded(label.name, label.recording) for label in labels.recorded() if label.recording]
    return found + [Node(f"sim-{name}", functools.partial(sim.simulate, name)) for name in sorted(sim.scenarios())]


def _labelled(label: labels.Label) -> Node:
    said = {**labels.USUAL, **label.said.get("node", {})}
    build = lambda: machine.build(scenario.parse(said, label.name), label.name)  # noqa: E731
    return Node(label.name, build, label.said.get("options", {}))


def _recorded(name: str, path: Path) -> Node:
    return Node(name, lambda: recorded_machine.changeable(open_bundle(str(path))))


def offers(node: Node, catalog: Catalog) -> Mapping[str, list[tuple[Result, Finding]]]:
    """What the findings of a node offer, by fix."""
    return plan.offers(node.diagnose(node.build(), catalog))


def keys(report: Report) -> dict[Key, Severity]:
    """The findings above info, each by its check, subject and code."""
    return {
        (result.check, finding.subject, finding.code): finding.severity
        for result in report.results
        for finding in result.findings
        if finding.severity > Severity.INFO
    }


def problems(node: Node, id: str, catalog: Catalog) -> list[str]:
    """What is wrong with the offer of a fix on a node; nothing where it keeps its promise."""
    host = node.build()
    before = node.diagnose(host, catalog)
    pairs = plan.offers(before).get(id, [])
    if not pairs:
        return [f"{id} is not offered"]
    with with_its_rights(host, catalog.fixes[id].root) as acting:
        state = states.state(acting)
        made = planned(node, acting, id, pairs, catalog)
        if made.obstacle and made.obstacle.owner:
            return _of_an_owner(node, host, acting, made, before, pairs, catalog)
        if made.refused or made.obstacle:
            return [f"it cannot be applied: {made.refused or made.obstacle}"]
        if made.empty and not made.notes:
            return ["its plan is empty"]
        if not made.empty:
            ended = _last(runner.apply(catalog, acting, made, options_of(node), irreversible=True))
            if ended.outcome is not Outcome.APPLIED:
                return [f"{ended.outcome.value}: {ended.reason}"]
    later = host
    if made.empty:
        commands = [line for note in made.notes for line in printed.commands_in(note)]
        try:
            later, ran = printed.carry_out(host, commands)
        except printed.CannotBeSimulated:
            return []
        if not ran:
            return [f"nothing that it prints can be carried out: {commands}"]
    elif made.fix.effect is Effect.NEW_LOGIN:
        later = host.after_login()
    found = compare(before, node.diagnose(later, catalog), pairs, catalog.fixes[id].resolves)
    if made.empty or made.irreversible:
        return found
    with with_its_rights(host, catalog.fixes[id].root) as acting:
        undone = _last(runner.undo(acting))
        if undone.outcome is not Outcome.UNDONE:
            found.append(f"it cannot be undone: {undone.reason}")
        elif states.state(acting) != state:
            found.append("undoing it has left something behind")
    return found


def _of_an_owner(
    node: Node,
    host: SimulatedHost,
    acting: SimulatedHost,
    made: FixPlan,
    before: Report,
    pairs: list[tuple[Result, Finding]],
    catalog: Catalog,
) -> list[str]:
    """What is wrong with a change that only the owner of a file may make: it is printed, and the owner makes it."""
    tasks = yaml.safe_load(handover.render(made, acting, "ansible"))
    if not tasks or not all(task["name"] and any(key.startswith("ansible.") for key in task) for task in tasks):
        return [f"these are no tasks: {tasks}"]
    for one in made.steps:
        one.step.apply(acting)
    later = host.after_login() if made.fix.effect is Effect.NEW_LOGIN else host
    return compare(before, node.diagnose(later, catalog), pairs, made.fix.resolves)


def compare(before: Report, after: Report, pairs: list[tuple[Result, Finding]], resolves: Collection[str]) -> list[str]:
    """What is still there of the offered findings, and what has come since.

    A check that could not be run because of the resolved one, and now can, tells what was there all the time, unless it
    is one that the fix resolves as well.
    """
    then, now = keys(before), {**keys(after)}
    offered = {(result.check, finding.subject, finding.code) for result, finding in pairs}
    left = {
        (result.check, finding.subject, finding.code) for result in after.results for finding in result.findings
    } & offered
    hidden = {result.check for result in before.results if result.status is Status.SKIPPED} - {*resolves}
    new = [f"{key[2]} of {key[1]}" for key in now if key not in then and key[0] not in hidden]
    judged = {result.check: result.status for result in before.results}
    worse = [
        f"{result.check} is {result.status.value}: {result.reason}"
        for result in after.results
        if result.status in (Status.CRASHED, Status.SKIPPED) and judged[result.check] is Status.OK
    ]
    return [f"{code} of {subject} is still there" for _, subject, code in sorted(left, key=str)] + new + worse


def options_of(node: Node) -> Options:
    """The options of a node's runs."""
    return Options(**{"profile": "full", **node.options})


def planned(node: Node, host: SimulatedHost, id: str, pairs: list[tuple[Result, Finding]], catalog: Catalog) -> FixPlan:
    params = plan.merge_params(offer for _, finding in pairs if (offer := finding.fix))
    return plan.make(catalog, host, Request(id, params), options_of(node))


def _last(events: Iterator[runner.Event]) -> Ended:
    *_, last = events
    assert isinstance(last, Ended)
    return last


@contextlib.contextmanager
def with_its_rights(host: SimulatedHost, root: bool) -> Iterator[SimulatedHost]:
    """The node as root of it, as `sudo npudoctor fix` has it, where a fix is root's and its user is another."""
    if not root or host.user.uid == 0:
        yield host
        return
    environ = {**host.environ, "HOME": "/root", "USER": "root"}
    with mock.patch.dict(os.environ, SUDO_USER=host.user.name), states.as_user(host, User(), environ) as acting:
        yield acting


def load() -> Catalog:
    """The built-in checks and fixes."""
    return plugins.load(folder="")
