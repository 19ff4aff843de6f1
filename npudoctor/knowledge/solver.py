"""Finds the smallest change that makes a set of releases match; a pure function of the tables.

What the node declares of itself comes first (`Stack.needs_torch` is the wheel's own requirement), then the published
pairs, then the windows. A release of which no table speaks is left as it is, and `Solution.rests_on` says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from npudoctor.knowledge.pairs import Confidence, Fit, TorchNpuRelease
from npudoctor.knowledge.patterns import canonical_version, covers, train, wheel
from npudoctor.knowledge.tables.compatibility import Compatibility
from npudoctor.records import field, record

NUMPY_2_FROM = (8, 5)
"""The CANN train from which on numpy 2 works with its operator compiler."""

LAST_NUMPY_1 = "1.26.4"
USUAL_PYTHON = "3.11"
PYTHONS = (USUAL_PYTHON, "3.10", "3.12", "3.13", "3.9", "3.8")
"""The Pythons of a new environment, the usual one first."""

COST = {"torch": 10, "torch_npu": 11, "numpy": 5, "nnal": 25, "python": 40, "cann": 60, "driver": 200}
"""What a change means for a person: a package is a minute, an environment an hour, a driver a reboot of the node."""

_BY_HAND = 45
"""What a wheel costs beside that is not in the package index: more than another Python, less than another CANN."""

_LEFT_AS_IT_IS = (Fit.UNKNOWN, Fit.EXPECTED)
_QUALITY = {Fit.PAIRED: 0, Fit.SEEN: 1, Fit.COMPATIBLE: 2, Fit.EXPECTED: 3, Fit.UNKNOWN: 4}


@record(frozen=True, kw_only=True)
class Stack:
    """The releases on a node; None is not installed, or not known. `needs_torch` is what the torch_npu here asks for,
    by the metadata of the wheel; `accepts_torch` whether it accepts the torch here, where they were compared by more
    than their numbers."""

    torch: str | None = None
    torch_npu: str | None = None
    cann: str | None = None
    nnal: str | None = None
    driver: str | None = None
    python: str | None = None
    numpy: str | None = None
    needs_torch: str | None = None
    accepts_torch: bool | None = None


@record(frozen=True, kw_only=True)
class Demand:
    """What the published set of a framework asks for, beyond releases that match.

    `accepts` judges a release of a part. `requires` are the parts of the set, without CANN where it is not known
    whether there is one; `named` those of which the set names one release. `driver` is the driver that a CANN requires
    in the place of the one here, None where that one suits. `free` are parts that have to change in any case.
    """

    accepts: Callable[[str, str], bool]
    requires: frozenset[str]
    named: Mapping[str, str] = field(default_factory=dict)
    driver: Callable[[str | None], str | None]
    free: frozenset[str] = frozenset()


@record(frozen=True)
class Change:
    """One part that has to be another release; `now` is None where it is not installed."""

    part: str
    now: str | None
    then: str


@record(frozen=True, kw_only=True)
class Solution:
    """A consistent set: what to change (nothing where all fits) and what torch and torch_npu are then.

    torch and torch_npu are empty where a framework does without them. `rests_on` is a clause for the reader, `as_of`
    the date of the tables where it rests on them. `cost` is that of the changes, `distance` how many releases of CANN
    lie between the one here and the one then.
    """

    changes: tuple[Change, ...]
    torch: str
    torch_npu: str
    fit: Fit
    rests_on: str
    as_of: str
    cost: int = 0
    distance: int = 0

    @property
    def text(self) -> str:
        """The change in words: "install torch 2.6.0 and keep torch_npu as it is"."""
        if not self.changes:
            return "nothing has to change"
        done = " and ".join(f"{_NAMES.get(one.part, one.part)} {one.then}" for one in self.changes)
        changed = {one.part for one in self.changes}
        kept = [part for part in ("torch", "torch_npu") if part not in changed]
        stays = f" and keep {' and '.join(kept)} as {'it is' if len(kept) == 1 else 'they are'}" if kept else ""
        return f"install {done}{stays}"

    def of(self, part: str) -> str | None:
        """What a part has to be; None where it may stay."""
        return next((one.then for one in self.changes if one.part == part), None)


_NAMES = {"cann": "CANN", "nnal": "the nnal of CANN", "driver": "driver", "python": "Python"}


def solve(stack: Stack, table: Compatibility, demand: Demand | None = None) -> Solution | None:
    """The cheapest consistent set that is reached from here; None where no table helps.

    With a demand, the nearest one wins where several cost the same.
    """
    best: tuple[tuple[int, ...], Solution] | None = None
    here = _torch_place(stack, table)
    for place, (release, version, torch) in enumerate(_torch_npus(stack, table, demand)):
        if demand is not None and not _is_demanded(demand, stack, version, torch):
            continue
        for cann in _canns(stack, table, release, demand):
            found = _complete(stack, table, release, version, torch, cann, demand)
            if found is None:
                continue
            near = (found.distance, abs(place - here)) if demand is not None else ()
            key = (found.cost, *_preference(release, version == stack.torch_npu, found.fit), *near, place)
            if best is None or key < best[0]:
                best = (key, found)
    return best[1] if best else None


def _is_demanded(demand: Demand, stack: Stack, torch_npu: str, torch: str) -> bool:
    """Whether a published set accepts this torch_npu; of one release that it names, only this one or the one here."""
    if not torch_npu:
        return True
    named = demand.named.get("torch_npu")
    if torch_npu not in (stack.torch_npu, named or torch_npu) or not demand.accepts("torch_npu", torch_npu):
        return False
    return demand.accepts("torch", torch) or (stack.torch is not None and demand.accepts("torch", stack.torch))


def _torch_npus(
    stack: Stack, table: Compatibility, demand: Demand | None
) -> Iterator[tuple[TorchNpuRelease | None, str, str]]:
    """Every torch_npu that could be there, with the torch that it needs; the one that is comes first."""
    if demand is not None and stack.torch_npu is None and not demand.requires & {"torch", "torch_npu"}:
        yield None, "", ""
        return
    if stack.torch_npu is not None:
        row = table.release(stack.torch_npu)
        base = re.match(r"\d+\.\d+\.\d+", wheel(stack.torch_npu))
        needs = stack.needs_torch or (row.torch if row else base[0] if base else None)
        if needs is not None:
            yield row, stack.torch_npu, wheel(needs)
    named = demand.named if demand is not None else {}
    for row in table.releases:
        if wheel(stack.torch_npu or "") != row.version and (
            not row.is_test_build or named.get("torch_npu") == row.version
        ):
            yield row, row.version, row.torch
    if {"torch", "torch_npu"} <= named.keys() and table.release(named["torch_npu"]) is None:
        yield None, named["torch_npu"], named["torch"]


def _canns(
    stack: Stack, table: Compatibility, release: TorchNpuRelease | None, demand: Demand | None
) -> Iterator[str | None]:
    """The CANN that is here, and those of the release; one of which no table speaks is not to be replaced."""
    if demand is None:
        yield stack.cann
        if stack.cann is not None and release is not None and table.knows_cann(stack.cann):
            yield from (cann for cann in release.cann if not cann.endswith(".X") and cann != stack.cann)
        return
    if "cann" not in demand.requires or (stack.cann is not None and demand.accepts("cann", stack.cann)):
        yield stack.cann
    if "cann" in demand.requires or stack.cann is not None:
        known = release.cann if release is not None else [support.cann for support in table.hdk_support]
        exact = [one for one in known if ".X" not in one]
        final = [one for one in exact if not re.search("alpha|beta", one)]
        others = dict.fromkeys([*filter(None, [demand.named.get("cann")]), *(final or exact)])
        yield from (one for one in others if one != stack.cann and demand.accepts("cann", one))


def _complete(
    stack: Stack,
    table: Compatibility,
    release: TorchNpuRelease | None,
    torch_npu: str,
    torch: str,
    cann: str | None,
    demand: Demand | None,
) -> Solution | None:
    """The set around one torch_npu and one CANN, with all that has to follow; None where it is not consistent."""
    stays = torch_npu == stack.torch_npu
    fit = table.judge(release, cann) if release is not None and cann is not None else Fit.UNKNOWN
    python = _python(stack, table, release, cann, demand)
    if python is None or not _is_trusted(stack, table, release, torch_npu, cann, fit, python, demand):
        return None
    keeps_torch = stack.torch is not None and (
        stack.accepts_torch if stays and stack.accepts_torch is not None else _base(stack.torch) == _base(torch)
    )
    if demand is not None and torch:
        keeps_torch = keeps_torch and demand.accepts("torch", stack.torch or "")
        if not keeps_torch and not demand.accepts("torch", torch):
            return None
    wanted: dict[str, str | None] = {
        "torch": stack.torch if keeps_torch or not torch else torch,
        "torch_npu": torch_npu or None,
        "python": python or None,
        "numpy": _numpy(stack, cann),
        "cann": cann,
        "nnal": cann if stack.nnal is not None and cann is not None and not _same(stack.nnal, cann) else stack.nnal,
        "driver": _driver(stack, table, cann, demand),
    }
    changes = tuple(
        Change(part, getattr(stack, part), then)
        for part, then in wanted.items()
        if then is not None and then != getattr(stack, part)
    )
    by_hand = demand is None and release is not None and not stays and not release.on_pypi
    return Solution(
        changes=changes,
        torch=wheel(wanted["torch"] or torch),
        torch_npu=torch_npu,
        fit=fit,
        rests_on=_ground(stack, release, fit, stays=stays, as_of=table.as_of),
        as_of=table.as_of,
        cost=sum(COST[change.part] for change in changes if demand is None or change.part not in demand.free)
        + _BY_HAND * by_hand,
        distance=_cann_distance(table, stack.cann, cann),
    )


def _is_trusted(
    stack: Stack,
    table: Compatibility,
    release: TorchNpuRelease | None,
    torch_npu: str,
    cann: str | None,
    fit: Fit,
    python: str,
    demand: Demand | None,
) -> bool:
    """Whether a torch_npu and a CANN may be proposed together: somebody vouches for them, or they are here."""
    stays = torch_npu == stack.torch_npu
    named = demand is not None and demand.named.get("torch_npu") == torch_npu
    if not (demand is not None and (stays or named)) and table.known_bad(torch_npu, python=python or None, cann=cann):
        return False
    if cann is None or not torch_npu or fit.is_good or (stays and cann == stack.cann and fit in _LEFT_AS_IT_IS):
        return True
    if demand is None:
        return False
    if release is None:
        return stays or named
    return (named and cann == demand.named.get("cann")) or (fit is Fit.UNPAIRED and _is_near(table, release, cann))


def _is_near(table: Compatibility, release: TorchNpuRelease, cann: str) -> bool:
    """Without a published range: whether a CANN is of the same major release as a paired one, and not older."""
    here, pairs = _place(table, cann), [place for one in release.cann if (place := _place(table, one)) is not None]
    majors = {found[0] for one in release.cann if (found := train(one))}
    return bool(here is not None and pairs and here <= max(pairs) and (train(cann) or (0,))[0] == max(majors))


def _python(
    stack: Stack, table: Compatibility, release: TorchNpuRelease | None, cann: str | None, demand: Demand | None
) -> str | None:
    """The Python to use: the one that is, another that suits, "" where it is not known, None where none suits."""
    support = table.python(cann) if cann is not None else None

    def suits(version: str) -> bool:
        by_release = release is None or release.supports_python(version) is not False
        demanded = demand is None or demand.accepts("python", version)
        return demanded and by_release and (support is None or support.supports(version))

    if stack.python is None:
        return ""
    if suits(stack.python):
        return stack.python
    of_release = reversed(release.pythons if release is not None else ())
    candidates = [USUAL_PYTHON, *of_release, *(PYTHONS if demand is not None else ())]
    return next((version for version in candidates if suits(version)), None)


def _numpy(stack: Stack, cann: str | None) -> str | None:
    major = re.match(r"\d+", stack.numpy or "")
    here = train(cann or "")
    too_new = major is not None and here is not None and int(major[0]) >= 2 and here < NUMPY_2_FROM
    return LAST_NUMPY_1 if too_new else stack.numpy


def _driver(stack: Stack, table: Compatibility, cann: str | None, demand: Demand | None) -> str | None:
    """The driver for another CANN: the one that is here unless that CANN's own list speaks against it."""
    if demand is not None:
        return demand.driver(cann) or stack.driver
    if cann == stack.cann:
        return stack.driver
    support = table.hdk(cann) if cann is not None and stack.driver is not None else None
    if support is None or stack.driver is None:
        return stack.driver
    fits = support.judge(stack.driver)
    older = support.oldest_compatible is not None and _before(stack.driver, support.oldest_compatible)
    if support.confidence is not Confidence.WEAK and (fits is Fit.OUTSIDE or (fits is Fit.UNKNOWN and older)):
        return support.paired[0] if support.paired else None
    return stack.driver


def _before(version: str, other: str) -> bool:
    here, there = train(version), train(other)
    return bool(here and there and here < there)


def _cann_distance(table: Compatibility, here: str | None, then: str | None) -> int:
    """How many releases lie between two releases of CANN."""
    if here is None or then is None or _same(here, then):
        return 0
    place, other = _place(table, here), _place(table, then)
    return abs(place - other) if place is not None and other is not None else len(table.hdk_support)


def _place(table: Compatibility, cann: str) -> int | None:
    """Where a CANN stands among those of which a driver is published, the newest at 0; None where it is not there."""
    return next((place for place, one in enumerate(table.hdk_support) if covers(one.cann, cann)), None)


def _torch_place(stack: Stack, table: Compatibility) -> int:
    """Where the torch_npu here stands among the releases, or else one for the torch here; the newest is the first."""
    row = table.release(stack.torch_npu) if stack.torch_npu is not None else None
    row = row or next(iter(table.releases_for_torch(stack.torch or "")), None)
    return next((place for place, one in enumerate(table.releases) if one is row), 0)


def _same(one: str, other: str) -> bool:
    return covers(one, other) or covers(other, one)


def _base(version: str) -> str:
    found = re.match(r"\d+(?:\.\d+)*", canonical_version(wheel(version)))
    return found[0] if found else version


def _preference(release: TorchNpuRelease | None, stays: bool, fit: Fit) -> tuple[int, ...]:
    """Among changes of one size: what can be installed, is finished, published as a pair, still fixed."""
    if release is None or stays:
        return (0, 0, _QUALITY.get(fit, 5), 0, 0)
    return (
        int(not release.on_pypi),
        int(release.is_prerelease),
        _QUALITY.get(fit, 5),
        int(not release.is_maintained),
        int(not release.confidence.is_official),
    )


def _ground(stack: Stack, release: TorchNpuRelease | None, fit: Fit, *, stays: bool, as_of: str) -> str:
    """What the answer rests on, as a clause."""
    wheel_says = "torch by the wheel's own metadata" if stays and stack.needs_torch else "torch by the table"
    if fit is Fit.UNKNOWN and stack.cann is not None:
        return f"{wheel_says}; of this torch_npu and CANN no table as of {as_of} speaks"
    by = {
        Fit.PAIRED: "the published pairs",
        Fit.SEEN: "what was seen in use",
        Fit.COMPATIBLE: "the published window of backward compatibility",
        Fit.EXPECTED: "what its neighbours in the table suggest",
    }
    confidence = f", {release.confidence.value.replace('_', ' ')}" if release is not None else ""
    return f"{wheel_says}; CANN by {by[fit]} as of {as_of}{confidence}" if fit in by else wheel_says
