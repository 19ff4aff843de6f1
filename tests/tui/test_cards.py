"""The NPUs over time, their numbers, and the processes on them."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from textual.content import Content
from textual.geometry import Region
from textual.widgets import Input

from npudoctor import sim
from npudoctor.facts.node.chips import NodeChip
from npudoctor.facts.node.launch import LaunchVariables
from npudoctor.facts.node.running_containers import RunningContainer, RunningContainers
from npudoctor.host import Unavailable
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.bars import bar, curve
from npudoctor.tui.model import cards
from npudoctor.tui.model.cards import ChipRow
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.model.holders import Boxes, Held, order_held
from npudoctor.tui.model.series import KEPT, Series, span
from npudoctor.tui.screens.fix import FixDialog
from npudoctor.tui.widgets.page import Page, Paragraph
from tests.tui.driving import FEW, Driver, node_of, play, play_on, press, text, until
from tests.tui.test_views import looked_at


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def test_an_unknown_value_is_drawn_as_unknown_and_not_as_zero() -> None:
    assert curve([0, None, 100], 5) == ["▁·█··"]
    assert curve([None, 50], 4, height=2) == [" ▁  ", "·█··"]
    assert curve([20, 110], 2, least=20, most=110) == ["▁█"]
    assert bar(None, 4) == ("", "····") and bar(0.0, 4) == ("", "░░░░") and bar(0.5, 4) == ("██", "░░")


def test_series_keep_what_was_read_and_what_was_not() -> None:
    series = Series()
    for load in (None, 30, None):
        chip = NodeChip(subject="npu:0", aicore_pct=load, memory_used_mb=512, memory_mb=1024)
        series.add([ChipRow(chip=chip, ecc_errors=2)], "12:00:00")
    assert series.of("npu:0", "AI Core") == (None, 30, None)
    assert series.of("npu:0", "HBM") == (50, 50, 50) and series.of("npu:0", "ECC") == (2, 2, 2)
    assert series.of("npu:0", "temp") == (None, None, None) and span(series.of("npu:0", "temp")) is None
    assert series.of("npu:9", "power") == ()
    for _ in range(2 * KEPT):
        series.add([ChipRow(chip=NodeChip(subject="npu:0"))], "12:00:01")
    assert len(series.of("npu:0", "AI Core")) == KEPT and series.since == "12:00:00"


def test_the_curve_of_a_row_has_a_value_for_several_readings() -> None:
    series = Series()
    for number in range(3 * KEPT):
        load = 90 if number == 2 * KEPT + 40 else None if number < 2 * KEPT + 16 else 5
        series.add([ChipRow(chip=NodeChip(subject="npu:0", aicore_pct=load))], "12:00:00")
    assert series.peaks("npu:0", "AI Core", 15) == (None, None, 5, 5, 5, 90, *[5] * 9)
    assert series.peaks("npu:9", "AI Core", 15) == ()


def test_a_reading_more_changes_one_column_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        page = app.screen.query_one("#page", Page)
        changed: list[object] = []
        monkeypatch.setattr(page, "refresh", lambda *regions, **more: changed.append(regions or more))
        blue = Content.styled("▁▁▁", "blue")
        for said in (
            Content("▁▁··"),
            Content("▁▁▁·"),
            Content("▁▁▁·"),
            blue + Content("·"),
            Content("中文▁·"),
            Content("中国▁·"),
        ):
            page.show([Paragraph(said, "A "), Paragraph(Content("same"))])
        assert changed[1:] == [
            (Region(4, 0, 1, 1),),
            (Region(2, 0, 3, 1),),
            (Region(2, 0, 6, 1),),
            (Region(4, 0, 2, 1),),
        ]

    play("healthy-a3", acts)


def test_a_chip_whose_health_was_not_judged_is_not_ok() -> None:
    assert ChipRow(chip=NodeChip(subject="npu:0"), checked=False).state() is State.PENDING
    assert ChipRow(chip=NodeChip(subject="npu:0")).state() is State.OK


def test_all_numbers_of_a_chip_are_in_one_row() -> None:
    chip = NodeChip(subject="npu:3/chip:1", npu_id=3, chip_id=1, device=7)
    row = ChipRow(chip=chip, logical=7)
    assert row.identity.split() == ["NPU", "3", "chip", "1", "physical", "unknown", "logical", "7", "davinci", "7"]
    rows = cards.read(*looked_at("healthy-a3", names=())).rows
    assert [row.chip.npu_id for row in rows[:2]] == [0, 0]
    assert all("physical unknown" not in row.identity for row in rows), rows[0].identity


HELD = (
    Held(pid=9, name="b", owner="zoe", memory_mb=10, command="python b.py"),
    Held(pid=5, name="a", owner="ann", memory_mb=None, command="python a.py", box="ns/job-0 (train)"),
    Held(pid=7, name="c", owner=None, memory_mb=30),
)


@pytest.mark.parametrize(
    ("order", "pids"), [("memory", [7, 9, 5]), ("pid", [5, 7, 9]), ("user", [5, 9, 7]), ("container", [5, 7, 9])]
)
def test_processes_have_an_order(order: str, pids: list[int]) -> None:
    assert [one.pid for one in order_held(HELD, order)] == pids


def test_processes_are_found_by_user_command_pid_and_container() -> None:
    for words, pid in (("zoe", 9), ("a.py", 5), ("JOB-0 train", 5), ("7", 7)):
        assert [one.pid for one in order_held(HELD, "pid", words)] == [pid]
    assert order_held(HELD, "pid", "zoe a.py") == []


def test_a_process_has_the_name_of_its_container_and_its_rank() -> None:
    id = "0123456789ab" * 5 + "0123"
    other = "f" * 64

    class Node:
        def read(self, path: str) -> str:
            known = {"/proc/5/cgroup": f"0::/docker/{id}\n", "/proc/6/cgroup": f"0::/docker/{other}\n"}
            if path not in known:
                raise Unavailable("not visible")
            return known[path]

    class Known:
        def fact(self, _: type) -> RunningContainers:
            one = RunningContainer(id=id, runtime="docker", pid=5, name="trainer", mounts={})
            return RunningContainers((one,))

    known: Any = Known()
    node: Any = Node()
    boxes = Boxes(known, node, LaunchVariables({5: {"RANK": "3", "WORLD_SIZE": "8"}}))
    assert [boxes.box_of(pid) for pid in (5, 6, 7)] == ["trainer", "docker ffffffffffff", ""]
    assert [boxes.rank_of(pid) for pid in (5, 6)] == ["3 of 8", ""]


def test_processes_are_sorted_filtered_and_not_ended_without_their_launcher() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "Processes of npu:0, by memory" in text(app))
        await press(pilot, "s")
        await until(pilot, lambda: "by pid" in text(app))
        await press(pilot, "slash", *"s 211413", "enter")
        await until(pilot, lambda: app.screen.query_one("#filter", Input).value == "s 211413")
        await until(pilot, lambda: ": none" in text(app))
        await press(pilot, "slash", *["backspace"] * 8, *"211413", "enter")
        await until(pilot, lambda: "211413 train" in text(app) and "211412 train" not in text(app))
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(app.screen, FixDialog) and "end the job through" in text(app))
        await press(pilot, "escape", "escape")
        await until(pilot, lambda: "Processes of npu:0" in text(app))

    play("in-service", acts, size=(120, 40), names=FEW)


def test_a_leftover_process_is_ended_after_its_fix_was_typed() -> None:
    host = sim.simulate("in-service")
    host.signal(211400, 9)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "211412 train" in text(app))
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(app.screen, FixDialog) and "cannot be undone" in text(app))
        await press(pilot, *"npu.release", "enter")
        await until(pilot, lambda: 211412 not in {one.pid for one in _processes(host)})

    play_on(lambda: replace(node_of("--simulate", "in-service", names=FEW), open=lambda: nullcontext(host)), acts)


def _processes(host: Any) -> list[Any]:
    reading = cards.read(*_session(host))
    return [one for row in reading.rows for one in row.held]


def _session(host: Any) -> Any:
    from npudoctor.tui.model.diagnosis import Diagnosis
    from npudoctor.tui.model.session import Session

    node = replace(node_of("--simulate", "in-service", names=FEW), open=lambda: nullcontext(host))
    return Session(lambda: node), Diagnosis()


def test_a_read_only_session_ends_no_process() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "Processes of npu:0" in text(app))
        await press(pilot, "x")
        await pilot.pause(0.2)
        assert "End processes" not in text(app) and not isinstance(app.screen, FixDialog)

    play_on(lambda: node_of("--simulate", "in-service", names=FEW), acts, read_only="read-only: here", size=(120, 40))
