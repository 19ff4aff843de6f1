"""What a launcher has left in the environment of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Finding, Result, Severity, Skip, Status
from npudoctor.sdk import Unavailable
from npudoctor.testing import run_check

Nodes = Callable[..., Any]
ID = "env.launcher-leftovers"
RANK = {"RANK": "1", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8"}


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "29511"},
        {**RANK, "TORCHELASTIC_RUN_ID": "a1"},
    ],
)
def test_nothing_left_over_passes(node: Nodes, environ: dict[str, str]) -> None:
    result = node(environ=environ).check(ID)
    assert (result.status, result.findings) == (Status.OK, ())


def test_the_place_of_a_rank_in_a_shell_is_a_warning(node: Nodes) -> None:
    finding = only(node(environ=RANK).check(ID))
    assert (finding.severity, finding.pitfall) == (Severity.WARNING, "P024")
    assert finding.summary == ("Stale launcher variables set: RANK=1, LOCAL_RANK=1, WORLD_SIZE=8, LOCAL_WORLD_SIZE=8")
    assert finding.commands == ("unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE",)


def test_while_a_job_runs_it_is_info(node: Nodes) -> None:
    busy = node(environ=RANK, job={"ranks": 8})
    assert only(busy.check(ID)).severity is Severity.INFO
    assert only(busy.check(ID, expect_idle=True)).severity is Severity.WARNING


@pytest.mark.parametrize(
    ("product", "lost", "local", "chips"),
    [
        ("atlas-800t-a3", {"id": 2, "chip": 1}, 16, None),
        ("atlas-800t-a3", {"id": 2, "chip": 1}, 17, 16),
        ("atlas-800t-a2-910b2", {"id": 2}, 8, 7),
    ],
)
def test_a_lost_half_of_an_npu_makes_no_rank_too_many(
    node: Nodes, product: str, lost: dict[str, Any], local: int, chips: int | None
) -> None:
    environ = {"LOCAL_WORLD_SIZE": str(local), "TORCHELASTIC_RUN_ID": "a1"}
    gone = {**lost, "missing": ["pci", "npu-smi", "device-node"]}
    found = node(product=product, card=[gone], environ=environ).check(ID).findings
    assert [one.params["chips"] for one in found] == ([] if chips is None else [chips])


@pytest.mark.parametrize(
    ("environ", "summary"),
    [
        ({"RANK": "8", "WORLD_SIZE": "8"}, "RANK=8 is not below WORLD_SIZE=8"),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2"),
        ({"LOCAL_WORLD_SIZE": "16", "WORLD_SIZE": "32"}, "LOCAL_WORLD_SIZE=16, but only 8 chips for these ranks"),
        ({"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "2"}, "LOCAL_WORLD_SIZE=4 is more than WORLD_SIZE=2"),
        (
            {"LOCAL_RANK": "4", "ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3"},
            "LOCAL_RANK=4, but only 4 chips for these ranks",
        ),
        ({"WORLD_SIZE": "eight"}, "WORLD_SIZE invalid: 'eight' is not a whole number"),
    ],
)
def test_values_that_do_not_fit_each_other_are_said(node: Nodes, environ: dict[str, str], summary: str) -> None:
    finding = only(node(environ=environ).check(ID))
    assert (finding.severity, finding.summary) == (Severity.WARNING, summary)
    worker = only(node(environ={**environ, "TORCHELASTIC_RUN_ID": "a1"}).check(ID))
    assert worker.severity is Severity.ERROR


@pytest.mark.parametrize("mark", ["KUBERNETES_SERVICE_HOST", "SLURM_JOB_ID", "MA_NUM_HOSTS"])
def test_an_orchestrator_sets_them_itself(node: Nodes, mark: str) -> None:
    assert node(environ={**RANK, mark: "1"}).check(ID).skip is Skip.NOT_APPLICABLE


def test_without_a_job_environment_nothing_is_judged() -> None:
    result = run_check(ID, options={"role": "full"}, files={"/dev/davinci0": ""}, environ=Unavailable("cron has none"))
    assert (result.status, result.reason) == (Status.SKIPPED, "cron has none")
