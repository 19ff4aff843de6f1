"""A read-only session offers nothing that changes the node, writes a file or starts a program, and refuses it."""

import threading
from pathlib import Path

import pytest

from npudoctor.tui.app import DoctorApp
from npudoctor.tui.background import CHANGES
from npudoctor.tui.model import fixing, saving, settings, smoking
from npudoctor.tui.model.diagnosis import Diagnosis
from npudoctor.tui.model.session import ReadOnly, Session
from npudoctor.tui.palette import commands
from tests.tui.driving import FEW, Driver, node_of, play_on, press, text, until

REASON = "read-only: started without --allow-changes"


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_keys_that_change_something_do_nothing_and_nothing_is_written(tmp_path: Path) -> None:
    started = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        before = files_below(tmp_path)
        for key in ("F", "enter", "f", "enter", "w", "enter", "ctrl+z", "ctrl+s", "t", "o", "s"):
            await press(pilot, key)
            assert len(app.screen_stack) == 1 and not app.planning, key
        await press(pilot, "5", "g")
        started.append(app.screen._stop)  # type: ignore[attr-defined]
        await press(pilot, "6", "u")
        assert len(app.screen_stack) == 1
        assert files_below(tmp_path) == before

    play_on(lambda: node_of("--simulate", "new-node", names=FEW), acts, size=(100, 30), read_only=REASON)
    assert started == [None]


def test_neither_the_palette_nor_the_help_nor_the_last_line_offers_a_change() -> None:
    words = {"Fix", "Fix all safe", "Save", "Undo", "Go"}

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        assert REASON in text(app).splitlines()[-1]
        await press(pilot, "question_mark")
        assert REASON in text(app) and "Fix all" not in text(app) and "to the shell" not in text(app)
        await press(pilot, "escape")
        for screen in ("overview", "smoke", "history"):
            app.action_go(screen)
            await pilot.pause()
            assert not words & {command.title for command in commands(app, app.screen)}
            assert not words & set(text(app).splitlines()[-1].split("  "))

    play_on(lambda: node_of("--simulate", "new-node", names=FEW), acts, size=(120, 40), read_only=REASON)


def test_actions_called_by_name_are_refused() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for name in ("overview", "smoke", "history"):
            app.action_go(name)
            await pilot.pause()
            for action in CHANGES:
                await app.run_action(action)
                await app.run_action(f"screen.{action}")
                await pilot.pause()
                assert len(app.screen_stack) == 1, action

    play_on(lambda: node_of("--simulate", "new-node", names=FEW), acts, read_only=REASON)


def test_below_the_screens_the_session_refuses_every_change(tmp_path: Path) -> None:
    session = Session(lambda: node_of("--simulate", "new-node"), REASON)
    with pytest.raises(ReadOnly, match="allow-changes"):
        fixing.propose(session, Diagnosis(), ())
    with pytest.raises(ReadOnly):
        list(fixing.carry_out(session, fixing.Job(title="x", recovers=True)))
    with pytest.raises(ReadOnly):
        fixing.in_terminal(session, ("touch", str(tmp_path / "made")))
    with pytest.raises(ReadOnly):
        list(smoking.run(session, smoking.Choice(), threading.Event()))
    for shape in saving.shapes():
        with pytest.raises(ReadOnly):
            saving.save(session, None, shape, str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()


def test_a_refusal_that_a_screen_did_not_foresee_is_one_line() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        app.beside(app.session.must_allow_changes)
        await until(pilot, lambda: REASON in text(app).replace("\n", " ") or app._notifications)
        assert app.is_running

    play_on(lambda: node_of("--simulate", "new-node", names=FEW), acts, read_only=REASON)


def test_a_choice_counts_until_the_end_and_is_not_written() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        theme = app.theme
        await press(pilot, "t", "o")
        assert app.theme != theme and not app.settings.ok
        assert not Path(settings.path()).exists()

    play_on(lambda: node_of("--simulate", "new-node", names=FEW), acts, read_only=REASON)


def test_without_it_the_same_keys_change_the_node() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "F")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        assert REASON not in text(app)

    play_on(lambda: node_of("--simulate", "new-node", names=FEW), acts)
