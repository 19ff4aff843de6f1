"""The rows of compatibility.json: releases, windows, drivers, Pythons. Versions are text, spelled as published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from npudoctor.knowledge.patterns import covers, train
from npudoctor.records import record


class Fit(str, Enum):
    """How two releases go together, as far as the tables say.

    PAIRED: published as a pair. SEEN: in use together somewhere. COMPATIBLE: inside the published window. EXPECTED:
    no table says so, a neighbour does. OUTSIDE: a window or list is published, and it is not in it. UNPAIRED: paired
    with something else, and no window is published. UNKNOWN: no table speaks of one of the two.
    """

    PAIRED = "paired"
    SEEN = "seen"
    COMPATIBLE = "compatible"
    EXPECTED = "expected"
    OUTSIDE = "outside"
    UNPAIRED = "unpaired"
    UNKNOWN = "unknown"

    @property
    def is_good(self) -> bool:
        """Whether somebody vouches for the two together."""
        return self in (Fit.PAIRED, Fit.SEEN, Fit.COMPATIBLE)


class Confidence(str, Enum):
    """Where a row comes from, best first; `Compatibility.confidence_levels` says it in words."""

    OFFICIAL_TABLE = "official_table"
    OFFICIAL_TABLE_VIA_FORK = "official_table_via_fork"
    OFFICIAL_TOOL_TABLE = "official_tool_table"
    OFFICIAL_OTHER_COMPONENT = "official_other_component"
    VENDOR_FILE_SAMPLE = "vendor_file_sample"
    VENDOR_DOC_EXAMPLE = "vendor_doc_example"
    INFERRED_FROM_BRANCH = "inferred_from_branch"
    SEEN_IN_THE_WILD = "seen_in_the_wild"
    INFERRED_FROM_WHEEL_METADATA = "inferred_from_wheel_metadata"
    INFERRED = "inferred"
    WEAK = "weak"
    SITE = "site"

    @property
    def is_official(self) -> bool:
        """Whether the vendor published it as a table of these very releases, or the site itself says so."""
        return self in (Confidence.OFFICIAL_TABLE, Confidence.OFFICIAL_TABLE_VIA_FORK, Confidence.SITE)


@record(frozen=True, kw_only=True)
class TorchNpuRelease:
    """One torch_npu wheel.

    `torch` is the base version that it needs. `cann` holds the published pairs, empty where none is known, with
    `cann_range` where the table names a range; `cann_seen` what was seen in use; `cann_guess` what is expected.
    `pythons` are those with wheels (empty: not known), `python_range` the
    oldest and newest that the project names. `requires_*` is the wheel's own Requires-Dist: None not known, empty none.
    `lifecycle` is planned, development, maintenance or eol. `platforms` are wheel tags.
    """

    version: str
    torch: str
    confidence: Confidence
    on_pypi: bool
    sources: tuple[str, ...]
    cann: tuple[str, ...] = ()
    cann_range: str | None = None
    cann_seen: tuple[str, ...] = ()
    cann_guess: tuple[str, ...] = ()
    pta_release: str | None = None
    branch: str | None = None
    pythons: tuple[str, ...] = ()
    python_range: tuple[str, str] | None = None
    platforms: tuple[str, ...] = ()
    requires_x86_64: tuple[str, ...] | None = None
    requires_aarch64: tuple[str, ...] | None = None
    lifecycle: str | None = None
    notes: str | None = None

    @property
    def is_maintained(self) -> bool:
        """Whether its torch line still gets fixes."""
        return self.lifecycle in ("development", "maintenance")

    @property
    def is_prerelease(self) -> bool:
        """Whether it is a release candidate, a daily or a local build."""
        return bool(re.search(r"rc|dev|\+", self.version))

    @property
    def is_test_build(self) -> bool:
        """Whether it is a daily or a local build, which is never proposed."""
        return bool(re.search(r"dev|\+", self.version))

    def supports_python(self, version: str) -> bool | None:
        """Whether there is a wheel for this Python (major.minor counts); None where no source says."""
        python = train(version)
        if python is None or not (self.pythons or self.python_range):
            return None
        if self.pythons:
            return python in map(train, self.pythons)
        oldest, newest = map(train, self.python_range or ())
        return bool(oldest and newest and oldest <= python <= newest)

    def requires(self, machine: str) -> tuple[str, ...] | None:
        """What the wheel for `x86_64` or `aarch64` requires; None where it is not known."""
        return self.requires_x86_64 if machine == "x86_64" else self.requires_aarch64

    def glibc_floor(self, machine: str) -> tuple[int, int] | None:
        """The oldest glibc that its wheel for this machine runs on; None where it is not known."""
        floors = [re.fullmatch(rf"manylinux_(\d+)_(\d+)_{re.escape(machine)}", tag) for tag in self.platforms]
        return min(((int(found[1]), int(found[2])) for found in floors if found), default=None)


@record(frozen=True)
class Window:
    """The CANN releases that a torch_npu train says it runs on."""

    pta_release: str
    cann_ok: tuple[str, ...]
    sources: tuple[str, ...]


@record(frozen=True, kw_only=True)
class HdkSupport:
    """The drivers (HDK) of one CANN: its pair, those that it lists as compatible (oldest first) and incompatible."""

    cann: str
    paired: tuple[str, ...]
    confidence: Confidence
    sources: tuple[str, ...]
    compatible: tuple[str, ...] = ()
    incompatible: tuple[str, ...] = ()
    notes: str | None = None

    def judge(self, driver: str) -> Fit:
        """How this driver goes with the CANN; a driver that no list names is UNKNOWN, older ones too."""
        if any(covers(entry, driver) for entry in self.incompatible):
            return Fit.OUTSIDE
        if any(covers(entry, driver) for entry in self.paired):
            return Fit.PAIRED
        return Fit.COMPATIBLE if any(covers(entry, driver) for entry in self.compatible) else Fit.UNKNOWN

    @property
    def oldest_compatible(self) -> str | None:
        """The first entry of the list, `25.0.X` or a release; None where no list is published."""
        return self.compatible[0] if self.compatible else None


@record(frozen=True, kw_only=True)
class PythonSupport:
    """The Pythons that CANN releases support, oldest to newest major.minor; `numpy` and `protobuf` where documented."""

    cann: tuple[str, ...]
    oldest: str
    newest: str
    sources: tuple[str, ...]
    newest_patch: str | None = None
    numpy: str | None = None
    protobuf: str | None = None

    def supports(self, python: str) -> bool:
        """Whether this Python is in the range; only major.minor counts."""
        version, oldest, newest = train(python), train(self.oldest), train(self.newest)
        return bool(version and oldest and newest and oldest <= version <= newest)


@record(frozen=True, kw_only=True)
class KnownBad:
    """A known defect of torch_npu releases. `fixed_in` maps each of them to the release that fixes it.

    `python_min`: only from this Python on. `cann`: only with these. `fixed` is the date of the fix.
    """

    id: str
    summary: str
    fixed_in: Mapping[str, str]
    pitfall: str
    sources: tuple[str, ...]
    python_min: str | None = None
    cann: tuple[str, ...] = ()
    fixed: str | None = None


@record(frozen=True, kw_only=True)
class Lifecycle:
    """Where a torch line stands: planned, development, maintenance or eol; dates as YYYY-MM-DD or YYYY-MM."""

    torch: str
    status: str
    released: str | None = None
    eol: str | None = None
    next: str | None = None
    next_from: str | None = None
