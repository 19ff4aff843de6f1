"""Whether the table of `npu-smi info` is whole: one that was cut must not read like NPUs that are missing."""

from __future__ import annotations

import re

from npudoctor.facts.cells import lines_of
from npudoctor.facts.npu_smi.table import NpuSmiInfo

_BORDER = re.compile(r"(?=[|\s]*[+=\-─━═])[+|=\-─━═\s]*")
_IN_TABLE = re.compile(r"[|│┃｜+=\-─━═]")
_SHOWS_PROCESSES_FROM = 23
"""From this major version on every npu-smi ends with a table of processes."""


def is_cut(text: str, info: NpuSmiInfo) -> bool:
    """Whether the output ends before its table does: without its last border, or with a piece of it.

    What stands around the table, as messages of the driver do, is no part of it. A text that was copied without its
    last line, and speaks of the processes on every NPU, is whole.
    """
    lines = [row for line in lines_of(text) if _IN_TABLE.match(row := line.strip())]
    if not lines:
        return False
    borders = [line for line in lines if _BORDER.fullmatch(line)]
    if _BORDER.fullmatch(lines[-1]) and len(lines[-1]) >= len(borders[0]):
        return False
    if info.idle_npus is None or lines[-1][-1] not in "|│┃｜":
        return True
    told_of = {*info.idle_npus, *(process.npu_id for process in info.processes)}
    return any(chip.npu_id not in told_of for chip in info.npus)


def lacks_processes(info: NpuSmiInfo) -> bool:
    """Whether the table ends before a chip or, where this npu-smi shows them, before the processes: it may be cut at
    a border between two chips."""
    major = re.match(r"[0-9]{1,4}", info.tool_version or "")
    newer = major is not None and int(major[0]) >= _SHOWS_PROCESSES_FROM
    return not info.npus or (newer and info.idle_npus is None and not info.processes)
