"""What breaks a run, injected: each time the right rank and stage are named, in time, and nothing is left behind."""

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.records import field, record
from npudoctor.smoke.events import Ended, Outcome, RankStage

pytestmark = pytest.mark.torch

Smoke = Callable[..., Any]


@record(frozen=True, kw_only=True)
class Fault:
    """What is injected, the deadlines in seconds, and what is to come of it.

    `blamed` is the rank that broke, its stage and cause; None where the run goes on and the values tell. `severity`
    and `summary` are those of the finding of `check`.
    """

    inject: str = ""
    check: str
    summary: str
    blamed: tuple[int, str, str] | None = None
    severity: str = "error"
    deadlines_s: dict[str, float] = field(default_factory=dict)
    busy_port: bool = False


PATIENT = {"launch": 90.0, "rendezvous": 60.0, "collectives": 60.0, "training": 90.0}
FAULTS = {
    "wrong sum": Fault(
        inject="rank:1,kind:wrong-sum,stage:collectives",
        check="smoke.collectives",
        summary="rank 1 receives wrong values: all_reduce fp32",
    ),
    "wrong part": Fault(
        inject="rank:1,kind:wrong-part,stage:collectives",
        check="smoke.collectives",
        summary="rank 1 sends wrong values: ",
    ),
    "NaN": Fault(
        inject="rank:1,kind:nan,stage:training",
        check="smoke.training",
        summary="loss of rank 1 not finite at step 2",
    ),
    "out of sync": Fault(
        inject="rank:0,kind:out-of-sync,stage:in-sync",
        check="smoke.in-sync",
        summary="parameters differ between the ranks",
    ),
    "slow": Fault(
        inject="rank:1,kind:slow,stage:scaling,s:0.02",
        check="smoke.scaling",
        summary="rank 1 slow: ",
        severity="info",
    ),
    "exit": Fault(
        inject="rank:1,kind:exit,stage:training",
        check="smoke.training",
        summary="rank 1 exited with status 3 in training without an error message",
        blamed=(1, "training", "exit"),
    ),
    "SIGKILL": Fault(
        inject="rank:0,kind:kill,stage:collectives",
        check="smoke.collectives",
        summary="rank 0 killed by SIGKILL in collectives",
        blamed=(0, "collectives", "signal"),
    ),
    "crash": Fault(
        inject="rank:1,kind:segv,stage:bandwidth",
        check="smoke.bandwidth",
        summary="rank 1 killed by SIGSEGV in bandwidth",
        blamed=(1, "bandwidth", "signal"),
    ),
    "exception": Fault(
        inject="rank:1,kind:raise,stage:in-sync",
        check="smoke.in-sync",
        summary="rank 1 failed in in-sync: RuntimeError: injected: this rank raises in in-sync",
        blamed=(1, "in-sync", "exception"),
    ),
    "hang before a collective": Fault(
        inject="rank:1,kind:hang,stage:rendezvous",
        check="smoke.rendezvous",
        summary="rank 1 hung in rendezvous",
        blamed=(1, "rendezvous", "hang"),
        deadlines_s={"rendezvous": 3.0},
    ),
    "hang in a collective": Fault(
        inject="rank:1,kind:hang-in,stage:collectives",
        check="smoke.collectives",
        summary="rank 1 hung in collectives, at all_reduce fp32",
        blamed=(1, "collectives", "hang"),
        deadlines_s={"collectives": 3.0},
    ),
    "stopped": Fault(
        inject="rank:0,kind:stop,stage:in-sync",
        check="smoke.in-sync",
        summary="rank 0 stopped (state T) in in-sync",
        blamed=(0, "in-sync", "hang"),
        deadlines_s={"in-sync": 3.0, "parity": 4.0},
    ),
    "import error": Fault(
        inject="rank:1,kind:import-error,stage:launch",
        check="smoke.launch",
        summary="rank 1 failed in launch: ImportError: libhccl.so: cannot open shared object file",
        blamed=(1, "launch", "exception"),
    ),
    "import hang": Fault(
        inject="rank:0,kind:import-hang,stage:launch",
        check="smoke.launch",
        summary="rank 0 hung in launch",
        blamed=(0, "launch", "hang"),
        deadlines_s={"launch": 12.0},
    ),
    "port taken": Fault(
        check="smoke.rendezvous",
        summary="rank 0 failed in rendezvous, at init_process_group",
        blamed=(0, "rendezvous", "exception"),
        busy_port=True,
    ),
    "wrong world size": Fault(
        inject="rank:1,kind:world-size",
        check="smoke.rendezvous",
        summary="rank 1 cannot join: WORLD_SIZE mismatch: started with 3, expected 2",
        blamed=(1, "rendezvous", "world-size"),
    ),
}


def ended(ran: Any) -> Ended:
    assert isinstance(ran.events[-1], Ended)
    return ran.events[-1]


def must_be_caught(ran: Any, fault: Fault) -> None:
    """The rank, the stage, the cause and the finding are the right ones, alone, and no process is left."""
    assert ran.first == ([fault.blamed] if fault.blamed else []), ran.failed
    summaries = {
        check: [finding.summary for finding in result.findings if finding.severity.value == fault.severity]
        for check, result in ran.results.items()
    }
    assert [check for check, said in summaries.items() if said] == [fault.check], summaries
    assert len(summaries[fault.check]) == 1
    assert fault.summary in summaries[fault.check][0]
    if fault.blamed is not None and fault.blamed[2] == "hang":
        assert ran.failed[0].stack or ran.failed[0].state == "T"
    assert ended(ran).left_behind == ()
    assert ran.left == []


def overdue_s(ran: Any, stage: str, limit_s: float) -> float:
    """How long after its deadline a stage was given up."""
    begins = [one.at_s for one in ran.events if isinstance(one, RankStage) and one.stage == stage]
    start = 0.0 if stage == "launch" else max(begins[:2])
    return float(ran.failed[0].at_s - start - limit_s)


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_broken_is_named(smoke: Smoke, name: str) -> None:
    fault = FAULTS[name]
    soon = {stage: 1.5 + place for place, stage in enumerate(fault.deadlines_s)}
    ran = smoke(fault=fault.inject, busy_port=fault.busy_port, deadlines_s={**PATIENT, **soon})
    must_be_caught(ran, fault)


def test_no_rank_is_blamed_for_being_at_work_when_the_time_of_the_run_is_up(smoke: Smoke) -> None:
    ran = smoke(fresh=True, timeout_s=0.3)
    assert ran.first == []
    assert ran.errors["smoke.launch"].startswith("time limit of the smoke run exceeded in launch")


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(20))
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_broken_is_named_every_time(smoke: Smoke, name: str, turn: int) -> None:
    """One of five in interpreters that start for it; the others in ranks that are there at once."""
    fault, fresh = FAULTS[name], turn % 5 == 0
    limits = {**PATIENT, **fault.deadlines_s}
    ran = smoke(fresh=fresh, fault=fault.inject, busy_port=fault.busy_port, deadlines_s=limits)
    must_be_caught(ran, fault)
    if fault.blamed is not None and fault.blamed[2] == "hang":
        assert overdue_s(ran, fault.blamed[1], fault.deadlines_s[fault.blamed[1]]) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(100))
def test_clean_runs_have_no_errors(smoke: Smoke, turn: int) -> None:
    ran = smoke(fresh=turn % 2 == 0)
    assert ran.errors == {}
    assert ran.failed == []
    assert ran.left == []


def test_the_outcome_of_a_stage_is_told_as_it_happens(smoke: Smoke) -> None:
    ran = smoke(fault="rank:1,kind:raise,stage:in-sync")
    told = [(one.rank, one.stage, one.outcome) for one in ran.events if isinstance(one, RankStage)]
    assert told.index((1, "training", Outcome.OK)) < told.index((1, "in-sync", Outcome.FAILED))
