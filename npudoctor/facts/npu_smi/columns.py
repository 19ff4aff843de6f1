"""The columns of npu-smi's tables, known by the words of their headers and never by their place on the line."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from npudoctor.facts.cells import word

Columns = tuple[str | None, ...]
"""The columns that share one cell; None is a column that is unknown."""
Layout = Sequence[Columns]

_TITLES = {
    "NPU": "npu_id",
    "NPU ID": "npu_id",
    "Name": "name",
    "Health": "health",
    "Power(W)": "power_w",
    "Temp(C)": "temp_c",
    "Hugepages-Usage(page)": "hugepages",
    "Chip": "chip_id",
    "Chip ID": "chip_id",
    "Device": "device_id",
    "Phy-ID": "phy_id",
    "Bus-Id": "bus_id",
    "AICore(%)": "aicore_pct",
    "NPU Util(%)": "aicore_pct",
    "Memory-Usage(MB)": "mem",
    "HBM-Usage(MB)": "hbm",
    "Process id": "pid",
    "Process name": "name",
    "Process memory": "memory_mb",
    "Process memory(MB)": "memory_mb",
    "Process id in container": "container_pid",
}
_COLUMN_OF = {title.replace(" ", "").lower(): column for title, column in _TITLES.items()}
_PAIRS = {
    "hugepages": ("hugepages_used", "hugepages_total"),
    "mem": ("mem_used_mb", "mem_total_mb"),
    "hbm": ("hbm_used_mb", "hbm_total_mb"),
}
_GAP = r"\s{2,}"
_VALUE = r"([^\s/]+)\s*/\s*([^\s/]+)|(\S+)"


@functools.cache
def _title() -> re.Pattern[str]:
    """A pasted header may be folded in the middle of a word, hence blanks anywhere; slow to make, seldom needed."""
    return re.compile(
        r"(?<!\S)(?:"
        + "|".join(r"\s*".join(map(re.escape, title)) for title in sorted(_COLUMN_OF, key=len, reverse=True))
        + r"|[^\s(]+(?: [^\s(]+){0,3}\([^\s)]*\)|\S+)(?!\S)",
        re.IGNORECASE,
    )


def columns_of(cell: str) -> Columns:
    """The columns that a cell of a header names."""
    printed = [_COLUMN_OF.get("".join(title.split()).lower()) for title in re.split(_GAP, cell.strip())]
    if None not in printed:
        return tuple(printed)
    return tuple(_COLUMN_OF.get("".join(title.split()).lower()) for title in _title().findall(cell))


def cell_of(layout: Layout, column: str, cells: Sequence[str]) -> str:
    """What a row has in the cell of a column that shares its cell with no other; blank where there is none."""
    place = layout.index((column,)) if (column,) in layout else len(cells)
    return cells[place] if place < len(cells) else ""


def values_of(layout: Layout, cells: Sequence[str]) -> dict[str, str]:
    """What a row has in each column, by the names of the fields of a chip or a process."""
    found: dict[str, str] = {}
    for columns, cell in zip(layout, cells, strict=False):
        for column, value in _match_cells(columns, cell.replace("N/A", "NA")):
            if column:
                found.update(zip(_PAIRS.get(column, (column,)), value, strict=False))
    return found


def _match_cells(columns: Columns, cell: str) -> Iterable[tuple[str | None, tuple[str, ...]]]:
    """What each column of a cell has in it, a pair where it reads `used / total`; nothing where that is not clear."""
    if len(columns) == 1 and columns[0] not in _PAIRS:
        return [(columns[0], (cell,))]
    if columns[-1:] == ("name",):
        return [(column, (text,)) for column, text in zip(columns, cell.split(None, len(columns) - 1), strict=False)]
    values = [(used, total) if total else (single,) for used, total, single in re.findall(_VALUE, cell)]
    if len(values) == len(columns) and all(
        (len(value) == 2) is (column in _PAIRS) or word(value[0]) is None
        for column, value in zip(columns, values, strict=True)
    ):
        return zip(columns, values, strict=True)
    matched: list[tuple[str | None, tuple[str, ...]]] = []
    for paired in (False, True):
        wanted = [column for column in columns if (column in _PAIRS) is paired]
        there = [value for value in values if (len(value) == 2) is paired]
        matched += zip(wanted, there, strict=True) if len(wanted) == len(there) else ()
    return matched


def implied_upper(cells: Sequence[str]) -> Layout:
    """The columns of an upper row whose header is lost: with the name in a cell of its own on 950."""
    name: Layout = (("npu_id", "name"),) if len(cells) < 4 else (("npu_id",), ("name",))
    return (*name, ("health",), ("power_w", "temp_c", "hugepages"))


def implied_lower(cells: Sequence[str]) -> Layout:
    """The columns of a lower row whose header is lost: chips with HBM show two memories, and Phy-ID, not Device."""
    memories = cells[-1].count("/")
    chip = ("chip_id", "phy_id" if memories > 1 else "device_id")[: len(cells[0].split())]
    blank: Layout = ((),) * (len(cells) - 3)
    return (chip, *blank, ("bus_id",), ("aicore_pct", "mem", "hbm")[: memories + 1])


def implied_process(cells: Sequence[str]) -> Layout:
    """The columns of the row of a process whose header is lost: 950 has no chip, driver 26 a fifth cell."""
    npu = ("npu_id", "chip_id")[: len(cells[0].split())]
    return (npu, ("pid",), ("name",), ("memory_mb",), ("container_pid",))[: max(4, len(cells))]
