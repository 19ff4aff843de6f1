"""Chips that answer nothing, which npu-smi shows with OK and zeros."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.facts.node.chips import subject_of
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.sdk import Evidence, Finding

from ._reset import Reset
from .messages import npu as messages

DRIVER_LINES = "dmesg | grep -i -e davinci -e devdrv | tail -40"


def _total(chip: Chip) -> int | None:
    """The larger of the memories that its row shows, in MB; None where it shows none."""
    return max((size for size in (chip.hbm_total_mb, chip.mem_total_mb) if size is not None), default=None)


def is_silent(chip: Chip, chips: Sequence[Chip]) -> bool:
    """Whether a row has zeros for values: beside chips with memory, or all over the row of one that measures heat."""
    if _total(chip) != 0 and not (chip.hbm_total_mb == 0 and any(one.hbm_total_mb for one in chips)):
        return False
    measures = chip.temp_c == 0 and not chip.power_w
    return measures or any(_total(one) for one in chips)


def silent_chips(info: NpuSmiInfo | None) -> set[str]:
    """The chips, by subject, about which npu.health says that they answer nothing."""
    rows = info.npus if info is not None else ()
    return {subject_of(chip, rows) for chip in rows if chip.says_ok and is_silent(chip, rows)}


def silent_finding(chip: Chip, info: NpuSmiInfo, reset: Reset, subject: str) -> Finding:
    """The finding of such a chip, with its reset."""
    totals = [total for one in info.npus if (total := _total(one))]
    expected = messages.MEMORY_OF_PEERS.text(total_mb=max(totals)) if totals else messages.SOME_MEMORY.text()
    zeros = messages.ZEROS.text(celsius=chip.temp_c or 0, watts=chip.power_w or 0.0)
    return messages.SILENT.finding(
        subject=subject,
        chip=chip.name or messages.CHIP.text(),
        health=chip.health,
        hint=reset.after(messages.RESET_THE_SILENT.text()),
        commands=(f"npu-smi info -t usages -i {chip.npu_id}", DRIVER_LINES, *reset.commands),
        evidence=(Evidence(source=info.shown_by, expected=expected, actual=zeros),),
    )
