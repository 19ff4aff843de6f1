"""The steps from the node as it is to a matching set of packages, with the way back of each.

The order is the vendor's: driver before firmware where there is no driver, firmware before driver where there is one,
then CANN, then Python. A way back is a file or a command that is known to be there, or there is none.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from npudoctor import knowledge
from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.facts.versions import CannVersion, DriverVersion, FirmwareVersion, Version
from npudoctor.host import ParseError
from npudoctor.knowledge.patterns import canonical_version
from npudoctor.knowledge.tables.install import Component
from npudoctor.packages.missing import CONTAINERS
from npudoctor.packages.node import Node, why_not
from npudoctor.packages.sets import PackageSet
from npudoctor.records import record

NO_WAY_BACK = "NO WAY BACK"
PARTS = {
    "driver": ("driver",),
    "firmware": ("firmware",),
    "cann": ("toolkit", "kernels", "ops", "nnal", "combined"),
    "python": ("torch", "torch_npu"),
}
"""What `--only` and `--expect` name, with the components of each."""
_FIX = {"driver": "driver.install", "firmware": "firmware.install", "cann": "cann.install", "python": "python.create"}
PREFIX = "/usr/local/Ascend"


@record(frozen=True, kw_only=True)
class PlanStep:
    """One step. `now` is None where the part is not installed. `way_back` is a command or a file, or NO WAY BACK.

    `seconds_seen` are the shortest and longest time of which a log is known, `disk_mb` the room in MB that the vendor
    asks for; None: not known. `command` is the vendor's, with the path of the file.
    """

    id: str
    component: str
    title: str
    now: str | None
    then: str
    root: bool
    reboot: str
    way_back: str
    command: str
    paths: tuple[str, ...]
    seconds_seen: tuple[int, ...] | None = None
    disk_mb: int | None = None


@record(frozen=True, kw_only=True)
class Plan:
    """Steps in their order. `unchanged` are parts that are installed already, `refused` why a part of the set is not
    planned, `uncertain` what no source says."""

    steps: tuple[PlanStep, ...]
    unchanged: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    reboot: str | None = None


def make_plan(
    chosen: PackageSet, staged: StagedPackages, node: Node, *, purpose: str, only: Sequence[str] = ()
) -> Plan:
    """The plan for one set."""
    names = wanted_parts(purpose, only)
    table = knowledge.install()
    order = table.orders["upgrade" if node.driver else "first"]
    steps: list[PlanStep] = []
    unchanged: list[str] = []
    refused: list[str] = []
    for component in [*order[:2], "combined", *order[2:]]:
        name = next(part for part, components in PARTS.items() if component in components)
        package = chosen.of(component) or (chosen.of("hdk_bundle") if component in ("driver", "firmware") else None)
        if package is None or name not in names or (component == "torch" and chosen.of("torch_npu")):
            continue
        step = _step(component, package, chosen, staged, node)
        if isinstance(step, PlanStep):
            steps.append(step)
        else:
            (unchanged if step.startswith("=") else refused).append(step.removeprefix("="))
    rows = [table.component(step.component) for step in steps]
    uncertain = [*chosen.uncertain, *dict.fromkeys(text for row in rows for text in row.uncertain)]
    if any(step.component == "driver" and step.now for step in steps):
        uncertain.append(
            "A driver upgrade removes the old driver first: if its modules cannot be built, there is no driver."
        )
    flashed = any(step.component == "firmware" for step in steps)
    asked = any(step.component in ("driver", "combined") for step in steps)
    return Plan(
        steps=tuple(steps),
        unchanged=tuple(unchanged),
        refused=tuple(refused),
        uncertain=tuple(uncertain),
        reboot="after the firmware step" if flashed else "if the driver's installer asks for it" if asked else None,
    )


def wanted_parts(purpose: str, only: Sequence[str] = ()) -> tuple[str, ...]:
    """The parts to install for a purpose: CANN and Python of containers come with their images."""
    left_out = ("cann", "python") if purpose == CONTAINERS else ()
    return tuple(name for name in PARTS if name in (only or PARTS) and name not in left_out)


def _same(package: Package, staged: StagedPackages) -> list[str]:
    """The files that could stand for a package: npudoctor does not choose between them. Wheels are chosen by pip."""
    if package.component in ("torch", "torch_npu"):
        return [package.path]
    return [
        one.path
        for one in staged.usable
        if (one.component, one.format, one.patch) == (package.component, package.format, None)
        and canonical_version(one.version or "") == canonical_version(package.version or "")
        and (one.arch == package.arch or None in (one.arch, package.arch))
        and (not one.families or not package.families or set(one.families) & set(package.families))
    ]


def _step(component: str, package: Package, chosen: PackageSet, staged: StagedPackages, node: Node) -> PlanStep | str:
    """A step; else why there is none, after a `=` where the part is installed already."""
    row = knowledge.install().component(component)
    now = _installed_version(component, node)
    then = package.version or "?"
    if not node.driver_known and component in ("driver", "firmware", "combined"):
        return f"{row.title}: it is not known whether a driver is installed, which decides the order"
    if node.chips == 0 and component in ("driver", "firmware", "combined"):
        return f"{row.title}: this node has no NPU on its PCI bus, and the installer stops without one"
    if component == "firmware" and package.component == "hdk_bundle":
        then = f"that of HDK {package.version}"
    elif now is not None and _is(now, then):
        return f"={row.title} {now}"
    elif now is not None and component in ("driver", "firmware") and _older(then, now, component):
        return f"{row.title}: {then} is older than the installed {now}; npudoctor plans no downgrade"
    if len(same := _same(package, staged)) > 1:
        return f"{row.title}: {len(same)} files are {then} ({', '.join(same)}); keep one of them in the folder"
    root = node.cann_root if component in ("ops", "kernels", "nnal") and chosen.of("toolkit") is None else _root(chosen)
    words = {
        "file": package.path,
        "root": root or "<CANN>",
        "arch": package.arch or node.arch or "<arch>",
        "prefix": PREFIX,
        "version": then,
    }
    wheels = tuple(part for part in chosen.parts if part.component in ("torch", "torch_npu"))
    return PlanStep(
        id=next(_FIX[name] for name, components in PARTS.items() if component in components),
        component=component,
        title="torch and torch_npu" if component == "torch_npu" else row.title,
        now=now,
        then=then if component != "torch_npu" else " + ".join(dict.fromkeys(part.version or "?" for part in wheels)),
        root=row.root or component not in ("torch_npu",),
        reboot=row.reboot,
        way_back=_way_back(component, row, now, package, staged, node, words),
        command=_command(component, row, now, package, words, wheels),
        paths=tuple(part.path for part in wheels) if component == "torch_npu" else (package.path,),
        seconds_seen=row.seconds_seen,
        disk_mb=row.disk_mb,
    )


def _command(
    component: str,
    row: Component,
    now: str | None,
    package: Package,
    words: Mapping[str, str],
    wheels: Sequence[Package],
) -> str:
    from shlex import quote

    if component == "torch_npu":
        folders = " ".join(
            f"--find-links {quote(one)}" for one in dict.fromkeys(posixpath.dirname(p.path) for p in wheels)
        )
        pairs = " ".join(quote(f"{one.title}=={one.version}") for one in wheels)
        return f"<new environment>/bin/python -m pip install --no-index {folders} {pairs}"
    file = quote(package.path)
    if package.format == "zip":
        return f"unzip {file}, then the {component} package in it"
    if package.format in ("rpm", "deb"):
        return f"{'rpm -Uvh' if package.format == 'rpm' else 'dpkg -i'} {file}"
    template = (row.upgrade if now is not None and row.upgrade else row.first) or "bash {file}"
    return template.format(**{**words, "file": file})


def _way_back(
    component: str,
    row: Component,
    now: str | None,
    package: Package,
    staged: StagedPackages,
    node: Node,
    words: Mapping[str, str],
) -> str:
    if component == "firmware":
        return NO_WAY_BACK
    if component == "driver" and now is not None:
        old = next(
            (one for one in _of_version(staged, now) if one.path != package.path and why_not(one, node) is None), None
        )
        return f"{posixpath.basename(old.path)} in {posixpath.dirname(old.path)}" if old else NO_WAY_BACK
    if component == "torch_npu":
        return "remove the new environment"
    undo = row.undo_before_8_5 if row.undo_before_8_5 and not _is_8_5(words["version"]) else row.undo_first
    if undo is None:
        return NO_WAY_BACK
    back = f"; then the link back to {node.cann_root}" if component == "toolkit" and node.cann_root else ""
    return undo.format(**words) + back


def _of_version(staged: StagedPackages, version: str) -> Iterator[Package]:
    for one in staged.usable:
        if one.component in ("driver", "hdk_bundle") and one.version and _is(one.version, version) and not one.patch:
            yield one


def _installed_version(component: str, node: Node) -> str | None:
    """What of a component the new one takes the place of; CANN versions are installed side by side."""
    return {"driver": node.driver, "firmware": node.firmware}.get(component) or (
        node.cann if component == "toolkit" else None
    )


def _is(one: str, other: str) -> bool:
    return canonical_version(one) == canonical_version(other)


def _older(then: str, now: str, component: str) -> bool:
    kind: type[Version] = {"driver": DriverVersion, "firmware": FirmwareVersion}.get(component, CannVersion)
    try:
        return kind.parse(then) < kind.parse(now)
    except ParseError:
        return False


def _root(chosen: PackageSet) -> str | None:
    """Where the toolkit of a set will be."""
    toolkit = chosen.of("toolkit", "combined")
    if toolkit is None or toolkit.version is None:
        return None
    return f"{PREFIX}/{'cann-' if _is_8_5(toolkit.version) else 'ascend-toolkit/'}{toolkit.version}"


def _is_8_5(version: str) -> bool:
    """Whether a CANN has the layout of 8.5 and later; one that is not understood is newer."""
    try:
        return CannVersion.parse(version).release[:2] >= (8, 5)
    except ParseError:
        return True
