"""The smoke run of a simulated node: nothing trains there, so its events are made up, and say so.

They are those of a run on which all is well; what is wrong with a simulated node shows in its other answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.smoke import STAGES
from npudoctor.host import Completed
from npudoctor.sim.node import Chip, Node

STEPS = 30
_SIZES = tuple(8 << (2 * power) for power in range(13))
_TAKEN_MB = 940
_OF_310P = ("launch", "rendezvous", "collectives", "memory-seen")


def answer(node: Node) -> Completed:
    """What `npudoctor smoke --format jsonl` would print there."""
    chips = [chip for chip in node.seen("npu-smi") if chip.health == "OK"]
    held = {card for process in node.processes.values() for card, _, _ in process.holds}
    free = [chip for chip in chips if chip.npu not in held]
    if not free:
        why = "every card is held by a process or is not healthy" if chips else "there is no card on this node"
        return Completed(returncode=3, stderr=f"npudoctor: {why}\n", seconds=1.0)
    lines = (json.dumps(event) + "\n" for event in _events(node, free))
    return Completed(returncode=0, stdout="".join(lines), seconds=20.0)


def _events(node: Node, chips: list[Chip]) -> Iterator[Mapping[str, Any]]:
    ranks = range(len(chips))
    several = len({chip.npu for chip in chips}) < len(chips)
    names = [f"npu:{chip.npu}/chip:{chip.chip}" if several else f"npu:{chip.npu}" for chip in chips]
    stages = [stage for stage in STAGES if node.product.family != "310P" or stage in _OF_310P]
    yield {
        "event": "planned",
        "at_s": 0.0,
        "device": "npu",
        "backend": "hccl",
        "world_size": len(chips),
        "ranks": [{"rank": one, "local_rank": one, "device": f"npu:{one}", "card": names[one]} for one in ranks],
        "size": "small",
        "steps": STEPS,
        "dtype": "fp32",
        "strategy": "ddp",
        "launcher": "direct",
        "python": "python",
        "family": node.product.family,
        "deadlines_s": dict.fromkeys(stages, 120.0),
        "notes": ["this node is simulated: no rank trained on it"],
        "simulated": True,
    }
    for place, stage in enumerate(stages):
        for rank in ranks:
            at = {"event": "rank-stage", "at_s": 2.0 * (place + 1), "rank": rank, "stage": stage}
            yield {**at, "outcome": "ok", "seconds": 2.0}
    if "training" in stages:
        yield from _training(len(chips))
        yield from _bandwidth(node.product.family, len(chips))
    for name, chip in zip(names, chips, strict=True):
        used = float(chip.hbm_own_mb or chip.mem_used_mb)
        value = {"card": name, "before_mb": used, "during_mb": used + _TAKEN_MB}
        yield {"event": "measured", "at_s": 18.0, "name": "card-memory", "value": value}
    yield {"event": "ended", "at_s": 20.0, "interrupted": False, "timed_out": False, "left_behind": []}


def _training(ranks: int) -> Iterator[Mapping[str, Any]]:
    curve = [round(2.4 * math.exp(-step / 4) + 0.01, 6) for step in range(STEPS)]
    for rank in range(ranks):
        for step, loss in enumerate(curve):
            yield {"event": "loss", "at_s": 10.0, "rank": rank, "step": step, "loss": loss, "seconds": 0.004}
        yield from (
            {"event": "measured", "at_s": 12.0, "rank": rank, "name": name, "value": value}
            for name, value in (("digest", "simulated"), ("local_step_s", 0.002), ("together_s", 0.0024))
        )
    for name, value in (("reference", curve), ("alone_s", 0.002)):
        yield {"event": "measured", "at_s": 14.0, "rank": 0, "name": name, "value": value}


def _bandwidth(family: str, ranks: int) -> Iterator[Mapping[str, Any]]:
    """As published for this family and so many ranks; nothing where nothing trustworthy is."""
    limits = knowledge.baselines().smoke.threshold(family, ranks)
    for size in _SIZES if limits else ():
        assert limits is not None
        bus = limits[0] / 0.6 * size / (size + (8 << 20))
        algorithm = bus * ranks / (2 * (ranks - 1))
        yield {
            "event": "bandwidth",
            "at_s": 8.0,
            "size_bytes": size,
            "dtype": "fp16",
            "calls": 10,
            "seconds": size / algorithm / 1e9,
            "algorithm_gb_s": algorithm,
            "bus_gb_s": bus,
        }
