"""What `npu-smi info -t` says of an NPU or a chip: ecc, usages, memory, common.

A page of one chip fills the fields of its record; where a page reports several chips, each is in `chips`, and the
fields beside it hold only what concerns the NPU. `failure` is what the tool prints in place of the values of a chip,
or at the end of the page; the chips that did answer are read all the same.
"""

from __future__ import annotations

from typing import Any, TypeVar

from npudoctor.facts.cells import parse_decimal, word
from npudoctor.facts.npu_smi.blocks import Titles, check_page, pairs_of, read_blocks, titles
from npudoctor.facts.npu_smi.failure import failure_of_page
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Ecc:
    """A page of `-t ecc`: bit errors since the chip was last reset, their totals, and isolated pages.

    `*_next_isolated_pages` are taken out of use at the next reset (called pending on 950).
    """

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    ddr_single: int | None = None
    ddr_double: int | None = None
    ddr_single_aggregate: int | None = None
    ddr_double_aggregate: int | None = None
    ddr_single_isolated_pages: int | None = None
    ddr_double_isolated_pages: int | None = None
    ddr_single_next_isolated_pages: int | None = None
    ddr_double_next_isolated_pages: int | None = None
    hbm_single: int | None = None
    hbm_double: int | None = None
    hbm_single_aggregate: int | None = None
    hbm_double_aggregate: int | None = None
    hbm_single_isolated_pages: int | None = None
    hbm_double_isolated_pages: int | None = None
    hbm_single_next_isolated_pages: int | None = None
    hbm_double_next_isolated_pages: int | None = None
    hbm_isolated_pages: int | None = None
    hbm_next_isolated_pages: int | None = None
    failure: str | None = None
    chips: tuple[Ecc, ...] = ()


@record(frozen=True, kw_only=True)
class Usages:
    """A page of `-t usages`: capacities in MiB, usages in percent, huge pages in pages."""

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    ddr_capacity_mb: int | None = None
    ddr_usage_pct: int | None = None
    ddr_hugepages_total: int | None = None
    ddr_hugepages_usage_pct: int | None = None
    hbm_capacity_mb: int | None = None
    hbm_usage_pct: int | None = None
    aicore_pct: int | None = None
    aivector_pct: int | None = None
    aicube_pct: int | None = None
    aicpu_pct: int | None = None
    ctrlcpu_pct: int | None = None
    ddr_bandwidth_pct: int | None = None
    hbm_bandwidth_pct: int | None = None
    npu_utilization_pct: int | None = None
    vectorcore_pct: int | None = None
    dvpp_vdec_pct: int | None = None
    dvpp_vpc_pct: int | None = None
    dvpp_venc_pct: int | None = None
    dvpp_jpege_pct: int | None = None
    dvpp_jpegd_pct: int | None = None
    failure: str | None = None
    chips: tuple[Usages, ...] = ()


@record(frozen=True, kw_only=True)
class NpuMemory:
    """A page of `-t memory`: capacities in MiB, clocks in MHz, temperature in degrees Celsius.

    `total_ddr_capacity_mb` is what 310P shows beside the part that a job can have.
    """

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    ddr_capacity_mb: int | None = None
    total_ddr_capacity_mb: int | None = None
    ddr_clock_mhz: int | None = None
    hbm_capacity_mb: int | None = None
    hbm_clock_mhz: int | None = None
    hbm_temp_c: int | None = None
    hbm_manufacturer_id: str | None = None
    failure: str | None = None
    chips: tuple[NpuMemory, ...] = ()


@record(frozen=True, kw_only=True)
class CommonChip:
    """One chip of `-t common`, or the MCU of the NPU, which has a `chip_name` and no number.

    Usages in percent, frequencies in MHz, temperature in degrees Celsius, power in watts; `rated_power_w` is what 310
    shows instead of the power drawn.
    """

    chip_id: int | None = None
    chip_name: str | None = None
    memory_usage_pct: int | None = None
    hbm_usage_pct: int | None = None
    aicore_pct: int | None = None
    aicore_freq_mhz: int | None = None
    aicore_cur_freq_mhz: int | None = None
    aicore_count: int | None = None
    temp_c: int | None = None
    power_w: float | None = None
    rated_power_w: float | None = None
    failure: str | None = None


@record(frozen=True, kw_only=True)
class Common:
    """A page of `-t common`, the MCU among the chips. It is of an NPU: the tool refuses `-c` here."""

    npu_id: int | None = None
    chip_count: int | None = None
    failure: str | None = None
    chips: tuple[CommonChip, ...] = ()


_Page = TypeVar("_Page", Ecc, Usages, NpuMemory)


def _page(kind: type[_Page], text: str, known: Titles, telling: tuple[str, ...], name: str) -> _Page:
    pairs = pairs_of(text)
    check_page(pairs, telling, name, text)
    card, blocks = read_blocks(pairs, known)
    card["failure"] = failure_of_page(text)
    chips = [block for block in blocks if "chip_name" not in block]  # the MCU has none of these values
    if len(chips) < 2:
        found: dict[str, Any] = {**card, **(chips[0] if chips else {})}
        return kind(**found)
    return kind(**card, chips=tuple(kind(**chip) for chip in chips))


def _of_each_memory(wording: str, field: str) -> dict[str, str]:
    """The titles of a count that DDR and HBM have, for single and for double bit errors."""
    return {
        f"{memory} {bits.capitalize()} Bit {wording}": f"{memory.lower()}_{bits}{field}"
        for memory in ("DDR", "HBM")
        for bits in ("single", "double")
    }


_ECC_TELLS = {
    **_of_each_memory("Error Count", ""),
    "Single-bit Error Count": "ddr_single",
    "Double-bit Error Count": "ddr_double",
}
_ECC = titles(
    {
        **_ECC_TELLS,
        **_of_each_memory("Aggregate Total Err Cnt", "_aggregate"),
        **_of_each_memory("Isolated Pages Count", "_isolated_pages"),
        **_of_each_memory("Next-Isolated Pages Count", "_next_isolated_pages"),
        "HBM Isolated Page Count": "hbm_isolated_pages",
        "HBM Pending Retire Page Count": "hbm_next_isolated_pages",
    }
)


def parse_ecc(text: str) -> Ecc:
    """Read a page of `npu-smi info -t ecc`."""
    return _page(Ecc, text, _ECC, tuple(_ECC_TELLS), "ecc")


_DVPP = ("VDEC", "VPC", "VENC", "JPEGE", "JPEGD")
_USAGES = titles(
    {
        "DDR Capacity(MB)": "ddr_capacity_mb",
        "Memory Capacity(MB)": "ddr_capacity_mb",
        "DDR Usage Rate(%)": "ddr_usage_pct",
        "Memory Usage Rate(%)": "ddr_usage_pct",
        "DDR Hugepages Total(page)": "ddr_hugepages_total",
        "Hugepages Total(page)": "ddr_hugepages_total",
        "DDR Hugepages Usage Rate(%)": "ddr_hugepages_usage_pct",
        "Hugepages Usage Rate(%)": "ddr_hugepages_usage_pct",
        "HBM Capacity(MB)": "hbm_capacity_mb",
        "HBM Usage Rate(%)": "hbm_usage_pct",
        "Aicore Usage Rate(%)": "aicore_pct",
        "Aivector Usage Rate(%)": "aivector_pct",
        "Aicube Usage Rate(%)": "aicube_pct",
        "Aicpu Usage Rate(%)": "aicpu_pct",
        "Ctrlcpu Usage Rate(%)": "ctrlcpu_pct",
        "DDR Bandwidth Usage Rate(%)": "ddr_bandwidth_pct",
        "Memory Bandwidth Usage Rate(%)": "ddr_bandwidth_pct",
        "HBM Bandwidth Usage Rate(%)": "hbm_bandwidth_pct",
        "NPU Utilization(%)": "npu_utilization_pct",
        "Vectorcore Usage Rate(%)": "vectorcore_pct",
        **{f"DVPP {part} Usage Rate(%)": f"dvpp_{part.lower()}_pct" for part in _DVPP},
    }
)
_USAGES_TELLS = (
    *("Aicpu Usage Rate(%)", "Ctrlcpu Usage Rate(%)", "DDR Usage Rate(%)", "NPU Utilization(%)"),
    *("DDR Bandwidth Usage Rate(%)", "HBM Bandwidth Usage Rate(%)", "DDR Hugepages Total(page)"),
)


def parse_usages(text: str) -> Usages:
    """Read a page of `npu-smi info -t usages`."""
    return _page(Usages, text, _USAGES, _USAGES_TELLS, "usages")


_MEMORY_TELLS = {
    "DDR Clock Speed(MHz)": "ddr_clock_mhz",
    "Clock Speed(MHz)": "ddr_clock_mhz",
    "HBM Clock Speed(MHz)": "hbm_clock_mhz",
}
_MEMORY = {
    **titles(
        {
            **_MEMORY_TELLS,
            "DDR Capacity(MB)": "ddr_capacity_mb",
            "Memory Capacity(MB)": "ddr_capacity_mb",
            "Capacity(MB)": "ddr_capacity_mb",
            "Total DDR Capacity(MB)": "total_ddr_capacity_mb",
            "Total Capacity(MB)": "total_ddr_capacity_mb",
            "HBM Capacity(MB)": "hbm_capacity_mb",
            "HBM Temperature(C)": "hbm_temp_c",
        }
    ),
    **titles({"HBM Manufacturer ID": "hbm_manufacturer_id"}, word),
}


def parse_memory(text: str) -> NpuMemory:
    """Read a page of `npu-smi info -t memory`."""
    return _page(NpuMemory, text, _MEMORY, tuple(_MEMORY_TELLS), "memory")


_COMMON_TELLS = {
    "Aicore Freq(MHZ)": "aicore_freq_mhz",
    "Aicore curFreq(MHZ)": "aicore_cur_freq_mhz",
    "Aicore Count": "aicore_count",
}
_POWERS = {
    "NPU Real-time Power(W)": "power_w",
    "Power Dissipation(W)": "power_w",
    "Rated Power Dissipation(W)": "rated_power_w",
}
_COMMON = {
    **titles(
        {
            **_COMMON_TELLS,
            "Temperature(C)": "temp_c",
            "Memory Usage Rate(%)": "memory_usage_pct",
            "HBM Usage Rate(%)": "hbm_usage_pct",
            "Aicore Usage Rate(%)": "aicore_pct",
        }
    ),
    **titles(_POWERS, parse_decimal),
}


def parse_common(text: str) -> Common:
    """Read a page of `npu-smi info -t common`."""
    pairs = pairs_of(text)
    if not {"temperature(c)", "memoryusagerate(%)"} <= {title for title, _ in pairs}:  # as 310 has them
        check_page(pairs, _COMMON_TELLS, "common", text)
    card, chips = read_blocks(pairs, _COMMON)
    return Common(**card, failure=failure_of_page(text), chips=tuple(CommonChip(**chip) for chip in chips))
