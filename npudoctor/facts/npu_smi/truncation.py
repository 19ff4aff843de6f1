"""Whether the table of `npu-smi info` is whole: one that was cut must not read like NPUs that are missing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from npudoctor.facts.cells import lines_of
from npudoctor.facts.npu_smi.table import NpuSmiInfo

_BORDER = r"(?=[|\s]*[+=\-─━═])[+|=\-─━═\s]*"
_DOUBLE = re.compile("[=═]")
_IN_TABLE = r"[|│┃｜+=\-─━═]"
_SHOWS_PROCESSES_FROM = 23
"""From this major version on every npu-smi ends with a table of processes."""


def is_cut(text: str, info: NpuSmiInfo) -> bool:
    """Whether the output ends before its table does: without its last border, with a piece of it, between two chips of
    an NPU, or before the processes of several NPUs.

    What stands around the table, as messages of the driver do, is no part of it. A text that was copied without its
    last line, and speaks of the processes on every NPU, is whole.
    """
    lines = [row for line in lines_of(text) if re.match(_IN_TABLE, row := line.strip())]
    if not lines:
        return False
    borders = [line for line in lines if re.fullmatch(_BORDER, line)]
    if re.fullmatch(_BORDER, lines[-1]) and len(lines[-1]) >= len(borders[0]):
        silent = _last_without_processes(info)
        return (
            _ends_within_an_npu(borders, info)
            or len(silent) > 1
            or silent == {one.npu_id for one in info.npus} != set()
        )
    if info.idle_npus is None or lines[-1][-1] not in "|│┃｜":
        return True
    return bool(_without_processes(info))


def _ends_within_an_npu(borders: Sequence[str], info: NpuSmiInfo) -> bool:
    """A double line ends the table of chips, a single one stands between the chips of one NPU."""
    chips_alone = info.npus and info.idle_npus is None
    return bool(chips_alone) and any(map(_DOUBLE.search, borders)) and not _DOUBLE.search(borders[-1])


def _without_processes(info: NpuSmiInfo) -> set[int]:
    """The NPUs of which the table of processes says nothing, not even that they have none."""
    return {chip.npu_id for chip in info.npus} - {*(info.idle_npus or ()), *(one.npu_id for one in info.processes)}


def _last_without_processes(info: NpuSmiInfo) -> set[int]:
    """Those at the end of a table of processes that has begun. A single one of several is no proof: lists that people
    shorten lack one, and of an NPU that is not OK the tool may say nothing."""
    silent = _without_processes(info) if info.idle_npus is not None else set()
    last = itertools.takewhile(lambda chip: chip.npu_id in silent, reversed(info.npus))
    return {chip.npu_id for chip in last if chip.says_ok}


def lacks_processes(info: NpuSmiInfo) -> bool:
    """Whether the table ends before a chip or, where this npu-smi shows them, before the processes: it may be cut at
    a border between two chips."""
    major = re.match(r"[0-9]{1,4}", info.tool_version or "")
    newer = major is not None and int(major[0]) >= _SHOWS_PROCESSES_FROM
    return not info.npus or (newer and info.idle_npus is None and not info.processes)
