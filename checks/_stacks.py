"""Whether the releases of a framework go together: what its check and its smallest change are computed from.

A published set names releases of packages, torch, torch_npu and CANN. For each set the solver of torch_npu and CANN
finds the nearest releases that the set accepts and that also match each other and the driver; the set with the cheapest
change wins. What such a change leaves is without findings again: that is tested for many nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.driver.install import DriverInstall
from npudoctor.facts.node.container import Container
from npudoctor.facts.python.published_releases import driver_required, misfit
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.versions import is_older
from npudoctor.knowledge.pairs import Fit
from npudoctor.knowledge.patterns import wheel
from npudoctor.knowledge.solver import COST, Change, Demand, Solution, Stack, solve
from npudoctor.knowledge.tables.stacks import Framework, FrameworkRelease, Stacks
from npudoctor.records import record
from npudoctor.sdk import Options, Severity

from ._pairing import stack_of
from .messages import stack as messages

_PACKAGE_COST = COST["torch"]

SOLVED = ("driver", "cann", "python", "torch", "torch_npu")
"""The parts whose releases the solver chooses, in the order of installation."""

FIRST = ("vllm", "sglang")
"""The packages that come before those on top of them: vllm brings a torch of its own, which the framework's own
package then replaces (vllm-project/vllm-ascend#5710)."""

_NAMES = {"cann": "CANN", "python": "Python"}


@record(frozen=True, kw_only=True)
class Installed:
    """What is here: the release of every distribution, of Python, driver and the CANN in use, by part, and the same for
    the solver. `family` is that of the chips, None where it is unknown; `cann_missing`: no CANN was found."""

    parts: Mapping[str, str]
    stack: Stack
    family: str | None = None
    cann_missing: bool = False

    def release_of(self, framework: Framework) -> str:
        """The installed release of a framework; empty where it is not installed."""
        return wheel(self.parts.get(framework.package, ""))


@record(frozen=True, kw_only=True)
class Smallest:
    """The smallest change: the set that is reached, what has to be installed by part, in the order of installation, and
    the solver's answer, which has torch and torch_npu as they are then."""

    release: FrameworkRelease
    changes: Mapping[str, str]
    solution: Solution


def releases_here(
    python: PythonEnvironment, cann: Cann | None, driver: str | None, family: str | None = None
) -> Installed:
    """What is here, by the facts."""
    parts = {name: one.version for name, one in python.distributions.items()}
    parts["python"] = python.version
    if "torch-npu" in parts:
        parts["torch_npu"] = parts["torch-npu"]
    stated = cann.chosen.stated if cann is not None and cann.chosen is not None else None
    parts |= {part: version for part, version in (("cann", stated), ("driver", driver)) if version}
    return Installed(
        parts=parts,
        stack=stack_of(python, stated, driver),
        family=family,
        cann_missing=cann is not None and cann.chosen is None,
    )


def name_of(part: str) -> str:
    """How sentences call a part."""
    return _NAMES.get(part, part)


def requirements(release: FrameworkRelease, here: Installed) -> dict[str, str]:
    """What a published set requires on this node, in the order of installation.

    Without what does not run on these chips; with the driver that its CANN requires, where that here is too old.
    """
    table = knowledge.stacks()
    found = {part: version for part, version in release.requires.items() if not _is_unsupported(table, part, here)}
    if "driver" not in found and "cann" in found:
        keeps = misfit("cann", found["cann"], here.parts["cann"]) is None if "cann" in here.parts else False
        driver = driver_required(
            here.parts["cann"] if keeps else _single_release(found["cann"]), here.parts.get("driver")
        )
        found |= {"driver": driver} if driver is not None else {}
    return {part: found[part] for part in sorted(found, key=_place)}


def _is_unsupported(table: Stacks, package: str, here: Installed) -> bool:
    support = table.chip(package, here.family) if here.family is not None else None
    return support is not None and not support.supported


def misfits(release: FrameworkRelease, here: Installed) -> dict[str, Severity]:
    """The installed parts that differ from the published set, each with how badly, in the order of installation."""
    asked = requirements(release, here)
    found = {part: misfit(part, asked[part], here.parts[part]) for part in asked if part in here.parts}
    return {part: severity for part, severity in found.items() if severity is not None}


def missing_packages(framework: Framework, release: FrameworkRelease, here: Installed) -> dict[str, Severity]:
    """The packages of the published set that are not installed, each with how badly it is missed.

    A job can do without an optional one, and needs none where another engine takes their place.
    """
    instead = any(name in here.parts for name in framework.instead)
    absent = [part for part in requirements(release, here) if part not in here.parts and part not in SOLVED[:3]]
    return {
        part: Severity.WARNING if part in framework.optional else Severity.ERROR
        for part in absent
        if not (instead and part in framework.optional)
    }


def _installed_row(framework: Framework, table: Stacks, here: Installed) -> FrameworkRelease | None:
    """The row of the installed release, with its first published set."""
    return table.release(framework.name, here.release_of(framework)) if here.release_of(framework) else None


def published_set(framework: Framework, table: Stacks, here: Installed) -> FrameworkRelease | None:
    """The published set of the installed release; of several the one that differs least from what is here."""
    row = _installed_row(framework, table, here)
    sets = _sets_possible(framework, row, here) if row is not None else []
    return min(sets, key=lambda one: _difference(framework, one, here), default=None)


def _sets_possible(framework: Framework, row: FrameworkRelease, here: Installed) -> list[FrameworkRelease]:
    """The published sets of a release without further ones that leave out an installed framework of the first one, or
    require an engine that is absent: verl publishes some with SGLang in place of vLLM Ascend.
    """
    plug_ins = {one.package for one in knowledge.stacks().frameworks} & row.requires.keys() & here.parts.keys()
    absent = set(framework.instead) - here.parts.keys()
    return [one for one in row.sets() if plug_ins <= one.requires.keys() and absent.isdisjoint(one.requires)]


def _sets_to_reach(framework: Framework, row: FrameworkRelease, here: Installed) -> list[FrameworkRelease]:
    """The sets that a change may lead to: those of the engine that is installed, where there are any."""
    sets = _sets_possible(framework, row, here)
    return [one for one in sets if not one.requires.keys().isdisjoint(framework.instead)] or sets


def _difference(framework: Framework, release: FrameworkRelease, here: Installed) -> tuple[bool, int]:
    """How far a published set is from what is here, CANN first: it is the hardest to change."""
    wrong = misfits(release, here)
    return "cann" in wrong, len(wrong) + len(missing_packages(framework, release, here))


def is_of_installed(release: FrameworkRelease, framework: Framework, here: Installed) -> bool:
    """Whether a published set is one of the installed release."""
    row = _installed_row(framework, knowledge.stacks(), here)
    return row is not None and row.release == release.release


def published_by_others(framework: Framework, table: Stacks, here: Installed) -> frozenset[str]:
    """The parts that another installed framework, whose published set names this release, requires as they are.

    verl 0.8.0 publishes vLLM Ascend 0.18.0 with a newer CANN than vLLM Ascend itself does.
    """
    found: set[str] = set()
    for _, row in _sets_around(framework, table, here):
        wrong = misfits(row, here)
        found |= set() if framework.package in wrong else row.requires.keys() - wrong.keys()
    return frozenset(found)


def adviser(framework: Framework, table: Stacks, here: Installed) -> Framework:
    """The framework whose smallest change holds: another installed one that requires this one and has to change too."""
    around = _sets_around(framework, table, here)
    return next((other for other, row in around if misfits(row, here) or missing_packages(other, row, here)), framework)


def _sets_around(framework: Framework, table: Stacks, here: Installed) -> list[tuple[Framework, FrameworkRelease]]:
    """The other installed frameworks whose published set names this one, with that set."""
    there = [other for other in table.frameworks if here.release_of(other)]
    rows = [(other, published_set(other, table, here)) for other in there]
    return [(other, row) for other, row in rows if row is not None and framework.package in row.requires]


def _place(part: str) -> int:
    """Where a part comes in the order of installation: a plug-in behind what it extends, then the rest."""
    order = (*SOLVED, *FIRST)
    plug_ins = {framework.package for framework in knowledge.stacks().frameworks}
    return order.index(part) if part in order else len(order) + (part not in plug_ins)


def nearest(framework: Framework, table: Stacks, here: Installed) -> Smallest | None:
    """The published set that takes the smallest change; None where no set can be reached.

    The installed release of the framework wins where two are equal, then a finished one, the nearest CANN, the nearest
    release of the framework, the newest. Sets of other installed frameworks that fit now still fit, where possible.
    """
    kept = _sets_to_keep(framework, table, here)
    return (_nearest(framework, table, here, kept) if kept else None) or _nearest(framework, table, here, ())


def _sets_to_keep(framework: Framework, table: Stacks, here: Installed) -> tuple[FrameworkRelease, ...]:
    """The published sets of other installed frameworks that fit, without those that this framework's own set names."""
    named = {part for row in table.of(framework.name) for part in row.requires}
    others = [other for other in table.frameworks if other is not framework and other.package not in named]
    rows = [published_set(other, table, here) for other in others]
    return tuple(row for row in rows if row is not None and not misfits(row, here))


def _nearest(
    framework: Framework, table: Stacks, here: Installed, kept: tuple[FrameworkRelease, ...]
) -> Smallest | None:
    """The published set that takes the smallest change after which these others fit."""
    row_now = _installed_row(framework, table, here)
    support = table.chip(framework.package, here.family) if here.family is not None else None
    solved: dict[tuple[str | None, ...], Solution | None] = {}
    best: tuple[tuple[int, ...], Smallest] | None = None
    of_each = (_sets_to_reach(framework, row, here) for row in table.of(framework.name))
    rows = [(place, one) for place, sets in enumerate(of_each) for one in sets]
    place_now = table.of(framework.name).index(row_now) if row_now is not None else None
    for place, release in rows:
        if support is not None and support.since is not None and is_older(release.release, support.since):
            continue
        wrong = {**misfits(release, here), **missing_packages(framework, release, here)}
        packages = [part for part in wrong if part not in SOLVED]
        stays = place == place_now
        cost = _PACKAGE_COST * (sum(part in here.parts for part in packages) + (not stays))
        asked = tuple(release.requires.get(part) for part in SOLVED)
        if best is not None and cost > best[0][0]:
            continue
        if asked not in solved:
            solved[asked] = solve(here.stack, knowledge.compatibility(), _demand(release, here, kept))
        if (solution := solved[asked]) is None:
            continue
        away = abs(place - place_now) if place_now is not None else 0
        key = (cost + solution.cost, not stays, "rc" in release.release, solution.distance, away, place)
        if best is None or key < best[0]:
            changes = {change.part: wheel(change.then) for change in solution.changes}
            changes |= {change.part: change.then for change in solution.changes if change.part in ("cann", "driver")}
            changes |= {part: release.requires[part] for part in packages}
            ordered = {part: changes[part] for part in sorted(changes, key=_place)}
            best = (key, Smallest(release=release, changes=ordered, solution=solution))
    return best[1] if best else None


def _demand(release: FrameworkRelease, here: Installed, kept: tuple[FrameworkRelease, ...]) -> Demand:
    """What a published set asks the solver for, beside others that have to fit."""
    requires = release.requires
    table = knowledge.compatibility()
    named = {part: one for part in SOLVED if part in requires and (one := _single_release(requires[part])) is not None}
    if (row := table.release(named["torch_npu"]) if "torch_npu" in named else None) is not None:
        named["torch_npu"] = row.version
        if "cann" in named and table.judge(row, named["cann"]) is Fit.OUTSIDE:
            del named["torch_npu"]  # a later post release of it is for this CANN
    driver = here.parts.get("driver")
    own = requires.get("driver")

    @cache
    def accepts(part: str, version: str) -> bool:
        asked = [row.requires[part] for row in (release, *kept) if part in row.requires]
        return all(misfit(part, published, version) is None for published in asked)

    def driver_for(cann: str | None) -> str | None:
        required = driver_required(cann, driver)
        if own is None or driver is None or misfit("driver", own, driver) is None:
            return required
        least = exact_release(own)
        return required if required is not None and misfit("driver", own, required) is None else least

    return Demand(
        accepts=accepts,
        requires=frozenset(requires) if "cann" in here.parts or here.cann_missing else frozenset(requires) - {"cann"},
        named=named,
        driver=driver_for,
        free=frozenset({"driver"}) if driver_required(here.parts.get("cann"), driver) is not None else frozenset(),
    )


def text_of_release(part: str, version: str) -> str:
    """A part and its release."""
    return messages.PART.text(part=name_of(part), version=version)


def text_of_releases(releases: Mapping[str, str]) -> str:
    """Parts with their releases."""
    return ", ".join(text_of_release(*one) for one in releases.items())


def text_of_change(
    framework: Framework,
    change: Smallest | None,
    missed: Mapping[str, str],
    here: Installed,
    container: Container | None,
) -> str | None:
    """What the smallest change is; `missed` are the releases that the installed release requires and this node lacks.

    Where only CANN or the driver is missed, the change that keeps the framework is named too.
    """
    if change is None:
        return None
    release, changes = change.release, text_of_releases(change.changes)
    kept = is_of_installed(release, framework, here)
    if kept:
        said = messages.KEEP_RELEASE.text(changes=changes)
    elif changes:
        said = messages.OTHER_RELEASE.text(title=framework.title, release=release.release, changes=changes)
    else:
        said = messages.OTHER_RELEASE_ALONE.text(title=framework.title, release=release.release)
    if not kept and missed and missed.keys() <= {"cann", "driver"}:
        said = messages.OR_KEEP.text(
            said=said,
            title=framework.title,
            release=here.release_of(framework),
            changes=text_of_releases(missed),
        )
    on_host = "driver" in change.changes and container is not None
    return f"{said} {messages.DRIVER_OF_THE_HOST.text()}" if on_host else said


def is_published_pair(python: PythonEnvironment, cann: Cann, driver: DriverInstall | None) -> bool:
    """Whether an installed framework publishes this torch_npu with this CANN, whatever torch_npu's own table says.

    verl 0.7.1 has torch_npu 2.8.0 on CANN 8.5.0, in its page and in its image.
    """
    table = knowledge.stacks()
    here = releases_here(python, cann, driver.stated if driver is not None else None)
    sets = (published_set(framework, table, here) for framework in table.frameworks)
    pair = [(row.requires.get("torch_npu"), row.requires.get("cann")) for row in sets if row is not None]
    return (here.parts.get("torch_npu"), here.parts.get("cann")) in pair


def pair_wanted(
    options: Options, python: PythonEnvironment, cann: Cann | None, driver: DriverInstall | None
) -> Solution | None:
    """The torch and torch_npu that the smallest change of a framework has; None where it has none.

    The frameworks are those of --for, else the installed ones whose published set differs from what is here. What
    python.pairing and its like propose then is what the framework's own check asks for.
    """
    table = knowledge.stacks()
    here = releases_here(python, cann, driver.stated if driver is not None else None)
    sets = ((one.name, published_set(one, table, here)) for one in table.frameworks)
    installed = (name for name, row in sets if row is not None and misfits(row, here))
    for name in options.frameworks or installed:
        found = nearest(table.framework(name), table, here)
        if found is None or not found.solution.torch_npu:
            continue
        pair = {"torch": wheel(found.solution.torch), "torch_npu": wheel(found.solution.torch_npu)}
        row = knowledge.compatibility().release(found.solution.torch_npu)
        if row is None or row.torch != pair["torch"] or row.supports_python(python.version) is False:
            continue
        now = {"torch": python.torch, "torch_npu": python.torch_npu}
        there = {part: one.version.partition("+")[0] if one is not None else None for part, one in now.items()}
        changes = tuple(Change(part, there[part], then) for part, then in pair.items() if there[part] != then)
        grounds = messages.PUBLISHED_SET.text(title=table.framework(name).title, release=found.release.release)
        torch, torch_npu = pair["torch"], pair["torch_npu"]
        return Solution(
            changes=changes,
            torch=torch,
            torch_npu=torch_npu,
            fit=Fit.PAIRED,
            rests_on=grounds,
            as_of=table.as_of,
        )
    return None


def _single_release(published: str) -> str | None:
    """The release where a published version is one; None for several and for a range."""
    return None if re.match(r"[<>=!~]", published) or " or " in published else published


def exact_release(published: str) -> str:
    """One release of a published version: the last of several, the lower bound of a range."""
    found = re.search(r">=\s*([^\s,]+)", published)
    return found[1] if found else wheel(published.split(" or ")[-1]) if "RC" not in published else published
