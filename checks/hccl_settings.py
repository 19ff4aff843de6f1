"""How long HCCL waits, how much memory it takes, and whom it lets join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.network.hccl import chosen
from npudoctor.facts.network.hccl_whitelist import DISABLE, FILE, HcclWhitelist
from npudoctor.facts.network.interfaces import Interfaces
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.knowledge.tables.environment import Variable
from npudoctor.sdk import Evidence, Finding, FixOffer, Options, Severity, Threshold, Unavailable, check

EXEC, EVENT = "HCCL_EXEC_TIMEOUT", "HCCL_EVENT_TIMEOUT"
BUFFER, P2P_BUFFER = "HCCL_BUFFSIZE", "P2P_HCCL_BUFFSIZE"
LARGE_BUFFERS = Threshold(
    "hccl_buffers_percent",
    15,
    "%",
    "of a card's memory for one communicator; a job with model parallelism has four or more of them",
)


def _illegal(variable: Variable, value: str, problem: str) -> Finding:
    symptom = f" What is seen then: {variable.symptom}." if variable.symptom else ""
    return Finding(
        severity=Severity(variable.severity),
        summary=f"{variable.name}: {problem}",
        detail=f"It sets {variable.meaning}.{symptom}",
        hint=f"Correct it, or unset it for the default, {variable.default}.",
        commands=(f"unset {variable.name}",),
        evidence=(Evidence(source=variable.name, expected=variable.legal, actual=value),),
        fix=FixOffer(id="env.profile", params={"unset": [variable.name]}),
        pitfall=variable.pitfall,
    )


def _judged(id: str, environment: JobEnvironment, cards: Chips | None) -> tuple[list[Finding], dict[str, float]]:
    """The findings for illegal values of the variables that a check judges, and the legal ones as numbers."""
    found: list[Finding] = []
    numbers: dict[str, float] = {}
    for variable in knowledge.environment().judged_by(id):
        value = environment.filled(variable.name)
        if value is None:
            continue
        problem = variable.problem(value, family=cards.family if cards else None)
        if problem is None:
            numbers[variable.name] = float(value)
        else:
            found.append(_illegal(variable, value, problem))
    return found, numbers


@check("hccl.timeouts", requires=(SoftwareStack,), fix="env.profile")
def waits_are_legal_and_fit(environment: JobEnvironment, cards: Chips | None) -> Iterator[Finding]:
    """HCCL's times to wait are in range, and the outer one is longer than the inner one.

    A wait that is too short ends a job that was only slow; HCCL_EVENT_TIMEOUT has to outlast HCCL_EXEC_TIMEOUT, or
    every slow rank looks like an error of the card (507046).
    """
    findings, waits = _judged("hccl.timeouts", environment, cards)
    yield from findings
    times = knowledge.hccl().times
    inner = waits.get(EXEC, float(times.exec_s)) or float("inf")
    outer = waits.get(EVENT) or float("inf")
    if outer <= inner:
        stated = "without end" if inner == float("inf") else f"{inner:g} s"
        longer = "0" if inner == float("inf") else f"{inner + times.event_s - times.exec_s:.0f}"
        yield Finding(
            severity=Severity.WARNING,
            summary=f"{EVENT}={outer:g} is not longer than {EXEC} ({stated})",
            detail="The event's time is up while HCCL may still wait: a slow rank ends the job with 507046.",
            hint=f"Let it outlast {EXEC} by half a minute, or unset it: torch_npu then derives it.",
            commands=(f"export {EVENT}={longer}", f"unset {EVENT}"),
            evidence=(
                Evidence(source=EVENT, expected=f"more than {stated}, or 0 for no end", actual=f"{outer:g}"),
                Evidence(source=EXEC, actual=environment.filled(EXEC) or f"not set: {times.exec_s}"),
            ),
            fix=FixOffer(id="env.profile", params={"set": {EVENT: longer}}),
            pitfall="P082",
        )
    elif EVENT not in waits and inner >= times.event_s and EXEC in waits:
        yield Finding(
            severity=Severity.INFO,
            summary=f"{EXEC}={environment[EXEC]} is longer than the documented default of {EVENT}, {times.event_s} s",
            hint=f"torch_npu waits 30 s longer than {EXEC} by itself; other programs have to be told.",
            evidence=(Evidence(source=EXEC, actual=environment[EXEC]),),
            pitfall="P082",
        )


@check("hccl.buffers", requires=(SoftwareStack,), fix="env.profile", thresholds=(LARGE_BUFFERS,))
def buffers_leave_room(environment: JobEnvironment, cards: Chips | None, options: Options) -> Iterator[Finding]:
    """HCCL's buffers leave the cards' memory to the job.

    Every communicator takes each buffer twice, and a job with model parallelism has many communicators.
    """
    findings, sizes = _judged("hccl.buffers", environment, cards)
    yield from findings
    if not sizes:
        return
    known = knowledge.hccl().buffers
    each_mb = {BUFFER: sizes.get(BUFFER, known.collective_mb), P2P_BUFFER: sizes.get(P2P_BUFFER, known.p2p_mb)}
    total_mb = known.times_per_communicator * sum(each_mb.values())
    smallest = min((card.memory_mb for card in cards.chips if card.memory_mb), default=None) if cards else None
    if smallest and total_mb * 100 > LARGE_BUFFERS.of(options) * smallest:
        yield _too_large(each_mb, total_mb, smallest, environment)


def _too_large(each_mb: Mapping[str, float], total_mb: float, memory_mb: int, environment: JobEnvironment) -> Finding:
    stated = [name for name in each_mb if environment.filled(name)]
    return Finding(
        severity=Severity.WARNING,
        summary=f"one communicator takes {total_mb:.0f} MB of a card's {memory_mb} MB: "
        + ", ".join(f"{name}={environment[name]}" for name in stated),
        detail="Each buffer is taken twice for each communicator, and a job with model parallelism has several: "
        "out of memory, 207018.",
        hint="Unset what was raised without need.",
        commands=tuple(f"unset {name}" for name in stated),
        evidence=tuple(Evidence(source=name, actual=f"{size:g} MB") for name, size in each_mb.items()),
        fix=FixOffer(id="env.profile", params={"unset": stated}),
        pitfall="P083",
    )


@check("hccl.whitelist", requires=(SoftwareStack,), fix="env.profile")
def the_whitelist_lets_this_host_join(
    environment: JobEnvironment, whitelist: HcclWhitelist, interfaces: Interfaces | None
) -> Iterator[Finding]:
    """HCCL's whitelist is off, or holds this host.

    With HCCL_WHITELIST_DISABLE=0 HCCL takes connections only from hosts in a file, and aborts without that file.
    """
    variable = knowledge.environment().variable(DISABLE)
    value = environment.filled(DISABLE)
    if value is not None and variable is not None and (problem := variable.problem(value)):
        yield _illegal(variable, value, problem)
        return
    if not whitelist.enabled:
        return
    if whitelist.problem is not None:
        named = whitelist.path or "no file"
        yield _unusable(
            f"HCCL's whitelist is on, and {FILE} cannot be used: {whitelist.problem}",
            Evidence(source=FILE, expected='a file {"host_ip": [...], "device_ip": [...]}', actual=named),
        )
        return
    if interfaces is None or not interfaces.interfaces:
        raise Unavailable("the addresses of this host are not known, so that none can be looked for in the whitelist")
    own = [own.ip for one in interfaces.interfaces if not one.loopback for own in one.addresses]
    choice = chosen(environment, interfaces)
    if choice is not None and choice.address in whitelist.hosts:
        return
    listed = [str(address) for address in own if address in whitelist.hosts]
    if not listed:
        taken = str(choice.address) if choice is not None else ", ".join(map(str, own))
        yield _unusable(
            f"HCCL's whitelist {whitelist.path} does not hold this host ({taken})",
            Evidence(source=whitelist.path or FILE, expected=taken, actual=", ".join(map(str, whitelist.hosts[:8]))),
        )


def _unusable(summary: str, evidence: Evidence) -> Finding:
    return Finding(
        summary=summary,
        detail="The communicator is not built: EI0001, or the other hosts refuse the connection.",
        hint="Switch the whitelist off, or give HCCL a file with all hosts of the job, the same on each of them.",
        commands=(f"export {DISABLE}=1",),
        evidence=(Evidence(source=DISABLE, actual="0"), evidence),
        fix=FixOffer(id="env.profile", params={"unset": [DISABLE]}),
        pitfall="P074",
    )
