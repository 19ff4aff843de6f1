"""The variables of a job: known names, legal values, no leftovers of debugging, a free master port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.network.ports import LAST_PORT, PortRanges, Sockets
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.context import CardPresence, SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment, NamedPaths
from npudoctor.facts.node.holders import CardHolders, JobsInSight
from npudoctor.facts.system.processes import Processes
from npudoctor.knowledge.tables.environment import Conflict, Variable
from npudoctor.knowledge.values import Kind, Rule
from npudoctor.sdk import PREFLIGHT, Evidence, FileStat, Finding, FixOffer, Options, Severity, check

from ._owners import Owner, owners, tell_of_the_rest

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
MASTER_PORT = "MASTER_PORT"


def _unset(*names: str) -> FixOffer:
    return FixOffer(id="env.profile", params={"unset": list(names)})


@check("env.values", requires=(SoftwareStack,), fix="env.profile")
def values_are_legal(environment: JobEnvironment, paths: NamedPaths | None, cards: Chips | None) -> Iterator[Finding]:
    """Every known variable that is set has a legal value.

    An illegal one ends the job when it starts, or is dropped without a word and the default holds.
    """
    family = cards.family if cards else None
    known = knowledge.environment()
    for variable in known.judged_by(None):
        value = environment.filled(variable.name)
        if value is None:
            continue
        problem = variable.problem(value, family=family)
        rule = variable.rule_for(family)
        if problem is None and rule is not None and paths is not None:
            problem = _path_problem(rule, value, paths)
        if problem is not None:
            yield _illegal(variable, value, problem)
    for conflict in known.conflicts_in(environment, family=family):
        yield _conflicting(conflict, environment)


def _illegal(variable: Variable, value: str, problem: str) -> Finding:
    symptom = f" What is seen then: {variable.symptom}." if variable.symptom else ""
    return Finding(
        severity=Severity(variable.severity),
        summary=f"{variable.name}: {problem}",
        detail=f"It sets {variable.meaning}.{symptom}",
        hint="Correct it, or unset it for the default.",
        commands=(f"unset {variable.name}",),
        evidence=(Evidence(source=variable.name, expected=variable.legal, actual=value),),
        fix=_unset(variable.name),
        pitfall=variable.pitfall,
        links=_links(variable.sources),
    )


def _links(sources: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(source for source in sources if re.fullmatch(r"https?://\S+", source))


def _path_problem(rule: Rule, value: str, paths: NamedPaths) -> str | None:
    """What is wrong with the file or folder that a value names; None where nothing is or nobody could look."""
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
                return f"{path} is no absolute path"
        elif path in paths.stats and (problem := _stat_problem(rule, path, paths.stats[path], wanted)):
            return problem
    return None


def _stat_problem(rule: Rule, path: str, stat: FileStat | None, wanted: str) -> str | None:
    if stat is None:
        return f"{path} does not exist" if rule.must_exist else None
    if stat.kind != wanted:
        return f"{path} is no {'folder' if wanted == 'dir' else 'regular file'}"
    lacking = [right for right in rule.access if right not in stat.access]
    verbs = {"r": "read", "w": "written", "x": "entered"}
    return f"{path} cannot be {verbs[lacking[0]]} by this user" if lacking else None


def _conflicting(conflict: Conflict, environment: JobEnvironment) -> Finding:
    stated = [f"{name}={environment[name]}" if name in environment else f"{name} unset" for name in conflict.names]
    return Finding(
        severity=Severity(conflict.severity),
        summary=f"{' with '.join(stated)}: {conflict.problem}",
        detail=f"What is seen then: {conflict.symptom}.",
        hint="Unset what you do not need.",
        commands=tuple(f"unset {name}" for name in conflict.names if name in environment),
        evidence=tuple(Evidence(source=name, actual=environment.get(name, "unset")) for name in conflict.names),
        fix=_unset(*(name for name in conflict.names if name in environment)),
        pitfall=conflict.pitfall,
        links=_links(conflict.sources),
    )


@check("env.misspelled", requires=(SoftwareStack,), fix="env.profile")
def names_are_known(environment: JobEnvironment) -> Iterator[Finding]:
    """No variable is a typing slip away from a known one.

    Nothing reads a misspelled variable, so what it was meant to do does not happen, and nothing says so.
    """
    known = knowledge.environment()
    for name in sorted(environment):
        meant = known.misspelling_of(name)
        if meant is None:
            continue
        value = environment[name]
        correct = {} if meant in environment else {meant: value}
        yield Finding(
            severity=Severity.WARNING,
            summary=f"{name} is set, but nothing reads it; {meant} is the name of a known variable",
            hint=f"Write {meant}." if correct else f"{meant} is set as well; unset this one.",
            commands=(f"unset {name}", *(f"export {meant}={value}" for _ in correct)),
            evidence=(Evidence(source=name, expected=meant, actual=value),),
            fix=FixOffer(id="env.profile", params={"unset": [name], "set": correct}),
        )


@check("env.visible-devices", requires=(SoftwareStack,), fix="env.visible-devices")
def visible_devices_exist(
    environment: JobEnvironment, cards: Chips | None, found: CardPresence | None
) -> Iterator[Finding]:
    """ASCEND_RT_VISIBLE_DEVICES names cards of this node, in rising order.

    CANN reads the list up to the first thing that it does not like and says nothing: the job sees fewer cards, or
    none. In a container the numbers start at 0 whatever the host calls the cards.
    """
    value = environment.filled(VISIBLE)
    if value is None:
        return
    count = _count(cards, found)
    problem = _list_problem(value, count)
    if problem is None:
        return
    numbers = sorted({int(part) for part in re.findall("[0-9]+", value)})
    right = ",".join(str(number) for number in numbers if not count or number < count)
    taken = _read_by_cann(value, count)
    yield Finding(
        summary=f"{VISIBLE}={value}: {problem}",
        detail=f"CANN takes {','.join(map(str, taken)) or 'no card'} of it and drops the rest without a word: EE2002, "
        "107001, or fewer devices than expected.",
        hint="Name cards that are here, in rising order, joined by commas alone; or unset it for all of them.",
        commands=(*([f"export {VISIBLE}={right}"] if right else []), f"unset {VISIBLE}"),
        evidence=(
            Evidence(
                source=VISIBLE,
                expected=f"rising numbers from 0 to {count - 1}" if count else "rising numbers joined by commas",
                actual=value,
            ),
        ),
        fix=FixOffer(id="env.visible-devices", params={"value": right}),
        pitfall="P011",
    )


def _count(cards: Chips | None, found: CardPresence | None) -> int:
    """How many chips there should be: one that some source has lost is another check's finding; 0 where not known."""
    known = [cards.count if cards else 0]
    known += [count or 0 for count in (found.pci, found.nodes, found.npu_smi)] if found else []
    return max(known)


def _list_problem(value: str, count: int) -> str | None:
    if not re.fullmatch("[0-9]+(,[0-9]+)*", value):
        return "not card numbers joined by commas alone"
    numbers = [int(part) for part in value.split(",")]
    if len(set(numbers)) < len(numbers):
        return "a card is named twice"
    if numbers != sorted(numbers):
        return "not in rising order"
    absent = [number for number in numbers if count and number >= count]
    if absent:
        return f"there is no card {absent[0]} here; there are {count}, from 0 on"
    return None


def _read_by_cann(value: str, count: int) -> list[int]:
    """The cards that CANN takes from a list: those before the first thing that is none."""
    taken: list[int] = []
    for part in value.split(","):
        number = int(part) if re.fullmatch("[0-9]+", part) else -1
        if number < 0 or number in taken or (taken and number < taken[-1]) or (count and number >= count):
            break
        taken.append(number)
    return taken


@check("env.debug-leftovers", requires=(SoftwareStack,), fix="env.profile")
def no_debugging_is_left_on(environment: JobEnvironment) -> Iterator[Finding]:
    """No variable of a debugging session slows this node down.

    They are legal, and make a job several times slower or fill the disk with logs.
    """
    for variable in knowledge.environment().variables:
        value = (environment.filled(variable.name) or "").strip()
        if value in variable.slow:
            yield _leftover(variable, value, Severity(variable.severity))
        elif variable.name == "ASCEND_MODULE_LOG_LEVEL" and (loud := re.findall(r"\b(\w+)=[01]\b", value)):
            yield _leftover(
                variable, value, Severity.WARNING, f"the log of {', '.join(loud)} is at debug or info level"
            )


def _leftover(variable: Variable, value: str, severity: Severity, what: str | None = None) -> Finding:
    return Finding(
        severity=severity,
        summary=f"{variable.name}={value} slows this node down: {what or variable.symptom or variable.meaning}",
        detail=f"It sets {variable.meaning}; the default is {variable.default}." if variable.default else None,
        hint="Unset it when you are done with debugging.",
        commands=(f"unset {variable.name}",),
        evidence=(Evidence(source=variable.name, expected=variable.default, actual=value),),
        fix=_unset(variable.name),
        pitfall=variable.pitfall,
        links=_links(variable.sources),
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
    options: Options,
) -> Iterator[Finding]:
    """The port on which the ranks of a job meet is free, and is none of HCCL's.

    Rank 0 listens on it before anything else happens; a job that finds it taken ends with EADDRINUSE.
    """
    text = environment.filled(MASTER_PORT)
    port = knowledge.hccl().ports.master
    free = _free_port(sockets, ports)
    if text is not None:
        if not re.fullmatch("[0-9]{1,5}", text.strip()) or not 1 <= int(text) <= LAST_PORT:
            yield _bad_port(text, "is no port", Severity.ERROR, free)
            return
        port = int(text)
        if port < 1024:
            yield _bad_port(text, "belongs to the system; only root may listen on it", Severity.WARNING, free)
    if ports is not None and port in ports.possible:
        severity = Severity.ERROR if port in ports.certain else Severity.INFO
        yield _bad_port(str(port), f"is one of HCCL's ports {ports.possible}", severity, free)
    if cluster is not None and cluster.several and cluster.evidence and cluster.evidence[0] == "MASTER_ADDR":
        return
    sight = None if options.expect_idle else sight
    taken = owners(sockets.holding(PortRanges.of((port, port))), processes, holders, sight)
    for owner in taken:
        if not owner.perhaps_of_job:
            yield _taken(owner, port, text is None, free)
    tell_of_the_rest([owner for owner in taken if owner.perhaps_of_job], sight)


def _bad_port(text: str, problem: str, severity: Severity, free: int) -> Finding:
    return Finding(
        severity=severity,
        summary=f"{MASTER_PORT}={text} {problem}",
        hint="Choose another one, the same on every node of the job.",
        commands=(f"export {MASTER_PORT}={free}",),
        evidence=(Evidence(source=MASTER_PORT, expected="1024 to 65535, outside HCCL's range", actual=text),),
        pitfall="P018",
    )


def _free_port(sockets: Sockets, ports: HcclPorts | None) -> int:
    """A port near the default that nobody uses."""
    busy = {socket.port for socket in sockets.sockets}
    default = knowledge.hccl().ports.master
    near = (port for port in range(default + 1, LAST_PORT) if port not in busy)
    return next(port for port in near if ports is None or port not in ports.possible)


def _taken(owner: Owner, port: int, default: bool, free: int) -> Finding:
    name = f"port {port}, the default of {MASTER_PORT}," if default else f"{MASTER_PORT} {port}"
    detail = "The next job that wants it ends with EADDRINUSE, `errno: 98 - Address already in use`."
    if owner.of_live_job:
        detail = "A job that runs on the cards explains this. Another one beside it needs a port of its own."
    return Finding(
        summary=f"{name} is taken {owner.how}",
        detail=detail,
        hint="End it if it is left over from a job, or let the next job use another port.",
        commands=(
            f"ss -tanp 'sport = :{port}'",
            *owner.look,
            f"export {MASTER_PORT}={free}  # or torchrun --master_port={free}",
        ),
        evidence=(Evidence(source="sockets", expected=f"{port} free", actual=f"held by {owner}"), *owner.evidence),
        pitfall="P018",
        of_live_job=owner.of_live_job,
    )
