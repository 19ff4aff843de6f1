"""Reference figures of the hardware, published or measured: the typed form of baselines.json."""

from __future__ import annotations

from collections.abc import Mapping

from npudoctor.knowledge import table
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Figure:
    """A published or measured figure of a family or chip; several `values` are variants or a range."""

    of: str
    figure: str
    values: tuple[float, ...]
    unit: str
    confidence: str
    sources: tuple[str, ...]
    note: str | None = None


@record(frozen=True, kw_only=True)
class AllReduceReference:
    """A published all-reduce; bandwidths in decimal GB/s by number of ranks, times in microseconds."""

    where: str
    confidence: str
    note: str
    sources: tuple[str, ...]
    family: str | None = None
    software: str | None = None
    time_us: tuple[float, ...] = ()
    size_over_time_gb_s: Mapping[str, float] | None = None
    bus_gb_s: Mapping[str, float] | None = None
    all_gather_gb_s: Mapping[str, float] | None = None
    printed_gib_s: float | None = None


@record(frozen=True, kw_only=True)
class Smoke:
    """How the smoke run measures, and below which bus bandwidth (GB/s: warning, failure) by family and ranks."""

    size_mib: int
    dtype: str
    timed_calls: int
    warm_ups: int
    min_judged_mib: int
    formula: str
    thresholds: Mapping[str, Mapping[str, list[float]]]
    note: str
    confidence: str
    sources: tuple[str, ...]

    def threshold(self, family: str, ranks: int) -> tuple[float, float] | None:
        """Below the first figure a warning, below the second a failure; None where nothing trustworthy is published."""
        limits = self.thresholds.get(family, {}).get(str(ranks))
        return (limits[0], limits[1]) if limits else None


@record(frozen=True, kw_only=True)
class IdleBaseline:
    """What an idle NPU showed: ranges of power (W), temperature (°C) and memory in use (MB)."""

    of: str
    family: str
    sources: tuple[str, ...]
    power_w: tuple[float, float] | None = None
    temperature_celsius: tuple[int, int] | None = None
    hbm_used_mb: tuple[int, int] | None = None
    hbm_total_mb: int | None = None
    ddr_used_mb: tuple[int, int] | None = None
    ai_core_percent: int | None = None


@record(frozen=True, kw_only=True)
class Baselines:
    """The whole table. `allreduce_exact_ranks`: how many ranks may sum ones before a data type loses count."""

    as_of: str
    figures: tuple[Figure, ...]
    all_reduce: tuple[AllReduceReference, ...]
    smoke: Smoke
    allreduce_exact_ranks: Mapping[str, int]
    idle: tuple[IdleBaseline, ...]
    dtype_notes: tuple[str, ...]


def load() -> Baselines:
    """Read baselines.json."""
    return table.record_of(Baselines, table.read("baselines"))
