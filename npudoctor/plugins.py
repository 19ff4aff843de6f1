"""Everything that can be asked, from entry points: built-in checks, fixes and probes load like any stranger's.

An entry point of the group `npudoctor.plugins` names a module or a package; what `@check` and `@probe` made in it, or
in the modules right below it, joins the catalogue. One that cannot be loaded is a reported result, not an outage.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from types import ModuleType

from npudoctor.findings import Result, Status
from npudoctor.records import dataclass, field
from npudoctor.sdk import Check, Probe

ENTRY_POINTS = "npudoctor.plugins"
GROUPS = ("npu", "driver", "cann", "python", "hccl", "env", "system", "container", "smoke")
"""The order of the built-in subjects in a report; other subjects follow by name."""


@dataclass(frozen=True)
class Catalog:
    """All checks by id in the order of a report, all probes by the fact that they provide, and what failed to load."""

    checks: Mapping[str, Check]
    probes: Mapping[type, Probe]
    fixes: Mapping[str, object] = field(default_factory=dict)
    broken: tuple[Result, ...] = ()


def load() -> Catalog:
    """The catalogue of this installation."""
    found: list[object] = []
    broken: list[Result] = []
    points = sorted(
        entry_points(group=ENTRY_POINTS), key=lambda point: (not point.name.startswith("builtin-"), point.name)
    )
    for point in points:
        try:
            found += [item for module in _modules(point.load()) for item in vars(module).values()]
        except Exception as problem:
            import traceback

            reason = f"{point.value} cannot be loaded: {type(problem).__name__}: {problem}"
            broken.append(_broken(point.name, reason, traceback.format_exc()))
    return assemble(found, broken)


def assemble(found: Iterable[object], broken: Iterable[Result] = ()) -> Catalog:
    """A catalogue of the checks and probes among `found`; a second one of a name is reported and left out."""
    checks: dict[str, Check] = {}
    probes: dict[type, Probe] = {}
    problems = list(broken)
    for item in found:
        if isinstance(item, Check):
            if checks.setdefault(item.id, item) is not item:
                problems.append(_broken(item.id, f"the check {item.id} is defined twice; {_where(item)} is left out"))
        elif isinstance(item, Probe) and probes.setdefault(item.provides, item) is not item:
            problems.append(_broken(item.name, f"{item.provides.__name__} has two probes; {item.name} is left out"))
    return Catalog(
        checks={check.id: check for check in sorted(checks.values(), key=_place)},
        probes=probes,
        broken=tuple(problems),
    )


def _modules(loaded: ModuleType) -> Iterator[ModuleType]:
    yield loaded
    for info in pkgutil.iter_modules(getattr(loaded, "__path__", ())):
        if not info.ispkg and not info.name.startswith("_"):
            yield importlib.import_module(f"{loaded.__name__}.{info.name}")


def _place(check: Check) -> tuple[int, str]:
    return (GROUPS.index(check.group), "") if check.group in GROUPS else (len(GROUPS), check.group)


def _where(check: Check) -> str:
    return f"{check.function.__module__}.{check.function.__name__}"


def _broken(name: str, reason: str, detail: str | None = None) -> Result:
    return Result(
        check=f"plugin.{name}",
        title="Every plug-in loads",
        tags=("plugin",),
        status=Status.CRASHED,
        reason=reason,
        detail=detail,
    )
