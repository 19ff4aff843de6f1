"""What an idle chip has in use."""

from __future__ import annotations

from npudoctor import knowledge
from npudoctor.facts.node.chips import memory_of
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.npu_smi import NpuSmiInfo


def baseline_mb(info: NpuSmiInfo, holders: CardHolders | None, total: int) -> int:
    """What an idle chip of this node uses: the median of those without a process, else what the table says."""
    limit = knowledge.hardware().idle_limit_mb(total)
    idle = sorted(
        used
        for chip in info.npus
        for used, size in (memory_of(chip),)
        if used is not None
        and size == total
        and used <= limit
        and not (holders and holders.on(chip.npu_id, chip.chip_id))
    )
    if idle:
        return idle[(len(idle) - 1) // 2]
    return min(knowledge.hardware().idle_rule.reserve_mb, limit)
