"""The judgement on a smoke run: each check with a run that is well, one that is not, and one that never came so far."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins, sim
from npudoctor.facts.node.chips import Chips, NodeChip
from npudoctor.facts.node.smoke import SmokeRun, of_events, parse
from npudoctor.findings import Result, Severity, Status
from npudoctor.sdk import Options, ParseError
from npudoctor.smoke.plan import Request
from npudoctor.smoke.session import Session
from npudoctor.testing import FakeHost, run, run_check

DATA = Path(__file__).parents[1] / "smoke" / "data"
CHECKS = (
    *("smoke.launch", "smoke.rendezvous", "smoke.collectives", "smoke.bandwidth", "smoke.training", "smoke.in-sync"),
    *("smoke.parity", "smoke.scaling", "smoke.memory-seen"),
)


def stream(*, npu: bool = True, ranks: int = 4, **replaced: Any) -> Iterator[dict[str, Any]]:
    """The events of a run on cards where all is well; `replaced` are events by what is to be put in their place."""
    stages: tuple[str, ...] = (
        "launch",
        "rendezvous",
        "collectives",
        "bandwidth",
        "training",
        "in-sync",
        "parity",
        "scaling",
    )
    if npu:
        stages += ("memory-seen",)
    plan: dict[str, Any] = {
        "event": "planned",
        "device": "npu" if npu else "cpu",
        "world_size": ranks,
        "family": "A2",
        "size": "large",
        "dtype": "fp32",
        "strategy": "ddp",
        "launcher": "direct",
        "ranks": [{"rank": one, "card": f"npu:{one}"} for one in range(ranks)],
        "deadlines_s": dict.fromkeys(stages, 60.0),
    }
    yield {**plan, **replaced.get("plan", {})}
    for rank in range(ranks):
        for stage in stages:
            yield {"event": "rank-stage", "rank": rank, "stage": stage, "outcome": "ok", "seconds": 1.0}
        for step, loss in enumerate(replaced.get("losses", {}).get(rank, (2.0, 1.5, 1.0, 0.8, 0.6, 0.5, 0.4, 0.4))):
            yield {"event": "loss", "rank": rank, "step": step, "loss": loss, "seconds": 0.01}
        measured = {"digest": "abc", "samples": [rank], "local_step_s": 0.010, "together_s": 0.011}
        measured |= {"reference": [2.0, 1.5, 1.0, 0.8, 0.6, 0.5, 0.4, 0.4], "alone_s": 0.010} if rank == 0 else {}
        for name, value in {**measured, **replaced.get("measured", {}).get(rank, {})}.items():
            yield {"event": "measured", "rank": rank, "name": name, "value": value}
        memory = replaced.get("memory", {}).get(rank, 4000.0)
        yield {
            "event": "measured",
            "name": "card-memory",
            "value": {"card": f"npu:{rank}", "before_mb": 3000.0, "during_mb": memory},
        }
    row = {"size_bytes": 256 << 20, "dtype": "fp16", "seconds": 0.01, "algorithm_gb_s": 30.0}
    yield {"event": "bandwidth", **row, "bus_gb_s": replaced.get("bus", 45.0)}
    yield from replaced.get("more", ())
    yield {"event": "ended", "timed_out": False, "left_behind": []}


def judged(run: SmokeRun) -> dict[str, Result]:
    session = Session(catalog=plugins.load(), host=FakeHost(), request=Request(), options=Options())
    return {result.check: result for result in session.results_of(run)}


def findings(**replaced: Any) -> dict[str, list[tuple[str, str, str]]]:
    results = judged(of_events(stream(**replaced)))
    return {
        check: [(finding.severity.value, finding.subject, finding.summary) for finding in result.findings]
        for check, result in results.items()
        if result.findings
    }


def wrong(rank: int, **more: Any) -> dict[str, Any]:
    return {"event": "collective", "rank": rank, "operation": "all_reduce", "dtype": "fp16", "outcome": "failed"} | more


def failed(rank: int, stage: str, cause: str, **more: Any) -> dict[str, Any]:
    card = f"npu:{rank}"
    return {"event": "rank-failed", "rank": rank, "stage": stage, "cause": cause, "first": True, "card": card} | more


def test_a_run_on_which_all_is_well_has_no_finding() -> None:
    results = judged(of_events(stream()))
    assert tuple(results) == CHECKS
    assert {result.status for result in results.values()} == {Status.OK}
    assert [result.findings for result in results.values()] == [()] * len(CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_without_profile_full_no_card_is_touched(check: str) -> None:
    result = run_check(check, files={}, options={"profile": "standard"})
    assert result.status is Status.SKIPPED


@pytest.mark.parametrize(
    ("check", "failure", "summary"),
    [
        ("smoke.launch", failed(2, "launch", "no-start"), "rank 2 on npu:2 ended before reporting in launch"),
        (
            "smoke.rendezvous",
            failed(1, "rendezvous", "hang", doing="init_process_group"),
            "rank 1 on npu:1 hung in rendezvous, at init_process_group",
        ),
        (
            "smoke.training",
            failed(3, "training", "signal", signal="SIGKILL"),
            "rank 3 on npu:3 killed by SIGKILL in training",
        ),
        (
            "smoke.in-sync",
            failed(0, "in-sync", "exit", exit_code=3),
            "rank 0 on npu:0 exited with status 3 in in-sync without an error message",
        ),
        (
            "smoke.launch",
            failed(2, "launch", "no-start", last_line="ImportError: libhccl.so: cannot open shared object file"),
            "rank 2 on npu:2 ended before reporting in launch: ImportError: libhccl.so: cannot open shared object file",
        ),
        (
            "smoke.launch",
            failed(
                *(2, "launch", "exception"),
                message="RuntimeError: SetDevice:npu_sys_ctrl.cpp:337 NPU function error: c10_npu::SetDevice(device)",
                codes=["ERR00100: torch_npu: a call of acl failed", "507033: the device did not start"],
            ),
            "rank 2 on npu:2 failed in launch: the device did not start (507033)",
        ),
    ],
)
def test_the_stage_that_broke_has_the_error_and_the_later_ones_stand_behind_it(
    check: str, failure: dict[str, Any], summary: str
) -> None:
    results = judged(of_events(stream(more=[failure])))
    assert [(one.severity.value, one.summary) for one in results[check].findings] == [("error", summary)]
    later = CHECKS[CHECKS.index(check) + 1 :]
    assert all(results[one].blocked_by == check for one in later)
    assert all(results[one].status is Status.OK for one in CHECKS[: CHECKS.index(check)])


def test_those_who_only_waited_are_told_apart() -> None:
    more = [failed(2, "training", "hang"), failed(0, "training", "hang", first=False)]
    (finding,) = judged(of_events(stream(more=more)))["smoke.training"].findings
    assert (finding.code, finding.subject) == ("smoke.training/rank-hung", "npu:2")
    assert finding.summary == "rank 2 on npu:2 hung in training"
    assert [one.actual for one in finding.evidence if one.source == "ranks that only waited"] == ["0"]


def test_ranks_that_complain_of_the_same_are_one_finding() -> None:
    more = [failed(rank, "launch", "exception", message=f"RuntimeError: device {rank} is sick") for rank in range(4)]
    assert findings(more=more)["smoke.launch"] == [
        ("error", "host", "all ranks failed in launch: RuntimeError: device 0 is sick")
    ]


def test_nobody_is_blamed_where_all_stand_at_the_same_place() -> None:
    more = [failed(rank, "collectives", "hang", first=False, doing="all_reduce fp32") for rank in range(4)]
    assert findings(more=more)["smoke.collectives"] == [
        ("error", "host", "all ranks stuck in collectives, at all_reduce fp32, none ahead of the others")
    ]


def test_ranks_at_work_when_a_stage_is_over_its_time_are_not_called_stuck() -> None:
    more = [failed(rank, "training", "hang", first=False, doing="step 7", since_s=0.2) for rank in range(4)]
    (finding,) = findings(more=more)["smoke.training"]
    assert finding[2] == "time limit exceeded in training, at step 7 while all ranks were working"


def test_too_few_steps_call_no_rank_slow() -> None:
    events = [event for event in stream() if event.get("name") != "local_step_s"]
    result = judged(of_events(events))["smoke.scaling"]
    assert (result.status, result.leaves_undetermined) == (Status.SKIPPED, False)


def test_a_run_without_an_unhealthy_npu_leaves_that_one_undetermined() -> None:
    found = {one.check: one for one in run(sim.simulate("sick-cards"), "smoke", profile="full").results}
    assert found["smoke.collectives"].status is Status.OK
    assert found["smoke.memory-seen"].blocked_by == "npu.health"


def test_an_npu_that_took_no_part_for_no_known_reason_is_a_note() -> None:
    chips = tuple(NodeChip(subject=f"npu:{one}") for one in range(5))
    judge = plugins.load().checks["smoke.memory-seen"].function
    found = [*judge(of_events(stream()), Chips(chips=chips, source="npu-smi"))]
    assert [(one.code, one.subject, one.severity) for one in found] == [
        ("smoke.memory-seen/not-tested", "npu:4", Severity.INFO)
    ]


def test_a_run_that_was_cut_off_leaves_what_it_did_not_reach_undetermined() -> None:
    events = [event for event in stream() if event.get("stage") not in ("scaling", "memory-seen")]
    results = judged(of_events(events))
    assert results["smoke.parity"].status is Status.OK
    assert results["smoke.scaling"].leaves_undetermined


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        (
            {"more": [wrong(2, expected="6", actual="7")]},
            ("smoke.collectives", "error", "npu:2", "rank 2 receives wrong values: all_reduce fp16 gives 7, not 6"),
        ),
        (
            {"more": [wrong(rank, expected="6", actual="7", slots=[3]) for rank in range(4)]},
            ("smoke.collectives", "error", "npu:3", "rank 3 sends wrong values: all_reduce fp16 gives 7, not 6"),
        ),
        (
            {"more": [wrong(rank, expected="6", actual="7") for rank in range(4)]},
            ("smoke.collectives", "error", "host", "all ranks receive wrong values: all_reduce fp16 gives 7, not 6"),
        ),
        (
            {"more": [wrong(rank, unchanged=True) for rank in range(4)]},
            ("smoke.collectives", "error", "host", "collectives return success but leave the data unchanged"),
        ),
        (
            {"bus": 20.0},
            ("smoke.bandwidth", "warning", "host", "all-reduce bandwidth 20.0 GB/s with 4 ranks, limit 27 GB/s"),
        ),
        (
            {"losses": {1: (2.0, None, None)}},
            ("smoke.training", "error", "npu:1", "loss of rank 1 not finite at step 1"),
        ),
        (
            {"losses": dict.fromkeys(range(4), (1.0, 1.0, 1.0, 1.0, 1.1))},
            ("smoke.training", "error", "host", "loss does not fall: 1.0000 at the start, 1.1000 at the end"),
        ),
        (
            {"measured": {2: {"digest": "abd"}}},
            ("smoke.in-sync", "error", "npu:2", "parameters of rank 2 differ from the others after training"),
        ),
        (
            {"measured": {2: {"samples": [1]}}},
            ("smoke.in-sync", "error", "host", "ranks 1 and 2 received the same data"),
        ),
        (
            {"measured": {0: {"reference": [2.0, 1.5, 1.1, 0.8]}}},
            ("smoke.parity", "warning", "host", "loss 9.1 % off the CPU reference at step 2, limit 0.2 %"),
        ),
        (
            {"measured": {3: {"local_step_s": 0.0126}}},
            ("smoke.scaling", "warning", "npu:3", "rank 3 slow: 12.6 ms per step, 10.0 ms on the others"),
        ),
        (
            {"measured": {3: {"together_s": 0.020}}},
            ("smoke.scaling", "warning", "host", "4 ranks only 2.0 times as fast as one"),
        ),
        (
            {"memory": {1: 3010.0}},
            (
                "smoke.memory-seen",
                "warning",
                "npu:1",
                "npu-smi shows no memory in use on npu:1 while rank 1 trained on it",
            ),
        ),
    ],
)
def test_what_is_not_right_is_one_finding_with_its_subject(replaced: Any, expected: tuple[str, str, str, str]) -> None:
    check, severity, subject, summary = expected
    found = findings(**replaced)
    assert list(found) == [check]
    assert found[check][0][:2] == (severity, subject)
    assert found[check][0][2] == summary


def test_a_straggler_by_little_is_none() -> None:
    assert findings(measured={3: {"local_step_s": 0.0119}}) == {}


def test_on_the_cpu_speed_is_info() -> None:
    found = findings(npu=False, measured={3: {"local_step_s": 0.5}})
    assert found["smoke.scaling"][0][0] == "info"


def test_recorded_runs_are_read_and_judged() -> None:
    well = judged(parse((DATA / "two-ranks.jsonl").read_text(encoding="utf-8")))
    assert {result.status for result in well.values()} <= {Status.OK, Status.SKIPPED}
    broken = judged(parse((DATA / "rank-exits.jsonl").read_text(encoding="utf-8")))
    assert broken["smoke.training"].findings[0].summary.startswith("rank 1 exited with status 3 in training")


@pytest.mark.parametrize("text", ["", "{}\n", "npudoctor: nothing\n", '{"event": "planned"}\n', "[1]\n"])
def test_what_is_no_run_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_the_engine_makes_the_run_through_the_host() -> None:
    from npudoctor import sim
    from npudoctor.testing import run

    report = run(sim.simulate("seed-910b1"), "smoke", profile="full")
    assert [result.status.value for result in report.results] == ["ok"] * len(CHECKS)
    busy = run(sim.simulate("in-service"), "smoke", profile="full")
    assert {result.reason for result in busy.results} == {"smoke run not started: all NPUs are busy or unhealthy"}


def test_every_recorded_event_is_valid() -> None:
    from npudoctor.smoke import events

    for name in ("two-ranks.jsonl", "rank-exits.jsonl"):
        for line in (DATA / name).read_text(encoding="utf-8").splitlines():
            again = json.loads(events.line(events.read(line)))
            assert holds(again, json.loads(line)), line


def holds(new: Any, old: Any) -> bool:
    """Whether all that was recorded is still there; fields may have been added since."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(name in new and holds(new[name], old[name]) for name in old)
    if isinstance(old, list):
        return len(new) == len(old) and all(map(holds, new, old))
    return bool(new == old)


RENDERED: list[tuple[str, dict[str, Any], str]] = [
    ("smoke.launch/left-behind", {"pids": (7, 8), "count": 2}, "processes 7, 8 of the smoke run could not be ended"),
    ("smoke.parity/rank-stopped", {"ranks": ["rank 1"], "place": "parity"}, "rank 1 stopped (state T) in parity"),
    (
        "smoke.training/run-timed-out",
        {"place": "training, at step 7"},
        "time limit of the smoke run exceeded in training, at step 7",
    ),
    (
        "smoke.rendezvous/wrong-world-size",
        {"ranks": ["rank 1", "rank 2"], "error": "WORLD_SIZE=3"},
        "rank 1, rank 2 cannot join: WORLD_SIZE=3",
    ),
    (
        "smoke.collectives/no-arithmetic",
        {"actual": "3"},
        "arithmetic on the NPUs has no effect: 3 + 1 gives 3 without an error",
    ),
    (
        "smoke.bandwidth/below-earlier-runs",
        {"reached": 20.0, "usual": 45.04},
        "all-reduce bandwidth 20.0 GB/s, 45.0 GB/s in earlier runs on these NPUs",
    ),
    ("smoke.in-sync/all-ranks-differ", {}, "parameters differ between the ranks after training"),
]


@pytest.mark.parametrize(("code", "params", "summary"), RENDERED, ids=[code for code, _, _ in RENDERED])
def test_a_message_reads_like_this(code: str, params: dict[str, Any], summary: str) -> None:
    assert plugins.load().messages[code].finding(**params).summary == summary
