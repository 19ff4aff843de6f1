"""What came of a smoke run: the events of `npudoctor smoke`, put together for the checks that judge them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from npudoctor.data import read
from npudoctor.facts.python.target_python import TargetPython
from npudoctor.records import field, record
from npudoctor.sdk import Because, Completed, Host, NotApplicable, Options, ParseError, Unavailable, probe_on_cards

STAGES = ("launch", "rendezvous", "collectives", "bandwidth", "training", "in-sync", "parity", "scaling", "memory-seen")
RUN_TIMEOUT_S = 900.0


@record(frozen=True, kw_only=True)
class SmokeFailure:
    """A rank that did not get through; the fields are those of the event `rank-failed`."""

    rank: int
    stage: str
    cause: str
    first: bool
    card: str | None = None
    pid: int | None = None
    doing: str | None = None
    since_s: float | None = None
    signal: str | None = None
    exit_code: int | None = None
    message: str | None = None
    last_line: str | None = None
    stack: str | None = None
    state: str | None = None
    plog_line: str | None = None
    codes: tuple[str, ...] = ()
    pitfalls: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class SmokeCollective:
    """One collective on one data type whose values one rank found wrong; `slots` are the ranks whose part is wrong."""

    rank: int
    operation: str
    dtype: str
    expected: str | None = None
    actual: str | None = None
    slots: tuple[int, ...] = ()
    unchanged: bool = False


@record(frozen=True, kw_only=True)
class SmokeBandwidth:
    """All-reduce of one size; bandwidths in decimal GB/s."""

    size_bytes: int
    dtype: str
    seconds: float
    algorithm_gb_s: float
    bus_gb_s: float


@record(frozen=True, kw_only=True)
class SmokeRun:
    """A whole run. `stages` maps a rank to the seconds of the stages that it came through; `losses` to its losses.

    `cards` maps a rank to its NPU's name. `tried` counts the collectives whose values were compared, `wrong` holds
    those that were not right. `measured` is by rank and name; `card_memory` by NPU: MB before and during the run;
    `card_pids` by NPU: the processes that npu-smi showed on it, `pids` by rank. `earlier_bus_gb_s` is the median of
    what earlier runs of the same kind reached, where there were enough of them.
    """

    device: str
    world_size: int
    family: str | None
    size: str
    dtype: str
    strategy: str
    launcher: str
    nnodes: int = 1
    planned: tuple[str, ...]
    cards: Mapping[int, str]
    notes: tuple[str, ...] = ()
    stages: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    failures: tuple[SmokeFailure, ...] = ()
    tried: int = 0
    wrong: tuple[SmokeCollective, ...] = ()
    bandwidth: tuple[SmokeBandwidth, ...] = ()
    losses: Mapping[int, tuple[float | None, ...]] = field(default_factory=dict)
    step_s: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    measured: Mapping[tuple[int, str], Any] = field(default_factory=dict)
    card_memory: Mapping[str, tuple[float | None, float]] = field(default_factory=dict)
    card_pids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pids: Mapping[int, int] = field(default_factory=dict)
    earlier_bus_gb_s: float | None = None
    timed_out: bool = False
    ended: bool = False
    left_behind: tuple[int, ...] = ()

    @property
    def broken_in(self) -> str | None:
        """The stage in which the run broke; None where every rank came through."""
        blamed = [one for one in self.failures if one.first] or list(self.failures)
        return min((one.stage for one in blamed), key=_place, default=None)

    def of_all(self, name: str) -> dict[int, Any]:
        """What each rank measured under a name."""
        return {rank: value for (rank, measured), value in self.measured.items() if measured == name}

    def mean_losses(self) -> tuple[float | None, ...]:
        """The mean over the ranks of all nodes, step by step; None where a rank had no finite loss."""
        for everywhere in self.of_all("mean_losses").values():
            return tuple(everywhere)
        rows = zip(*self.losses.values(), strict=False) if self.losses else ()
        return tuple(
            None if None in row else sum(value for value in row if value is not None) / len(row) for row in rows
        )

    def reference(self) -> tuple[float, ...]:
        """The losses of the same training on one CPU; empty where rank 0, which computes it, is on another node."""
        return tuple(next(iter(self.of_all("reference").values()), ()))


def _place(stage: str) -> int:
    return STAGES.index(stage) if stage in STAGES else len(STAGES)


def of_events(events: Iterable[Mapping[str, Any]]) -> SmokeRun:
    """Put a run together from its events; raises ParseError where it never began."""
    plan: Mapping[str, Any] | None = None
    names = ("stages", "losses", "step_s", "measured", "card_memory", "card_pids", "pids")
    found: dict[str, Any] = {name: {} for name in names}
    failures, wrong, bandwidth, tried = [], [], [], 0
    end: Mapping[str, Any] | None = None
    for event in events:
        kind = event.get("event")
        if kind == "planned":
            plan = event
        elif kind == "rank-stage" and event["outcome"] == "ok":
            found["stages"].setdefault(event["rank"], {})[event["stage"]] = event.get("seconds") or 0.0
        elif kind == "loss":
            found["losses"].setdefault(event["rank"], []).append(event.get("loss"))
            found["step_s"].setdefault(event["rank"], []).append(event["seconds"])
        elif kind == "collective":
            tried += event["outcome"] != "skipped"
            if event["outcome"] == "failed":
                wrong.append(read(SmokeCollective, event, ignore_unknown=True))
        elif kind == "bandwidth":
            bandwidth.append(read(SmokeBandwidth, event, ignore_unknown=True))
        elif kind == "measured" and event["name"] == "card-memory":
            value = event["value"]
            found["card_memory"][value["card"]] = (value.get("before_mb"), value["during_mb"])
            found["card_pids"][value["card"]] = tuple(value.get("pids") or ())
        elif kind == "rank-started":
            found["pids"][event["rank"]] = event["pid"]
        elif kind == "measured" and event["name"] == "earlier-bus-gb-s":
            found["earlier_bus_gb_s"] = event["value"]
        elif kind == "measured" and event.get("rank") is not None:
            found["measured"][event["rank"], event["name"]] = event["value"]
        elif kind == "rank-failed":
            failures.append(read(SmokeFailure, event, ignore_unknown=True))
        elif kind == "ended":
            end = event
    if plan is None:
        raise ParseError("not the output of a smoke run")
    for name in ("losses", "step_s"):
        found[name] = {rank: tuple(values) for rank, values in sorted(found[name].items())}
    return SmokeRun(
        device=plan["device"],
        world_size=plan["world_size"],
        family=plan.get("family"),
        size=plan["size"],
        dtype=plan["dtype"],
        strategy=plan["strategy"],
        launcher=plan["launcher"],
        nnodes=plan.get("nnodes") or 1,
        planned=tuple(plan["deadlines_s"]),
        cards={one["rank"]: one["card"] for one in plan["ranks"] if one.get("card")},
        notes=tuple(plan.get("notes") or ()),
        failures=tuple(failures),
        tried=tried,
        wrong=tuple(wrong),
        bandwidth=tuple(bandwidth),
        timed_out=bool(end and end.get("timed_out")),
        ended=end is not None,
        left_behind=tuple(end.get("left_behind") or ()) if end else (),
        **found,
    )


def parse(text: str) -> SmokeRun:
    """Read what `npudoctor smoke --format jsonl` prints."""
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            raise ParseError("not an event of a smoke run", line_number=number, line=line) from None
        if not isinstance(event, dict):
            raise ParseError("not an event of a smoke run", line_number=number, line=line)
        events.append(event)
    try:
        return of_events(events)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        if isinstance(problem, ParseError):
            raise
        raise ParseError(f"incomplete event: {problem}") from None


@probe_on_cards
def smoke_run(host: Host, options: Options, python: TargetPython) -> SmokeRun:
    """From `npudoctor smoke` on the idle NPUs; only in profile full, for it touches them."""
    if options.profile != "full":
        raise NotApplicable("the smoke run uses the NPUs: add --profile full, or run `npudoctor smoke`")
    done = output_of_smoke(host, python)
    try:
        return parse(done.stdout)
    except ParseError as problem:
        said = (done.stderr.strip().splitlines() or [str(problem)])[-1].removeprefix("npudoctor: ")
        because = Because.ABSENT if done.returncode == 3 else Because.FAILED
        raise Unavailable(f"smoke run not started: {said}", because=because) from None


def output_of_smoke(host: Host, python: TargetPython) -> Completed:
    """What `npudoctor smoke` prints there, one event a line: made now, or as it was recorded."""
    live = host.about.source == "live"
    if live and host.rooted:
        raise NotApplicable("a node below --root has no NPUs to train on")
    own = os.path.join(os.path.dirname(sys.executable), "npudoctor")
    command = [own if live and os.path.exists(own) else "npudoctor"]
    command += ["smoke", "--format", "jsonl", "--python", python.path, "--environment", host.about.environment]
    done = host.run(command, timeout=RUN_TIMEOUT_S)
    if done.timed_out:
        raise Unavailable(f"smoke run timed out after {RUN_TIMEOUT_S:g} s", because=Because.TIMED_OUT)
    return done
