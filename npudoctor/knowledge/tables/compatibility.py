"""Which releases go together: the typed form of compatibility.json. Versions are text, spelled as published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from npudoctor.knowledge import table
from npudoctor.knowledge.pairs import (
    Fit,
    HdkSupport,
    KnownBad,
    Lifecycle,
    PythonSupport,
    TorchNpuRelease,
    Window,
)
from npudoctor.knowledge.patterns import canonical_version, covers, covers_later_candidate, train, wheel
from npudoctor.records import record

WHEELS = "https://github.com/Ascend/pytorch/releases"
"""Where the project of torch_npu publishes wheels, also those that are not in the package index."""


@record(frozen=True, kw_only=True)
class Compatibility:
    """The whole table. `releases` stand newest first. `orders` are rising lists by kind of version, for tests."""

    as_of: str
    confidence_levels: Mapping[str, str]
    releases: tuple[TorchNpuRelease, ...]
    windows: tuple[Window, ...]
    known_bad_releases: tuple[KnownBad, ...]
    lifecycles: tuple[Lifecycle, ...]
    hdk_support: tuple[HdkSupport, ...]
    python_support: tuple[PythonSupport, ...]
    orders: Mapping[str, list[str]]
    same_cann: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    sources: Mapping[str, str]

    def release(self, version: str) -> TorchNpuRelease | None:
        """The row of exactly this torch_npu (2.7.1 is not 2.7.1.post4); a local part counts only where listed."""
        return self._by_version.get(version.strip().lower()) or self._by_version.get(wheel(version))

    def releases_for_torch(self, torch: str) -> tuple[TorchNpuRelease, ...]:
        """The rows that need this torch, newest first; local parts (+cpu) do not count."""
        return tuple(release for release in self.releases if release.torch == wheel(torch))

    def window(self, pta_release: str) -> Window | None:
        """The backward-compatibility window of a torch_npu train; its patches and dailies share it."""
        name = canonical_version(pta_release.split(" ")[0])
        for window in self.windows:
            same_train = name.endswith(".X") and train(name) == train(window.pta_release)
            if same_train or covers(window.pta_release, name):
                return window
        return None

    def judge(self, release: TorchNpuRelease, cann: str) -> Fit:
        """How a torch_npu goes with a CANN."""
        pairs = (*release.cann, *filter(None, [release.cann_range]))
        window = self.window(release.pta_release) if release.pta_release else None
        if any(covers(entry, cann) for entry in pairs):
            return Fit.PAIRED
        if any(covers(entry, cann) for entry in release.cann_seen):
            return Fit.SEEN
        if window and any(covers(entry, cann) or covers_later_candidate(entry, cann) for entry in window.cann_ok):
            return Fit.COMPATIBLE
        if any(covers(entry, cann) for entry in release.cann_guess):
            return Fit.EXPECTED
        if not (pairs or window) or not self.knows_cann(cann):
            return Fit.UNKNOWN
        return Fit.OUTSIDE if window else Fit.UNPAIRED

    def knows_cann(self, cann: str) -> bool:
        """Whether the tables know this CANN's train (major.minor) at all; test builds they do not."""
        return train(cann) in self._cann_trains and not re.match(r"\d+\.\d+\.T\d", canonical_version(cann))

    def releases_for_cann(self, cann: str, *, python: str | None = None) -> tuple[TorchNpuRelease, ...]:
        """The torch_npu releases to install with this CANN, best first; none where no source names any.

        Published pairs come first, then what was seen in use; where there is neither on the index, what the windows
        allow. Among them: on the index, no pre-release, paired with another patch of this CANN, maintained, from an
        official table, newest. With `python`, only those that have a wheel for it and no known defect under it.
        """
        usable = [
            release
            for release in self.releases
            if not self.known_bad(release.version, python=python, cann=cann)
            and (python is None or release.supports_python(python) is not False)
        ]
        fits = {release.version: self.judge(release, cann) for release in usable}
        ranks = {Fit.PAIRED: 0, Fit.SEEN: 1}
        paired = [release for release in usable if fits[release.version] in ranks]
        compatible = [release for release in usable if fits[release.version] is Fit.COMPATIBLE]
        on_index = any(release.on_pypi for release in paired) or not any(release.on_pypi for release in compatible)
        chosen = paired if paired and on_index else compatible
        return tuple(
            sorted(
                chosen,
                key=lambda release: (
                    not release.on_pypi,
                    release.is_prerelease,
                    ranks.get(fits[release.version], 2),
                    chosen is compatible and all(train(one) != train(cann) for one in release.cann),
                    not release.is_maintained,
                    not release.confidence.is_official,
                ),
            )
        )

    def note_of_wheel(self, version: str) -> str:
        """A comment for the command that installs a torch_npu, where the package index does not have it; else empty."""
        release = self.release(version)
        return "" if release is None or release.on_pypi else f"  # not in the package index: its wheel is on {WHEELS}"

    def known_bad(self, version: str, *, python: str | None = None, cann: str | None = None) -> tuple[KnownBad, ...]:
        """The known defects of this torch_npu that show under this Python and CANN; with neither, the unconditional."""
        found = []
        for defect in self.known_bad_releases:
            floor, here = train(defect.python_min or ""), train(python or "")
            hit_by_python = defect.python_min is None or bool(floor and here and here >= floor)
            hit_by_cann = not defect.cann or (cann is not None and any(covers(entry, cann) for entry in defect.cann))
            if wheel(version) in defect.fixed_in and hit_by_python and hit_by_cann:
                found.append(defect)
        return tuple(found)

    def hdk(self, cann: str) -> HdkSupport | None:
        """The drivers of this CANN; None where no table names it."""
        return next((support for support in self.hdk_support if covers(support.cann, cann)), None)

    def python(self, cann: str) -> PythonSupport | None:
        """The Pythons of this CANN; None where no table names it."""
        rows = self.python_support
        return next((support for support in rows if any(covers(entry, cann) for entry in support.cann)), None)

    def lifecycle(self, torch: str) -> Lifecycle | None:
        """Where this torch line stands."""
        return next((line for line in self.lifecycles if line.torch == wheel(torch)), None)

    @cached_property
    def _by_version(self) -> dict[str, TorchNpuRelease]:
        return {release.version: release for release in self.releases}

    @cached_property
    def _cann_trains(self) -> frozenset[tuple[int, int]]:
        entries = [entry for release in self.releases for entry in (*release.cann, *release.cann_seen)]
        entries += [support.cann for support in self.hdk_support]
        return frozenset(filter(None, map(train, entries)))


def load() -> Compatibility:
    """Read compatibility.json."""
    data = table.read("compatibility")
    return table.record_of(
        Compatibility,
        data,
        known_bad_releases=data["known_bad"],
        hdk_support=data["hdk"],
        python_support=data["python"],
        sources=table.sources(data),
    )
