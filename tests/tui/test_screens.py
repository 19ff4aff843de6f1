"""Every screen by its keys, on simulated nodes."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Button, Input, OptionList

from npudoctor import plugins
from npudoctor.sdk import Finding, check
from npudoctor.selection import Selection
from npudoctor.tui import SCREENS, plain, themes
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model import copying, fixing, smoking
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.model.session import CannotOpen, Node
from npudoctor.tui.screens.copy import Copy
from npudoctor.tui.screens.fix import FixDialog
from npudoctor.tui.screens.overview import Overview
from npudoctor.tui.widgets.check_list import CheckList
from tests.tui.driving import FEW, Driver, node_of, play, play_on, press, settled, text, until


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def test_the_first_frame_is_there_before_the_node_is_opened() -> None:
    opened = threading.Event()

    def slow() -> Node:
        opened.wait(300)
        return node_of("--simulate", "new-node", names=FEW)

    async def run() -> None:
        app = DoctorApp(slow)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause(0.1)
            await until(pilot, lambda: "checking this node" in text(app))
            await until(pilot, lambda: "1 Overview" in text(app))
            opened.set()
            await settled(app, pilot)
            await until(pilot, lambda: "PROBLEMS" in text(app))

    asyncio.run(run())


def test_the_cause_is_selected_and_said_at_the_top() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        lines = text(app).splitlines()
        assert "SIMULATED" in lines[1] and "8 × 910B3" in lines[1]
        assert "torch_npu 2.6.0 ✖ torch 2.5.1" in lines[2]
        assert lines[3].startswith(" ✖ CANN environment not loaded")
        await until(pilot, lambda: app.screen.query_one(CheckList).chosen == "cann.environment")

    play("new-node", acts)


def test_every_number_key_opens_its_screen_and_names_it() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for number, name in enumerate(SCREENS, 1):
            await press(pilot, str(number))
            assert type(app.screen).__name__ == name
            assert app.current_mode == name.lower()

    play("new-node", acts)


def test_moving_shows_another_check_and_n_the_next_broken_one() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "down")
        await until(pilot, lambda: app.screen.query_one(CheckList).chosen == "python.pairing")
        await until(pilot, lambda: "requires torch 2.6.0" in text(app))
        await press(pilot, "j", "k", "k")
        await until(pilot, lambda: app.screen.query_one(CheckList).chosen == "cann.environment")
        await press(pilot, "n")
        await until(pilot, lambda: app.screen.query_one(CheckList).chosen == "python.pairing")

    play("new-node", acts)


def test_the_filter_narrows_the_list_and_escape_opens_it_again() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "slash", *"shm", "enter")
        listed = app.screen.query_one(CheckList)
        assert listed.chosen == "system.shm"
        assert listed.option_count == 2
        await press(pilot, "escape")
        assert listed.option_count > 10

    play("new-node", acts)


def test_ok_and_skipped_checks_can_be_hidden_and_that_is_remembered() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "o", "s")
        await until(pilot, lambda: app.screen.query_one(CheckList).option_count == 4)
        await until(pilot, lambda: (app.settings.ok, app.settings.skipped) == (False, False))

    play("new-node", acts)

    async def again(app: DoctorApp, pilot: Driver) -> None:
        await until(pilot, lambda: app.screen.query_one(CheckList).option_count == 4)

    play("new-node", again)


def test_enter_on_a_skipped_check_goes_to_its_cause() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        listed = app.screen.query_one(CheckList)
        listed.choose("cann.single")
        await press(pilot, "enter")
        assert listed.chosen == "cann.environment"

    play("new-node", acts)


def test_c_copies_the_commands_for_the_terminal_to_keep() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        app.screen.query_one(CheckList).choose("python.pairing")
        await press(pilot, "c")
        await until(pilot, lambda: "torch==2.6.0" in app.clipboard and "\n" not in app.clipboard)

    play("new-node", acts)


def test_of_several_commands_c_asks_which_and_capital_c_copies_the_text() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        app.screen.query_one(CheckList).choose("hccl.ports-reserved")
        await press(pilot, "c")
        await until(pilot, lambda: isinstance(app.screen, Copy) and "these 2 in this order" in text(app))
        await press(pilot, "down", "enter")
        await until(pilot, lambda: app.clipboard.startswith("echo '") and "\n" not in app.clipboard)
        await press(pilot, "c", "down", "down", "enter")
        await until(pilot, lambda: app.clipboard.startswith("sudo sysctl") and len(app.clipboard.splitlines()) == 2)
        await press(pilot, "C")
        await until(pilot, lambda: "EJ0003" in app.clipboard and "actual    nothing" in app.clipboard)

    play("new-node", acts)


def test_the_command_for_docker_can_be_copied_from_the_preview() -> None:
    notes = (fixing.Line(fixing.Kind.NOTE, "with plain Docker:\ndocker run \\\n  --device /dev/davinci0"),)
    job = fixing.Job(title="x", lines=notes, command=("npudoctor", "fix", "x.y"))
    command, docker, whole = copying.of_job(job, notes)
    assert (command.text, docker.text) == ("npudoctor fix x.y", "docker run \\\n  --device /dev/davinci0")
    assert "with plain Docker" in whole.text and "3 lines" in whole.label


def test_a_click_on_a_command_copies_it_alone() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        lines = text(app).splitlines()
        line = next(number for number, line in enumerate(lines) if "source /usr" in line)
        await pilot.click(offset=(lines[line].index("source /usr") + 2, line))
        await pilot.pause()
        await until(pilot, lambda: app.clipboard == "source /usr/local/Ascend/ascend-toolkit/set_env.sh")

    play("new-node", acts, size=(120, 40))


def test_r_looks_again() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        first = app.diagnosis.report
        await press(pilot, "r")
        await until(pilot, lambda: app.diagnosis.report is not first)

    play("new-node", acts)


def test_help_lists_the_keys_and_the_palette_every_action() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "question_mark")
        await until(pilot, lambda: "Go to cause" in text(app))
        await press(pilot, "escape")
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert {"Fix", "Filter", "Save", "Theme: mono", "Quit", "NPUs"} <= set(titles)

    play("new-node", acts, size=(80, 40))


def test_the_theme_changes_and_is_remembered() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        assert app.theme == themes.DARK
        await press(pilot, "t")
        assert app.theme == themes.LIGHT

    play("new-node", acts)

    async def again(app: DoctorApp, pilot: Driver) -> None:
        assert app.theme == themes.LIGHT

    play("new-node", again)


def test_a_fix_takes_three_keys_and_turns_green_and_is_undone_from_the_history() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        app.screen.query_one(CheckList).choose("hccl.ports-reserved")
        await pilot.pause()
        await press(pilot, "f")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await until(pilot, lambda: "60000-60031" in text(app))
        assert app.diagnosis.row("hccl.ports-reserved").state is State.WARNING
        await press(pilot, "enter")
        await until(pilot, lambda: app.diagnosis.row("hccl.ports-reserved").state is State.OK)
        await until(pilot, lambda: "applied and verified" in text(app))
        await press(pilot, "enter", "6")
        await until(pilot, lambda: "applied" in text(app) and app.screen.query_one(OptionList).option_count)
        await press(pilot, "u")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await press(pilot, "enter")
        await until(pilot, lambda: app.diagnosis.row("hccl.ports-reserved").state is State.WARNING)
        await press(pilot, "escape", "1")
        await until(pilot, lambda: isinstance(app.screen, Overview))

    play("new-node", acts)


def test_escape_leaves_the_node_as_it_is() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, Overview))
        assert app.session.history() == []

    play("new-node", acts)


def test_what_cannot_be_undone_waits_for_its_name() -> None:
    done: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        job = fixing.Job(title="npu.release", plans=(), undoes="a-run", word="npu.release")
        app.push_screen(FixDialog(job))
        await pilot.pause()
        button = app.screen.query_one("#go", Button)
        assert button.disabled
        await press(pilot, *"npu", "enter")
        assert button.disabled and not done
        app.screen.query_one("#word", Input).value = "npu.release"
        await pilot.pause()
        assert not button.disabled

    play("new-node", acts)


def test_without_the_rights_the_command_is_shown_and_copied() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        command = ("sudo", "npudoctor", "fix", "system.limits")
        app.push_screen(FixDialog(fixing.Job(title="x", obstacle="only root can apply it", command=command, sudo=True)))
        await pilot.pause()
        await until(
            pilot, lambda: "only root can apply it" in text(app) and "sudo npudoctor fix system.limits" in text(app)
        )
        await until(pilot, lambda: not app.screen.query("#go"))
        await press(pilot, "c")
        await until(pilot, lambda: app.clipboard == "sudo npudoctor fix system.limits")

    play("new-node", acts)


def test_the_cards_show_who_is_ill_and_why() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "Alarm" in text(app))
        await until(pilot, lambda: "AI Core fault" in text(app))  # of the chip that is worst off, without a key
        await until(pilot, lambda: app.focused is not None)
        await press(pilot, "up")
        await until(pilot, lambda: "AI Core fault" not in text(app))
        await press(pilot, "minus")
        await until(pilot, lambda: app.settings.interval_s == 5.0)
        await press(pilot, "p")
        await until(pilot, lambda: "paused" in text(app))

    play("sick-cards", acts)


def test_the_cards_say_why_there_are_none() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "2")
        await until(pilot, lambda: "npu-smi is not installed" in text(app))
        await until(pilot, lambda: "(npu.present); 1 Overview says what to do" in text(app))
        await press(pilot, "3")
        await until(pilot, lambda: "(npu.present); 1 Overview says what to do" in text(app))

    play("bare-host", acts)


def test_the_arrows_move_over_the_links() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "3")
        await until(pilot, lambda: "Phy-ID0 → Phy-ID1: SIO" in text(app))
        await press(pilot, "down", "right")
        await until(pilot, lambda: "Phy-ID1 → Phy-ID2: HCCS" in text(app))
        await until(pilot, lambda: max(map(len, text(app).splitlines())) <= 80)

    play("healthy-a3", acts)


def test_a_variable_says_what_it_is_and_what_it_may_be() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "4", "slash", *"hccl_if_base", "enter", "end")
        await until(pilot, lambda: "HCCL_IF_BASE_PORT" in text(app) and "legal" in text(app))
        await press(pilot, "escape", "o")
        await until(pilot, lambda: "RANK_TABLE_FILE" not in text(app))

    play("new-node", acts, size=(120, 40))


def test_a_report_is_saved_from_any_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "3", "w", "down", "down", "enter")
        await until(pilot, lambda: list(tmp_path.glob("*.json")))

    play("new-node", acts)
    (saved,) = tmp_path.glob("npudoctor-new-node-*.json")
    assert json.loads(saved.read_text(encoding="utf-8"))["schema"] == "npudoctor.report/1"


def test_a_simulated_node_plays_its_smoke_run() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "5", "g")
        await until(pilot, lambda: "loss by step" in text(app) and "simulated: PASS: 8 of 8 NPUs" in text(app))

    play("healthy-a3", acts, size=(100, 40))


def test_where_no_smoke_run_can_be_made_the_choice_stays_in_sight() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "5", "g")
        await until(pilot, lambda: "no NPU found on this node" in text(app))
        await until(pilot, lambda: "launcher" in text(app))

    play("bare-host", acts)


def test_a_smoke_run_is_followed_rank_by_rank_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from npudoctor.smoke import events

    begun = threading.Event()

    def pretend(_: Any, choice: smoking.Choice, stop: threading.Event) -> Iterator[Any]:
        assert choice.device == "cpu"
        ranks = tuple(events.RankPlan(rank=number, local_rank=number, device="cpu") for number in range(2))
        yield events.Planned(
            device="cpu", backend="gloo", world_size=2, ranks=ranks, size="small", steps=3, dtype="fp32",
            strategy="ddp", launcher="direct", python="/usr/bin/python3", deadlines_s={},
        )  # fmt: skip
        ok, running = events.Outcome.OK, events.Outcome.RUNNING
        yield events.RankStage(at_s=1, rank=0, stage="launch", outcome=ok)
        for step in range(3):
            for rank in range(2):
                yield events.Loss(at_s=2, rank=rank, step=step, loss=2.5 - step / 2, seconds=0.1)
        yield events.Bandwidth(
            at_s=3, size_bytes=1 << 20, dtype="fp32", calls=3, seconds=0.1, algorithm_gb_s=1.0, bus_gb_s=1.0
        )
        yield events.RankStage(at_s=3, rank=1, stage="training", outcome=running)
        begun.set()
        stop.wait(300)

    monkeypatch.setattr(smoking, "run", pretend)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "5", "d", "g")
        await until(pilot, begun.is_set)
        await until(pilot, lambda: "loss by step" in text(app) and "1.5000 at 2" in text(app))
        await press(pilot, "x")
        await until(pilot, lambda: "stopped" in text(app))

    play("new-node", acts)


def test_a_check_that_crashes_is_a_row_and_not_the_end() -> None:
    @check("npu.crashing")
    def crashing() -> Iterator[Finding]:
        """It crashes."""
        raise RuntimeError("of all things")
        yield

    def load() -> Node:
        node = node_of("--simulate", "healthy-a3", names=FEW)
        catalog = plugins.assemble([crashing, *node.catalog.checks.values(), *node.catalog.probes.values()])
        return Node(catalog=catalog, selection=Selection(names=("npu.crashing", "system.shm")), open=node.open)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        assert app.diagnosis.row("npu.crashing").state is State.CRASHED
        await until(pilot, lambda: "of all things" in text(app))

    play_on(load, acts)


def test_a_node_that_cannot_be_opened_ends_it_with_one_line() -> None:
    def load() -> Node:
        raise CannotOpen("node.tar.gz: there is no such recording")

    async def run() -> int | None:
        app = DoctorApp(load)
        async with app.run_test() as pilot:
            await until(pilot, lambda: not app.is_running)
        return app.return_code

    assert asyncio.run(run()) == 2


@pytest.mark.parametrize("size", [(60, 20), (62, 22), (200, 60)])
def test_it_fits_from_sixty_columns_on(size: tuple[int, int]) -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for key in "123456":
            await press(pilot, key)
            await until(pilot, lambda: "requires 60 × 20" not in text(app))
            await until(pilot, lambda: max(map(len, text(app).splitlines())) <= size[0])

    play("healthy-a3", acts, size=size)


def test_below_it_says_so_and_comes_back() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await pilot.resize_terminal(59, 19)
        await pilot.pause()
        await until(pilot, lambda: "npudoctor requires 60 × 20" in text(app))
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        await until(pilot, lambda: "PROBLEMS" in text(app))

    play("new-node", acts)


def test_without_colours_the_look_is_the_one_that_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        assert app.theme == themes.MONO
        await until(pilot, lambda: "✖ cann.environment" in text(app))

    play("new-node", acts)


def test_every_letter_has_an_ascii_twin_of_its_width() -> None:
    assert plain.plain("✖ 8 × 910B3 · ▁▅█ │ 日本 é") == "x 8 x 910B3 - _=# | ???? e"
    assert plain.ascii_only({"LANG": "C"}) and plain.ascii_only({}) and plain.ascii_only({"LC_ALL": "POSIX"})
    assert not plain.ascii_only({"LANG": "de_DE.UTF-8"})
    assert not plain.ascii_only({"LANG": "C", "LC_ALL": "C.utf8"})


def test_it_leaves_at_once_although_a_tool_hangs() -> None:
    stuck = threading.Event()

    def load() -> Node:
        stuck.wait(300)
        raise CannotOpen("never")

    async def run() -> int | None:
        app = DoctorApp(load)
        async with app.run_test() as pilot:
            await press(pilot, "q")
        return app.return_code

    assert asyncio.run(run()) == 0
    stuck.set()
