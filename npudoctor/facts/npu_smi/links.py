"""What `npu-smi info -t` says of processes, buses and parts: proc-mem, pcie-err, hccs, phyid-remap, flash."""

from __future__ import annotations

import re
from typing import Any

from npudoctor.facts.cells import integer, lines_of, word
from npudoctor.facts.npu_smi.blocks import OF_THE_CARD, check_page, normalise, pairs_of, read_blocks, titles
from npudoctor.facts.npu_smi.failure import failure_of_page, not_a_page
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class HeldMemory:
    """A process on a chip, by the host's pid, and the MiB that it holds; its name is cut at 15 characters."""

    pid: int
    name: str | None = None
    memory_mb: int | None = None
    chip_id: int | None = None


@record(frozen=True, kw_only=True)
class ProcessMemory:
    """A page of `-t proc-mem`."""

    npu_id: int | None = None
    chip_count: int | None = None
    failure: str | None = None
    processes: tuple[HeldMemory, ...] = ()


_PROCESS = (
    r"\s*Process id\s*:\s*(?P<pid>[0-9]{1,10})\s+Process name\s*:\s*(?P<name>(?:\S{1,64}(?: {1,4}\S{1,64}){0,8}\s*)?)"
    r"Process memory\s*\(MB\)\s*:\s*(?P<memory_mb>\S+)\s*"
)
_CARD_ONLY = {*OF_THE_CARD, "chipid"}


def parse_process_memory(text: str) -> ProcessMemory:
    """Read a page of `npu-smi info -t proc-mem`; `Chip ID` is before the processes of a chip or after them."""
    lines = lines_of(text)
    found: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    chip_id: int | None = None
    before: bool | None = None
    idle = False
    for line in lines:
        if process := re.fullmatch(_PROCESS, line, re.IGNORECASE):
            row = {"pid": int(process["pid"]), "name": word(process["name"]), "chip_id": chip_id if before else None}
            waiting.append({**row, "memory_mb": integer(process["memory_mb"])})
            found.append(waiting[-1])
        elif re.search(r"\bNo process in device", line, re.IGNORECASE):
            idle = True
        elif at := re.fullmatch(r"\s*Chip ID\s*:\s*([0-9]{1,4})\s*", line, re.IGNORECASE):
            before = not (found or idle) if before is None else before
            chip_id = int(at[1])
            for row in [] if before else waiting:
                row["chip_id"] = chip_id
            waiting = []
        elif re.match(r"\s*Failed to query npu chip\b", line) and before and not waiting:
            before, chip_id = None if not (found or idle) else before, None
    pairs = pairs_of(text)
    card, _ = read_blocks(pairs, {})
    if not found and not idle and (card.get("npu_id") is None or not {title for title, _ in pairs} <= _CARD_ONLY):
        raise not_a_page("this is not a page of npu-smi info -t proc-mem", text)
    return ProcessMemory(**card, failure=failure_of_page(text), processes=tuple(HeldMemory(**row) for row in found))


@record(frozen=True, kw_only=True)
class PcieErrors:
    """A page of `-t pcie-err`: what has been counted since the chip started; 310 counts the four last."""

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    tx_error_count: int | None = None
    rx_error_count: int | None = None
    lcrc_error_count: int | None = None
    ecrc_error_count: int | None = None
    retry_count: int | None = None
    pcs_rx_error_count: int | None = None
    phy_lane_error_count: int | None = None
    dl_lcrc_error_count: int | None = None
    dl_dcrc_error_count: int | None = None
    failure: str | None = None
    chips: tuple[PcieErrors, ...] = ()


_PCIE = {
    "TX Error Count": "tx_error_count",
    "RX Error Count": "rx_error_count",
    "Lcrc Error Count": "lcrc_error_count",
    "Ecrc Error Count": "ecrc_error_count",
    "Pcs Rx Error Count": "pcs_rx_error_count",
    "Phy Lane Error Count": "phy_lane_error_count",
    "Dl Lcrc Error Count": "dl_lcrc_error_count",
    "Dl Dcrc Error Count": "dl_dcrc_error_count",
}
_OF_SIO_TOO = ("TX Error Count", "RX Error Count")
"""A page of `-t sio-info` has these, and no other."""


def parse_pcie_errors(text: str) -> PcieErrors:
    """Read a page of `npu-smi info -t pcie-err`."""
    pairs = pairs_of(text)
    check_page(pairs, ["Retry Count", *(title for title in _PCIE if title not in _OF_SIO_TOO)], "pcie-err", text)
    card, blocks = read_blocks(pairs, titles({**_PCIE, "Retry Count": "retry_count"}))
    card["failure"] = failure_of_page(text)
    chips = [block for block in blocks if "chip_name" not in block]
    if len(chips) < 2:
        found: dict[str, Any] = {**card, **(chips[0] if chips else {})}
        return PcieErrors(**found)
    return PcieErrors(**card, chips=tuple(PcieErrors(**chip) for chip in chips))


@record(frozen=True, kw_only=True)
class HccsLinks:
    """A page of `-t hccs`: one number for each link of the chip. `link_lane_list` has a digit for each lane, 1 is up.

    `health_status` is OK or NOK; `link_speed_gbps` in Gbit/s; `first_error_lane` is None where no link is at fault.
    """

    health_status: str | None = None
    lane_mode: tuple[int, ...] = ()
    link_lane_list: tuple[str, ...] = ()
    link_speed_gbps: tuple[int, ...] = ()
    tx_packets: tuple[int, ...] = ()
    tx_bytes: tuple[int, ...] = ()
    rx_packets: tuple[int, ...] = ()
    rx_bytes: tuple[int, ...] = ()
    retry_count: tuple[int, ...] = ()
    error_count: tuple[int, ...] = ()
    first_error_lane: int | None = None


_HCCS_LISTS = {
    "lane_mode": "hccs lane mode",
    "link_speed_gbps": "hccs link speed",
    "tx_packets": "hccs tx packets",
    "tx_bytes": "hccs tx bytes",
    "rx_packets": "hccs rx packets",
    "rx_bytes": "hccs rx bytes",
    "retry_count": "hccs retry count",
    "error_count": "hccs error count",
}


def parse_hccs(text: str) -> HccsLinks:
    """Read a page of `npu-smi info -t hccs`, of all links or of one."""
    pairs = pairs_of(text)
    check_page(pairs, ("hccs health status", *_HCCS_LISTS.values()), "hccs", text)
    page: dict[str, str] = {}
    for title, value in pairs:
        page.setdefault(title, value)
    lists = {field: _numbers(page.get(normalise(title))) for field, title in _HCCS_LISTS.items()}
    return HccsLinks(
        health_status=word(page.get(normalise("hccs health status"))),
        link_lane_list=_listed_words(page.get(normalise("hccs link lane list"))),
        first_error_lane=integer(page.get(normalise("hccs first error lane"))),
        **lists,
    )


def _listed_words(value: str | None) -> tuple[str, ...]:
    """The words between brackets; nothing where a bracket is missing, because then a word may be cut."""
    inside = re.fullmatch(r"\[([^\[\]]*)\]", (value or "").strip())
    return tuple(inside[1].replace(",", " ").split()) if inside else ()


def _numbers(value: str | None) -> tuple[int, ...]:
    words = _listed_words(value)
    numbers = [number for number in map(integer, words) if number is not None]
    return tuple(numbers) if len(numbers) == len(words) else ()


@record(frozen=True, kw_only=True)
class PhyIdRemap:
    """A page of `-t phyid-remap`: what else the chip with this physical number is called."""

    phy_id: int
    logic_id: int | None = None
    npu_id: int | None = None
    slot_id: int | None = None
    chip_id: int | None = None


def parse_phyid_remap(text: str) -> PhyIdRemap:
    """Read a page of `npu-smi info -t phyid-remap`."""
    page: dict[str, str] = {}
    for title, value in pairs_of(text):
        page.setdefault(title, value)
    phy_id = integer(page.get("chipphysicalid", page.get("chipphyid")))
    if phy_id is None:
        raise not_a_page("this is not a page of npu-smi info -t phyid-remap", text)
    return PhyIdRemap(
        phy_id=phy_id,
        logic_id=integer(page.get("chiplogicid")),
        npu_id=integer(page.get("npuid")),
        slot_id=integer(page.get("slotid")),
        chip_id=integer(page.get("chipid")),
    )


@record(frozen=True, kw_only=True)
class FlashPart:
    """One flash memory of a chip; `capacity_mb` in MiB."""

    flash_id: str | None = None
    manufacturer_id: str | None = None
    capacity_mb: int | None = None


@record(frozen=True, kw_only=True)
class Flash:
    """A page of `-t flash`; `chip_id` is None where it reports several chips."""

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    flash_count: int | None = None
    failure: str | None = None
    flash: tuple[FlashPart, ...] = ()


def parse_flash(text: str) -> Flash:
    """Read a page of `npu-smi info -t flash`."""
    pairs = pairs_of(text)
    check_page(pairs, ("Flash Count", "Flash ID"), "flash", text)
    card, _ = read_blocks(pairs, {})
    chips = [integer(value) for title, value in pairs if title == "chipid"]
    counts = [integer(value) for title, value in pairs if title == "flashcount"]
    parts: list[dict[str, Any]] = []
    for title, value in pairs:
        if title == "flashid":
            parts.append({"flash_id": word(value)})
        elif title == "manufacturerid" and parts:
            parts[-1].setdefault("manufacturer_id", word(value))
        elif title == "capacity(mb)" and parts:
            parts[-1].setdefault("capacity_mb", integer(value))
    return Flash(
        **card,
        failure=failure_of_page(text),
        chip_id=chips[0] if len(chips) == 1 else None,
        flash_count=counts[0] if len(counts) == 1 else None,
        flash=tuple(FlashPart(**part) for part in parts),
    )
