"""Stale launcher variables in the environment of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.cann.startup_files import StartupFiles
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Orchestrator
from npudoctor.facts.node.context import CardPresence, SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.records import record
from npudoctor.sdk import PREFLIGHT, Evidence, Finding, Message, NotApplicable, Severity, check

from ._lost import chips_expected
from ._setting_lines import naming_lines
from .messages import env as messages

OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")
"""What a launcher sets for each rank and never exports to a shell."""
WORKER_MARK = "TORCHELASTIC_RUN_ID"
"""torchrun sets it in its workers: a launcher is running."""


@record(frozen=True)
class _Wrong:
    """A variable that contradicts another one or this node."""

    message: Message
    name: str
    expected: str
    params: Mapping[str, Any]


@check("env.launcher-leftovers", tags=(PREFLIGHT,), requires=(SoftwareStack,), fix="env.profile")
def no_launcher_has_left_its_variables(
    environment: JobEnvironment,
    orchestrator: Orchestrator | None,
    cards: Chips | None,
    presence: CardPresence | None,
    startup: StartupFiles | None,
) -> Iterator[Finding]:
    """No stale or contradictory launcher variables.

    A script that starts its own ranks reads RANK or WORLD_SIZE from the shell as its own: it waits for ranks that are
    never started, or two ranks open the same chip.
    """
    if orchestrator is not None and orchestrator.name is not None:
        raise NotApplicable(messages.SET_BY_ORCHESTRATOR.text(orchestrator=orchestrator.name))
    there = [name for name in OF_A_RANK if environment.non_empty(name) is not None]
    at_work = environment.whose.startswith("pid:") or environment.non_empty(WORKER_MARK) is not None
    wrong = next(_inconsistent_values(environment, chips_expected(cards, presence)), None)
    if wrong is not None:
        found = _inconsistency(wrong, environment, there, Severity.ERROR if at_work else Severity.WARNING)
        yield naming_lines(found, startup, environment, *(there or [wrong.name]))
    elif there and not at_work:
        found = messages.STALE.finding(
            settings=[f"{name}={environment[name]}" for name in there],
            commands=(f"unset {' '.join(there)}",),
            evidence=tuple(Evidence(source=name, expected="not set", actual=environment[name]) for name in there),
            of_live_job=True,
        )
        yield naming_lines(found, startup, environment, *there)


def _inconsistent_values(environment: JobEnvironment, chips: int) -> Iterator[_Wrong]:
    """The values that contradict each other or this node."""
    numbers: dict[str, int] = {}
    for variable in knowledge.environment().judged_by("env.launcher-leftovers"):
        value = environment.non_empty(variable.name)
        if value is None:
            continue
        if problem := variable.problem(value):
            yield _Wrong(messages.VALUE_INVALID, variable.name, variable.legal, {"problem": problem})
        elif value.strip().isdecimal():
            numbers[variable.name] = int(value)
    for rank, count in (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("LOCAL_RANK", "WORLD_SIZE")):
        if rank in numbers and count in numbers and numbers[rank] >= numbers[count]:
            expected = messages.FROM_TO.text(first=0, last=numbers[count] - 1)
            params = {"value": numbers[rank], "other": count, "limit": numbers[count]}
            yield _Wrong(messages.RANK_TOO_HIGH, rank, expected, params)
    local, world = numbers.get("LOCAL_WORLD_SIZE"), numbers.get("WORLD_SIZE")
    if local is not None and world is not None and local > world:
        params = {"value": local, "other": "WORLD_SIZE", "limit": world}
        expected = messages.AT_MOST.text(most=world)
        yield _Wrong(messages.LOCAL_WORLD_TOO_LARGE, "LOCAL_WORLD_SIZE", expected, params)
    visible = environment.non_empty("ASCEND_RT_VISIBLE_DEVICES")
    if chips and visible is not None and all(part.isdecimal() for part in visible.split(",")):
        chips = min(chips, len(visible.split(",")))
    if chips and local is not None and local > chips:
        expected = messages.AT_MOST.text(most=chips)
        yield _Wrong(messages.MORE_RANKS_THAN_CHIPS, "LOCAL_WORLD_SIZE", expected, {"value": local, "chips": chips})
    if chips and numbers.get("LOCAL_RANK", 0) >= chips:
        params = {"value": numbers["LOCAL_RANK"], "chips": chips}
        expected = messages.FROM_TO.text(first=0, last=chips - 1)
        yield _Wrong(messages.NO_CHIP_FOR_RANK, "LOCAL_RANK", expected, params)


def _inconsistency(wrong: _Wrong, environment: JobEnvironment, there: list[str], severity: Severity) -> Finding:
    unset = there or [wrong.name]
    return wrong.message.finding(
        name=wrong.name,
        **wrong.params,
        severity=severity,
        commands=(f"unset {' '.join(unset)}",),
        evidence=(
            Evidence(source=wrong.name, expected=wrong.expected, actual=environment[wrong.name]),
            *(Evidence(source=other, actual=environment[other]) for other in there if other != wrong.name),
        ),
        of_live_job=True,
    )
