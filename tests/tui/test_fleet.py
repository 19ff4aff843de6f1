"""The screens of a run of many nodes: `npudoctor tui --fleet RUN`."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor import engine
from npudoctor.cli import main
from npudoctor.compare.features import by_number
from npudoctor.data import to_json
from npudoctor.fleet import gather, line, sim, verdict
from npudoctor.fleet.digest import Measure
from npudoctor.fleet.outcomes import KINDS, Outcome
from npudoctor.fleet.store import Run
from npudoctor.records import replace
from npudoctor.selection import Selection
from npudoctor.tui.fleet_app import LABELS, FleetApp
from npudoctor.tui.loop import Loop
from npudoctor.tui.model import fleet
from npudoctor.tui.screens.fleet import NodeReport
from npudoctor.tui.widgets.node_grid import NodeGrid
from tests.tui.driving import FEW, Driver, press, text, until
from tests.tui.test_pictures import SIZES, differing

ACROSS = ("fleet.answered", "fleet.versions", "fleet.card-addresses", "fleet.rails", "fleet.outliers", "fleet.tls")
"""Checks for the pictures, so that a new one changes none of them."""
FAULTS = {"drift": 2, "dead": 2, "slow": 1, "dup-ip": 2, "swap": 1, "sick": 2}


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch, noon: None) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of 40 simulated nodes without a verdict; their reports have few checks and took no time."""
    folder = tmp_path_factory.mktemp("some runs") / "run"
    names, digests, _ = sim.fleet(40, FAULTS)
    run = Run(str(folder))
    run.begin(names)
    for place, name in enumerate(names):
        if digest := digests.get(name):
            report = digest.report
            kept = tuple(result for result in report.results if result.check in FEW)
            report = replace(report, results=kept, started_at="2026-11-22T12:00:00Z", duration_s=0.1)
            who = replace(digest.identity, user="trainer")
            answer = replace(digest, report=report, identity=who)
            run.keep(Outcome(node=name, kind="answered"), line.pack(answer))
        else:
            run.keep(sim.outcome(name, place), None)
    yield folder


@pytest.fixture
def run(answers: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same with a verdict of few checks."""
    report = engine._Run._report
    monkeypatch.setattr(engine._Run, "_report", lambda run, at, _: report(run, at, 0.1))
    found = verdict.judge_fleet(gather.of_run(Run(str(answers))), Selection(names=ACROSS))
    Run(str(answers)).write("fleet.json", to_json(found))
    return str(answers)


def play(path: str, acts: Callable[[FleetApp, Driver], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> FleetApp:
    async def opened() -> FleetApp:
        app = FleetApp([path])
        async with app.run_test(size=size, notifications=True) as pilot:
            await until(
                pilot, lambda: not app.diagnosis.running and app.diagnosis.members is not None and not app._told
            )
            await acts(app, pilot)
        return app

    loop = Loop()
    try:
        return loop.run_until_complete(opened())
    finally:
        loop.close()


def _is_at(app: FleetApp, name: str) -> bool:
    return type(app.screen).__name__ == name


def shows_node(app: FleetApp) -> bool:
    return isinstance(app.screen, NodeReport)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_screen_of_a_run_looks_as_it_did(run: str, size: tuple[int, int], tmp_path: Path) -> None:
    wrong: list[str] = []

    async def acts(app: FleetApp, pilot: Driver) -> None:
        for number, (name, label) in enumerate(LABELS.items(), 1):
            await press(pilot, str(number))
            await until(pilot, partial(_is_at, app, name))
            wrong.extend(await differing(f"fleet-{label.lower()}-{size[0]}x{size[1]}", app, pilot, tmp_path))
        await press(pilot, "1", "slash", *"alarm", "enter", "enter")
        await until(pilot, lambda: shows_node(app))
        wrong.extend(await differing(f"fleet-node-{size[0]}x{size[1]}", app, pilot, tmp_path))

    play(run, acts, size)
    assert not wrong, "\n\n".join(wrong)


def test_the_filter_and_n_go_from_node_to_node_and_enter_opens_its_report(run: str) -> None:
    async def acts(app: FleetApp, pilot: Driver) -> None:
        await press(pilot, "slash", *"alarm")
        await until(pilot, lambda: "2 match" in text(app))
        await press(pilot, "enter")
        grid = app.screen.query_one(NodeGrid)
        first = grid.place
        await press(pilot, "n")
        assert {app.diagnosis.cells[place].letter for place in (first, grid.place)} == {"E"} and grid.place != first
        name = app.diagnosis.cells[grid.place].name
        await press(pilot, "enter")
        await until(pilot, lambda: shows_node(app) and name in text(app) and "STORED 2026-11-22" in text(app))
        assert "npu.health" in text(app) and "Fix safe" not in text(app)
        await press(pilot, "escape")
        await until(pilot, lambda: not shows_node(app) and "2 match" in text(app))
        await press(pilot, "escape")
        await until(pilot, lambda: "match" not in text(app))

    play(run, acts)


def test_a_problem_leads_to_its_nodes(run: str) -> None:
    async def acts(app: FleetApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "fleet.card-addresses" in text(app))
        await press(pilot, "enter")
        await until(pilot, lambda: type(app.screen).__name__ == "FleetNodes" and "2 match" in text(app))

    play(run, acts)


def test_a_node_unlike_others_shows_in_what(run: str) -> None:
    async def acts(app: FleetApp, pilot: Driver) -> None:
        grid = app.screen.query_one(NodeGrid)
        unlike = [(place, dict(cell.findings)) for place, cell in enumerate(app.diagnosis.cells) if cell.letter == "~"]
        grid.place = next(place for place, found in unlike if "fleet.versions" in found)
        await press(pilot, "enter")
        await until(pilot, lambda: shows_node(app) and "fleet.versions" in text(app))
        assert "No problems found" not in text(app)

    play(run, acts)


def test_a_node_without_an_answer_says_why_and_what_to_do(run: str) -> None:
    async def acts(app: FleetApp, pilot: Driver) -> None:
        grid = app.screen.query_one(NodeGrid)
        grid.place = next(place for place, cell in enumerate(app.diagnosis.cells) if cell.letter == "?")
        await press(pilot, "enter")
        await until(pilot, lambda: app._notifications)
        assert not shows_node(app)
        (note,) = app._notifications
        assert note.message == app.diagnosis.cells[grid.place].about
        kind = app.diagnosis.verdict.nodes[grid.place].outcome if app.diagnosis.verdict else ""
        assert KINDS[kind].hint in note.message

    play(run, acts)


def test_answers_without_a_verdict_are_merged(answers: Path) -> None:
    (answers / "fleet.json").unlink(missing_ok=True)

    async def acts(app: FleetApp, pilot: Driver) -> None:
        await until(pilot, lambda: "38 of 40 nodes answered" in text(app))
        assert {"fleet.versions", "npu.health"} <= set(app.diagnosis.results)
        await press(pilot, "r")
        await until(pilot, lambda: not app.diagnosis.running)

    play(str(answers), acts)


def test_nothing_is_changed_and_a_list_is_copied(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    before = {path: path.stat().st_mtime_ns for path in Path(run).rglob("*")}

    async def acts(app: FleetApp, pilot: Driver) -> None:
        monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
        await press(pilot, "6", "down", "c")
        await press(pilot, "f", "w", "e", "u", "x")
        assert len(app.screen_stack) == 1

    play(run, acts)
    assert copied and set(copied[0].splitlines()) < set(Run(run).expected_names())
    assert before == {path: path.stat().st_mtime_ns for path in Path(run).rglob("*")}


def test_a_verdict_that_is_none_ends_with_one_line(answers: Path) -> None:
    (answers / "fleet.json").write_text('{"schema": "else"}', encoding="utf-8")

    async def opened() -> FleetApp:
        app = FleetApp([str(answers)])
        async with app.run_test() as pilot:
            await until(pilot, lambda: app.return_code is not None)
        return app

    try:
        app = asyncio.run(opened())
    finally:
        (answers / "fleet.json").unlink()
    assert app.return_code == 2


def test_without_a_terminal_the_run_is_merged(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tui", "--fleet", run]) == 1
    assert "38 of 40 nodes answered" in capsys.readouterr().out
    assert main(["tui", "--fleet", "/nowhere"]) == 2
    assert main(["tui", "--fleet", run, "--simulate", "bare-host"]) == 2
    assert "leave out --simulate" in capsys.readouterr().err


# The grid


@given(st.integers(0, 300), st.integers(1, 40), st.integers(30, 200), st.integers(5, 60), st.booleans())
def test_each_node_has_one_place_within_the_width(
    count: int, size: int, width: int, height: int, in_racks: bool
) -> None:
    names = [f"r{n // size:02}n{n:04}" if in_racks else f"node{n}" for n in range(count)]
    found = fleet.layout(names, width, height)
    assert sorted(found.places) == list(range(count))
    assert len(set(found.places.values())) == count
    assert all(0 <= column < width and row < len(found.lines) for row, column in found.places.values())


def test_a_thousand_nodes_of_32_racks_fit_a_small_terminal() -> None:
    names = [f"r{n // 32 + 1:02}-n{n % 32 + 1:02}" for n in range(1024)]
    assert len(fleet.layout(names, 78, 14).lines) <= 16
    assert [fleet.rack_of(name) for name in ("r01n003", "r1-n2.site.org", "n0001", "10.0.0.1")] == ["r01", "r1", "", ""]


def test_numbers_and_names_that_no_node_can_have_end_nothing() -> None:
    measure = Measure(unit="W", values={"a": 1.0, "b": math.inf, "c": -1.7e308, "d": 1.7e308, "e": math.nan})
    told: Any = SimpleNamespace(groups={"g": [SimpleNamespace(name="n1", measures={"power": measure})]})
    [row] = fleet.numbers(told)
    assert (row.least, row.most) == (1.0, 1.0)
    assert sorted(["s10", "s9", "s²", f"s{'1' * 4400}"], key=by_number)[:2] == ["s9", "s10"]
