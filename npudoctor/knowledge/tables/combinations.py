"""Releases that were seen or tested together, and what features need: the typed form of combinations.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.knowledge import table
from npudoctor.knowledge.pairs import Confidence
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class DriverFirmware:
    """A driver and a firmware that were found together, or the firmware range that a driver names."""

    driver: str
    confidence: Confidence
    sources: tuple[str, ...]
    firmware: str | None = None
    firmware_range: tuple[str, str] | None = None
    product: str | None = None
    cann: str | None = None


@record(frozen=True, kw_only=True)
class FeatureFloor:
    """The oldest HDK, CANN and torch_npu train with a feature."""

    feature: str
    min_hdk: str
    min_cann: str | None = None
    min_pta: str | None = None
    products: str | None = None


@record(frozen=True, kw_only=True)
class Stack:
    """One published, tested set of releases of vllm-ascend.

    `also_requires` are the parts in which further published sets of the same release differ from it; `sources` are
    those beside the source of the table.
    """

    vllm_ascend: str
    vllm: str
    python: str
    cann: str
    torch: str
    torch_npu: str
    triton_ascend: str | None = None
    also_requires: tuple[Mapping[str, str | None], ...] = ()
    sources: tuple[str, ...] | None = None


@record(frozen=True, kw_only=True)
class Combinations:
    """The whole table. `inner_versions` maps CANN releases to build names, `packages` says what files are called."""

    as_of: str
    driver_firmware: tuple[DriverFirmware, ...]
    feature_floors: tuple[FeatureFloor, ...]
    stacks: tuple[Stack, ...]
    inner_versions: Mapping[str, str]
    packages: Mapping[str, Any]
    sources: Mapping[str, str]


def load() -> Combinations:
    """Read combinations.json."""
    data = table.read("combinations")
    return table.record_of(Combinations, data, sources=table.sources(data))
