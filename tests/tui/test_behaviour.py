"""How the screens behave while the node, its tools and the person do what they like."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.containers import VerticalScroll
from textual.widgets import Button, Input, OptionList

from npudoctor import sim
from npudoctor.facts.node.chips import NodeChip
from npudoctor.sdk import Effect
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model import cards, detail, fixing, node, smoking
from npudoctor.tui.model.cards import ChipRow, Reading
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.model.session import Session
from npudoctor.tui.screens.cards import Cards
from npudoctor.tui.screens.fix import FixDialog
from npudoctor.tui.screens.save import Save
from npudoctor.tui.screens.smoke import Smoke
from npudoctor.tui.widgets.check_list import CheckList
from npudoctor.tui.widgets.grid_view import GridView
from npudoctor.tui.widgets.page import Page
from tests.tui.driving import FEW, Driver, node_of, play, play_on, press, press_until, settled, text, until
from tests.tui.test_views import fixed

SHORT = ("Overview", "NPUs", "Topo", "Environ", "Smoke", "History")


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def test_a_key_that_is_not_possible_says_why() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press_until(pilot, "f", lambda: "No fix for the selected check" in text(app))
        await press_until(pilot, "enter", lambda: "Only a skipped check" in text(app))
        await press_until(pilot, "F", lambda: "No problem with a fix" in text(app))
        await press(pilot, "6")
        await press_until(pilot, "u", lambda: "No change to undo" in text(app))

    play("healthy-a3", acts)


def test_a_newcomer_needs_at_most_six_keys_for_each_fix_until_nothing_is_left_to_mend() -> None:
    pressed: dict[str, int] = {}

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        while app.diagnosis.headline().state.broken:
            mended, keys = app.diagnosis.headline().check or "", 0
            assert mended not in pressed, text(app)
            for key in ("f", "enter", "enter"):  # the fix, Apply, Close: each is what the screen itself names
                await press(pilot, key)
                keys += 1
                if key == "f":
                    await until(pilot, lambda: isinstance(app.screen, FixDialog))
                elif isinstance(app.screen, FixDialog):
                    await until(pilot, lambda: app.screen.query_one("#close", Button).has_focus)
            await settled(app, pilot)
            pressed[mended] = keys
        assert app.diagnosis.headline().state is State.OK
        await press(pilot, "e")
        await settled(app, pilot)
        assert app.diagnosis.headline().state is State.WAITING
        await until(pilot, lambda: "open a" in text(app) and "new shell" in text(app))

    play("new-node", acts, names=())
    assert len(pressed) >= 3 and max(pressed.values()) <= 6


def test_what_waits_for_a_login_is_no_failure() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        app.diagnosis.know([fixed(app.diagnosis, "cann.environment", Effect.NEW_LOGIN)], None, at_login=False)
        app.changed.publish(None)
        await pilot.pause()
        row = app.diagnosis.row("cann.environment")
        assert row.state is State.WAITING and not row.state.broken
        await until(pilot, lambda: "FIXED" in text(app))
        assert app.diagnosis.headline().check == "python.pairing"
        app.diagnosis.know([fixed(app.diagnosis, "cann.environment", Effect.REBOOT)], None, at_login=False)
        blocks = detail.blocks(app.diagnosis, "cann.environment")
        assert any("after a reboot" in block.text for block in blocks)

    play("new-node", acts)


def test_space_and_b_scroll_what_is_said() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        pane = app.screen.query_one("#detail")
        await press(pilot, "space")
        assert pane.scroll_y > 0
        await press(pilot, "b")
        assert pane.scroll_y == 0

    play("new-node", acts)


def test_the_palette_opens_and_starts_an_action() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "ctrl+p", *"topology")
        await until(pilot, lambda: "key 3" in text(app))
        await press(pilot, "enter")
        await until(pilot, lambda: app.current_mode == "topology")

    play("new-node", acts)


def test_tabs_and_links_can_be_clicked() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await pilot.click(offset=(text(app).splitlines()[0].index("History") + 1, 0))
        await until(pilot, lambda: app.current_mode == "history")
        await press(pilot, "1")
        app.screen.query_one(CheckList).choose("cann.single")
        await pilot.pause()
        lines = text(app).splitlines()
        line = next(number for number, line in enumerate(lines) if "→ cann.environment" in line)
        await pilot.click(offset=(lines[line].index("→ cann") + 4, line))
        await pilot.pause()
        await until(pilot, lambda: app.screen.query_one(CheckList).chosen == "cann.environment")

    play("new-node", acts)


def test_keys_that_come_in_one_burst_act_one_after_the_other() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        from textual import events

        for key in ("slash", *"shm", "enter", "j"):
            app.post_message(events.Key(key, key if len(key) == 1 else "/" if key == "slash" else None))
        await until(pilot, lambda: app.screen.query_one(CheckList).chosen == "system.shm")
        await until(pilot, lambda: app.screen.query_one("#filter", Input).value == "shm")
        await until(pilot, lambda: app.settings.skipped)  # `s` was typed, not taken for a key of the list

    play("new-node", acts)


# The fix dialog


def test_the_arrows_move_between_buttons_and_through_a_long_preview() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "f")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await pilot.pause()
        await until(pilot, lambda: "Apply" in text(app) and "Close" in text(app))
        pane = app.screen.query_one("#preview")
        await press(pilot, "down", "j")
        assert pane.scroll_y == 2
        await press(pilot, "up", "k", "right")
        await until(pilot, lambda: pane.scroll_y == 0 and app.focused is app.screen.query_one("#copy"))
        await press(pilot, "left")
        await until(pilot, lambda: app.focused is app.screen.query_one("#go"))

    play("new-node", acts)


def test_root_is_asked_for_at_the_persons_own_prompt_and_the_node_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[Any] = []

    @contextmanager
    def suspended(_: DoctorApp) -> Iterator[None]:
        ran.append("suspended")
        yield
        ran.append("back")

    def in_terminal(_: Session, argv: tuple[str, ...]) -> int:
        ran.append(argv)
        return 0

    monkeypatch.setattr(DoctorApp, "suspend", suspended)
    monkeypatch.setattr(fixing, "in_terminal", in_terminal)
    monkeypatch.setattr("npudoctor.tui.model.session.Session.source", "live")
    command = ("sudo", "npudoctor", "fix", "hccl.reserve-ports")

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        first = app.diagnosis.report
        app.push_screen(FixDialog(fixing.Job(title="x", obstacle="only root can", command=command, sudo=True)))
        await pilot.pause()
        app.screen.query_one("#sudo", Button).focus()
        await press(pilot, "enter")
        assert ran == ["suspended", command, "back"]
        await until(pilot, lambda: "exited with 0" in text(app))
        await until(pilot, lambda: app.diagnosis.report is not first)

    play("new-node", acts)


def test_a_recorded_node_offers_no_change(tmp_path: Path) -> None:
    place = str(tmp_path / "node.tar.gz")

    async def save(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "w")
        await until(pilot, lambda: isinstance(app.screen, Save))
        await press(pilot, "end", "tab")
        app.screen.query_one(Input).value = place
        await press(pilot, "enter")
        await until(pilot, Path(place).exists)

    play("new-node", save)

    async def look(app: DoctorApp, pilot: Driver) -> None:
        await until(pilot, lambda: "RECORDED" in text(app) and "CANN environment not loaded" in text(app))
        await press(pilot, "f")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await until(pilot, lambda: fixing.RECORDED in text(app))
        await until(pilot, lambda: not app.screen.query("#go, #sudo"))

    play_on(lambda: node_of("--replay", place, names=FEW), look)


# Cards


class Tool:
    """Stands for npu-smi: counts how often it is asked, and how many at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.at_once, self.most = 0, 0, 0
        self.reason: str | None = None
        self.answer = threading.Event()
        self.answer.set()
        monkeypatch.setattr(cards, "read", self.read)
        monkeypatch.setattr(cards.Pace, "LEAST_S", 0.05)

    def read(self, *_: Any) -> Reading:
        self.calls += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.answer.wait(300)
        self.at_once -= 1
        rows = () if self.reason else (ChipRow(chip=NodeChip(subject="npu:0", name="910B3", aicore_pct=self.calls)),)
        return Reading(rows, self.reason, 0.001)


def test_cards_are_asked_again_and_again_but_not_while_hidden_or_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Tool(monkeypatch)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: tool.calls >= 3)
        await press(pilot, "1")
        await pilot.pause(0.2)
        seen = tool.calls
        await pilot.pause(0.3)
        assert tool.calls == seen
        await press(pilot, "2")
        await until(pilot, lambda: tool.calls > seen)
        await press(pilot, "p")
        await pilot.pause(0.2)
        seen = tool.calls
        await pilot.pause(0.3)
        await until(pilot, lambda: tool.calls == seen and "paused" in text(app))
        await press(pilot, "p")
        await until(pilot, lambda: tool.calls > seen)

    play("healthy-a3", acts)


def test_a_tool_that_hangs_is_not_asked_a_second_time_and_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Tool(monkeypatch)
    tool.answer.clear()

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2", "1", "2", "plus", "minus", "3", "2")
        await until(pilot, lambda: isinstance(app.screen, Cards))
        await pilot.pause(0.3)
        assert (tool.calls, tool.most) == (1, 1)
        tool.answer.set()
        await until(pilot, lambda: tool.calls >= 3)
        assert tool.most == 1

    play("healthy-a3", acts)


def test_the_last_rows_stay_in_sight_where_the_tool_fails_and_it_is_asked_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = Tool(monkeypatch)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "910B3" in text(app))
        tool.reason = "npu-smi did not answer within 5 s"
        await until(pilot, lambda: "did not answer" in text(app))
        await until(pilot, lambda: "910B3" in text(app).splitlines()[5])
        await until(pilot, lambda: isinstance(app.screen, Cards))
        await until(pilot, lambda: "every 0.2 s" in text(app) or "every 0.4 s" in text(app))

    play("healthy-a3", acts)


def test_plus_asks_more_often_and_that_is_remembered() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "every" in text(app))
        await press(pilot, "plus")
        await until(pilot, lambda: app.settings.interval_s == 1.0 and "every 1 s" in text(app))

    play("healthy-a3", acts)


def test_a_job_at_work_is_shown_with_its_owner_and_command() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "train.py" in text(app))
        await until(pilot, lambda: "address 29.40.8.11" in text(app) and "ECC" in text(app) and "UP" in text(app))

    play("in-service", acts, names=(), size=(120, 40))


def test_a_job_with_more_ranks_than_cards_is_marked() -> None:
    host = sim.simulate("in-service")
    host.signal(211400 + 12 + 7, 9)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "! " in text(app))
        await until(pilot, lambda: "hold only 7 chips" in text(app))

    play_on(lambda: replace(node_of("--simulate", "in-service"), open=lambda: nullcontext(host)), acts, size=(120, 40))


def test_who_leaves_in_the_middle_of_a_change_is_told_how_to_undo_it(capsys: pytest.CaptureFixture[str]) -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        assert isinstance(app.screen, FixDialog)
        app.screen.busy = True
        app.leave(143)

    assert play("new-node", acts).return_code == 143
    assert "npudoctor fix --recover" in capsys.readouterr().err


# The other screens


def test_the_mouse_says_what_a_link_is() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "3")
        await pilot.hover(GridView, offset=(9 + 3 * 3 + 2, 3))
        await pilot.pause()
        await until(pilot, lambda: "Phy-ID2 → Phy-ID3: SIO" in text(app))

    play("healthy-a3", acts)


def test_the_broken_joint_of_the_versions_is_marked_and_its_fix_one_key_away() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "4")
        await until(pilot, lambda: "✖ torch" in text(app))
        await until(pilot, lambda: "requires torch" in " ".join(text(app).split()))
        await press(pilot, "c")
        await until(pilot, lambda: "torch==2.6.0" in app.clipboard)
        await press(pilot, "f")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await until(pilot, lambda: "python.install-pair" in text(app))

    play("new-node", acts)


def test_what_a_smoke_run_is_asked_for_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[smoking.Choice] = []

    def pretend(_: Any, choice: smoking.Choice, stop: threading.Event) -> Iterator[Any]:
        asked.append(choice)
        raise smoking.CannotSmoke("not here")
        yield

    monkeypatch.setattr(smoking, "run", pretend)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "5", "n", "z", "l", "k", *"0,3", "enter", "g")
        await until(pilot, lambda: "not here" in text(app))
        await until(pilot, lambda: isinstance(app.screen, Smoke))

    play("new-node", acts)
    (choice,) = asked
    assert choice.cards == "0,3" and choice.ranks == 1
    assert choice.size != smoking.Choice().size and choice.launcher != smoking.Choice().launcher


def test_every_shape_can_be_saved_and_a_file_that_exists_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    monkeypatch.setattr(DoctorApp, "notify", lambda _, message, **about: said.append(about["title"]))

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "w")
        shapes = app.screen.query_one(OptionList).option_count
        await press(pilot, "escape")
        for place in range(shapes):
            await press(pilot, "w", *["down"] * place, "enter")
        await until(pilot, lambda: said == ["Saved"] * shapes)
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        await press(pilot, "w", "enter")
        await until(pilot, lambda: "Not saved" in said)
        assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}

    play("new-node", acts)


# The node


def test_a_node_that_changes_is_seen_as_it_is_now(tmp_path: Path) -> None:
    sim.write_tools(sim.simulate("healthy-a3"), str(tmp_path))

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        assert app.diagnosis.row("driver.npu-smi").state is State.OK
        for tool in tmp_path.rglob("npu-smi"):
            tool.unlink()
        await press(pilot, "r")
        await settled(app, pilot)
        await until(pilot, lambda: "npu-smi not found" in text(app))
        await press(pilot, "2")
        await until(pilot, lambda: "npu-smi is not installed" in text(app))

    play_on(lambda: node_of("--root", str(tmp_path), names=("npu.present", "driver.npu-smi")), acts)


def test_the_node_is_told_by_a_banner_and_a_live_one_has_none() -> None:
    assert node.badge("live", None) == ""
    assert node.badge("simulated", None) == "SIMULATED"
    assert node.badge("bundle", "2026-11-21T10:00:00") == "RECORDED 2026-11-21"


def test_pages_wrap_and_never_lose_a_word() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        page = app.screen.query_one("#page", Page)
        said = " ".join(line.plain for line in page._wrap_all(30))
        assert "libascendcl.so not found" in " ".join(said.split())

    play("new-node", acts)


def test_enter_on_a_part_that_could_not_be_judged_goes_to_its_cause() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "4")
        await until(pilot, lambda: "→ npu.present" in text(app))
        await press(pilot, "enter")
        await until(pilot, lambda: app.current_mode == "overview")
        await until(pilot, lambda: app.screen.query_one(CheckList).chosen == "npu.present")

    play("bare-host", acts)


# Keys that hands know from elsewhere


def _filled(listed: OptionList) -> bool:
    return listed.option_count > 2


def _longer(pane: VerticalScroll) -> bool:
    return pane.max_scroll_y > 0


def test_j_k_g_and_capital_g_move_in_every_list() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for screen in ("1", "2", "4"):
            await press(pilot, screen)
            listed = app.screen.query_one(OptionList)
            await until(pilot, partial(_filled, listed))
            await press(pilot, "g")
            first = listed.highlighted
            await press(pilot, "j")
            below = listed.highlighted
            await press(pilot, "k")
            assert first is not None and below is not None and below > first == listed.highlighted
            await press(pilot, "G")
            assert listed.highlighted == listed.option_count - 1
        await press(pilot, "3", "G", "h")
        grid = app.screen.query_one(GridView)
        assert grid.place == (7, 0)
        await press(pilot, "g", "l", "j", "k")
        assert grid.place == (0, 1)

    play("new-node", acts)


def test_enter_counts_before_the_button_of_a_dialog_has_the_focus() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        app.screen.set_focus(None)
        await press(pilot, "enter")
        await until(pilot, lambda: "applied and verified" in text(app))

    play("new-node", acts)


def test_ctrl_c_leaves_but_not_in_the_middle_of_a_change() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        dialog = FixDialog(fixing.Job(title="x"))
        app.push_screen(dialog)
        await pilot.pause()
        dialog.busy = True
        await press(pilot, "ctrl+c")
        await until(pilot, lambda: "is being changed" in text(app))
        assert app.return_code is None
        dialog.busy = False
        await press(pilot, "ctrl+c")
        await until(pilot, lambda: app.return_code == 0)

    play("new-node", acts)


def test_longer_text_scrolls_by_keys_on_every_screen_that_has_some() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for screen in ("2", "3", "4"):
            await press(pilot, screen)
            pane = app.screen.query(VerticalScroll).first()
            await until(pilot, partial(_longer, pane))
            await press(pilot, "space")
            assert pane.scroll_y > 0, screen
            await press(pilot, *["b"] * 9)
            assert pane.scroll_y == 0

    play("healthy-a3", acts, size=(60, 20))


def test_what_stands_against_a_fix_is_said_before_its_steps() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        steps = tuple(fixing.Line(fixing.Kind.SAME, f"step {number}") for number in range(60))
        app.push_screen(FixDialog(fixing.Job(title="x", obstacle="only root can", lines=steps)))
        await pilot.pause()
        await until(pilot, lambda: "only root can" in text(app))

    play("new-node", acts)


def test_the_names_of_all_screens_are_in_sight_on_the_narrowest_terminal() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for key in "123456":
            await press(pilot, key)
            tabs = text(app).splitlines()[0]
            assert all(f"{number} {name}" in tabs for number, name in enumerate(SHORT, 1)), tabs
        await press(pilot, "question_mark")
        rows = text(app).splitlines()
        names = ("Topology", "Environment", "Smoke")
        places = {row.index(name) for name in names for row in rows if f"  {name}" in row}
        assert len(places) == 1, text(app)

    play("new-node", acts, size=(60, 20))


def test_a_smoke_run_can_be_started_where_none_goes_and_stopped_where_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def run(*_: Any) -> Iterator[Any]:
        going.wait(300)
        yield from ()

    monkeypatch.setattr(smoking, "run", run)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "5")
        screen = app.screen
        assert screen.check_action("start", ()) and not screen.check_action("stop", ())
        await press(pilot, "g")
        assert screen.check_action("stop", ()) and not screen.check_action("start", ())
        going.set()
        await until(pilot, lambda: screen.check_action("start", ()))

    play("new-node", acts)


def test_a_list_without_rows_says_why_and_offers_nothing() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "slash", *"zzz")
        await until(pilot, lambda: "no matching check" in text(app))
        last = text(app).splitlines()[-1]
        assert last.split() == ["enter", "Apply", "esc", "Show", "all"]
        await press(pilot, "enter")
        await until(
            pilot, lambda: app.screen.check_action("fix", ()) is None and app.screen.query_one(CheckList).chosen is None
        )
        await press(pilot, "escape", "o", "s")
        await until(pilot, lambda: "PROBLEMS" in text(app) and "npu.present" not in text(app))

    play("new-node", acts)


def test_cards_that_come_late_can_be_moved_over(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    rows = tuple(ChipRow(chip=NodeChip(subject=f"npu:{number}", name="910B3")) for number in range(3))

    def read(*_: Any) -> Reading:
        answered.wait(300)
        return Reading(rows, None, 5.02386)

    monkeypatch.setattr(cards, "read", read)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "running npu-smi" in text(app))
        answered.set()
        await until(pilot, lambda: "every 25 s" in text(app))
        await press(pilot, "down")
        await until(pilot, lambda: app.screen.query_one(OptionList).highlighted == 1)
        await until(pilot, lambda: "npu:1" in text(app))

    play("new-node", acts)


def test_one_fix_is_asked_about_once_however_often_its_key_is_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = threading.Event()
    propose = fixing.propose

    def slowly(*about: Any) -> fixing.Job:
        planned.wait(300)
        return propose(*about)

    monkeypatch.setattr(fixing, "propose", slowly)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "f", "f", "F")
        await until(pilot, lambda: "preparing the preview" in _toasts(app))
        planned.set()
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await press(pilot, "q")
        await pilot.pause(0.3)
        await until(pilot, lambda: len(app.screen_stack) == 1)

    play("new-node", acts)


def _toasts(app: DoctorApp) -> str:
    return " ".join(note.message for note in app._notifications)


def test_sixteen_chips_fit_the_narrowest_terminal_and_the_cursor_stays_in_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(smoking, "PLAYED", 1000.0)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "3")
        await until(
            pilot, lambda: "Phy-ID0 → Phy-ID1" in text(app) and " 15\n" in text(app) and "H\n Phy-ID1 " in text(app)
        )
        await press(pilot, "G")
        await until(pilot, lambda: "Phy-ID15 → Phy-ID1" in text(app) and "\n Phy-ID15  " in text(app))
        await press(pilot, "5", "g")
        await until(pilot, lambda: "PASS: 8 of 8" in text(app))
        await until(pilot, lambda: "\n 0  npu:0.0 ✔     ✔    ✔    ✔     ✔     ✔    ✔     ✔\n" in text(app))
        lines = text(app).splitlines()
        assert lines[2].startswith(" CANN 8.5.0") and not any("…" in line for line in lines[3:])

    play("healthy-a3", acts, size=(60, 20), names=())
