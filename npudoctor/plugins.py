"""The catalogue of checks, facts and fixes, from entry points and files; built-ins load like plug-ins.

An entry point of the group `npudoctor.plugins` names a module or a package; what `@check`, `@probe` and `@fix` made in
it, or in the modules right below it, joins the catalogue. So does a single file named by `--plugin`, or
in /etc/npudoctor/checks.d. A plug-in that cannot be loaded is a reported result, not an outage; a built-in one is an
internal error.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, MetadataPathFinder, entry_points
from types import ModuleType
from typing import Any, NamedTuple

from npudoctor.findings import Result, Status
from npudoctor.host.live.safe_files import Unreadable, read_trusted, why_untrusted
from npudoctor.knowledge import table
from npudoctor.records import field, record, replace
from npudoctor.sdk import Check, Fix, Message, Probe

ENTRY_POINTS = "npudoctor.plugins"
FOLDER = "/etc/npudoctor/checks.d"
LOADING_TIME_S = 5.0
"""Seconds for the import of a plug-in."""

GROUPS = (
    "npu",
    "driver",
    "cann",
    "python",
    "stack",
    "hccl",
    "env",
    "system",
    "container",
    "containers",
    "smoke",
    "install",
)
"""The order of the built-in subjects in a report; other subjects follow by name."""


@record(frozen=True)
class Catalog:
    """All checks by id in the order of a report, all probes by the fact that they provide, and what failed to load.

    `messages` holds what the checks can find, by code, in the order of the checks.
    """

    checks: Mapping[str, Check]
    probes: Mapping[type, Probe]
    fixes: Mapping[str, Fix] = field(default_factory=dict)
    messages: Mapping[str, Message] = field(default_factory=dict)
    broken: tuple[Result, ...] = ()

    def messages_of(self, check: Check) -> tuple[Message, ...]:
        """What a check can find."""
        return tuple(message for message in self.messages.values() if message.check == check.id)

    def alone(self, *ids: str) -> Catalog:
        """These checks only, as far as they exist; each is blocked only by the others of them."""
        chosen = {id: check for id, check in self.checks.items() if id in ids}
        kept = {
            id: replace(check, after=tuple(name for name in check.after if name in chosen))
            for id, check in chosen.items()
        }
        return replace(self, checks=kept, broken=())


class BuiltinBroken(Exception):
    """What npudoctor itself brings cannot be loaded: an internal error; the text says what, and why."""


class PluginRefused(Exception):
    """A file that is not loaded, because another user can write it."""


def load(files: Sequence[str] = (), *, folder: str = FOLDER) -> Catalog:
    """The catalogue of this installation, of `folder`, and of `files` (a folder counts for the files in it)."""
    return _load(_sources(files, folder))


def load_kind(group: str, builtin: str, files: Sequence[str] = ()) -> Catalog:
    """The catalogue of another kind of checks: of the package `builtin`, of a group of entry points, and of files."""
    ours = _Source(builtin, builtin, functools.partial(_of_point, EntryPoint(builtin, builtin, group)), True)
    others = [_of_plugin(point) for point in sorted(entry_points(group=group), key=lambda point: point.name)]
    return _load([ours, *others, *_given_sources(files)])


def _load(sources: Iterable[_Source]) -> Catalog:
    found: list[object] = []
    broken: list[Result] = []
    for source in sources:
        try:
            found += [item for module in source.load() for item in _items(module)]
        except PluginRefused as problem:
            broken.append(_broken_result(source.name, str(problem)))
        except (Exception, SystemExit) as problem:
            reason = f"{source.where} cannot be loaded: {type(problem).__name__}: {problem}"
            if source.is_ours:
                raise BuiltinBroken(reason) from problem
            import traceback

            broken.append(_broken_result(source.name, reason, traceback.format_exc()))
    broken += [_broken_result("knowledge.d", problem) for problem in table.site_problems()]
    return assemble(found, broken)


def _items(module: ModuleType) -> Iterator[Check | Probe | Fix | Message]:
    """What a module defines; of a tuple its items and of a public dictionary its values, since both are tables."""
    kinds = (Check, Probe, Fix, Message)
    for name, value in list(vars(module).items()):
        if isinstance(value, kinds):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, kinds))
        elif isinstance(value, dict) and not name.startswith("_"):
            yield from (item for item in value.values() if isinstance(item, kinds))


def assemble(found: Iterable[object], broken: Iterable[Result] = ()) -> Catalog:
    """A catalogue of the definitions in `found`; duplicates are reported and ignored."""
    checks: dict[str, Check] = {}
    probes: dict[type, Probe] = {}
    fixes: dict[str, Fix] = {}
    messages: dict[str, Message] = {}
    problems = list(broken)
    for item in found:
        if isinstance(item, Check):
            if checks.setdefault(item.id, item) is not item:
                problems.append(
                    _broken_result(item.id, f"the check {item.id} is defined twice; {_where(item)} is ignored")
                )
        elif isinstance(item, Fix):
            if fixes.setdefault(item.id, item) is not item:
                problems.append(
                    _broken_result(item.id, f"the fix {item.id} is defined twice; {_where(item)} is ignored")
                )
        elif isinstance(item, Message):
            if messages.setdefault(item.code, item) is not item:
                problems.append(
                    _broken_result(item.code, f"the message {item.code} is defined twice; the second is ignored")
                )
        elif isinstance(item, Probe) and probes.setdefault(item.provides, item) is not item:
            problems.append(
                _broken_result(item.name, f"{item.provides.__name__} has two probes; {item.name} is ignored")
            )
    return Catalog(
        checks={check.id: check for check in sorted(checks.values(), key=_place)},
        probes=probes,
        fixes=dict(sorted(fixes.items())),
        messages={code: message for code, message in messages.items() if message.check in checks},
        broken=tuple(problems),
    )


# Where plug-ins come from


class _Source(NamedTuple):
    """A name, its location, its loader, and whether it is built in."""

    name: str
    where: str
    load: Callable[[], Iterable[ModuleType]]
    is_ours: bool = False


def _sources(files: Sequence[str], folder: str) -> Iterator[_Source]:
    """Built-ins first, so that a plug-in's duplicate is ignored."""
    points = _entry_points()
    if not any(map(_is_ours, points)):
        # importlib.metadata passes over a folder that cannot be opened, and remembers it as empty; before Python 3.12
        # importlib.invalidate_caches() does not reach that.
        MetadataPathFinder().invalidate_caches()
        os.listdir(os.path.dirname(__file__))  # raises where no more files may be opened
        points = _entry_points()
    if not any(map(_is_ours, points)):
        raise BuiltinBroken(f"no entry point of npudoctor was found in the group {ENTRY_POINTS}")
    yield from map(_of_plugin, points)
    yield from _given_sources([*files, *([folder] if os.path.isdir(folder) else [])])


def _entry_points() -> list[EntryPoint]:
    """The entry points of all plug-ins, npudoctor's own first."""
    return sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (not _is_ours(point), point.name))


def _of_plugin(point: EntryPoint) -> _Source:
    ours = _is_ours(point)
    return _Source(point.name, point.value, functools.partial(_of_point if ours else _in_time(_of_point), point), ours)


def _given_sources(files: Sequence[str]) -> Iterator[_Source]:
    for path in dict.fromkeys(file for one in files for file in _python_files(one)):
        name = os.path.basename(path).removesuffix(".py")
        yield _Source(name, path, functools.partial(_in_time(_of_file), path))


def _is_ours(point: EntryPoint) -> bool:
    return point.value.startswith("npudoctor.")


def _of_point(point: EntryPoint) -> list[ModuleType]:
    trusted = (lambda _: None) if _is_ours(point) else _must_be_trusted
    trusted(point.module)
    module = point.load()
    return [module, *_below(module, trusted)]


def _below(package: ModuleType, trusted: Callable[[str], None]) -> Iterator[ModuleType]:
    """The modules of a package and of the packages in it, by name; those with a leading underscore are ignored."""
    found = sorted({name for folder in getattr(package, "__path__", ()) for name in _names_in(folder)})
    names = [f"{package.__name__}.{name}" for name in found if not name.startswith("_")]
    for name in names:
        trusted(name)
    for name in names:
        module = importlib.import_module(name)
        yield module
        yield from _below(module, trusted)


def _names_in(folder: str) -> Iterator[str]:
    """The modules and packages in a folder; OSError where it cannot be read, for which pkgutil finds none."""
    for name in os.listdir(folder):
        module, dot, rest = name.partition(".")
        if dot + rest in importlib.machinery.all_suffixes():
            if module != "__init__":
                yield module
        elif os.path.isfile(os.path.join(folder, name, "__init__.py")):
            yield name


def _of_file(path: str) -> list[ModuleType]:
    """The module of a file, compiled from the validated text: no __pycache__ is read or written."""
    source = _source_of(path)
    name = "npudoctor_plugin_" + "".join(letter if letter.isalnum() else "_" for letter in os.path.abspath(path))
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # annotations are looked up there
    exec(compile(source, path, "exec", dont_inherit=True), vars(module))  # noqa: S102 - this is what a plug-in is
    return [module]


def _source_of(path: str) -> bytes:
    try:
        return read_trusted(path)
    except Unreadable as problem:
        raise PluginRefused(str(problem)) from problem


def _must_be_trusted(module: str) -> None:
    """Root imports no module that another user could have put on its path (PYTHONPATH, a user's site-packages)."""
    if os.geteuid() != 0:
        return
    parts = module.split(".")
    for count in range(1, len(parts) + 1):  # the packages above it from the top: each is imported to find the next
        spec = importlib.util.find_spec(".".join(parts[:count]))
        places = [] if spec is None else [spec.origin, spec.cached, *(spec.submodule_search_locations or ())]
        for place in filter(None, places):
            if place.startswith("/") and (reason := why_untrusted(place)):
                raise PluginRefused(f"{module} refused: {reason}")


def _in_time(loading: Callable[[Any], list[ModuleType]]) -> Callable[[Any], list[ModuleType]]:
    """The same with the limit LOADING_TIME_S; a thread that is stuck in an import cannot be killed, only abandoned."""

    def import_limited(what: Any) -> list[ModuleType]:
        outcome: list[list[ModuleType] | BaseException] = []

        def work() -> None:
            try:
                outcome.append(loading(what))
            except BaseException as problem:
                outcome.append(problem)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(LOADING_TIME_S)
        if not outcome:
            raise TimeoutError(f"import timed out after {LOADING_TIME_S:g} s")
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    return import_limited


def _python_files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".py")]


def _place(check: Check) -> tuple[int, str]:
    return (GROUPS.index(check.group), "") if check.group in GROUPS else (len(GROUPS), check.group)


def _where(item: Check | Fix) -> str:
    return f"{item.function.__module__}.{item.function.__name__}"


def _broken_result(name: str, reason: str, detail: str | None = None) -> Result:
    return Result(
        check=f"plugin.{name}",
        title="Plug-ins loaded",
        tags=("plugin",),
        status=Status.CRASHED,
        reason=reason,
        detail=detail,
    )
