"""What the driver's library and npu-smi say of the same NPUs, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.facts.dcmi.answer import LIBRARY
from npudoctor.facts.node.chips import subject_of
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.pci import normal_address
from npudoctor.sdk import Evidence, Finding

from ._together import on
from .messages import npu as messages

EQUAL = ("name", "health", "bus_id", "hbm_total_mb", "mem_total_mb", "hugepages_total")
"""Identity, counts and states: these must be the same."""

WITHIN: Mapping[str, float] = {"temp_c": 8, "power_w": 60.0, "hbm_used_mb": 2048, "mem_used_mb": 2048}
"""Values that change between two readings, and by how much they may differ: °C, W, MiB."""

_MOST = 8

Difference = tuple[str, str, Any, Any]
"""Subject, field, what the library says, what npu-smi says."""


def disagreement(library: NpuSmiInfo, npu_smi: NpuSmiInfo) -> Iterator[Finding]:
    """One finding with every value that differs; what one of them does not tell is not compared."""
    found = list(_differences(library, npu_smi))
    if not found:
        return
    yield messages.SOURCES_DISAGREE.finding(
        **on(list(dict.fromkeys(subject for subject, *_ in found))),
        fields=sorted({field.replace("_", " ") for _, field, *_ in found}),
        commands=("npudoctor facts dcmi.library", "npu-smi info"),
        evidence=tuple(
            Evidence(source=f"{LIBRARY}, {subject}, {field}", expected=str(theirs), actual=str(ours))
            for subject, field, ours, theirs in found[:_MOST]
        ),
    )


def _differences(library: NpuSmiInfo, npu_smi: NpuSmiInfo) -> Iterator[Difference]:
    if library.driver_version and npu_smi.driver_version and library.driver_version != npu_smi.driver_version:
        yield "host", "driver_version", library.driver_version, npu_smi.driver_version
    ours, theirs = _by_subject(library), _by_subject(npu_smi)
    if ours.keys() != theirs.keys():
        yield "host", "chips", " ".join(ours), " ".join(theirs)
    for subject in [one for one in ours if one in theirs]:
        yield from _of_chip(subject, ours[subject], theirs[subject])
    if library.idle_npus is not None and npu_smi.idle_npus is not None:
        for npu in sorted(set(library.idle_npus) ^ set(npu_smi.idle_npus)):
            yield f"npu:{npu}", "idle", npu in library.idle_npus, npu in npu_smi.idle_npus


def _by_subject(info: NpuSmiInfo) -> dict[str, Chip]:
    return {subject_of(chip, info.npus): chip for chip in info.npus}


def _of_chip(subject: str, ours: Chip, theirs: Chip) -> Iterator[Difference]:
    for field in (*EQUAL, *WITHIN):
        one, other = getattr(ours, field), getattr(theirs, field)
        if one is None or other is None:
            continue
        if field in WITHIN:
            differs = bool(one and other) and abs(one - other) > WITHIN[field]  # 0 is not measured
        elif field == "bus_id":
            differs = normal_address(one) != normal_address(other)
        else:
            differs = str(one).lower() != str(other).lower()
        if differs:
            yield subject, field, one, other
