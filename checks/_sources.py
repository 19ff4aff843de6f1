"""What the driver's library and the tools say of the same NPUs, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.facts.dcmi.answer import LIBRARY
from npudoctor.facts.dcmi.both import ToolPages
from npudoctor.facts.node.chips import subject_of
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.system.pci import normal_address
from npudoctor.sdk import Evidence, Finding

from ._together import on
from .messages import npu as messages

EQUAL: Mapping[str, tuple[str, ...]] = {
    "table": ("name", "health", "bus_id", "hbm_total_mb", "mem_total_mb", "hugepages_total"),
    "health": ("health", "error_codes"),
    "ecc": tuple(
        f"{memory}_{count}"
        for memory in ("hbm", "ddr")
        for count in ("single", "double", "single_aggregate", "double_aggregate", "double_isolated_pages")
    ),
    "board": ("board_id", "slot_id", "pcie_bus", "software_version", "firmware_version", "compatibility", "chip_count"),
    "memory": ("hbm_capacity_mb",),
    "common": ("aicore_freq_mhz", "aicore_count"),
    "phyid-remap": ("phy_id", "logic_id"),
    "ip": ("ipaddr", "netmask"),
    "net_health": ("status",),
    "gateway": ("default_gateway",),
}
"""Identity, counts, versions and states by page: these must be the same."""

WITHIN: Mapping[str, float] = {
    "temp_c": 8,
    "power_w": 60.0,
    "hbm_used_mb": 2048,
    "mem_used_mb": 2048,
    "hbm_temp_c": 8,
    "hbm_clock_mhz": 100,
    "aicore_cur_freq_mhz": 1200,  # from idle to work
}
"""Values that change between two readings, and by how much they may differ: °C, W, MiB, MHz."""

UNKNOWN = (None, "", "NA", "NOT SUPPORT", "UNKNOWN")
"""What one source says where it does not tell: to a user without the right, or on this product. It is not compared."""

_MOST = 8

Difference = tuple[str, str, Any, Any]
"""Subject, field, what the library says, what the tool says."""


def disagreement(library: NpuSmiInfo, npu_smi: NpuSmiInfo | None, pages: ToolPages | None) -> Iterator[Finding]:
    """One finding with every value that differs; what one of them does not tell is not compared."""
    found = list(_differences(library, npu_smi)) if npu_smi is not None else []
    for page, subject, ours, theirs in pages.pairs if pages is not None else ():
        found += _of_page(page, subject, ours, theirs)
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


def listed_by_either(info: NpuSmiInfo, npu_smi: NpuSmiInfo | None) -> NpuSmiInfo:
    """That of npu-smi where it has all chips of the table: what one source lists is not missing."""
    return npu_smi if npu_smi is not None and _by_subject(info).keys() <= _by_subject(npu_smi).keys() else info


def page_from(sources: Mapping[str, str], subject: str, command: str) -> str:
    """Where the page of a chip was read: `sources` names those that the driver's library gave, else the command."""
    return f"{LIBRARY}, {subject}" if subject in sources else command


def lists_differ(info: NpuSmiInfo, npu_smi: NpuSmiInfo | None) -> bool:
    """Whether both list chips, and one of them all of the other's and more; else they may number them otherwise."""
    ours, theirs = _by_subject(info).keys(), _by_subject(npu_smi).keys() if npu_smi is not None else set()
    return bool(theirs) and (ours < theirs or theirs < ours)


def _differences(library: NpuSmiInfo, npu_smi: NpuSmiInfo) -> Iterator[Difference]:
    if library.driver_version and npu_smi.driver_version and library.driver_version != npu_smi.driver_version:
        yield "host", "driver_version", library.driver_version, npu_smi.driver_version
    ours, theirs = _by_subject(library), _by_subject(npu_smi)
    if ours.keys() != theirs.keys():
        yield "host", "chips", " ".join(ours), " ".join(theirs)
    for subject in [one for one in ours if one in theirs]:
        yield from _of_page("table", subject, ours[subject], theirs[subject])
    if library.idle_npus is not None and npu_smi.idle_npus is not None:
        for npu in sorted(set(library.idle_npus) ^ set(npu_smi.idle_npus)):
            yield f"npu:{npu}", "idle", npu in library.idle_npus, npu in npu_smi.idle_npus


def _by_subject(info: NpuSmiInfo) -> dict[str, Chip]:
    return {subject_of(chip, info.npus): chip for chip in info.npus}


def _of_page(page: str, subject: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    for field in (*EQUAL[page], *WITHIN):
        one, other = getattr(ours, field, None), getattr(theirs, field, None)
        if one in UNKNOWN or other in UNKNOWN:
            continue
        if field in WITHIN:
            differs = bool(one and other) and abs(one - other) > WITHIN[field]  # 0 is not measured
        elif field in ("bus_id", "pcie_bus"):
            differs = normal_address(one) != normal_address(other)
        elif field == "error_codes":
            differs = {code.upper() for code in one} != {code.upper() for code in other}
        else:
            differs = str(one).lower() != str(other).lower()
        if differs:
            yield subject, field, one, other
