"""The typed events of a smoke run, read by the command line, the terminal interface and scripts.

`at_s` is in seconds since the start of the run. The first event is `Planned`, the last `Done`. `npudoctor smoke
--format jsonl` prints the same events, one JSON object per line.
"""

from __future__ import annotations

import functools
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from npudoctor.findings import HostSummary, Line, Lines, Result, Severity, Verdict
from npudoctor.models import Model
from npudoctor.records import field

if TYPE_CHECKING:
    from pydantic import TypeAdapter

STAGES = ("launch", "rendezvous", "collectives", "bandwidth", "training", "in-sync", "parity", "scaling", "memory-seen")
"""The stages in order; the check `smoke.STAGE` judges each."""


class Outcome(str, Enum):
    """The outcome of a stage for one rank or all."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class Cause(str, Enum):
    """What ended a rank: an exception, a signal, an exit, a deadline, its launcher; or it only waited for another."""

    EXCEPTION = "exception"
    SIGNAL = "signal"
    EXIT = "exit"
    HANG = "hang"
    WORLD_SIZE = "world-size"
    NO_START = "no-start"
    ENDED = "ended"
    WAITED = "waited"


class Absence(str, Enum):
    """Why an NPU takes no part: a check calls it unhealthy or missing, a process holds it, an environment variable
    hides it, or it was not selected."""

    UNHEALTHY = "unhealthy"
    MISSING = "missing"
    BUSY = "busy"
    HIDDEN = "hidden"
    NOT_SELECTED = "not-selected"


class Excluded(Model):
    """An NPU that takes no part, or that took part though it is unhealthy; `reason` is a few words.

    `check` names the check that calls it unhealthy or missing.
    """

    npu: Line
    cause: Absence
    reason: Line
    check: Line | None = None


class RankPlan(Model):
    """One rank before it starts: its number, its torch device, its NPU as findings name it, its CPUs."""

    rank: int
    local_rank: int
    device: Line
    card: Line | None = None
    cpus: Line | None = None


class Planned(Model):
    """The run has been planned and starts. `notes` are clauses on what is tested and what is not.

    `deadlines_s` holds the seconds that each stage may take. `family` is the chip family, `product` its name. `chips`
    are all chips known on this node, `excluded` those that take no part. `chosen_by` is the option that selected the
    NPUs; None for a run on all that can be used.
    """

    event: Literal["planned"] = "planned"
    at_s: float = 0.0
    device: Literal["npu", "cpu"]
    backend: Line
    world_size: int
    nnodes: int = 1
    node_rank: int = 0
    ranks: tuple[RankPlan, ...]
    size: Line
    steps: int
    dtype: Line
    strategy: Line
    launcher: Line
    python: str
    family: Line | None = None
    product: Line | None = None
    master: str | None = None
    deadlines_s: dict[str, float]
    notes: tuple[Line, ...] = ()
    chips: tuple[Line, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    chosen_by: Line | None = None
    simulated: bool = False


class RankStarted(Model):
    """A rank has reported for the first time; `torch`, `torch_npu` and `device_name` are known once it has imported."""

    event: Literal["rank-started"] = "rank-started"
    at_s: float
    rank: int
    pid: int
    host: Line | None = None


class RankStage(Model):
    """A rank has entered a stage (`running`) or left it; `seconds` is the time in it."""

    event: Literal["rank-stage"] = "rank-stage"
    at_s: float
    rank: int
    stage: Line
    outcome: Outcome
    seconds: float | None = None
    note: Line | None = None


class Loss(Model):
    """One training step of one rank: its loss (None: not finite) and its duration in seconds."""

    event: Literal["loss"] = "loss"
    at_s: float
    rank: int
    step: int
    loss: float | None
    seconds: float


class Collective(Model):
    """One collective on one data type, on one rank. `outcome` skipped: not supported by the backend.

    `slots` names the ranks whose part of the result is wrong, if the operation shows it; `unchanged`: the buffer
    was not modified.
    """

    event: Literal["collective"] = "collective"
    at_s: float
    rank: int
    operation: Line
    dtype: Line
    outcome: Outcome
    expected: Line | None = None
    actual: Line | None = None
    slots: tuple[int, ...] = ()
    unchanged: bool = False


class Bandwidth(Model):
    """All-reduce of one size: the median call in seconds, bandwidths in decimal GB/s as nccl-tests defines them."""

    event: Literal["bandwidth"] = "bandwidth"
    at_s: float
    size_bytes: int
    dtype: Line
    calls: int
    seconds: float
    algorithm_gb_s: float
    bus_gb_s: float


class Measured(Model):
    """A measurement of one rank, or of the node (`rank` None), under a name listed in docs/smoke.md."""

    event: Literal["measured"] = "measured"
    at_s: float
    rank: int | None = None
    name: Line
    value: Any


class RankFailed(Model):
    """A rank failed. `first`: it failed on its own; the others only waited for it.

    `since_s` is the time since its last message; `doing` its last operation; `stack` its stack; `plog_line` the last
    error in CANN's log of it.
    """

    event: Literal["rank-failed"] = "rank-failed"
    at_s: float
    rank: int
    stage: Line
    cause: Cause
    first: bool
    card: Line | None = None
    pid: int | None = None
    doing: Line | None = None
    since_s: float | None = None
    signal: Line | None = None
    exit_code: int | None = None
    message: Lines | None = None
    last_line: Line | None = None
    stack: Lines | None = None
    state: Line | None = None
    plog_line: Lines | None = None
    codes: tuple[Line, ...] = ()
    pitfalls: tuple[Line, ...] = ()


class Said(Model):
    """A clause for the user: what the run waits for, what was skipped, where the logs are."""

    event: Literal["said"] = "said"
    at_s: float
    text: Lines


class Ended(Model):
    """All ranks have ended. `interrupted`: by the user; `timed_out`: the time limit of the whole run has passed."""

    event: Literal["ended"] = "ended"
    at_s: float
    interrupted: bool = False
    timed_out: bool = False
    left_behind: tuple[int, ...] = ()


class Judged(Model):
    """One of the checks `smoke.*` has been judged."""

    event: Literal["judged"] = "judged"
    at_s: float
    result: Result


class RankReport(Model):
    """One rank after the run: its last stage, seconds per stage, its first and last loss."""

    rank: int
    device: Line
    card: Line | None = None
    pid: int | None = None
    cpus: Line | None = None
    stages_s: dict[str, float] = field(default_factory=dict)
    reached: Line | None = None
    failed: Line | None = None
    first: bool = False
    cause: Cause | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    step_s: float | None = None
    local_step_s: float | None = None
    memory_mb: float | None = None


class SmokeReport(Model):
    """The whole of one smoke run: what `npudoctor smoke --json` prints. `loss` is the mean over the ranks, by step.

    `complete` is whether every NPU was tested that should be; `unhealthy` are NPUs of the run that a check calls so.
    """

    schema: str = "npudoctor.smoke/1"
    tool_version: Line
    started_at: Line
    duration_s: float
    host: HostSummary
    plan: Planned | None
    verdict: Verdict
    exit_code: int
    fail_on: Severity = Severity.ERROR
    interrupted: bool = False
    complete: bool = True
    unhealthy: tuple[Excluded, ...] = ()
    summary: dict[str, int]
    ranks: tuple[RankReport, ...] = ()
    loss: tuple[float | None, ...] = ()
    reference_loss: tuple[float, ...] = ()
    bandwidth: tuple[Bandwidth, ...] = ()
    speedup: float | None = None
    efficiency: float | None = None
    failures: tuple[RankFailed, ...] = ()
    notes: tuple[Line, ...] = ()
    logs: Line | None = None
    results: tuple[Result, ...] = ()


class Done(Model):
    """The run has ended and been judged; the last event."""

    event: Literal["done"] = "done"
    at_s: float
    report: SmokeReport


Event = (
    Planned
    | RankStarted
    | RankStage
    | Loss
    | Collective
    | Bandwidth
    | Measured
    | RankFailed
    | Said
    | Ended
    | Judged
    | Done
)


def line(event: Event) -> str:
    """An event as one line of JSON."""
    return _any().dump_json(event, exclude_none=True).decode() + "\n"


def read(text: str) -> Event:
    """The event of one line; raises pydantic's ValidationError."""
    return _any().validate_json(text)


@functools.cache
def _any() -> TypeAdapter[Event]:
    from pydantic import Field, TypeAdapter

    return TypeAdapter(Annotated[Event, Field(discriminator="event")])
