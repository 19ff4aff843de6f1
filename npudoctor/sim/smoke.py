"""The smoke run of a simulated node: nothing trains there, so its events are made up, and say so.

They are those of a run in which every rank imports torch_npu as it would there, and then nothing fails.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.node.smoke import STAGES
from npudoctor.host import Completed
from npudoctor.sim.node import Chip, Node

STEPS = 30
STAGE_S = 2.0
_SIZES = tuple(8 << (2 * power) for power in range(13))
HOT_C = 95
"""Chips at or above this temperature in degrees Celsius are not used."""

_TAKEN_MB = 940
_OF_310P = ("launch", "rendezvous", "collectives", "memory-seen")


def answer(node: Node, import_error: str | None) -> Completed:
    """What `npudoctor smoke --format jsonl` would print there, where `import torch_npu` ends with this error."""
    chips = [chip for chip in node.chips_at("npu-smi") if _is_healthy(node, chip)]
    held = {card for process in node.processes.values() for card, _, _ in process.holds}
    free = [chip for chip in chips if chip.npu not in held]
    if not free:
        why = "all NPUs are busy or unhealthy" if chips else "no NPU found on this node"
        return Completed(returncode=3, stderr=f"npudoctor: {why}\n", seconds=1.0)
    events = sorted(_events(node, free, import_error), key=lambda event: float(event["at_s"]))
    lines = [json.dumps(event) + "\n" for event in events]
    return Completed(returncode=1 if import_error else 0, stdout="".join(lines), seconds=20.0)


def _is_healthy(node: Node, chip: Chip) -> bool:
    """Whether npudoctor would use this chip: nothing on the node shows that it is broken or gone."""
    there = "device-node" not in chip.missing and ("pci" not in chip.missing or node.scenario.container is not None)
    return (
        there and chip.health in ("OK", "Warning") and chip.temp_c < HOT_C and not chip.ecc_double and not chip.silent
    )


def _events(node: Node, chips: list[Chip], import_error: str | None) -> Iterator[Mapping[str, Any]]:
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
        "python": f"{node.scenario.python.prefix}/bin/python3",
        "family": node.product.family,
        "deadlines_s": dict.fromkeys(stages, 120.0),
        "notes": ["this node is simulated: no rank trained on it"],
        "simulated": True,
    }
    if import_error:
        yield from (_without_torch_npu(rank, names[rank], import_error) for rank in ranks)
        stages = []
    for place, stage in enumerate(stages):
        for rank in ranks:
            at = {"event": "rank-stage", "rank": rank, "stage": stage}
            yield {**at, "at_s": STAGE_S * place, "outcome": "running"}
            yield {**at, "at_s": STAGE_S * (place + 1), "outcome": "ok", "seconds": STAGE_S}
    if "training" in stages:
        yield from _training(len(chips), STAGE_S * stages.index("training"))
        yield from _bandwidth(node.product.family, len(chips), STAGE_S * stages.index("bandwidth"))
    for name, chip in zip(names, chips, strict=True) if stages else ():
        used = float(chip.hbm_own_mb or chip.mem_used_mb)
        value = {"card": name, "before_mb": used, "during_mb": used + _TAKEN_MB}
        yield {"event": "measured", "at_s": 18.0, "name": "card-memory", "value": value}
    yield {
        "event": "ended",
        "at_s": 20.0 if stages else 3.0,
        "interrupted": False,
        "timed_out": False,
        "left_behind": [],
    }


def _without_torch_npu(rank: int, card: str, error: str) -> Mapping[str, Any]:
    at = {"event": "rank-failed", "at_s": STAGE_S / 2, "rank": rank, "card": card, "stage": "launch"}
    return {**at, "cause": "exception", "first": True, "exit_code": 1, "doing": "import torch_npu", "message": error}


def _training(ranks: int, begin_s: float) -> Iterator[Mapping[str, Any]]:
    curve = [round(2.4 * math.exp(-step / 4) + 0.01, 6) for step in range(STEPS)]
    for rank in range(ranks):
        for step, loss in enumerate(curve):
            at_s = begin_s + STAGE_S * step / STEPS
            yield {"event": "loss", "at_s": at_s, "rank": rank, "step": step, "loss": loss, "seconds": 0.004}
        yield from (
            {"event": "measured", "at_s": begin_s + STAGE_S, "rank": rank, "name": name, "value": value}
            for name, value in (("digest", "simulated"), ("local_step_s", 0.002), ("together_s", 0.0024))
        )
    for name, value in (("reference", curve), ("alone_s", 0.002)):
        yield {"event": "measured", "at_s": begin_s + STAGE_S, "rank": 0, "name": name, "value": value}


def _bandwidth(family: str, ranks: int, begin_s: float) -> Iterator[Mapping[str, Any]]:
    """As published for this family and so many ranks; nothing where nothing trustworthy is."""
    limits = knowledge.baselines().smoke.threshold(family, ranks)
    for place, size in enumerate(_SIZES if limits else ()):
        assert limits is not None
        bus = limits[0] / 0.6 * size / (size + (8 << 20))
        algorithm = bus * ranks / (2 * (ranks - 1))
        yield {
            "event": "bandwidth",
            "at_s": begin_s + STAGE_S * place / len(_SIZES),
            "size_bytes": size,
            "dtype": "fp16",
            "calls": 10,
            "seconds": size / algorithm / 1e9,
            "algorithm_gb_s": algorithm,
            "bus_gb_s": bus,
        }
