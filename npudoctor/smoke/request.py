"""The options of a smoke run, and their validation independent of a node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from npudoctor.records import field, record

LAUNCHERS = ("direct", "torchrun", "spawn", "shell", "torch.distributed.launch", "torch_npu_run", "accelerate")
STRATEGIES = ("ddp", "fsdp", "zero2", "zero3")
DTYPES = ("fp32", "fp16", "bf16")
SIZES = ("small", "large")
RANK_BYTES = 300 << 20
"""Memory of an interpreter with torch, in bytes."""


class Refused(Exception):
    """The run cannot be made as requested; the text is a clause that says why and what to do."""


class Misused(Refused):
    """The options are invalid on any node."""


@record(frozen=True, kw_only=True)
class Request:
    """The options of the user. `cards` are torch_npu's device indices; `deadlines_s` replaces single deadlines.

    `timeout_s` bounds the whole run, `bandwidth_s` the measurements of bandwidth; `rdzv_endpoint` is HOST:PORT where
    several nodes meet; times are in seconds.
    """

    device: Literal["npu", "cpu"] = "npu"
    cards: tuple[int, ...] | None = None
    ranks: int | None = None
    size: str = "small"
    steps: int = 30
    dtype: str = "fp32"
    strategy: str = "ddp"
    launcher: str = "direct"
    nnodes: int = 1
    node_rank: int = 0
    rdzv_endpoint: str | None = None
    force: bool = False
    timeout_s: float = 900.0
    bandwidth_s: float | None = None
    keep_logs: str | None = None
    deadlines_s: Mapping[str, float] = field(default_factory=dict)


def must_make_sense(request: Request) -> None:
    """Raise Misused for invalid options."""
    if request.device == "cpu" and request.cards is not None:
        raise Misused("--cards requires --device npu; with --device cpu use --ranks N")
    if request.device == "cpu" and (request.ranks or 0) > (most := _ranks_that_fit()):
        raise Misused(f"--ranks {request.ranks}: each requires about 300 MB; this machine has memory for {most}")
    if request.strategy in ("zero2", "zero3") and request.dtype != "fp32":
        raise Misused(f"{request.strategy} supports fp32 only; omit --dtype {request.dtype}")
    if not 0 <= request.node_rank < request.nnodes:
        raise Misused(
            f"--node-rank {request.node_rank}: must be 0 to {request.nnodes - 1} with --nnodes {request.nnodes}"
        )
    if request.nnodes == 1:
        return
    host, _, port = (request.rdzv_endpoint or "").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise Misused("several nodes require --rdzv-endpoint HOST:PORT of the first node")
    if request.launcher != "torchrun":
        raise Misused("several nodes require --launcher torchrun")


def _ranks_that_fit() -> int:
    return max(2, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // RANK_BYTES)
