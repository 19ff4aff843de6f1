"""Checks: what `@check` makes, and what a check may take besides facts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from npudoctor.change_control import ChangeControl
from npudoctor.findings import Finding
from npudoctor.injection import Need, needs_of
from npudoctor.records import field, record
from npudoctor.sdk.pages import page_of

PROFILES = ("quick", "standard", "full")
"""The profiles by cost, cheapest first; each includes the previous ones."""

ON_REQUEST = "named"
"""The profile of checks that run only when they, or one of their tags, are named."""

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
    `managed` are paths that the site manages itself. `packages` are the package files in the folders that the person
    named, read before the run (`StagedPackages`); None where none was named. `changes` is what the site demands of a
    change, and `reason` why this one is made. `chips_from` names the source of the chips: dcmi is the driver's
    library, npu-smi the tools, auto the library and the tools for what it does not tell.
    """

    expect_idle: bool = False
    role: str = "auto"
    profile: str = "standard"
    python: str | None = None
    tool_timeout_s: float = 10.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    packages: Any = None
    chips_from: str = "auto"
    changes: ChangeControl = ChangeControl()
    reason: str = ""


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
        return needs_of(self.function)

    @property
    def group(self) -> str:
        """The subject of the id: `npu` for `npu.health`."""
        return self.id.partition(".")[0]

    @property
    def page(self) -> str | None:
        """Where the documentation explains it; None for a check of a plug-in."""
        return page_of(self.id) if self.function.__module__.startswith("npudoctor.checks.") else None

    def __call__(self, *facts: Any, **named: Any) -> Iterator[Finding]:
        """Evaluate these facts."""
        return self.function(*facts, **named)


def describe(id: str, function: Callable[..., Any]) -> tuple[str, str]:
    """The title and the reason of a check or a fix, from its docstring; raises ValueError."""
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
    if profile not in (*PROFILES, ON_REQUEST):
        raise ValueError(f"{id}: profile {profile!r} is none of {', '.join(PROFILES)}")
    if yields_to:
        import warnings  # a built-in check never pays for it

        warnings.warn(f"{id}: write explained_by instead of yields_to", DeprecationWarning, stacklevel=2)

    def make_check(function: Callable[..., Iterator[Finding]]) -> Check:
        title, why = describe(id, function)
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

    return make_check
