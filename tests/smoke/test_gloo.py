"""Real ranks on the real torch with gloo: clean runs, injected faults, launchers, and that nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.smoke import launch, plan
from npudoctor.smoke.events import Ended, Loss, Outcome, RankStage
from npudoctor.smoke.plan import Refused

pytestmark = pytest.mark.torch

Smoke = Callable[..., Any]
PATIENT = {"launch": 90.0, "rendezvous": 60.0, "collectives": 60.0, "training": 90.0}


def ended(ran: Any) -> Ended:
    assert isinstance(ran.events[-1], Ended)
    return ran.events[-1]


def test_two_ranks_train_together_and_every_check_is_content(smoke: Smoke) -> None:
    ran = smoke()
    assert ran.failed == []
    assert ended(ran).left_behind == ()
    assert {check: result.status.value for check, result in ran.results.items()} == {
        **{f"smoke.{stage}": "ok" for stage in PATIENT},
        **{f"smoke.{stage}": "ok" for stage in ("bandwidth", "in-sync", "parity", "scaling")},
        "smoke.memory-seen": "skipped",
    }
    assert ran.outcome.tried > 40
    assert len([event for event in ran.events if isinstance(event, Loss)]) == 2 * 6
    assert ran.outcome.mean_losses() == pytest.approx(ran.outcome.reference(), rel=1e-4)
    assert [row.size_bytes for row in ran.outcome.bandwidth][:3] == [8, 32, 128]


FAULTS = {
    "exit": ("rank:1,kind:exit,stage:training", {}, (1, "training", "exit")),
    "kill": ("rank:0,kind:kill,stage:collectives", {}, (0, "collectives", "signal")),
    "hang-before": ("rank:1,kind:hang,stage:rendezvous", {"rendezvous": 3.0}, (1, "rendezvous", "hang")),
    "hang-in": ("rank:1,kind:hang-in,stage:collectives", {"collectives": 3.0}, (1, "collectives", "hang")),
    "stopped": ("rank:0,kind:stop,stage:in-sync", {"in-sync": 3.0, "parity": 3.0}, (0, "in-sync", "hang")),
    "import-error": ("rank:1,kind:import-error,stage:launch", {}, (1, "launch", "exception")),
    "import-hang": ("rank:0,kind:import-hang,stage:launch", {"launch": 8.0}, (0, "launch", "hang")),
    "world-size": ("rank:1,kind:world-size", {}, (1, "rendezvous", "world-size")),
}
"""What is injected, the deadlines, and who is to be blamed, where and for what."""

WRONG = {
    "wrong-sum": ("rank:1,kind:wrong-sum,stage:collectives", "smoke.collectives", "rank 1 gets wrong values"),
    "wrong-part": ("rank:1,kind:wrong-part,stage:collectives", "smoke.collectives", "rank 1 brings wrong values"),
    "nan": ("rank:1,kind:nan,stage:training", "smoke.training", "the loss of rank 1 is not finite at step 2"),
    "out-of-sync": ("rank:0,kind:out-of-sync,stage:in-sync", "smoke.in-sync", "the ranks hold different parameters"),
}


def must_blame(ran: Any, fault: str, limits: dict[str, float], blamed: tuple[int, str, str]) -> None:
    assert ran.first == [blamed], ran.failed
    assert ended(ran).left_behind == ()
    assert list(ran.errors) == [f"smoke.{blamed[1]}"]
    assert f"rank {blamed[0]}" in ran.errors[f"smoke.{blamed[1]}"]


def overdue_s(ran: Any, stage: str, limit_s: float) -> float:
    """How long after its deadline a stage was given up."""
    begins = [one.at_s for one in ran.events if isinstance(one, RankStage) and one.stage == stage]
    start = 0.0 if stage == "launch" else max(begins[:2])
    return float(ran.failed[0].at_s - start - limit_s)


@pytest.mark.parametrize("name", FAULTS)
def test_the_rank_that_breaks_is_named(smoke: Smoke, name: str) -> None:
    fault, limits, blamed = FAULTS[name]
    ran = smoke(fault=fault, deadlines_s={**PATIENT, **limits})
    must_blame(ran, fault, limits, blamed)
    if blamed[2] == "hang":
        assert ran.failed[0].stack or ran.failed[0].state == "T"


@pytest.mark.parametrize("name", WRONG)
def test_values_that_are_not_right_are_traced_to_their_rank(smoke: Smoke, name: str) -> None:
    fault, check, summary = WRONG[name]
    ran = smoke(fault=fault)
    assert list(ran.errors) == [check]
    assert summary in ran.errors[check]
    assert ran.results["smoke.scaling"].status.value in ("ok", "skipped")


def test_a_slow_rank_is_named_as_info_on_the_cpu(smoke: Smoke) -> None:
    ran = smoke(fault="rank:1,kind:slow,stage:scaling,s:0.05")
    summaries = [finding.summary for finding in ran.results["smoke.scaling"].findings]
    assert len(summaries) == 1
    assert summaries[0].startswith("rank 1 takes 5")
    assert ran.errors == {}


def test_a_port_that_is_taken_is_what_rank_0_fails_of(smoke: Smoke) -> None:
    ran = smoke(busy_port=True)
    assert ran.first == [(0, "rendezvous", "exception")]
    assert "address already in use" in (ran.failed[0].message or "").lower()


def test_torchrun_starts_the_same_ranks_and_its_death_is_seen(smoke: Smoke) -> None:
    ran = smoke(launcher="torchrun", fault="rank:1,kind:kill,stage:training")
    assert ran.first == [(1, "training", "exit")]
    assert ended(ran).left_behind == ()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "spawn", "shell", "torch.distributed.launch"])
def test_every_launcher_starts_the_same_ranks(smoke: Smoke, launcher: str) -> None:
    ran = smoke(launcher=launcher)
    assert ran.errors == {}
    assert ran.failed == []


def test_a_launcher_that_the_target_lacks_is_named(smoke: Smoke) -> None:
    with pytest.raises(Refused, match="lacks accelerate"):
        smoke(launcher="accelerate")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 4, 8])
def test_other_numbers_of_ranks(smoke: Smoke, ranks: int) -> None:
    ran = smoke(ranks=ranks)
    assert ran.errors == {}
    assert len(ran.outcome.stages) == ranks


@pytest.mark.slow
def test_fsdp_trains_to_the_same_result(smoke: Smoke) -> None:
    ran = smoke(strategy="fsdp")
    assert ran.errors == {}
    assert ran.outcome.mean_losses() == pytest.approx(ran.outcome.reference(), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(20))
@pytest.mark.parametrize("name", FAULTS)
def test_the_rank_that_breaks_is_named_every_time(smoke: Smoke, name: str, turn: int) -> None:
    fault, limits, blamed = FAULTS[name]
    ran = smoke(fault=fault, deadlines_s={**PATIENT, **limits})
    must_blame(ran, fault, limits, blamed)
    if blamed[2] == "hang":
        assert overdue_s(ran, blamed[1], limits[blamed[1]]) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(100))
def test_clean_runs_have_no_findings(smoke: Smoke, turn: int) -> None:
    assert smoke().errors == {}


def started(torch_python: Path, *more: str, **environ: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "npudoctor", "smoke", "--device", "cpu", "--format", "jsonl", *more]
    return subprocess.Popen(
        [*command, "--python", str(torch_python), "--bandwidth-time", "0.2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )


def ranks_of(process: "subprocess.Popen[str]") -> list[int]:
    """The processes of both ranks, as their events tell."""
    import json

    pids: list[int] = []
    assert process.stdout is not None
    while len(pids) < 2:
        event = json.loads(process.stdout.readline())
        if event["event"] == "rank-started":
            pids.append(event["pid"])
    return pids


def all_gone(pids: list[int], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(map(launch.is_alive, pids)):
        time.sleep(0.05)
    return not any(map(launch.is_alive, pids))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_whoever_ends_npudoctor_ends_its_ranks(torch_python: Path, number: int, code: int) -> None:
    with started(torch_python, NPUDOCTOR_SMOKE_FAULT="rank:1,kind:import-hang,stage:launch") as process:
        pids = ranks_of(process)
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode == code
    assert all_gone(pids)


def test_the_worker_is_written_for_python_3_7() -> None:
    import ast

    ast.parse(Path(plan.WORKER).read_text(), feature_version=(3, 7))


def test_the_outcome_of_a_stage_is_told_as_it_happens(smoke: Smoke) -> None:
    ran = smoke(fault="rank:1,kind:raise,stage:in-sync")
    told = [(one.rank, one.stage, one.outcome) for one in ran.events if isinstance(one, RankStage)]
    assert told.index((1, "training", Outcome.OK)) < told.index((1, "in-sync", Outcome.FAILED))
    assert ran.first == [(1, "in-sync", "exception")]
    assert "injected" in ran.errors["smoke.in-sync"]
