"""The environment variables of a job: known names, valid values, no debugging settings, a free master port."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.cann.startup_files import StartupFiles
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.network.ports import LAST_PORT, PortRanges, Sockets
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import CardPresence, SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment, NamedPaths
from npudoctor.facts.node.holders import CardHolders, JobsInSight
from npudoctor.facts.node.job_variables import belongs_to_a_job
from npudoctor.facts.node.launch import LaunchVariables
from npudoctor.facts.system.processes import Processes
from npudoctor.knowledge.tables.environment import Conflict, Variable
from npudoctor.knowledge.values import Kind, Rule
from npudoctor.sdk import PREFLIGHT, Evidence, FileStat, Finding, FixOffer, Message, Options, Severity, check

from ._lost import chips_expected
from ._owners import Owner, owners, tell_of_the_rest
from ._setting_lines import PROFILE, evidence_of, is_below, lines_that_set, naming_lines
from .messages import env as messages

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
MASTER_PORT = "MASTER_PORT"


@check("env.values", requires=(SoftwareStack,), fix="env.profile")
def values_are_legal(
    environment: JobEnvironment,
    paths: NamedPaths | None,
    cards: Chips | None,
    cann: Cann | None,
    startup: StartupFiles | None,
) -> Iterator[Finding]:
    """Environment variables valid.

    An invalid value ends the job when it starts, or is silently replaced by the default.
    """
    family = cards.family if cards else None
    known = knowledge.environment()
    for variable in known.judged_by(None):
        value = environment.non_empty(variable.name)
        if value is None:
            continue
        problem = variable.problem(value, family=family)
        rule = variable.rule_for(family)
        if problem is None and rule is not None and paths is not None and not _of_missing_cann(value, cann):
            problem = _path_problem(rule, value, paths)
        if problem is not None:
            yield naming_lines(_invalid_finding(variable, value, problem), startup, environment, variable.name)
    for conflict in known.conflicts_in(environment, family=family):
        there = [name for name in conflict.names if name in environment]
        yield naming_lines(_conflict_finding(conflict, environment), startup, environment, *there)


def _of_missing_cann(value: str, cann: Cann | None) -> bool:
    """Whether a path is in a CANN that is gone, which other checks report with the variables that name it."""
    gone = [*cann.named_in_vain.values(), *(link.path for link in cann.dead_links)] if cann is not None else []
    return is_below(value, gone)


def _invalid_finding(variable: Variable, value: str, problem: str) -> Finding:
    return messages.INVALID.finding(
        name=variable.name,
        problem=problem,
        severity=Severity(variable.severity),
        detail=_effect(variable),
        commands=(f"unset {variable.name}",),
        evidence=(Evidence(source=variable.name, expected=variable.legal, actual=value),),
        pitfall=variable.pitfall,
        links=_links(variable.sources),
    )


def _effect(variable: Variable) -> str:
    """What a variable does, and what a wrong value causes where that is known."""
    if variable.symptom is None:
        return variable.meaning
    return messages.MEANING_AND_SYMPTOM.text(meaning=variable.meaning, symptom=variable.symptom)


def _links(sources: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(source for source in sources if re.fullmatch(r"https?://\S+", source))


def _path_problem(rule: Rule, value: str, paths: NamedPaths) -> str | None:
    """What is wrong with the file or folder that a value names; None if nothing is, or if that is not known."""
    if rule.kind is Kind.DIRECTORIES:
        parts = [part for part in value.split(":") if part]
    elif rule.kind in (Kind.DIRECTORY, Kind.FILE):
        parts = [value.strip()]
    else:
        return None
    wanted = "file" if rule.kind is Kind.FILE else "dir"
    for path in parts:
        if not path.startswith("/"):
            if rule.absolute:
                return messages.NOT_ABSOLUTE.text(path=path)
        elif path in paths.stats and (problem := _stat_problem(rule, path, paths.stats[path], wanted)):
            return problem
    return None


def _stat_problem(rule: Rule, path: str, stat: FileStat | None, wanted: str) -> str | None:
    if stat is None:
        return messages.NOT_FOUND.text(path=path) if rule.must_exist else None
    if stat.kind != wanted:
        return (messages.NOT_A_DIRECTORY if wanted == "dir" else messages.NOT_A_FILE).text(path=path)
    lacking = [right for right in rule.access if right not in stat.access]
    closed = {"r": messages.NOT_READABLE, "w": messages.NOT_WRITABLE, "x": messages.NOT_SEARCHABLE}
    return closed[lacking[0]].text(path=path) if lacking else None


def _conflict_finding(conflict: Conflict, environment: JobEnvironment) -> Finding:
    return messages.CONFLICT.finding(
        settings=[
            f"{name}={environment[name]}" if name in environment else messages.NAME_UNSET.text(name=name)
            for name in conflict.names
        ],
        problem=conflict.problem,
        effect=conflict.symptom,
        severity=Severity(conflict.severity),
        commands=tuple(f"unset {name}" for name in conflict.names if name in environment),
        evidence=tuple(Evidence(source=name, actual=environment.get(name, "not set")) for name in conflict.names),
        pitfall=conflict.pitfall,
        links=_links(conflict.sources),
    )


@check("env.misspelled", requires=(SoftwareStack,), fix="env.profile")
def names_are_known(environment: JobEnvironment) -> Iterator[Finding]:
    """No misspelled environment variables.

    Nothing reads a misspelled variable: it has no effect, and no error says so.
    """
    known = knowledge.environment()
    for name in sorted(environment):
        meant = known.misspelling_of(name)
        if meant is None:
            continue
        value = environment[name]
        correct = {} if meant in environment else {meant: value}
        yield messages.MISSPELLED.finding(
            name=name,
            meant=meant,
            hint=None if correct else messages.RIGHT_ONE_IS_SET.text(meant=meant),
            commands=(f"unset {name}", *(f"export {meant}={value}" for _ in correct)),
            evidence=(Evidence(source=name, expected=meant, actual=value),),
            fix=None if belongs_to_a_job(meant) else FixOffer(id=PROFILE, params={"unset": [name], "set": correct}),
        )


@check("env.visible-devices", requires=(SoftwareStack,), fix="env.visible-devices")
def visible_devices_exist(
    environment: JobEnvironment,
    cards: Chips | None,
    found: CardPresence | None,
    startup: StartupFiles | None,
    container: Container | None,
) -> Iterator[Finding]:
    """ASCEND_RT_VISIBLE_DEVICES valid.

    CANN reads the list up to the first entry that it does not accept and reports nothing: the job sees fewer chips, or
    none. In a container the numbers start at 0, whatever their numbers on the host.
    """
    value = environment.non_empty(VISIBLE)
    if value is None:
        return
    count = chips_expected(cards, found)
    wrong = _list_problem(value, count)
    if wrong is None:
        return
    message, params = wrong
    numbers = sorted({int(part) for part in re.findall("[0-9]+", value)})
    right = ",".join(str(number) for number in numbers if not count or number < count)
    taken = _read_by_cann(value, count)
    used = ",".join(map(str, taken))
    expected = messages.ASCENDING_TO.text(last=count - 1) if count else messages.ASCENDING.text()
    if message is messages.VISIBLE_MISSING:
        params["place"] = messages.THIS_NODE.text() if container is None else messages.THIS_CONTAINER.text()
    yield message.finding(
        name=VISIBLE,
        value=value,
        **params,
        detail=messages.CANN_USES.text(used=used) if taken else messages.CANN_USES_NONE.text(),
        commands=(*([f"export {VISIBLE}={right}"] if right else []), f"unset {VISIBLE}"),
        evidence=(
            Evidence(source=VISIBLE, expected=expected, actual=value),
            *evidence_of(lines_that_set(startup, environment, VISIBLE)),
        ),
        fix=FixOffer(id="env.visible-devices", params={"value": right}),
    )


def _list_problem(value: str, count: int) -> tuple[Message, dict[str, Any]] | None:
    if not re.fullmatch("[0-9]+(,[0-9]+)*", value):
        return messages.VISIBLE_FORMAT, {}
    numbers = [int(part) for part in value.split(",")]
    if len(set(numbers)) < len(numbers):
        return messages.VISIBLE_TWICE, {}
    if numbers != sorted(numbers):
        return messages.VISIBLE_ORDER, {}
    absent = [number for number in numbers if count and number >= count]
    if absent:
        return messages.VISIBLE_MISSING, {"missing": absent[0], "count": count}
    return None


def _read_by_cann(value: str, count: int) -> list[int]:
    """The chips that CANN uses of a list: those before the first entry that it does not accept."""
    taken: list[int] = []
    for part in value.split(","):
        number = int(part) if re.fullmatch("[0-9]+", part) else -1
        if number < 0 or number in taken or (taken and number < taken[-1]) or (count and number >= count):
            break
        taken.append(number)
    return taken


@check("env.debug-leftovers", requires=(SoftwareStack,), fix="env.profile")
def no_debugging_is_left_on(environment: JobEnvironment) -> Iterator[Finding]:
    """No debugging variables left set.

    They are valid, and make a job several times slower or fill the disk with logs.
    """
    found: list[tuple[Variable, str, str]] = []
    for variable in knowledge.environment().variables:
        value = (environment.non_empty(variable.name) or "").strip()
        if value in variable.slow:
            found.append((variable, value, _effect(variable)))
        elif variable.name == "ASCEND_MODULE_LOG_LEVEL" and (loud := re.findall(r"\b(\w+)=[01]\b", value)):
            found.append((variable, value, messages.LOUD_MODULES.text(modules=loud)))
    if found:
        yield _leftovers(found)


def _leftovers(found: Sequence[tuple[Variable, str, str]]) -> Finding:
    """All of them: who looked for a fault has set them together."""
    names = [variable.name for variable, _, _ in found]
    severities = [
        Severity.WARNING if variable.name == "ASCEND_MODULE_LOG_LEVEL" else Severity(variable.severity)
        for variable, _, _ in found
    ]
    first = max(range(len(found)), key=lambda place: severities[place].rank)
    common: dict[str, Any] = {
        "severity": max(severities),
        "commands": (f"unset {' '.join(names)}",),
        "evidence": tuple(Evidence(source=one.name, expected=one.default, actual=value) for one, value, _ in found),
        "fix": FixOffer(id=PROFILE, params={"unset": names}),
        "pitfall": found[first][0].pitfall,
        "links": tuple(dict.fromkeys(link for variable, _, _ in found for link in _links(variable.sources))),
    }
    if len(found) == 1:
        variable, value, effect = found[0]
        detail = (
            messages.EFFECT_AND_DEFAULT.text(effect=effect, default=variable.default) if variable.default else effect
        )
        return messages.SLOW.finding(name=names[0], value=value, effect=effect, detail=detail, **common)
    return messages.SEVERAL_SLOW.finding(
        settings=[f"{name}={value}" for name, (_, value, _) in zip(names, found, strict=True)],
        effects="\n".join(effect for _, _, effect in found),
        **common,
    )


@check("env.master-port", tags=(PREFLIGHT,), requires=(SoftwareStack,))
def master_port_is_free(
    environment: JobEnvironment,
    sockets: Sockets,
    ports: HcclPorts | None,
    cluster: Cluster | None,
    processes: Processes | None,
    holders: CardHolders | None,
    sight: JobsInSight | None,
    launched: LaunchVariables | None,
    options: Options,
) -> Iterator[Finding]:
    """MASTER_PORT free and outside HCCL's ports.

    Rank 0 listens on it before anything else; a job that finds it in use fails with EADDRINUSE.
    """
    text = environment.non_empty(MASTER_PORT)
    port = knowledge.hccl().ports.master
    free = _free_port(sockets, ports)
    if text is not None:
        if not re.fullmatch("[0-9]{1,5}", text.strip()) or not 1 <= int(text) <= LAST_PORT:
            yield messages.PORT_INVALID.finding(name=MASTER_PORT, value=text, **_another(text, free))
            return
        port = int(text)
        if port < 1024:
            yield messages.PORT_PRIVILEGED.finding(name=MASTER_PORT, value=text, **_another(text, free))
    if ports is not None and port in ports.possible:
        yield messages.PORT_OF_HCCL.finding(
            name=MASTER_PORT,
            value=port,
            ports=ports.possible,
            severity=None if port in ports.certain else Severity.INFO,
            **_another(str(port), free),
        )
    if cluster is not None and cluster.several and cluster.evidence and cluster.evidence[0] == "MASTER_ADDR":
        return
    sight = None if options.expect_idle else sight
    taken = owners(sockets.holding(PortRanges.of((port, port))), processes, holders, sight, launched)
    for owner in taken:
        if not owner.perhaps_of_job:
            yield _taken_finding(owner, port, text is None, free)
    tell_of_the_rest([owner for owner in taken if owner.perhaps_of_job], sight)


def _another(value: str, free: int) -> dict[str, Any]:
    """What a finding about the number of the port offers."""
    return {
        "commands": (f"export {MASTER_PORT}={free}",),
        "evidence": (Evidence(source=MASTER_PORT, expected=messages.PORT_EXPECTED.text(), actual=value),),
    }


def _free_port(sockets: Sockets, ports: HcclPorts | None) -> int:
    """A free port near the default."""
    busy = {socket.port for socket in sockets.sockets}
    default = knowledge.hccl().ports.master
    near = (port for port in range(default + 1, LAST_PORT) if port not in busy)
    return next(port for port in near if ports is None or port not in ports.possible)


def _taken_finding(owner: Owner, port: int, default: bool, free: int) -> Finding:
    expected, actual = messages.PORT_FREE.text(port=port), messages.PORT_HELD.text(owner=owner)
    message = messages.DEFAULT_PORT_TAKEN if default else messages.PORT_TAKEN
    return message.finding(
        name=MASTER_PORT,
        port=port,
        how=owner.how,
        detail=messages.TAKEN_BY_LIVE_JOB.text() if owner.of_live_job else None,
        hint=messages.ANOTHER_PORT.text() if owner.of_live_job else None,
        commands=(
            f"ss -tanp 'sport = :{port}'",
            *owner.look,
            f"export {MASTER_PORT}={free}  # or torchrun --master_port={free}",
        ),
        evidence=(Evidence(source="sockets", expected=expected, actual=actual), *owner.evidence),
        of_live_job=owner.of_live_job,
    )
