"""What the screens show, without a screen."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from npudoctor import engine
from npudoctor.findings import Finding, Result, Severity, Status
from npudoctor.fixer.events import in_one_line
from npudoctor.fixer.progress import Change
from npudoctor.sdk import Effect
from npudoctor.tui.model import cards, clock, detail, fixing, node, running, saving, settings, topology
from npudoctor.tui.model import environment as variables
from npudoctor.tui.model.diagnosis import BROKEN, WAITING, Diagnosis, Shown, State
from npudoctor.tui.model.session import Session
from tests.tui.driving import FEW, node_of


def looked_at(scenario: str, names: tuple[str, ...] = FEW) -> tuple[Session, Diagnosis]:
    session, diagnosis = Session(lambda: node_of("--simulate", scenario, names=names)), Diagnosis()
    diagnosis.begin(running.checks(session))
    for event in session.run():
        diagnosis.take(event)
    return session, diagnosis


def fixed(diagnosis: Diagnosis, check: str, effect: Effect) -> Change:
    """An applied run for the present findings of a check."""
    aims = frozenset((check, finding.subject) for finding in diagnosis.results[check].findings)
    return Change(run="1", fix="env.profile", effect=effect, at="2026-11-21T12:00:00+00:00", aims=aims)


def test_before_a_result_every_check_waits_for_its_turn() -> None:
    session, diagnosis = Session(lambda: node_of("--simulate", "healthy-a3", names=FEW)), Diagnosis()
    diagnosis.begin(running.checks(session))
    assert {row.state for row in diagnosis.rows()} == {State.PENDING}
    assert diagnosis.headline().state is State.RUNNING
    diagnosis.take(engine.Started("npu.present"))
    assert diagnosis.row("npu.present").state is State.RUNNING
    assert diagnosis.progress == (0, len(FEW))


def test_what_to_mend_stands_first_and_errors_before_warnings() -> None:
    _, diagnosis = looked_at("new-node")
    first = diagnosis.sections(Shown())[0]
    assert first.name == BROKEN
    assert [row.state for row in first.rows] == sorted(
        (row.state for row in first.rows), key=[State.ERROR, State.WARNING].index
    )
    assert diagnosis.headline().check == first.rows[0].check
    assert diagnosis.headline().more == len(first.rows) - 1


def test_the_headline_is_the_cause_that_the_report_names() -> None:
    from npudoctor.report import cause

    for scenario in ("new-node", "sick-cards", "bare-host"):
        _, diagnosis = looked_at(scenario)
        assert diagnosis.report is not None
        found = cause.primary(diagnosis.report)
        assert found is not None
        assert (diagnosis.headline().check, diagnosis.headline().text) == (found[0].check, found[1])


def test_a_healthy_node_has_nothing_to_mend() -> None:
    _, diagnosis = looked_at("healthy-a3")
    assert BROKEN not in [section.name for section in diagnosis.sections(Shown())]
    assert diagnosis.headline().state is State.OK


def test_the_filter_takes_words_of_id_title_and_summary() -> None:
    _, diagnosis = looked_at("new-node")
    rows = [row.check for section in diagnosis.sections(Shown(words="ports 60000")) for row in section.rows]
    assert rows == ["hccl.ports-reserved"]
    hidden = diagnosis.sections(Shown(ok=False, skipped=False))
    assert {row.state for section in hidden for row in section.rows} <= {State.ERROR, State.WARNING}


def test_a_fix_in_force_after_a_new_login_is_no_failure_and_no_ok() -> None:
    _, diagnosis = looked_at("new-node")
    diagnosis.know([fixed(diagnosis, "cann.environment", Effect.NEW_LOGIN)], None, at_login=False)
    row = diagnosis.row("cann.environment")
    assert (row.state, row.summary) == (State.WAITING, "fixed by env.profile; in force in new logins")
    broken, waiting = diagnosis.sections(Shown())[:2]
    assert (broken.name, waiting.name) == (BROKEN, WAITING)
    assert [row.check for row in waiting.rows] == ["cann.environment"]
    diagnosis.take(engine.Finished(Result(check="cann.environment", title="…", status=Status.OK)))
    assert diagnosis.row("cann.environment").state is State.OK


def test_the_detail_says_what_why_what_to_do_and_what_was_seen() -> None:
    _, diagnosis = looked_at("new-node")
    blocks = detail.blocks(diagnosis, "hccl.ports-reserved")
    kinds = [block.kind for block in blocks]
    for kind in (detail.Kind.TITLE, detail.Kind.TEXT, detail.Kind.COMMAND, detail.Kind.SOURCE, detail.Kind.EXPECTED):
        assert kind in kinds
    assert next(block.text for block in blocks if block.kind is detail.Kind.FOUND) == "nothing"


def test_a_skipped_check_links_to_its_cause() -> None:
    _, diagnosis = looked_at("new-node")
    link = next(block for block in detail.blocks(diagnosis, "cann.single") if block.kind is detail.Kind.LINK)
    assert link.target == "cann.environment"


def test_a_crash_shows_where_it_failed() -> None:
    diagnosis = Diagnosis()
    diagnosis.take(engine.Finished(Result(check="a.b", title="t", status=Status.CRASHED, reason="r", detail="line 1")))
    blocks = detail.blocks(diagnosis, "a.b")
    assert [block.text for block in blocks if block.kind is detail.Kind.TRACE] == ["line 1"]
    assert diagnosis.headline().state is State.CRASHED


def test_commands_are_offered_once() -> None:
    finding = Finding(severity=Severity.ERROR, summary="s", commands=("a", "b"))
    result = Result(check="a.b", title="t", status=Status.ERROR, findings=(finding, finding))
    assert detail.commands(result) == ["a", "b"]


def test_the_chain_marks_the_joint_that_is_broken() -> None:
    session, diagnosis = looked_at("new-node")
    line = node.line(session, diagnosis)
    assert [joint.name for joint in line.chain if joint.broken] == ["torch"]
    assert (line.hostname, line.cards, line.badge) == ("new-node", "8 × 910B3", "SIMULATED")


@pytest.mark.parametrize(
    ("source", "at", "expected"),
    [("live", None, ""), ("simulated", None, "SIMULATED"), ("bundle", "2026-11-20T10:00", "RECORDED 2026-11-20")],
)
def test_what_is_not_the_live_node_says_so(source: str, at: str | None, expected: str) -> None:
    assert node.badge(source, at) == expected


def test_cards_show_memory_processes_and_what_the_checks_say() -> None:
    session, diagnosis = looked_at("sick-cards")
    reading = cards.read(session, diagnosis)
    rows = {row.chip.subject: row for row in reading.rows}
    assert len(rows) == 8
    assert rows["npu:2"].state() is State.ERROR and rows["npu:2"].chip.health == "Alarm"
    assert rows["npu:6"].state() is State.WARNING and rows["npu:6"].chip.temp_c == 86
    assert rows["npu:0"].state() is State.OK
    busy, other = looked_at("in-service")
    held = cards.read(busy, other).rows[0].held[0]
    assert (held.owner, held.alive) == ("train", True)


def test_without_a_tool_the_cards_say_why() -> None:
    session, diagnosis = looked_at("bare-host")
    reading = cards.read(session, diagnosis)
    assert reading.rows == () and reading.reason


def test_the_pace_follows_the_tool_and_backs_off_where_it_fails() -> None:
    pace = cards.Pace()
    assert pace.wait_s == 2
    pace.record_duration(0.1, failed=False)
    assert pace.wait_s == 2
    pace.record_duration(1.0, failed=False)
    assert pace.wait_s == 5
    pace.record_duration(10.0, failed=True)
    pace.record_duration(10.0, failed=True)
    assert pace.wait_s == cards.Pace.MOST_S
    pace.record_duration(0.1, failed=False)
    assert pace.wait_s == 2


def test_the_pace_can_be_chosen() -> None:
    pace = cards.Pace()
    pace.step(1)
    assert pace.wait_s == 5
    for _ in range(9):
        pace.step(-1)
    assert pace.wait_s == 0.5


def test_the_one_link_that_is_unlike_its_mirror_is_odd() -> None:
    row = ("X", "HCCS", "HCCS"), ("HCCS", "X", "PIX"), ("HCCS", "HCCS", "X")
    assert (1, 2) in topology.odd_cells(row)
    grid = topology.Grid(devices=("NPU0", "NPU1", "NPU2"), matrix=row, odd=topology.odd_cells(row))
    assert grid.sentence(1, 2).startswith("NPU1 → NPU2: PIX, differs from the others: PCIe")  # in sight where it is cut
    assert topology.odd_cells((("X", "HCCS"), ("HCCS", "X"))) == frozenset()
    assert topology.odd_cells(()) == frozenset()


def test_the_two_links_of_a_matrix_have_a_legend() -> None:
    session, _ = looked_at("healthy-a3")
    grid = topology.grid(session)
    assert len(grid.devices) == 16 and not grid.odd
    assert [letter for letter, *_ in grid.legend()] == ["H", "S"]
    assert "two chips of one NPU" in grid.sentence(0, 1)


def test_variables_that_are_wrong_stand_first() -> None:
    session, diagnosis = looked_at("new-node", ())
    found = variables.variables(session, diagnosis)
    assert found.rows[0].problem and found.whose == "process"
    assert any(row.name == "ASCEND_HOME_PATH" and row.value is None and row.problem for row in found.rows)
    assert variables.matching(found.rows, words="nothing is named like this") == []
    assert all(row.value is not None or row.problem for row in variables.matching(found.rows, unset=False))


def test_settings_are_remembered_and_a_damaged_file_counts_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings.save(settings.Settings(theme="npudoctor-light", ok=False, interval_s=5.0))
    assert settings.load() == settings.Settings(theme="npudoctor-light", ok=False, interval_s=5.0)
    for damage in ("{", "[]", '{"theme": 3, "interval_s": "x"}', '{"interval_s": 0.0001}'):
        Path(settings.path()).write_text(damage, encoding="utf-8")
        assert settings.load() == settings.Settings()


def test_a_report_is_saved_once_and_nothing_is_overwritten(tmp_path: Path) -> None:
    session, diagnosis = looked_at("new-node")
    place = saving.save(session, diagnosis.report, saving.JSON, str(tmp_path / "a.json"))
    assert json.loads(Path(place).read_text(encoding="utf-8"))["verdict"] == "error"
    with pytest.raises(saving.NotSaved, match="exists"):
        saving.save(session, diagnosis.report, saving.MARKDOWN, place)
    with pytest.raises(saving.NotSaved):
        saving.save(session, None, saving.MARKDOWN, str(tmp_path / "b.md"))


def test_a_recording_can_be_replayed(tmp_path: Path) -> None:
    session, diagnosis = looked_at("new-node")
    place = saving.save(session, diagnosis.report, saving.RECORDING, str(tmp_path / "node.tar.gz"))
    again, seen = Session(lambda: node_of("--replay", place, names=FEW)), Diagnosis()
    seen.begin(running.checks(again))
    for event in again.run():
        seen.take(event)
    assert seen.headline() == diagnosis.headline()
    assert again.history() == []
    assert fixing.propose(again, seen, ()).obstacle == fixing.RECORDED


def test_a_fix_is_proposed_in_full_and_changes_nothing_before_it_is_carried_out() -> None:
    session, diagnosis = looked_at("new-node")
    job = fixing.propose(session, diagnosis, ("hccl.ports-reserved",))
    assert job.ready and job.word is None
    assert job.command[-2:] == ("--simulate", "new-node")
    assert any(line.kind is fixing.Kind.PLUS and "60000-60031" in line.text for line in job.lines)
    assert session.history() == []
    told = list(fixing.carry_out(session, job))
    assert told[-1].kind is fixing.Kind.DONE
    (run,) = session.history()
    assert run["status"] == "applied"
    undone = list(fixing.carry_out(session, fixing.undoing(session, run)))
    assert undone[-1].text.startswith("undone")
    assert fixing.undoing(session, session.history()[0]).obstacle == "already undone"


def test_what_a_crash_has_cut_off_is_undone_before_anything_else() -> None:
    session, diagnosis = looked_at("new-node")
    list(fixing.carry_out(session, fixing.propose(session, diagnosis, ("hccl.ports-reserved",))))
    (run,) = session.history()
    with session.looking() as found:
        host: Any = found
        path = f"/var/lib/npudoctor/runs/{run['id']}/status.json"
        host.write_file(path, host.read(path).replace("applied", "applying", 1).encode())
    job = fixing.propose(session, diagnosis, ("python.pairing",))
    assert job.ready and job.recovers and "npudoctor fix --recover" in job.command_line
    assert fixing.undoing(session, session.history()[0]) == job
    assert list(fixing.carry_out(session, job))[-1].kind is fixing.Kind.DONE
    assert session.history()[0]["status"] == "rolled-back"
    assert not fixing.propose(session, diagnosis, ("python.pairing",)).recovers


def test_what_cannot_be_undone_wants_its_name_typed_and_what_needs_root_names_the_command() -> None:
    plan: Any = _plan(irreversible=True)
    assert fixing.job_of([plan]).word == "npu.release"
    barred = fixing.job_of([_plan(root=True)])
    assert not barred.ready
    assert barred.command_line == "sudo npudoctor fix npu.release"


def _plan(*, irreversible: bool = False, root: bool = False) -> Any:
    from npudoctor.fixer.plan import FixPlan, Planned
    from npudoctor.sdk import Run, fix
    from npudoctor.steps import Obstacle

    @fix("npu.release", resolves=("npu.processes",))
    def release():  # type: ignore[no-untyped-def]
        """End the processes that hold the cards."""
        yield Run(("kill", "1"))

    step = Run(("kill", "1"))
    inverse = None if irreversible else step
    return FixPlan(
        fix=release,
        steps=(Planned(step, "$ kill 1", inverse),),
        obstacle=Obstacle("only root can apply it", root=True) if root else None,
    )


def test_times_are_those_of_the_clock_on_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert clock.time_of_day("2026-11-21T19:17:17+00:00") == "03:17"
        assert clock.day_and_time("2026-11-21T19:17:17+00:00") == "2026-11-22 03:17"
        assert clock.day_and_time("long ago") == "long ago"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_step_names_the_file_that_it_removes_or_makes_and_each_value_that_it_changes() -> None:
    made = "--- /dev/null\n+++ /etc/a.conf (then)\n@@ -0,0 +1 @@\n+x\n"
    removed = "--- /etc/a.conf (now)\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    packages = "torch: 2.5.1 → 2.6.0\ntorch-npu: 2.5.1 → 2.6.0\n$ pip install torch\n"
    assert [in_one_line(one) for one in (made, removed, packages, "kernel.x: 1 → 2\n", "$ reboot\n", "")] == [
        "/etc/a.conf is written",
        "/etc/a.conf is removed",
        "torch: 2.5.1 → 2.6.0; torch-npu: 2.5.1 → 2.6.0",
        "kernel.x: 1 → 2",
        "$ reboot",
        "nothing",
    ]


def test_a_fix_without_steps_says_that_it_changes_nothing() -> None:
    session, diagnosis = looked_at("container-broken", names=("container.devices",))
    job = fixing.propose(session, diagnosis, ("container.devices",))
    about = next(line.text for line in job.lines if line.kind is fixing.Kind.ABOUT)
    assert about == "container.run-command · changes nothing"
