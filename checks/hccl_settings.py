"""HCCL's timeouts, buffers and whitelist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.network.hccl import choose_interface
from npudoctor.facts.network.hccl_whitelist import DISABLE, FILE, HcclWhitelist
from npudoctor.facts.network.interfaces import Interfaces
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.knowledge.tables.environment import Variable
from npudoctor.sdk import Evidence, Finding, FixOffer, Message, Options, Severity, Threshold, Unavailable, check

from .messages import hccl as messages

EXEC, EVENT = "HCCL_EXEC_TIMEOUT", "HCCL_EVENT_TIMEOUT"
BUFFER, P2P_BUFFER = "HCCL_BUFFSIZE", "P2P_HCCL_BUFFSIZE"
LARGE_BUFFERS = Threshold(
    "hccl_buffers_percent",
    15,
    "%",
    "of a chip's memory for one communicator; a job with model parallelism has four or more of them",
)


def _invalid_finding(message: Message, variable: Variable, value: str, problem: str) -> Finding:
    detail = variable.meaning
    if variable.symptom:
        detail = messages.MEANING_AND_SYMPTOM.text(meaning=variable.meaning, symptom=variable.symptom)
    return message.finding(
        name=variable.name,
        problem=problem,
        default=variable.default,
        severity=Severity(variable.severity),
        detail=detail,
        commands=(f"unset {variable.name}",),
        evidence=(Evidence(source=variable.name, expected=variable.legal, actual=value),),
        fix=FixOffer(id="env.profile", params={"unset": [variable.name]}),
        pitfall=variable.pitfall,
    )


def _read(message: Message, environment: JobEnvironment, cards: Chips | None) -> tuple[list[Finding], dict[str, float]]:
    """The findings for invalid values of the variables that a check judges, and the valid ones as numbers."""
    found: list[Finding] = []
    numbers: dict[str, float] = {}
    for variable in knowledge.environment().judged_by(message.check):
        value = environment.non_empty(variable.name)
        if value is None:
            continue
        problem = variable.problem(value, family=cards.family if cards else None)
        if problem is None:
            numbers[variable.name] = float(value)
        else:
            found.append(_invalid_finding(message, variable, value, problem))
    return found, numbers


@check("hccl.timeouts", requires=(SoftwareStack,), fix="env.profile")
def waits_are_legal_and_fit(environment: JobEnvironment, cards: Chips | None) -> Iterator[Finding]:
    """HCCL timeouts valid and in the right order.

    A timeout that is too short ends a job that is only slow. HCCL_EVENT_TIMEOUT must be longer than HCCL_EXEC_TIMEOUT,
    otherwise every slow rank is reported as a device error (507046).
    """
    findings, waits = _read(messages.TIMEOUT_INVALID, environment, cards)
    yield from findings
    times = knowledge.hccl().times
    inner = waits.get(EXEC, float(times.exec_s)) or float("inf")
    outer = waits.get(EVENT) or float("inf")
    if outer <= inner:
        longer = "0" if inner == float("inf") else f"{inner + times.event_s - times.exec_s:.0f}"
        endless = inner == float("inf")
        expected = messages.NO_LIMIT.text() if endless else messages.LONGER_THAN.text(limit=f"{inner:g}")
        common: dict[str, Any] = {
            "name": EVENT,
            "value": f"{outer:g}",
            "other": EXEC,
            "commands": (f"export {EVENT}={longer}", f"unset {EVENT}"),
            "evidence": (
                Evidence(source=EVENT, expected=expected, actual=f"{outer:g}"),
                Evidence(
                    source=EXEC,
                    actual=environment.non_empty(EXEC) or messages.NOT_SET_BUT.text(default=times.exec_s),
                ),
            ),
            "fix": FixOffer(id="env.profile", params={"set": {EVENT: longer}}),
        }
        if endless:
            yield messages.EVENT_NOT_ENDLESS.finding(**common)
        else:
            yield messages.EVENT_TOO_SHORT.finding(limit=f"{inner:g}", **common)
    elif EVENT not in waits and inner >= times.event_s and EXEC in waits:
        yield messages.EXEC_LONG.finding(
            name=EXEC,
            value=environment[EXEC],
            other=EVENT,
            default=times.event_s,
            evidence=(Evidence(source=EXEC, actual=environment[EXEC]),),
        )


@check("hccl.buffers", requires=(SoftwareStack,), fix="env.profile", thresholds=(LARGE_BUFFERS,))
def buffers_leave_room(environment: JobEnvironment, cards: Chips | None, options: Options) -> Iterator[Finding]:
    """HCCL buffers small compared with chip memory.

    Every communicator allocates each buffer twice, and a job with model parallelism has many communicators.
    """
    findings, sizes = _read(messages.BUFFER_INVALID, environment, cards)
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
    stated = [name for name in each_mb if environment.non_empty(name)]
    return messages.BUFFERS_LARGE.finding(
        total_mb=total_mb,
        memory_mb=memory_mb,
        settings=[f"{name}={environment[name]}" for name in stated],
        commands=tuple(f"unset {name}" for name in stated),
        evidence=tuple(
            Evidence(source=name, actual=messages.SIZE.text(size_mb=size)) for name, size in each_mb.items()
        ),
        fix=FixOffer(id="env.profile", params={"unset": stated}),
    )


@check("hccl.whitelist", requires=(SoftwareStack,), fix="env.profile")
def the_whitelist_lets_this_host_join(
    environment: JobEnvironment, whitelist: HcclWhitelist, interfaces: Interfaces | None
) -> Iterator[Finding]:
    """HCCL whitelist disabled or listing this host.

    With HCCL_WHITELIST_DISABLE=0 HCCL accepts connections only from hosts in a file, and aborts without that file.
    """
    variable = knowledge.environment().variable(DISABLE)
    value = environment.non_empty(DISABLE)
    if value is not None and variable is not None and (problem := variable.problem(value)):
        yield _invalid_finding(messages.WHITELIST_INVALID, variable, value, problem)
        return
    if not whitelist.enabled:
        return
    if whitelist.problem is not None:
        named = whitelist.path or messages.NO_FILE.text()
        evidence = Evidence(source=FILE, expected=messages.WHITELIST_FILE.text(), actual=named)
        yield messages.WHITELIST_UNUSABLE.finding(name=FILE, problem=whitelist.problem, **_disable(evidence))
        return
    if interfaces is None or not interfaces.interfaces:
        raise Unavailable(messages.ADDRESSES_UNKNOWN.text())
    own = [own.ip for one in interfaces.interfaces if not one.loopback for own in one.addresses]
    choice = choose_interface(environment, interfaces)
    if choice is not None and choice.address in whitelist.hosts:
        return
    listed = [str(address) for address in own if address in whitelist.hosts]
    if not listed:
        taken = str(choice.address) if choice is not None else ", ".join(map(str, own))
        listed_here = ", ".join(map(str, whitelist.hosts[:8]))
        evidence = Evidence(source=whitelist.path or FILE, expected=taken, actual=listed_here)
        yield messages.WHITELIST_WITHOUT_HOST.finding(path=whitelist.path, addresses=taken, **_disable(evidence))


def _disable(evidence: Evidence) -> dict[str, Any]:
    """What every finding about the whitelist offers."""
    return {
        "commands": (f"export {DISABLE}=1",),
        "evidence": (Evidence(source=DISABLE, actual="0"), evidence),
        "fix": FixOffer(id="env.profile", params={"unset": [DISABLE]}),
    }
