"""The judgement on a smoke run: each check with a run that is well, one that is not, and one that never came so far."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.facts.node.smoke import SmokeRun, of_events, parse
from npudoctor.findings import Result, Status
from npudoctor.sdk import Options, ParseError
from npudoctor.smoke.plan import Request
from npudoctor.smoke.session import Session
from npudoctor.testing import FakeHost, run_check

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
    return {result.check: result for result in session.judged(run)}


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
        ("smoke.launch", failed(2, "launch", "no-start"), "rank 2 on npu:2 ended before it could report in launch"),
        (
            "smoke.rendezvous",
            failed(1, "rendezvous", "hang", doing="init_process_group"),
            "rank 1 on npu:1 hangs in rendezvous, at init_process_group",
        ),
        (
            "smoke.training",
            failed(3, "training", "signal", signal="SIGKILL"),
            "rank 3 on npu:3 was ended by SIGKILL in training",
        ),
        (
            "smoke.in-sync",
            failed(0, "in-sync", "exit", exit_code=3),
            "rank 0 on npu:0 exited with status 3 in in-sync without a word",
        ),
        (
            "smoke.launch",
            failed(2, "launch", "no-start", last_line="ImportError: libhccl.so: cannot open shared object file"),
            "rank 2 on npu:2 ended before it could report in launch: "
            "ImportError: libhccl.so: cannot open shared object file",
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
    (finding,) = findings(more=more)["smoke.training"]
    assert finding == ("error", "npu:2", "rank 2 on npu:2 hangs in training (rank 0 only waited)")


def test_ranks_that_complain_of_the_same_are_one_finding() -> None:
    more = [failed(rank, "launch", "exception", message=f"RuntimeError: device {rank} is sick") for rank in range(4)]
    assert findings(more=more)["smoke.launch"] == [
        ("error", "host", "all 4 ranks failed in launch: RuntimeError: device 0 is sick")
    ]


def test_nobody_is_blamed_where_all_stand_at_the_same_place() -> None:
    more = [failed(rank, "collectives", "hang", first=False, doing="all_reduce fp32") for rank in range(4)]
    assert findings(more=more)["smoke.collectives"] == [
        ("error", "host", "all 4 ranks are stuck in collectives, at all_reduce fp32, and none is ahead of the others")
    ]


def test_ranks_at_work_when_a_stage_is_over_its_time_are_not_called_stuck() -> None:
    more = [failed(rank, "training", "hang", first=False, doing="step 7", since_s=0.2) for rank in range(4)]
    (finding,) = findings(more=more)["smoke.training"]
    assert (
        finding[2]
        == "the time of training, at step 7 was up with all 4 ranks at work; --deadline training=S gives it more"
    )


def test_too_few_steps_call_no_rank_slow() -> None:
    events = [event for event in stream() if event.get("name") != "local_step_s"]
    result = judged(of_events(events))["smoke.scaling"]
    assert (result.status, result.leaves_undetermined) == (Status.SKIPPED, False)


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
            ("smoke.collectives", "error", "npu:2", "rank 2 gets wrong values from collectives"),
        ),
        (
            {"more": [wrong(rank, expected="6", actual="7", slots=[3]) for rank in range(4)]},
            ("smoke.collectives", "error", "npu:3", "rank 3 brings wrong values into collectives"),
        ),
        (
            {"more": [wrong(rank, expected="6", actual="7") for rank in range(4)]},
            ("smoke.collectives", "error", "host", "collectives give wrong values on every rank"),
        ),
        (
            {"more": [wrong(rank, unchanged=True) for rank in range(4)]},
            ("smoke.collectives", "error", "host", "collectives return success and leave the data as it was"),
        ),
        ({"bus": 20.0}, ("smoke.bandwidth", "warning", "host", "all-reduce over 4 cards reaches 20.0 GB/s, under 27")),
        (
            {"losses": {1: (2.0, None, None)}},
            ("smoke.training", "error", "npu:1", "the loss of rank 1 is not finite at step 1"),
        ),
        (
            {"losses": dict.fromkeys(range(4), (1.0, 1.0, 1.0, 1.0, 1.1))},
            ("smoke.training", "error", "host", "the loss does not fall: 1.0000 at first, 1.1000 at last"),
        ),
        (
            {"measured": {2: {"digest": "abd"}}},
            ("smoke.in-sync", "error", "npu:2", "rank 2 holds other parameters than the rest"),
        ),
        ({"measured": {2: {"samples": [1]}}}, ("smoke.in-sync", "error", "host", "ranks 1 and 2 saw the same data")),
        (
            {"measured": {0: {"reference": [2.0, 1.5, 1.1, 0.8]}}},
            ("smoke.parity", "warning", "host", "the loss is 9.1 % off the CPU's at step 2; 0.2 % is allowed"),
        ),
        (
            {"measured": {3: {"local_step_s": 0.0126}}},
            ("smoke.scaling", "warning", "npu:3", "rank 3 takes 12.6 ms for a step, the others 10.0 ms"),
        ),
        (
            {"measured": {3: {"together_s": 0.020}}},
            ("smoke.scaling", "warning", "host", "4 ranks are 2.0 times as fast as one"),
        ),
        (
            {"memory": {1: 3010.0}},
            ("smoke.memory-seen", "warning", "npu:1", "npu-smi shows no memory taken on npu:1 while rank 1 trained"),
        ),
    ],
)
def test_what_is_not_right_is_one_finding_with_its_subject(replaced: Any, expected: tuple[str, str, str, str]) -> None:
    check, severity, subject, summary = expected
    found = findings(**replaced)
    assert list(found) == [check]
    assert found[check][0][:2] == (severity, subject)
    assert found[check][0][2].startswith(summary)


def test_a_straggler_by_little_is_none() -> None:
    assert findings(measured={3: {"local_step_s": 0.0119}}) == {}


def test_on_the_cpu_speed_is_info() -> None:
    found = findings(npu=False, measured={3: {"local_step_s": 0.5}})
    assert found["smoke.scaling"][0][0] == "info"


def test_recorded_runs_are_read_and_judged() -> None:
    well = judged(parse((DATA / "two-ranks.jsonl").read_text()))
    assert {result.status for result in well.values()} <= {Status.OK, Status.SKIPPED}
    broken = judged(parse((DATA / "rank-exits.jsonl").read_text()))
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
    assert {result.reason for result in busy.results} == {
        "smoke run not started: every card is held by a process or is not healthy"
    }


def test_every_recorded_event_is_valid() -> None:
    from npudoctor.smoke import events

    for name in ("two-ranks.jsonl", "rank-exits.jsonl"):
        for line in (DATA / name).read_text().splitlines():
            assert json.loads(events.line(events.read(line))) == json.loads(line)
