"""The public interface for plug-ins: decorators for checks, probes and fixes, and their types.

A check evaluates facts and yields findings; a probe obtains one fact from the node:

    @probe
    def memory(host: Host) -> Memory: ...

    @check("host.swap", tags=("host",))
    def swap(memory: Memory) -> Iterator[Finding]: ...

The types of the parameters are the required facts (`Memory | None` makes one optional). The first line of the docstring
is the title: a noun phrase of at most 60 characters that says what is checked. The rest says why it matters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, overload

from npudoctor.findings import Because, Evidence, Finding, FixOffer, Severity
from npudoctor.host import (
    STANDARD_PLACES,
    Completed,
    FileStat,
    Host,
    MutableHost,
    NotApplicable,
    ParseError,
    Refused,
    Unavailable,
    User,
    ask_each,
    real_path,
    run_each,
)
from npudoctor.injection import Need, hint_of, is_fact
from npudoctor.injection import needs_of as _needs
from npudoctor.messages import Message, Sentence
from npudoctor.records import field, record, replace
from npudoctor.steps import Note, Obstacle, Step, StepFailed
from npudoctor.steps.files import MakeFolder, RemoveFile, RemoveFolder, WriteFile, text_of, untrusted_writer, writing
from npudoctor.steps.packages import KeepPackages
from npudoctor.steps.system import EndProcess, GroupMember, Remount, RemoveLogs, Run, SetSysctl
from npudoctor.steps.units import SystemdUnit

PROFILES = ("quick", "standard", "full")
"""The profiles by cost, cheapest first; each includes the previous ones."""

PREFLIGHT = "preflight"
"""Tag of checks for resources that a job needs free: those of a live job are info while the node is in service."""

HEALTH = "health"
"""Tag of the checks used by `npudoctor healthcheck`."""


@record(frozen=True, kw_only=True)
class Options:
    """The options of a run; a fact like any other, so checks and probes may require it.

    `python` is the interpreter to inspect, None to detect it. `role` is auto, full or driver-only. `settings` holds
    the site's thresholds by name, which checks read with `Threshold.of`. `tool_timeout_s` bounds one call of a vendor
    tool. `frameworks` are those that the node is checked for, installed or not (`check --for`).
    """

    expect_idle: bool = False
    role: str = "auto"
    profile: str = "standard"
    python: str | None = None
    tool_timeout_s: float = 10.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()


@record(frozen=True)
class Threshold:
    """A limit that a site may set by name in its configuration, with its default.

    It is defined beside the check that reads it and listed in its `thresholds`, which documents it and makes its name
    valid:

        SLOW = Threshold("npu_smi_slow_s", 5, "s", "a healthy driver answers within two seconds")

        @check("driver.npu-smi", thresholds=(SLOW,))
        def npu_smi(answer: NpuSmiAnswer, options: Options) -> Iterator[Finding]:
            if answer.seconds > SLOW.of(options): ...

    `default` is a number, or a function that reads one from the knowledge tables; `reason` says why.
    The name is in snake case and ends with the unit.
    """

    name: str
    default: float | Callable[[], float]
    unit: str
    reason: str

    @property
    def usual(self) -> float:
        """The default as a number."""
        return self.default() if callable(self.default) else self.default

    def of(self, options: Options | None) -> float:
        """The site's number, else the default."""
        said = options.settings.get(self.name) if options is not None else None
        return self.usual if said is None else float(said)


@record(frozen=True, kw_only=True, eq=False)
class Check:
    """One check with a stable id. Made by `@check`; importing a module registers nothing."""

    id: str
    title: str
    why: str
    tags: tuple[str, ...]
    profile: str
    after: tuple[str, ...]
    requires: tuple[type, ...]
    fix: str | None
    thresholds: tuple[Threshold, ...] = ()
    explained_by: tuple[str, ...] = ()
    function: Callable[..., Iterator[Finding]]

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The facts that it takes; raises TypeError or NameError for annotations that name no type."""
        return _needs(self.function)

    @property
    def group(self) -> str:
        """The subject of the id: `npu` for `npu.health`."""
        return self.id.partition(".")[0]

    def __call__(self, *facts: Any, **named: Any) -> Iterator[Finding]:
        """Evaluate these facts."""
        return self.function(*facts, **named)


@record(frozen=True, eq=False)
class Probe:
    """Obtains one fact. Made by `@probe`; `provides` is the return type of the function.

    `on_cards`: it opens devices, made by `@probe_on_cards`. `of_the_moment`: it describes this moment or this node
    only, or repeats other facts, so that nodes are not compared by it.
    """

    function: Callable[..., Any]
    provides: type
    on_cards: bool = False
    of_the_moment: bool = False

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The facts that it takes, the host among them."""
        return _needs(self.function)

    @property
    def name(self) -> str:
        """The name that `npudoctor facts` shows: `npu_smi.info`."""
        module = self.function.__module__
        ours, _, rest = module.partition("npudoctor.facts.")
        room = rest.partition(".")[0] if not ours and rest else module.rpartition(".")[2]
        return f"{room}.{self.function.__name__}"

    def __call__(self, *facts: Any, **named: Any) -> Any:
        """Obtain the fact from a host and other facts."""
        return self.function(*facts, **named)


def needs_of(item: Check | Probe) -> tuple[Need, ...]:
    """Its needs; none for annotations that name no type, which then shows when it is called."""
    try:
        return item.needs
    except (TypeError, NameError):
        return ()


class Risk(str, Enum):
    """SAFE: reversible, affects no running job; applied by `--all-safe`. ASK: needs confirmation."""

    SAFE = "safe"
    ASK = "ask"


class Effect(str, Enum):
    """When a fix takes effect."""

    NOW = "now"
    NEW_LOGIN = "new-login"
    REBOOT = "reboot"


@record(frozen=True)
class Parameters:
    """The parameters of a fix. A fix requires its own subclass, a record with a default for each field.

    The fields are text, numbers, flags, and tuples or mappings of these; the runner validates what it is given.
    """


@record(frozen=True, kw_only=True, eq=False)
class Fix:
    """A planner of reversible steps with a stable id. Made by `@fix`; only the runner acts."""

    id: str
    title: str
    why: str
    resolves: tuple[str, ...]
    risk: Risk
    effect: Effect
    root: bool
    function: Callable[..., Iterator[Step | Note]]

    @property
    def mends(self) -> tuple[str, ...]:
        """The name of `resolves` in 0.1."""
        import warnings

        warnings.warn("Fix.mends is called resolves", DeprecationWarning, stacklevel=2)
        return self.resolves

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The facts that it plans from, the host and its parameters among them."""
        return _needs(self.function)

    @cached_property
    def parameters(self) -> type[Parameters]:
        """The type of its parameters."""
        told = (need.fact for need in self.needs if isinstance(need.fact, type) and issubclass(need.fact, Parameters))
        return next(told, Parameters)

    def __call__(self, *facts: Any, **named: Any) -> Iterator[Step | Note]:
        """Plan: yield the steps, in order."""
        return self.function(*facts, **named)


def fix(
    id: str,
    *,
    resolves: tuple[str, ...] | None = None,
    risk: Risk = Risk.ASK,
    effect: Effect = Effect.NOW,
    root: bool = False,
    mends: tuple[str, ...] | None = None,
) -> Callable[[Callable[..., Iterator[Step | Note]]], Fix]:
    """Make a fix of a generator that reads facts (and the host) and yields steps; it never writes.

    `resolves` are the checks that are run again to verify it; `root` says whether only root can apply it. `mends` is
    the name of `resolves` in 0.1. Raises TypeError without it.
    """
    if mends is not None:
        import warnings  # a built-in fix never pays for it

        warnings.warn(f"{id}: write `resolves` instead of `mends`", DeprecationWarning, stacklevel=2)
    checks = mends if resolves is None else resolves
    if checks is None:
        raise TypeError(f"{id}: @fix requires resolves, the checks that the fix resolves; () for none")

    def made(function: Callable[..., Iterator[Step | Note]]) -> Fix:
        title, why = _described(id, function)
        return Fix(id=id, title=title, why=why, resolves=checks, risk=risk, effect=effect, root=root, function=function)

    return made


def _described(id: str, function: Callable[..., Any]) -> tuple[str, str]:
    subject, dot, thing = id.partition(".")
    if not (subject and dot and thing):
        raise ValueError(f"expected an id such as npu.health (subject.thing), found {id!r}")
    title, _, why = inspect.cleandoc(function.__doc__ or "").partition("\n")
    if not title:
        raise ValueError(f"{id}: docstring missing; its first line is the title")
    return title.rstrip("."), why.strip()


def check(
    id: str,
    *,
    tags: tuple[str, ...] = (),
    profile: str = "quick",
    after: tuple[str, ...] = (),
    requires: tuple[type, ...] = (),
    fix: str | None = None,
    thresholds: tuple[Threshold, ...] = (),
    explained_by: tuple[str, ...] = (),
    yields_to: tuple[str, ...] = (),
) -> Callable[[Callable[..., Iterator[Finding]]], Check]:
    """Make a check of a generator over facts.

    `after` names the checks whose error makes this one pointless: it is then skipped, blocked by the cause.
    `explained_by` names those whose error explains what this one finds: it runs all the same, and where it finds
    nothing but what is marked `symptom`, it is skipped, blocked by the cause. `yields_to` is its name in 0.1.
    `requires` are facts that must be known although the check does not read them. `fix` is the fix that its
    findings usually offer; `thresholds` are the limits that it reads, which a site may set. The id's subject is
    always one of the tags. Raises ValueError for an id that is not `subject.thing`, an unknown profile, or a
    missing docstring.
    """
    if profile not in PROFILES:
        raise ValueError(f"{id}: profile {profile!r} is none of {', '.join(PROFILES)}")
    if yields_to:
        import warnings  # a built-in check never pays for it

        warnings.warn(f"{id}: write explained_by instead of yields_to", DeprecationWarning, stacklevel=2)

    def made(function: Callable[..., Iterator[Finding]]) -> Check:
        title, why = _described(id, function)
        return Check(
            id=id,
            title=title,
            why=why,
            tags=tuple(dict.fromkeys((id.partition(".")[0], *tags))),
            profile=profile,
            after=after,
            requires=requires,
            fix=fix,
            thresholds=thresholds,
            explained_by=explained_by or yields_to,
            function=function,
        )

    return made


@overload
def probe(function: Callable[..., Any]) -> Probe: ...
@overload
def probe(*, of_the_moment: bool = False) -> Callable[[Callable[..., Any]], Probe]: ...
def probe(function: Callable[..., Any] | None = None, *, of_the_moment: bool = False) -> Any:
    """Make a probe of a function that returns one fact; its return type is what it provides.

    `of_the_moment`: nodes are not compared by this fact, because it differs between equal ones.
    """
    if function is None:
        return lambda function: replace(probe(function), of_the_moment=of_the_moment)
    provides = hint_of(function, "return")
    if not is_fact(provides):
        raise TypeError(f"{function.__module__}.{function.__name__}: annotate what the probe returns")
    return Probe(function, provides)


def probe_on_cards(function: Callable[..., Any]) -> Probe:
    """Make a probe that opens devices: one runs at a time, and none whose checks are blocked by an error."""
    return Probe(function, probe(function).provides, on_cards=True)


_RENAMED = {"others_hand": "untrusted_writer"}
"""Names of 0.1."""


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import warnings

    warnings.warn(f"{name} is called {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]


__all__ = [
    "HEALTH",
    "PREFLIGHT",
    "PROFILES",
    "STANDARD_PLACES",
    "Because",
    "Check",
    "Completed",
    "Effect",
    "EndProcess",
    "Evidence",
    "FileStat",
    "Finding",
    "Fix",
    "FixOffer",
    "GroupMember",
    "Host",
    "KeepPackages",
    "MakeFolder",
    "Message",
    "MutableHost",
    "Need",
    "NotApplicable",
    "Note",
    "Obstacle",
    "Options",
    "Parameters",
    "ParseError",
    "Probe",
    "Refused",
    "Remount",
    "RemoveFile",
    "RemoveFolder",
    "RemoveLogs",
    "Risk",
    "Run",
    "Sentence",
    "SetSysctl",
    "Severity",
    "Step",
    "StepFailed",
    "SystemdUnit",
    "Threshold",
    "Unavailable",
    "User",
    "WriteFile",
    "ask_each",
    "check",
    "fix",
    "probe",
    "probe_on_cards",
    "real_path",
    "run_each",
    "text_of",
    "untrusted_writer",
    "writing",
]
