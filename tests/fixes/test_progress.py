"""How far a problem is: by the journal, the last boot, and what the checks find."""

from __future__ import annotations

import json

import pytest

from npudoctor import plugins, sim
from npudoctor.cli import main
from npudoctor.findings import Finding, Result, Severity, Status
from npudoctor.fixer import plan, progress, runner
from npudoctor.fixer.plan import Request
from npudoctor.fixer.progress import Change, Stage
from npudoctor.sdk import Effect, Options

THEN = "2026-11-20T10:00:00+00:00"
LATER = "2026-11-20T11:00:00+00:00"


def change(effect: Effect, *subjects: str, verified: bool = True) -> Change:
    aims = frozenset(("a.b", subject) for subject in subjects or ("host",))
    return Change(run="1", fix="x.y", effect=effect, at=THEN, aims=aims, verified=verified)


def broken(*subjects: str) -> Result:
    found = tuple(Finding(severity=Severity.ERROR, summary="s", subject=subject) for subject in subjects or ("host",))
    return Result(check="a.b", title="t", status=Status.ERROR, findings=found)


PASSED = Result(check="a.b", title="t", status=Status.OK)


def stage(result: Result, *applied: Change, **about: object) -> Stage | None:
    found = progress.of_check(result, applied, **about)  # type: ignore[arg-type]
    return None if found is None else found.stage


def test_a_problem_without_a_change_is_open_or_previewed_and_no_problem_has_no_stage() -> None:
    assert stage(broken()) is Stage.OPEN
    assert stage(broken(), previewed=True) is Stage.PREVIEWED
    assert stage(PASSED) is None


def test_a_fix_for_a_login_waits_in_this_process_and_not_in_the_environment_of_that_login() -> None:
    assert stage(broken(), change(Effect.NEW_LOGIN)) is Stage.AFTER_LOGIN
    assert stage(broken(), change(Effect.NEW_LOGIN), at_login=True) is Stage.OPEN
    assert stage(PASSED, change(Effect.NEW_LOGIN), at_login=True) is Stage.VERIFIED


def test_a_fix_for_a_boot_waits_until_the_node_was_booted() -> None:
    assert stage(broken(), change(Effect.REBOOT)) is Stage.AFTER_REBOOT
    assert stage(broken(), change(Effect.REBOOT), booted_at="2026-11-01T00:00:00+00:00") is Stage.AFTER_REBOOT
    assert stage(broken(), change(Effect.REBOOT), booted_at=LATER) is Stage.OPEN
    assert progress.of_change(change(Effect.REBOOT), booted_at=LATER) is Stage.IN_FORCE


def test_a_problem_that_came_back_or_that_the_fix_was_not_for_is_open() -> None:
    assert stage(broken(), change(Effect.NOW)) is Stage.OPEN
    assert stage(broken("npu:0", "npu:1"), change(Effect.NEW_LOGIN, "npu:0")) is Stage.OPEN
    assert stage(broken("npu:0"), change(Effect.NEW_LOGIN, "npu:0", "npu:1")) is Stage.AFTER_LOGIN


def test_a_change_that_no_check_verified_is_applied() -> None:
    assert progress.of_change(change(Effect.NOW, verified=False)) is Stage.APPLIED
    assert progress.of_change(change(Effect.NOW)) is Stage.VERIFIED


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_has_a_text(stage: Stage) -> None:
    assert progress.Progress(stage=stage, change=change(Effect.NEW_LOGIN)).text
    if stage in (Stage.OPEN, Stage.PREVIEWED):
        assert progress.Progress(stage=stage).text


def test_undoing_one_fix_changes_no_other_and_the_journal_says_what_was_verified() -> None:
    catalog, host, options = plugins.load(()), sim.simulate("new-node"), Options()
    resolves = progress.resolving(catalog.fixes)
    for id in ("env.profile", "hccl.reserve-ports"):
        planned = plan.make(catalog, host, Request(id), options)
        *_, ended = runner.apply(catalog, host, planned, options)
        assert isinstance(ended, runner.Ended) and ended.outcome is runner.Outcome.APPLIED
    assert isinstance(ended, runner.Ended)
    assert ended.verification.turned == ("hccl.ports-reserved",)
    assert ended.verification.rechecked >= 2 and "✔ hccl.ports-reserved now ok" in ended.verification.text
    runs = progress.of_runs(runner.history(host), resolves, host)
    assert [(run["fix"], run["stage"]) for run in runs] == [
        ("env.profile", "after-login"),
        ("hccl.reserve-ports", "verified"),
    ]
    *_, ended = runner.undo(host)
    applied = progress.changes(runner.history(host), resolves)
    assert [(one.fix, one.covers("cann.environment")) for one in applied] == [("env.profile", True)]


def test_a_run_of_an_older_release_is_for_the_checks_that_its_fix_resolves() -> None:
    run = {"id": "1", "fix": "x.y", "effect": "new-login", "at": THEN, "status": "applied"}
    (found,) = progress.changes([run], {"x.y": ("a.b",)})
    assert found.covers("a.b", "npu:3") and not found.covers("c.d", "npu:3")
    assert progress.changes([{**run, "status": "undone"}], {}) == ()


def test_when_a_node_was_booted_is_read_from_the_kernel() -> None:
    at = progress.booted_at(sim.simulate("new-node"))
    assert at is not None and at.endswith("+00:00")


def test_history_prints_how_far_each_run_is(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    assert main(["history", "--simulate", "new-node", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
