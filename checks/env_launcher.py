"""What a launcher has left in the environment of a job."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Orchestrator
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import PREFLIGHT, Evidence, Finding, FixOffer, NotApplicable, Severity, check

OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")
"""What a launcher sets for each rank; nobody exports it for later."""
WORKER_MARK = "TORCHELASTIC_RUN_ID"
"""torchrun sets it in its workers: where it is, a launcher is at work."""


@check("env.launcher-leftovers", tags=(PREFLIGHT,), requires=(SoftwareStack,), fix="env.profile")
def no_launcher_has_left_its_variables(
    environment: JobEnvironment, orchestrator: Orchestrator | None, cards: Chips | None
) -> Iterator[Finding]:
    """No variable of a launcher is left over, and those of one that is at work fit each other.

    A script that starts its ranks itself takes RANK or WORLD_SIZE from the shell for its own: it waits for ranks that
    nobody starts, or two ranks open one card.
    """
    if orchestrator is not None and orchestrator.name is not None:
        raise NotApplicable(f"{orchestrator.name} sets the launcher's variables here")
    there = [name for name in OF_A_RANK if environment.filled(name) is not None]
    at_work = environment.whose.startswith("pid:") or environment.filled(WORKER_MARK) is not None
    wrong = next(_inconsistent(environment, cards), None)
    if wrong is not None:
        yield _unfit(*wrong, environment, there, Severity.ERROR if at_work else Severity.WARNING)
    elif there and not at_work:
        stated = ", ".join(f"{name}={environment[name]}" for name in there)
        yield Finding(
            severity=Severity.WARNING,
            summary=f"{stated}: a launcher sets this for each rank, and here it is set for all that follows",
            detail="A script that starts its ranks itself takes it for its own place in a job: it waits for ranks that "
            "nobody starts, or two ranks open one card (EJ0003).",
            hint="Unset it, and take it out of the profile or image that exports it; launchers set it themselves.",
            commands=(f"unset {' '.join(there)}",),
            evidence=tuple(Evidence(source=name, expected="not set", actual=environment[name]) for name in there),
            fix=FixOffer(id="env.profile", params={"unset": there}),
            pitfall="P024",
            of_live_job=True,
        )


def _inconsistent(environment: JobEnvironment, cards: Chips | None) -> Iterator[tuple[str, str, str]]:
    """What does not fit: the variable, a clause, and what is expected."""
    numbers: dict[str, int] = {}
    for variable in knowledge.environment().judged_by("env.launcher-leftovers"):
        value = environment.filled(variable.name)
        if value is None:
            continue
        if problem := variable.problem(value):
            yield variable.name, problem, variable.legal
        elif value.strip().isdecimal():
            numbers[variable.name] = int(value)
    for rank, count in (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("LOCAL_RANK", "WORLD_SIZE")):
        if rank in numbers and count in numbers and numbers[rank] >= numbers[count]:
            yield rank, f"{numbers[rank]} is not below {count}={numbers[count]}", f"0 to {numbers[count] - 1}"
    local, world = numbers.get("LOCAL_WORLD_SIZE"), numbers.get("WORLD_SIZE")
    if local is not None and world is not None and local > world:
        yield "LOCAL_WORLD_SIZE", f"{local} is more than WORLD_SIZE={world}", f"at most {world}"
    here = cards.count if cards is not None else 0
    visible = environment.filled("ASCEND_RT_VISIBLE_DEVICES")
    if here and visible is not None and all(part.isdecimal() for part in visible.split(",")):
        here = min(here, len(visible.split(",")))
    if here and local is not None and local > here:
        yield "LOCAL_WORLD_SIZE", f"{local} ranks for {here} cards", f"at most {here}"
    if here and "LOCAL_RANK" in numbers and numbers["LOCAL_RANK"] >= here:
        yield "LOCAL_RANK", f"there is no card {numbers['LOCAL_RANK']} for it", f"0 to {here - 1}"


def _unfit(
    name: str, problem: str, expected: str, environment: JobEnvironment, there: list[str], severity: Severity
) -> Finding:
    unset = there or [name]
    return Finding(
        severity=severity,
        summary=f"{name}={environment[name]} does not fit: {problem}",
        detail="Ranks wait for each other until their time is up, or two of them open one card (107001, EJ0003).",
        hint="Leave these variables to the launcher, and unset what an earlier job has left.",
        commands=(f"unset {' '.join(unset)}",),
        evidence=(
            Evidence(source=name, expected=expected, actual=environment[name]),
            *(Evidence(source=other, actual=environment[other]) for other in there if other != name),
        ),
        fix=FixOffer(id="env.profile", params={"unset": unset}),
        pitfall="P024",
        of_live_job=True,
    )
