"""Which NPUs a run tests and names: a sick one is never among those that pass, and never silently left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins, sim
from npudoctor.cli import main
from npudoctor.data import to_json
from npudoctor.findings import Finding, Result, Severity, Silenced, Status
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.models import adapter
from npudoctor.records import replace
from npudoctor.report.smoke import headline
from npudoctor.sdk import Options
from npudoctor.smoke import coverage, plan
from npudoctor.smoke.events import Cause, Ended, Event, Outcome, Planned, RankFailed, RankStage, SmokeReport
from npudoctor.smoke.plan import Known, Misused, Refused, Request
from npudoctor.smoke.session import Session


def session_on(scenario: str, **asked: Any) -> Session:
    host = sim.simulate(scenario)
    assert isinstance(host, SimulatedHost)
    return Session(catalog=plugins.load(), host=host, request=Request(**asked), options=Options())


def of(check: str, subject: str, code: str = "", severity: Severity = Severity.ERROR, **params: Any) -> Result:
    finding = Finding(
        code=f"{check}/{code}" if code else None, params=params, subject=subject, severity=severity, summary="broken"
    )
    return Result(check=check, title="", status=Status.ERROR, findings=(finding,))


def report_on(session: Session, known: Known, *after: Result, failed: int | None = None) -> SmokeReport:
    """The report of a run as planned, in which all goes well, or in which one rank dies in training."""
    planned = plan.make(session.request, known).planned
    seen: list[Event] = [planned]
    for one in planned.ranks:
        stages = list(planned.deadlines_s)
        passed = stages if failed is None else stages[: stages.index("training")]
        seen += [RankStage(at_s=1.0, rank=one.rank, stage=stage, outcome=Outcome.OK, seconds=1.0) for stage in passed]
    if failed is not None:
        card = planned.ranks[failed].card
        seen.append(
            RankFailed(
                at_s=2, rank=failed, stage="training", cause=Cause.SIGNAL, first=True, card=card, signal="SIGKILL"
            )
        )
    seen.append(Ended(at_s=9.0))
    judging = session._judging("", seen, coverage.unhealthy_chips(planned, known.health, after))
    while True:
        try:
            next(judging)
        except StopIteration as end:
            assert isinstance(end.value, SmokeReport)
            return end.value


@pytest.mark.parametrize(
    ("node", "health", "asked", "code", "line"),
    [
        ("seed-910b1", [], {}, 0, "PASS: 8 of 8 NPUs"),
        ("healthy-a3", [], {}, 0, "PASS: 8 of 8 NPUs (16 of 16 chips)"),
        (
            "seed-910b1",
            [of("npu.health", "npu:6", "critical", health="Critical")],
            {},
            3,
            "INCOMPLETE: 7 of 8 NPUs tested, npu:6 excluded (Critical)",
        ),
        (
            "healthy-a3",
            [of("npu.health", "npu:3/chip:1", "alarm", health="Alarm")],
            {},
            3,
            "INCOMPLETE: 7 of 8 NPUs (15 of 16 chips) tested, npu:3/chip:1 excluded (Alarm)",
        ),
        (
            "healthy-a3",
            [of("npu.pcie", "npu:5")],
            {},
            3,
            "INCOMPLETE: 7 of 8 NPUs (14 of 16 chips) tested, npu:5/chip:0 and npu:5/chip:1 excluded (broken)",
        ),
        (
            "seed-910b1",
            [of("npu.ecc", "npu:1", "uncorrected", count=4), of("npu.health", "npu:7", "alarm", health="Alarm")],
            {},
            3,
            "INCOMPLETE: 6 of 8 NPUs tested, npu:1 excluded (broken), npu:7 excluded (Alarm)",
        ),
        (
            "healthy-910a",
            [of("npu.temperature", "npu:4", "hot", celsius=97)],
            {},
            3,
            "INCOMPLETE: 7 of 8 NPUs tested, npu:4 excluded (97 °C)",
        ),
        ("seed-910b1", [of("npu.temperature", "npu:4", "warm", Severity.WARNING)], {}, 0, "PASS: 8 of 8 NPUs"),
        (
            "seed-910b1",
            [of("npu.count", "npu:8", "not-in-npu-smi", slots=["0000:c9:00.0"], count=1)],
            {},
            3,
            "INCOMPLETE: 8 of 9 NPUs tested, npu:8 excluded (missing from npu-smi)",
        ),
        (
            "seed-910b1",
            [of("npu.count", "host", "not-in-npu-smi", slots=["0000:c9:00.0", "0000:ca:00.0"], count=2)],
            {},
            3,
            "INCOMPLETE: 8 of 10 NPUs tested, 0000:c9:00.0 and 0000:ca:00.0 excluded (missing from npu-smi)",
        ),
        (
            "seed-910b1",
            [of("npu.count", "host", "fewer-chips", Severity.WARNING, count=8, full=16)],
            {"cards": (0, 1)},
            0,
            "PASS: 2 of 16 NPUs (--cards), " + " and ".join(f"NPU {place} of 8" for place in range(1, 9)),
        ),
        ("seed-910b1", [], {"cards": (0, 1, 3)}, 0, "PASS: 3 of 8 NPUs (--cards)"),
        (
            "seed-910b1",
            [of("npu.health", "npu:2", "alarm", health="Alarm")],
            {"cards": (0, 1, 3)},
            0,
            "PASS: 3 of 8 NPUs (--cards), npu:2 excluded (Alarm)",
        ),
        ("seed-910b1", [], {"ranks": 4}, 0, "PASS: 4 of 8 NPUs (--ranks)"),
    ],
)
def test_the_first_line_names_what_was_not_tested(
    node: str, health: list[Result], asked: dict[str, Any], code: int, line: str
) -> None:
    session = session_on(node, **asked)
    report = report_on(session, replace(session.look(), health=health))
    assert headline(report).startswith(line)
    assert (report.exit_code, len(report.results)) == (code, 9)
    assert report.complete == (code == 0)


def test_a_sick_npu_that_is_forced_to_take_part_does_not_pass() -> None:
    session = session_on("sick-cards", cards=(1, 2), force=True)
    report = report_on(session, session.look())
    assert headline(report) == (
        "FAIL: 2 of 8 NPUs (--cards) tested, npu:5 excluded (dropped off the PCI bus), npu:2 unhealthy (Alarm)"
    )
    assert (report.exit_code, report.verdict.value) == (1, "error")
    assert [(one.npu, one.check) for one in report.unhealthy] == [("npu:2", "npu.health")]


def test_an_npu_that_falls_sick_in_the_run_does_not_pass() -> None:
    session = session_on("seed-910b1")
    report = report_on(session, session.look(), of("npu.health", "npu:3", "alarm", health="Alarm"))
    assert headline(report) == "FAIL: 8 of 8 NPUs tested, npu:3 unhealthy (Alarm)"
    assert report.exit_code == 1


def test_a_sick_npu_that_is_named_is_refused() -> None:
    session = session_on("sick-cards", cards=(4, 5))
    with pytest.raises(Refused, match=r"npu:5 unhealthy: dropped off the PCI bus \(npu.count\)"):
        plan.make(session.request, session.look())
    with pytest.raises(Misused, match="only 6 devices"):
        plan.make(Request(ranks=7), session.look())


def test_a_finding_that_the_site_has_silenced_excludes_nothing() -> None:
    session = session_on("seed-910b1")
    quiet = replace(of("npu.ecc", "npu:1"), silenced=Silenced(reason="known"))
    assert headline(report_on(session, replace(session.look(), health=[quiet]))) == "PASS: 8 of 8 NPUs"


def test_busy_and_hidden_npus_are_not_passed_over() -> None:
    session = session_on("seed-910b1")
    known = replace(session.look(), environ={"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5"})
    report = report_on(session, known)
    assert headline(report) == (
        "INCOMPLETE: 6 of 8 NPUs tested, npu:6 and npu:7 excluded (hidden by ASCEND_RT_VISIBLE_DEVICES)"
    )
    assert report.exit_code == 3
    holders = session_on("in-service").look().holders
    assert holders is not None
    only = replace(holders, holders=tuple(one for one in holders.holders if one.row.npu_id == 4))
    report = report_on(session, replace(session.look(), holders=only))
    assert headline(report).startswith("INCOMPLETE: 7 of 8 NPUs tested, npu:4 excluded (held by ")


def test_a_run_that_fails_says_so_first_and_what_failed_last() -> None:
    session = session_on("sick-cards")
    report = report_on(session, session.look(), failed=4)
    assert headline(report) == (
        "FAIL: 6 of 8 NPUs tested, npu:2 excluded (Alarm), npu:5 excluded (dropped off the PCI bus); "
        "rank 4 on npu:6 killed by SIGKILL in training"
    )
    assert report.exit_code == 1


def test_a_recorded_run_of_a_sick_npu_does_not_pass() -> None:
    """Runs were recorded that npu-smi's word alone let a sick NPU into."""
    session = session_on("sick-cards")
    known = session.look()
    old = plan.make(Request(cards=(0, 1, 3, 5), force=True), known).planned
    old = replace(old, chips=(), excluded=(), chosen_by=None)
    read = coverage.complete_plan(adapter(Planned).validate_json(to_json(old)), known.cards, known.health, None)
    assert [one.npu for one in read.excluded] == ["npu:2", "npu:4", "npu:6", "npu:7"]
    assert [one.npu for one in coverage.unhealthy_chips(read, known.health)] == ["npu:5"]


def test_a_run_in_which_no_rank_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["smoke", "--simulate", "new-node"]) == 1
    first = " ".join(capsys.readouterr().out.partition("simulated:")[0].split())
    assert first.startswith("✖ FAIL: 8 of 8 NPUs tested; all ranks failed in launch, at import torch_npu: ImportError")


@pytest.mark.parametrize(
    ("node", "code", "line"),
    [
        ("sick-cards", 3, "INCOMPLETE: 6 of 8 NPUs tested, npu:2 excluded (Alarm), npu:5 excluded (dropped off the"),
        ("healthy-a3", 0, "PASS: 8 of 8 NPUs (16 of 16 chips)"),
        ("duo-310p", 0, "PASS: 2 of 2 NPUs (4 of 4 chips)"),
    ],
)
def test_as_a_user_runs_it_and_as_it_was_recorded(
    node: str, code: int, line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["smoke", "--simulate", node]) == code
    first = " ".join(capsys.readouterr().out.partition("simulated:")[0].split())
    assert line in first
    assert main(["record", "--simulate", node, "--profile", "full", f"{tmp_path}/node/"]) in (0, 1)
    capsys.readouterr()
    assert main(["smoke", "--replay", str(tmp_path / "node"), "--json"]) == code
    read = json.loads(capsys.readouterr().out)
    assert read["complete"] == (node != "sick-cards")
