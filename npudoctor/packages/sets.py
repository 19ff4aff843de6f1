"""Which packages of a folder go together on a node: every combination, with the folder as the only universe.

Three groups are combined: driver with firmware (by the ranges in their own files, else by what was seen together), CANN
(toolkit with the operators of the chips and NNAL of the same version), and torch with torch_npu per Python. Between
them the published lists decide: drivers of a CANN, and the solver, which has to leave torch, torch_npu and CANN as they
are. For each driver and CANN the sets with the most parts are kept; among these, those that rest on a table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.driver.version_files import parse_ranges
from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.facts.versions import CannVersion, DriverVersion, FirmwareVersion, TorchNpuVersion, Version
from npudoctor.host import ParseError
from npudoctor.knowledge.pairs import Confidence, Fit
from npudoctor.knowledge.patterns import canonical_version, train, wheel
from npudoctor.knowledge.solver import Stack, solve
from npudoctor.packages.node import Node, why_not
from npudoctor.records import record

MOST = 4096
"""Combinations that are compared; a folder that has more is a mirror, and is told so."""
_QUALITY = {Fit.PAIRED: 0, Fit.SEEN: 1, Fit.COMPATIBLE: 2, Fit.EXPECTED: 3, Fit.UNKNOWN: 4}


@record(frozen=True, kw_only=True)
class PackageSet:
    """Packages that go together, in the order of a first installation. `pythons` are those for which the wheels are
    here. `fit` is the weakest pair in it; `reasons` say what it rests on, `uncertain` what no table says."""

    parts: tuple[Package, ...]
    pythons: tuple[str, ...] = ()
    fit: Fit = Fit.PAIRED
    reasons: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()

    def of(self, *components: str) -> Package | None:
        """The first part that is one of these."""
        return next((part for part in self.parts if part.component in components), None)

    @property
    def title(self) -> str:
        """The parts with their versions, in one line."""
        names = {"toolkit": "CANN", "hdk_bundle": "driver and firmware", "combined": "driver and CANN", "nnal": "NNAL"}
        shown = dict.fromkeys(f"{names.get(part.component, part.component)} {part.version}" for part in self.parts)
        return ", ".join([*shown, *([f"Python {' or '.join(self.pythons)}"] if self.pythons else [])])


@record(frozen=True, kw_only=True)
class Found:
    """The sets, best first, what fits and is in none of them, and what was not compared."""

    sets: tuple[PackageSet, ...]
    alone: tuple[Package, ...] = ()
    cut_off: str | None = None


@record(frozen=True)
class _Group:
    """Some parts, how well they go together, and why."""

    parts: tuple[Package, ...]
    fit: Fit = Fit.PAIRED
    reasons: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    python: str | None = None


def package_sets(staged: StagedPackages, node: Node, *, cann: str | None = None) -> Found:
    """The sets for a node; `cann` keeps those with this CANN."""
    fitting = [package for package in staged.usable if why_not(package, node) is None and not package.patch]
    fitting.sort(key=lambda package: package.format != "run")  # only a .run is installed
    drivers = list(_drivers(fitting))
    canns = [group for group in _canns(fitting, node, drivers) if cann is None or _same_version(group, cann)]
    wheels = list(_wheels(fitting))
    total = max(1, len(drivers)) * max(1, len(canns)) * max(1, len(wheels))
    combined = itertools.islice(
        itertools.product(drivers or [_Group(())], canns or [_Group(())], [*wheels, _Group(())]), MOST
    )
    found = [joined for groups in combined if (joined := _join_groups(groups, node)) is not None and joined.parts]
    sets = tuple(_best(found))
    used = {part.path for one in sets for part in one.parts}
    known = [package for package in fitting if knowledge_of(package)]
    return Found(
        sets=sets,
        alone=tuple(package for package in known if package.path not in used),
        cut_off=f"only {MOST} of {total} combinations were compared" if total > MOST else None,
    )


def knowledge_of(package: Package) -> bool:
    """Whether a package is of a component that a set is made of."""
    order = knowledge.install().orders["first"]
    return package.component in (*order, "hdk_bundle", "combined")


def newest_first(version: str | None, kind: type[Version]) -> tuple[int, object]:
    """A key that sorts versions, newest last; those that are not understood come first."""
    try:
        return 1, kind.parse(version or "").key
    except ParseError:
        return 0, version or ""


# Groups


def _drivers(packages: Sequence[Package]) -> Iterator[_Group]:
    firmwares = [package for package in packages if package.component == "firmware"]
    alone = [package for package in packages if package.component == "driver"]
    for bundle in (package for package in packages if package.component == "hdk_bundle"):
        yield _Group((bundle,), reasons=("driver and firmware are of one release: they are in one file",))
    paired: set[str] = set()
    for driver in alone:
        groups = [group for one in firmwares if (group := _pair(driver, one)) is not None]
        good = [group for group in groups if group.fit.is_good]
        paired |= {group.parts[1].path for group in groups}
        yield from good or groups or [_Group((driver,))]
    yield from (_Group((one,)) for one in firmwares if one.path not in paired)


def _pair(driver: Package, firmware: Package) -> _Group | None:
    """Driver and firmware together; None where one of them says that it does not accept the other."""
    if driver.families and firmware.families and not set(driver.families) & set(firmware.families):
        return None
    accepted = _accepts(driver, firmware, FirmwareVersion)
    other = _accepts(firmware, driver, DriverVersion)
    if accepted is False or other is False:
        return None
    both = (driver, firmware)
    if accepted or other:
        return _Group(both, Fit.PAIRED, ("driver and firmware: accepted by the version.info in the package",))
    for row in knowledge.combinations().driver_firmware:
        same_driver = row.driver.lower() == (driver.version or "").lower()
        if same_driver and row.firmware is not None and row.firmware == firmware.version:
            return _Group(both, Fit.SEEN, (f"driver and firmware: seen together ({row.confidence.value})",))
    text = f"no table says that firmware {firmware.version} belongs to driver {driver.version}; the HDK release does"
    return _Group(both, Fit.UNKNOWN, uncertain=(text,))


def _accepts(one: Package, other: Package, kind: type[Version]) -> bool | None:
    """Whether the ranges in a package name another's version; None where there are none."""
    try:
        ranges = parse_ranges(one.accepts, kind)
        return any(each.contains(kind.parse(other.version or "")) for each in ranges) if ranges else None
    except ParseError:
        return None


def _canns(packages: Sequence[Package], node: Node, drivers: Sequence[_Group]) -> Iterator[_Group]:
    families = node.families or tuple({family for group in drivers for part in group.parts for family in part.families})
    toolkits: dict[str, Package] = {}
    for package in packages:
        if package.component in ("toolkit", "combined") and package.version:
            key = f"{canonical_version(package.version)} {package.arch}"
            if key not in toolkits or (toolkits[key].component, toolkits[key].format) > (
                package.component,
                package.format,
            ):
                toolkits[key] = package
    for toolkit in toolkits.values():
        fitting = [
            package
            for package in packages
            if package.component in ("ops", "kernels", "nnal")
            and package.version
            and canonical_version(package.version) == canonical_version(toolkit.version or "")
            and package.arch in (None, toolkit.arch)
            and (not package.families or not families or set(package.families) & set(families))
        ]
        operators = [one for one in fitting if one.component != "nnal"]
        uncertain: tuple[str, ...] = ()
        if len({one.tag for one in operators}) > 1:
            tags = ", ".join(sorted({one.tag or "?" for one in operators}))
            uncertain = (f"operators for several chips are here ({tags}) and the chips of the node are not known",)
            operators = []
        chosen = [*_one_each(operators), *_one_each([one for one in fitting if one.component == "nnal"])]
        yield _Group((toolkit, *chosen), uncertain=uncertain)


def _one_each(packages: Iterable[Package]) -> list[Package]:
    """One file of each component: a .run before a .zip of the same."""
    found: dict[str, Package] = {}
    for package in sorted(packages, key=lambda one: (one.format != "run", one.name)):
        found.setdefault(package.component, package)
    return list(found.values())


def _wheels(packages: Sequence[Package]) -> Iterator[_Group]:
    torches = [package for package in packages if package.component == "torch"]
    for npu in (package for package in packages if package.component == "torch_npu"):
        same = [
            torch for torch in torches if (torch.python, torch.arch) == (npu.python, npu.arch) and _belongs(torch, npu)
        ]
        for torch in same:
            yield _Group((torch, npu), python=npu.python)


def _belongs(torch: Package, npu: Package) -> bool:
    """Whether a torch wheel is the one that a torch_npu wheel requires, by its metadata, else by the table."""
    row = knowledge.compatibility().release(npu.version or "")
    needs = npu.requires_torch or next(
        (
            text.partition("==")[2]
            for text in (row.requires(npu.arch or "") or () if row else ())
            if text.startswith("torch==")
        ),
        row.torch if row else wheel(npu.version or "").partition(".post")[0].partition("rc")[0],
    )
    have, wanted = (torch.version or "").lower(), needs.strip().lower()
    if "+" in wanted:
        return have == wanted
    return wheel(have) == wanted or (wanted.endswith(".*") and wheel(have).startswith(wanted[:-1]))


# Together


def _same_version(group: _Group, cann: str) -> bool:
    return bool(group.parts) and canonical_version(group.parts[0].version or "") == canonical_version(cann)


def _join_groups(groups: tuple[_Group, _Group, _Group], node: Node) -> PackageSet | None:
    """The set of three groups; None where a table says that they do not go together."""
    hdk, cann, wheels = groups
    toolkit = cann.parts[0] if cann.parts else None
    version = (toolkit.version if toolkit else None) or node.cann
    fits, reasons, uncertain = [hdk.fit], [*hdk.reasons], [*hdk.uncertain, *cann.uncertain]
    driver = next((part for part in hdk.parts if part.component in ("driver", "hdk_bundle")), None)
    driver_version = driver.version if driver else node.driver
    if version and driver_version and (toolkit or driver):
        fit = _driver_fit(driver_version, version)
        if fit is Fit.OUTSIDE:
            return None
        fits.append(fit)
        (reasons if fit.is_good else uncertain).append(_driver_text(fit, driver_version, version))
    if wheels.parts:
        if version is None:
            uncertain.append("no CANN is here or on the node, with which torch_npu could be compared")
            fits.append(Fit.UNKNOWN)
        elif (judged := _wheels_fit(wheels, version, nnal=any(p.component == "nnal" for p in cann.parts))) is None:
            return None
        else:
            fits.append(judged[0])
            (reasons if judged[0].is_good else uncertain).append(judged[1])
    return PackageSet(
        parts=(*hdk.parts, *cann.parts, *wheels.parts),
        pythons=(wheels.python,) if wheels.python else (),
        fit=max(fits, key=lambda fit: _QUALITY.get(fit, 5)),
        reasons=tuple(reasons),
        uncertain=tuple(uncertain),
    )


def _driver_fit(driver: str, cann: str) -> Fit:
    support = knowledge.compatibility().hdk(cann)
    if support is None or support.confidence is Confidence.WEAK:
        return Fit.UNKNOWN
    fit = support.judge(driver)
    here, oldest = train(driver), train(support.oldest_compatible or "")
    return Fit.OUTSIDE if fit is Fit.UNKNOWN and here and oldest and here < oldest else fit


def _driver_text(fit: Fit, driver: str, cann: str) -> str:
    if fit.is_good:
        return f"driver {driver} with CANN {cann}: {fit.value} by the vendor's list"
    return f"no list names driver {driver} with CANN {cann}"


def _wheels_fit(wheels: _Group, cann: str, *, nnal: bool) -> tuple[Fit, str] | None:
    torch, npu = wheels.parts
    table = knowledge.compatibility()
    stack = Stack(
        torch=torch.version,
        torch_npu=npu.version,
        cann=cann,
        nnal=cann if nnal else None,
        python=wheels.python,
        needs_torch=npu.requires_torch,
        accepts_torch=True,
    )
    solution = solve(stack, table)
    if solution is None or any(
        solution.of(part) is not None for part in ("torch", "torch_npu", "cann", "nnal", "python")
    ):
        return None
    text = f"torch_npu {npu.version} with CANN {cann}: {solution.fit.value}, {solution.rests_on}"
    return solution.fit, text


def _best(found: Sequence[PackageSet]) -> Iterator[PackageSet]:
    """For each driver and CANN the sets with the most parts, wheels of several Pythons as one; of these, those that
    rest on a table where there are any. The fullest come first."""
    groups: dict[tuple[str | None, ...], list[PackageSet]] = {}
    for one in found:
        hdk, toolkit = one.of("driver", "hdk_bundle", "firmware"), one.of("toolkit", "combined")
        groups.setdefault((hdk.path if hdk else None, toolkit.path if toolkit else None), []).append(one)
    good = [one for group in groups.values() for one in _fullest(group)]
    merged: dict[tuple[tuple[str, str | None], ...], PackageSet] = {}
    for one in good:
        key = tuple((part.component, part.version) for part in one.parts)
        before = merged.get(key)
        if before is None:
            merged[key] = one
            continue
        parts = {part.path: part for part in (*before.parts, *one.parts)}
        merged[key] = PackageSet(
            parts=tuple(parts.values()),
            pythons=tuple(sorted({*before.pythons, *one.pythons}, key=lambda text: [int(n) for n in text.split(".")])),
            fit=before.fit,
            reasons=before.reasons,
            uncertain=before.uncertain,
        )
    yield from sorted(merged.values(), key=_order, reverse=True)


def _kinds(one: PackageSet) -> int:
    return len({part.component for part in one.parts})


def _fullest(group: Sequence[PackageSet]) -> Sequence[PackageSet]:
    largest = [one for one in group if _kinds(one) == max(map(_kinds, group))]
    return [one for one in largest if one.fit.is_good] or largest


def _order(one: PackageSet) -> tuple[object, ...]:
    def version(component: str, kind: type[Version]) -> tuple[int, object]:
        part = one.of(
            component, *(["combined"] if component == "toolkit" else ["hdk_bundle"] if component == "driver" else [])
        )
        return newest_first(part.version if part else None, kind)

    return (
        _kinds(one),
        -_QUALITY.get(one.fit, 5),
        version("toolkit", CannVersion),
        version("torch_npu", TorchNpuVersion),
        version("driver", DriverVersion),
        version("firmware", FirmwareVersion),
    )
