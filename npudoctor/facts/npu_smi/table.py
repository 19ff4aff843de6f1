"""The tables of `npu-smi info`: the chips, and the processes on them.

Every chip takes two rows, an upper one that begins with the NPU and a lower one that begins with the chip. Columns are
known by the words of the headers; widths, borders and blanks differ from driver to driver and mean nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from npudoctor.facts.cells import integer, lines_of, parse_decimal, refusal, word
from npudoctor.facts.npu_smi.columns import (
    Layout,
    cell_of,
    columns_of,
    implied_lower,
    implied_process,
    implied_upper,
    values_of,
)
from npudoctor.facts.npu_smi.failure import not_a_page
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Chip:
    """One chip of an NPU. None is what the table does not show; of half a chip only the upper row is known.

    `power_w` in watts, `temp_c` in degrees Celsius, memories in MiB, huge pages in pages, `aicore_pct` in percent.
    A power or temperature of 0 means that it is not measured. `device_id` is the Device column of 310, 310P and 310B,
    `phy_id` the Phy-ID column of A3; `chip_id` is None on 950, which has no chip numbers.
    """

    npu_id: int
    chip_id: int | None = None
    device_id: int | None = None
    phy_id: int | None = None
    name: str | None = None
    health: str | None = None
    power_w: float | None = None
    temp_c: int | None = None
    hugepages_used: int | None = None
    hugepages_total: int | None = None
    bus_id: str | None = None
    aicore_pct: int | None = None
    mem_used_mb: int | None = None
    mem_total_mb: int | None = None
    hbm_used_mb: int | None = None
    hbm_total_mb: int | None = None

    @property
    def says_ok(self) -> bool | None:
        """Whether npu-smi's word for its health is OK, whatever the case; None where it shows none."""
        return None if self.health is None else self.health.upper() == "OK"


@record(frozen=True, kw_only=True)
class NpuProcess:
    """A process on a chip: `pid` is the host's, `container_pid` (driver 26 and later) the one in its container.

    `memory_mb` is in MiB. `name` is cut at 15 characters by the tool, and None where the tool could not read it.
    """

    npu_id: int
    pid: int
    chip_id: int | None = None
    name: str | None = None
    memory_mb: int | None = None
    container_pid: int | None = None


@record(frozen=True, kw_only=True)
class NpuSmiInfo:
    """What `npu-smi info` shows. `idle_npus` is None where it shows no table of processes at all."""

    tool_version: str | None = None
    driver_version: str | None = None
    npus: tuple[Chip, ...] = ()
    processes: tuple[NpuProcess, ...] = ()
    idle_npus: tuple[int, ...] | None = None

    @property
    def source(self) -> str:
        """Which source it is from: npu-smi, or dcmi for the driver's library."""
        return "npu-smi"

    @property
    def shown_by(self) -> str:
        """What findings name as the source of a value."""
        return "npu-smi info"


_VERSIONS = r"npu-smi\s+(?:(\S+)\s+)?Version\s*:\s*(\S*)"
_IDLE = r"No running processes found in NPU\s*([0-9]{1,9})\b"
_BARS = str.maketrans("│┃｜", "|||")
_DIGIT = re.compile("[0-9]")
_TEXT = r"\w"


def parse_info(text: str) -> NpuSmiInfo:
    """Read the output of `npu-smi info`; raises ParseError where neither a header nor a row reports the chips."""
    lines = lines_of(text)
    last = max((number for number, line in enumerate(lines, 1) if line.strip()), default=0)
    table = _Table()
    for number, line in enumerate(lines, 1):
        table.read(number, line, is_last=number == last)
    return table.result(lines)


_OF_A_SLICE = "vir"
"""What the name of a vNPU contains, the beginning of its template."""


class _Table:
    """Reads line by line. `_waiting` is the upper half of a chip whose lower half is still to come."""

    def __init__(self) -> None:
        self._versions: tuple[str | None, str | None] = (None, None)
        self._upper: Layout | None = None
        self._lower: Layout | None = None
        self._process: Layout | None = None
        self._foreign = False
        self._unread: int | None = None
        self._waiting: Mapping[str, str] | None = None
        self._chips: dict[tuple[int, int | None, bool, int], Chip] = {}
        self._slices: Counter[tuple[int, int | None, bool]] = Counter()
        self._processes: dict[tuple[int, int | None, int], NpuProcess] = {}
        self._idle: dict[int, None] | None = None

    def read(self, number: int, line: str, *, is_last: bool) -> None:
        cells = _cells(line, is_last=is_last)
        if cells:
            self._row(number, cells)
        elif line.strip() and (not re.search(_TEXT, line) or ".." in line or "…" in line):
            self._close()

    def result(self, lines: Sequence[str]) -> NpuSmiInfo:
        self._close()
        whole = {npu_id for npu_id, _, complete, _ in self._chips if complete}
        chips = tuple(chip for (npu_id, _, complete, _), chip in self._chips.items() if complete or npu_id not in whole)
        if not chips and (self._unread or not self._upper):
            if self._unread:
                raise refusal("no row of a chip is understood", lines, self._unread)
            raise not_a_page("this is not a table of npu-smi info", "\n".join(lines))
        busy = {process.npu_id for process in self._processes.values()}
        return NpuSmiInfo(
            tool_version=self._versions[0],
            driver_version=self._versions[1],
            npus=chips,
            processes=tuple(self._processes.values()),
            idle_npus=None if self._idle is None else tuple(npu_id for npu_id in self._idle if npu_id not in busy),
        )

    def _row(self, number: int, cells: list[str]) -> None:
        if versions := re.search(_VERSIONS, cells[0]):
            self._versions = word(versions[1]), word(versions[2])
        elif idle := re.search(_IDLE, cells[0]):
            self._close()
            self._idle = {**(self._idle or {}), int(idle[1]): None}
        elif not any(map(_DIGIT.search, cells)):
            self._header(number, cells)
        elif not self._foreign and not self._process_row(cells):
            self._half(number, cells)

    def _header(self, number: int, cells: list[str]) -> None:
        layout = [columns_of(cell) for cell in cells]
        self._close()
        self._foreign = False
        if ("pid",) in layout:
            self._process, self._idle = layout, self._idle or {}
        elif ("health",) in layout and any("npu_id" in columns for columns in layout):
            self._upper = layout
            self._slices.clear()
        elif ("bus_id",) in layout:
            self._lower = layout
        elif len(layout) > 1:
            self._foreign, self._unread = True, self._unread or number

    def _process_row(self, cells: list[str]) -> bool:
        """Whether this is the row of a process: its pid stands alone in a cell, as nothing does in a chip's rows."""
        layout = self._process or implied_process(cells)
        place = layout.index(("pid",))
        if len(cells) < 4 or place >= len(cells) or integer(cells[place]) is None:
            return False
        surplus = len(cells) - len(layout)
        if surplus > 0 and ("name",) in layout:  # a bar in the name of the process
            name = layout.index(("name",))
            cells = [*cells[:name], "|".join(cells[name : name + surplus + 1]), *cells[name + surplus + 1 :]]
        values = values_of(layout, cells)
        npu_id, pid, chip_id = (integer(values.get(column)) for column in ("npu_id", "pid", "chip_id"))
        if npu_id is not None and npu_id >= 0 and pid is not None:
            self._idle = self._idle or {}
            self._processes[npu_id, chip_id, pid] = NpuProcess(
                npu_id=npu_id,
                pid=pid,
                chip_id=chip_id,
                name=word(values.get("name")),
                memory_mb=integer(values.get("memory_mb")),
                container_pid=integer(values.get("container_pid")),
            )
        return True

    def _half(self, number: int, cells: list[str]) -> None:
        upper, lower = self._upper or implied_upper(cells), self._lower or implied_lower(cells)
        health, bus = cell_of(upper, "health", cells), cell_of(lower, "bus_id", cells)
        is_lower = ":" in bus or (self._waiting is not None and not _is_upper(word(health), upper, cells))
        layout = lower if is_lower else upper
        values = values_of(layout, cells)
        if len(cells) > len(layout) or not (is_lower or _tells_of_a_chip(values)):
            self._unread = self._unread or number
        elif not is_lower:
            self._close()
            self._waiting = values
        elif self._waiting is None:
            self._unread = self._unread or number
        else:
            self._keep({**self._waiting, **values}, complete=True)
            self._waiting = None

    def _close(self) -> None:
        """Whatever follows is not the lower half of the chip that waits."""
        if self._waiting is not None:
            self._keep(self._waiting, complete=False)
            self._waiting = None

    def _keep(self, values: Mapping[str, str], *, complete: bool) -> None:
        chip = Chip(**{column: read(values.get(column)) for column, read in _READ.items()})
        place = (chip.npu_id, chip.chip_id, complete)
        self._chips[(chip.npu_id, chip.chip_id, complete, self._slices[place])] = chip
        self._slices[place] += _OF_A_SLICE in (chip.name or "").lower()  # two of one chip have the same numbers


_READ: Mapping[str, Callable[[str | None], Any]] = {
    field.name: word
    if field.name in ("name", "health", "bus_id")
    else parse_decimal
    if field.name == "power_w"
    else integer
    for field in fields(Chip)
}


def _is_upper(health: str | None, upper: Layout, cells: list[str]) -> bool:
    """Whether a row after an upper half is one too; where both halves have a word in the same cell (UNKNOWN, as health
    or for an address), the upper one names its chip, and the lower one has numbers below a hundred there."""
    if health is None or health.upper() in ("OK", "WARNING", "ALARM", "CRITICAL"):
        return health is not None
    name = word(values_of(upper, cells).get("name"))
    number = integer(name)
    return name is not None and (number is None or number >= 100)


def _tells_of_a_chip(upper: Mapping[str, str]) -> bool:
    npu_id = integer(upper.get("npu_id"))
    measured = word(upper.get("health")) is not None or integer(upper.get("temp_c")) is not None
    return npu_id is not None and npu_id >= 0 and measured


def _cells(line: str, *, is_last: bool) -> list[str]:
    """The cells of a row; none for any other line. The last row of a text may be cut: what no bar closes is dropped."""
    row = line.translate(_BARS).strip(" \t>#\\`")
    if not row.startswith("|") or not re.search(_TEXT, row):
        return []
    cells = [cell.strip(" \t\\") for cell in row.split("|")[1:]]
    return cells[:-1] if is_last or not cells[-1] else cells
