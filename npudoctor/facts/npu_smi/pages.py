"""The pages of npu-smi: keys and values (`-t board` and others), `-l`, `-m`, and the version of the tool."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.facts.cells import integer, lines_of, word
from npudoctor.facts.npu_smi.failure import line_of_failure, not_a_page
from npudoctor.records import record

_FIELD = r"(?a)\s*([A-Za-z][\w ()%/.-]{0,60}?)\s*:\s*(.*)"
_NO_CARD = "There is no NPU card on this server"


@record(frozen=True, kw_only=True)
class Board:
    """A page of `-t board`: of an NPU (`-i`), of a chip (`-i -c`), or of both as on 950; None is what it does not show.

    `pcie_bus` is the PCI address; `compatibility` is OK where the driver accepts the firmware, NOK where it refuses it,
    UNKNOWN where it cannot tell, NOT SUPPORT for a user who is not root. `failure` is what the tool could not find out.
    """

    npu_id: int | None = None
    chip_id: int | None = None
    chip_type: str | None = None
    chip_name: str | None = None
    chip_version: str | None = None
    board_id: str | None = None
    pcie_bus: str | None = None
    firmware_version: str | None = None
    compatibility: str | None = None
    main_board_id: str | None = None
    slot_id: str | None = None
    chip_count: int | None = None
    software_version: str | None = None
    product_name: str | None = None
    npu_name: str | None = None
    serial_number: str | None = None
    pcb_id: str | None = None
    bom_id: str | None = None
    failure: str | None = None


@record(frozen=True, kw_only=True)
class ListedNpu:
    """One NPU of `-l`; servers name only the number of its chips, 950 only its product and serial number."""

    npu_id: int
    product_name: str | None = None
    serial_number: str | None = None
    chip_count: int | None = None


@record(frozen=True)
class NpuList:
    """The output of `npu-smi info -l`: a lost NPU is counted and has the number -1.

    `failure` is what the tool could not find out.
    """

    total: int | None
    npus: tuple[ListedNpu, ...]
    failure: str | None = None


@record(frozen=True, kw_only=True)
class MapRow:
    """One chip, or the MCU of an NPU, in `-m`. `logic_id` is what a job calls the chip; an MCU has none.

    A3 adds `phy_id`; 950 has `slot_id` and `phy_id` and no `logic_id`.
    """

    npu_id: int
    chip_id: int | None = None
    logic_id: int | None = None
    phy_id: int | None = None
    slot_id: int | None = None
    name: str | None = None


@record(frozen=True)
class NpuMap:
    """The output of `npu-smi info -m`."""

    rows: tuple[MapRow, ...]


@record(frozen=True)
class ToolVersion:
    """A version that npu-smi prints: its own (`component` is None), or that of an NPU's mcu."""

    version: str
    component: str | None = None


def fields_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each key of a page with the lines of its value, in order, repeated keys too.

    A value goes on in lines that have no key, or that stand further in than its key.
    """
    key, value, margin = "", [""], 0
    for line in filter(str.strip, lines_of(text)):
        found = re.fullmatch(_FIELD, line.rstrip())
        indent = len(line) - len(line.lstrip())
        if key and not found and (line.lstrip().startswith(":") or indent > margin + 1):
            value.append(line.strip(" \t:"))
            continue
        if key:
            yield key, value
        key, value, margin = ("", [""], 0) if not found or found[1] == "Usage" else (found[1], [found[2]], indent)
    if key:
        yield key, value


def parse_fields(text: str) -> dict[str, str | None]:
    """A page as a mapping, keys as printed; of a repeated key, as in the block of the MCU, the first."""
    found: dict[str, str | None] = {}
    for key, value in fields_of(text):
        found.setdefault(key, word("\n".join(value)))
    if not found:
        raise not_a_page("this is not a page of keys and values", text)
    return found


_BOARD = {
    "npu_id": "NPU ID",
    "chip_id": "Chip ID",
    "chip_count": "Chip Count",
    "chip_type": "Chip Type",
    "chip_name": "Chip Name",
    "chip_version": "Chip Version",
    "board_id": "Board ID",
    "pcie_bus": "PCIe Bus Info",
    "firmware_version": "Firmware Version",
    "compatibility": "Compatibility",
    "main_board_id": "Main Board ID",
    "slot_id": "Slot ID",
    "software_version": "Software Version",
    "product_name": "Product Name",
    "npu_name": "NPU Name",
    "serial_number": "Serial Number",
    "pcb_id": "PCB ID",
    "bom_id": "BOM ID",
}
_NUMBERS = ("npu_id", "chip_id", "chip_count")
_LISTED = {"NPU ID", "Product Name", "Serial Number", "Chip Count"}
_OF_A_BOARD = set(_BOARD.values()) - _LISTED - {"Chip ID", "Chip Name", "Slot ID"}


def parse_board(text: str) -> Board:
    """Read a page of `npu-smi info -t board`."""
    page: dict[str, str | None] = {}
    for key, (value, *_) in fields_of(text):
        page.setdefault(key, word(value))
    if not page.keys() & _OF_A_BOARD:
        raise not_a_page("this is not a page of npu-smi info -t board", text)
    texts = {name: page.get(title) for name, title in _BOARD.items() if name not in _NUMBERS}
    npu_id, chip_id, chip_count = (integer(page.get(_BOARD[name])) for name in _NUMBERS)
    return Board(npu_id=npu_id, chip_id=chip_id, chip_count=chip_count, failure=line_of_failure(text), **texts)


def parse_list(text: str) -> NpuList:
    """Read the output of `npu-smi info -l`."""
    if _NO_CARD in text:
        return NpuList(0, ())
    total: int | None = None
    npus: list[dict[str, str | None]] = []
    for key, (value, *_) in fields_of(text):
        if key in ("Total Count", "Card Count"):
            total = integer(value)
        elif key == "NPU ID":
            npus.append({key: value})
        elif npus:
            npus[-1].setdefault(key, word(value))
    if total is None and (not npus or any(npu.keys() - _LISTED or len(npu) == 1 for npu in npus)):
        raise not_a_page("this is not a list of npu-smi info -l", text)
    listed = (
        ListedNpu(
            npu_id=npu_id,
            product_name=npu.get("Product Name"),
            serial_number=npu.get("Serial Number"),
            chip_count=integer(npu.get("Chip Count")),
        )
        for npu in npus
        if (npu_id := integer(npu["NPU ID"])) is not None
    )
    return NpuList(total, tuple(listed), line_of_failure(text))


_MAP_TITLES = {
    "NPU ID": "npu_id",
    "Slot ID": "slot_id",
    "Chip ID": "chip_id",
    "Chip Logic ID": "logic_id",
    "Chip Phy-ID": "phy_id",
    "Chip Name": "name",
}
# Texts and not patterns: what a healthy node never needs is not compiled each time a check starts.
_MAP_TITLE = "|".join(title.replace(" ", r"\s+") for title in sorted(_MAP_TITLES, key=len, reverse=True))


def parse_map(text: str) -> NpuMap:
    """Read the output of `npu-smi info -m`; of its columns only the last, the name, holds blanks."""
    if _NO_CARD in text:
        return NpuMap(())
    columns: list[str] = []
    rows: list[MapRow] = []
    for line in lines_of(text):
        titles = [_MAP_TITLES[" ".join(title.split())] for title in re.findall(_MAP_TITLE, line)]
        if "npu_id" in titles and "chip_id" in titles:
            columns = titles
            continue
        cells = dict(zip(columns, line.split(None, max(0, len(columns) - 1)), strict=False))
        ids = {column: integer(cells.get(column)) for column in ("chip_id", "logic_id", "phy_id", "slot_id")}
        if (npu_id := integer(cells.get("npu_id"))) is not None:
            rows.append(MapRow(npu_id=npu_id, name=word(cells.get("name")), **ids))
    if not columns:
        raise not_a_page("this is not a table of npu-smi info -m", text)
    return NpuMap(tuple(rows))


def parse_tool_version(text: str) -> ToolVersion:
    """Read `npu-smi -v`, or the bare line of `npu-smi upgrade -b mcu`."""
    for line in lines_of(text):
        found = re.fullmatch(r"\s*(npu-smi\s+)?version\s*:\s*(\S+)\s*", line, re.IGNORECASE)
        if found and word(found[2]):
            return ToolVersion(found[2], None if found[1] else "mcu")
    raise not_a_page("this is not a version of npu-smi", text)
