"""How far each problem is, on the command line: open, in force now, after a login or a reboot, verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from npudoctor import plugins, sim
from npudoctor.cli.progressed import Progressed
from npudoctor.findings import (
    Finding,
    FixOffer,
    HostSummary,
    ProblemProgress,
    Report,
    Result,
    Severity,
    Status,
    Verdict,
    count,
)
from npudoctor.fixer.journal import Journal
from npudoctor.host import Refused
from npudoctor.report import case, html, markdown, page, text

from .conftest import Command


def told(*stages: ProblemProgress | None) -> Report:
    """A report with a problem of each of these stages."""
    results = tuple(
        Result(
            check=f"a.b{number}",
            title="t",
            status=Status.ERROR,
            findings=(Finding(summary="x is wrong", severity=Severity.ERROR, fix=FixOffer(id="x.y")),),
            progress=stage,
        )
        for number, stage in enumerate(stages)
    )
    return Report(
        tool_version="1",
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
        host=HostSummary(hostname="n"),
        profile="standard",
        verdict=Verdict.ERROR,
        exit_code=1,
        role="full",
        in_service=False,
        environment="process",
        summary=count(results),
        results=results,
    )


LOGIN = ProblemProgress(stage="after-login", text="fixed by x.y; in force in new logins", waits=True, fix="x.y")
BOOT = ProblemProgress(stage="after-reboot", text="fixed by x.y; in force after a reboot", waits=True, fix="x.y")
OPEN = ProblemProgress(stage="open", text="open")


def test_a_problem_that_waits_for_a_login_is_said_to_be_fixed_and_no_fix_is_offered_again() -> None:
    for shown in (page.render(told(LOGIN)), text.render(told(LOGIN))):
        assert LOGIN.text in shown
        assert "--environment login" in shown.splitlines()[-1]
    assert "npudoctor fix x.y" not in page.render(told(LOGIN))


def test_a_problem_that_waits_for_a_reboot_names_the_reboot() -> None:
    shown = page.render(told(BOOT))
    assert BOOT.text in shown
    assert "reboot and check again" in " ".join(shown.split())


def test_the_next_command_is_of_a_problem_that_is_still_open() -> None:
    shown = page.render(told(LOGIN, OPEN))
    assert shown.splitlines()[0].endswith("2 problems found, 1 of them fixed: in force later")
    assert shown.splitlines()[-1] == "  $ npudoctor fix x.y"
    assert "state     open" not in shown, "that is what a problem is without a word"


def test_every_format_has_the_state() -> None:
    for shown in (markdown.render(told(LOGIN)), html.render(told(LOGIN)), case.markdown(case.Case(report=told(LOGIN)))):
        assert LOGIN.text in shown


def test_check_and_setup_say_how_far_each_problem_is(npudoctor: Command, tmp_path: Path) -> None:
    node = ("--simulate", "new-node", "--state", str(tmp_path))
    done = npudoctor("setup", "--yes", *node)
    assert "cann.environment: fixed by env.profile; verified for the next login" in done.out
    assert "hccl.ports-reserved: fixed by hccl.reserve-ports; in force now and verified" in done.out
    assert "  python.pairing: open\n" in done.out
    stages = {one["check"]: one["stage"] for one in npudoctor("setup", "--yes", "--json", *node).json["progress"]}
    assert stages == {"cann.environment": "verified", "hccl.ports-reserved": "verified", "python.pairing": "open"}
    assert "verified: cann.environment, hccl.ports-reserved" in " ".join(npudoctor("check", *node).out.split())
    assert "fixed by env.profile" in npudoctor("check", "-v", *node).out
    report = npudoctor("check", "--json", *node).json
    said = {one["check"]: one["progress"] for one in report["results"] if one["progress"]}
    assert said["hccl.ports-reserved"]["run"].endswith("hccl.reserve-ports")
    assert said["python.pairing"] == {"stage": "open", "text": "open", "waits": False, "fix": None, "run": None}


def test_undoing_one_fix_forgets_no_other(npudoctor: Command, tmp_path: Path) -> None:
    node = ("--simulate", "new-node", "--state", str(tmp_path))
    assert npudoctor("setup", "--yes", *node).code == 1
    assert npudoctor("undo", *node).code == 0
    report = npudoctor("check", "--json", *node).json
    said = {one["check"]: one["progress"]["stage"] for one in report["results"] if one["progress"]}
    assert said == {"cann.environment": "verified", "hccl.ports-reserved": "open", "python.pairing": "open"}


def test_a_journal_that_is_not_valid_or_missing_changes_no_report() -> None:
    node = sim.simulate("new-node")
    found = told(None)
    assert Progressed(node, plugins.load()).report(found) is found
    journal = Journal(node)
    journal.prepare()
    run = f"{journal.folder}/runs/20260101T00000000-x.y"
    node.make_folder(run, mode=0o700)
    node.write_file(f"{run}/status.json", b"[]", mode=0o600)
    with pytest.raises(Refused):
        journal.history()
    assert Progressed(node, plugins.load()).report(found) is found
