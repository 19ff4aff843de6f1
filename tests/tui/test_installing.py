"""Driver and firmware are installed from the overview's first entry, followed by another session, and verified."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.widgets import Button, Checkbox, Input

from npudoctor import plugins
from npudoctor.cli import parser_of, setup_install, setup_plan, setup_text
from npudoctor.cli import tui as command
from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.packages.node import of_facts
from npudoctor.packages.sets import PackageSet
from npudoctor.records import replace
from npudoctor.selection import Selection
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model import setting_up
from npudoctor.tui.model.session import Node
from npudoctor.tui.screens.follow import Follow
from npudoctor.tui.screens.leave import Leave
from npudoctor.tui.widgets.check_list import CheckList
from tests.installing.node import times_run
from tests.installing.test_command import Given, a_report

from .driving import Driver, node_of, play_on, press, text, until
from .test_setup import NAMES, SIZES, answered, chosen, scenario

STATE = ("--state", "/var/lib/npudoctor")


class Stand:
    """A stand-in node whose packages install, and what a session of root on it is given."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, does: str = "installs") -> None:
        self.given = Given(folder, patch, does)
        self.asked: list[tuple[str, ...]] = []
        self.scenario = scenario(folder, 'driver = { version = "25.5.2" }')
        self.killed = threading.Event()
        self._start_of = self.given.host.start_of
        patch.setattr(self.given.host, "start_of", self._start_until_killed, raising=False)
        patch.setattr(setup_plan, "prepare", lambda *_: self._prepared())

    def _start_until_killed(self, pid: int) -> str | None:
        if self.killed.is_set():
            raise SystemExit(129)  # as by SIGHUP of a closed terminal
        return self._start_of(pid)

    def _prepared(self) -> setup_plan.Prepared:
        staged = StagedPackages(folders=("/repo",), packages=(_package("driver"), _package("firmware")))
        return setup_plan.Prepared(
            purpose="both",
            only=("driver", "firmware"),
            staged=staged,
            node=of_facts({}),
            report=a_report(),
            sets=(PackageSet(parts=staged.packages),),
            plan=self.given.plan,
            lacks=(),
            sums=tuple(setup_text.Checksum(path, sum) for path, sum in self.given.sums.items()),
            absent=(),
        )

    def node(self) -> Node:
        seen = node_of("--simulate", self.scenario, names=NAMES)
        return Node(
            catalog=plugins.load(folder=""),
            selection=Selection(names=NAMES),
            open=seen.open,
            plan_setup=lambda words: setup_plan.of_args(parser_of("setup").parse_args(list(words))),
            set_up=self._set_up,
            pending=lambda: setup_install.option_to_go_on(parser_of("setup").parse_args([*STATE])),
        )

    def _set_up(self, words: Sequence[str], say: Callable[[str], None]) -> int:
        self.asked.append(tuple(words))
        return command._set_up(parser_of("tui").parse_args([]), [*words, *STATE], say)

    def play(self, acts: Callable[[DoctorApp, Driver], object]) -> None:
        play_on(self.node, acts, size=(120, 40))  # type: ignore[arg-type]


def _package(component: str) -> Package:
    return Package(
        path=f"/repo/{component}.run",
        name=f"{component}.run",
        format="run",
        component=component,
        title=component,
        told_by="name",
        version="1",
    )


def plain(app: DoctorApp) -> str:
    return str(app.screen.query_one("#lines").plain)  # type: ignore[attr-defined]


async def confirmed(app: DoctorApp, pilot: Driver, name: str) -> None:
    """Go from the plan over the questions to the name of the host."""
    await until(pilot, lambda: app.screen.query_one("#driver", Button).has_focus)
    await press(pilot, "enter")
    await until(pilot, lambda: "out of service?" in text(app))
    await chosen(app, pilot, 1)
    stop, host = (app.screen.query_one(f"#{name}", Input) for name in ("stop", "host"))
    await until(pilot, lambda: stop.has_focus and "none is known to hold an NPU" in text(app))
    await press(pilot, "enter")
    await until(pilot, lambda: host.has_focus and "NO WAY BACK: firmware" in text(app))
    host.value = name
    await press(pilot, "enter")
    await until(pilot, lambda: isinstance(app.screen, Follow))


def ended(app: DoctorApp) -> bool:
    return isinstance(app.screen, Follow) and app.screen.code is not None and app.screen.query_one("#close").has_focus


def test_from_the_plan_over_a_killed_session_and_the_reboot_to_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand(tmp_path, monkeypatch, "waits")
    name = stand.given.host.about.hostname

    async def begins(app: DoctorApp, pilot: Driver) -> None:
        await answered(app, pilot, tmp_path)
        await confirmed(app, pilot, name)
        await until(pilot, lambda: "it goes on if npudoctor ends" in plain(app) and times_run(tmp_path, "driver"))
        await press(pilot, "escape")
        assert isinstance(app.screen, Follow), "the screen stays while a step runs"
        await press(pilot, "q")
        await until(pilot, lambda: isinstance(app.screen, Leave) and "goes on without npudoctor" in text(app))
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, Follow))
        stand.killed.set()
        await until(pilot, lambda: ended(app))
        stand.killed.clear()

    stand.play(begins)
    assert stand.asked[0][-2:] == ("--unmanaged", f"--expect-host={name}")
    assert "--irreversible" in stand.asked[0] and "--yes" not in stand.asked[0]
    assert stand.given.statuses() == ["running"]

    async def attaches(app: DoctorApp, pilot: Driver) -> None:
        listed = app.screen.query_one(CheckList)
        assert listed.chosen == setting_up.ENTRY
        await until(pilot, lambda: "An installation of driver or firmware goes on" in text(app))
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, Follow) and "Start time" in plain(app))
        (tmp_path / "go").touch()
        await until(pilot, lambda: ended(app))
        assert plain(app).endswith("NOT READY: reboot the node, then npudoctor setup --resume")

    stand.play(attaches)
    assert (times_run(tmp_path, "driver"), times_run(tmp_path, "firmware")) == (1, 1)
    stand.given.host.boot = "33333333-3333-3333-3333-333333333333"

    async def resumes(app: DoctorApp, pilot: Driver) -> None:
        await until(pilot, lambda: "is to be verified" in text(app))
        await press(pilot, "enter")
        await until(pilot, lambda: ended(app))
        assert plain(app).endswith("READY")
        await until(pilot, lambda: not app.diagnosis.running and app.diagnosis.pending == "")
        await press(pilot, "escape")
        await until(pilot, lambda: "to be verified" not in text(app))

    stand.play(resumes)
    assert stand.asked[1:] == [("--attach",), ("--resume",)]
    assert stand.given.statuses() == ["done"]
    assert (times_run(tmp_path, "driver"), times_run(tmp_path, "firmware")) == (1, 1)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_last_line_and_the_button_are_on_the_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    read, scrolled = threading.Event(), threading.Event()

    def set_up(_: Sequence[str], say: Callable[[str], None]) -> int:
        for number in range(60):
            say(f"{number} {'a long line ' * 12}")
        assert read.wait(60)
        for number in range(60):
            say(f"{number} another")
        assert scrolled.wait(60)
        say("NOT READY: reboot the node")
        return 1

    bare = scenario(tmp_path, "driver = { installed = false }")

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        app.push_screen(Follow(("--attach",)))
        await until(pilot, lambda: "59 a long line" in text(app) and " Close " in text(app))
        await press(pilot, "pageup")
        await until(pilot, lambda: "59 a long line" not in text(app))
        read.set()
        await until(pilot, lambda: "59 another" in plain(app))
        await pilot.pause(0.3)
        assert "59 another" not in text(app), "what a person reads stays where it is"
        while "59 another" not in text(app):
            await press(pilot, "pagedown")
        scrolled.set()
        await until(pilot, lambda: ended(app) and "✖ NOT READY: reboot the node" in text(app))
        assert " Close " in text(app)

    play_on(lambda: replace(node_of("--simulate", bare, names=NAMES), set_up=set_up), acts, size=size)


def test_questions_go_back_one_by_one_and_another_name_than_that_of_the_host_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand(tmp_path, monkeypatch)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await answered(app, pilot, tmp_path)
        driver = app.screen.query_one("#driver", Button)
        await until(pilot, lambda: driver.has_focus)
        assert not app.screen.query_one("#licence", Checkbox).display
        await press(pilot, "enter")
        await until(pilot, lambda: app.screen.query_one("#answers").has_focus)
        await chosen(app, pilot, 0)
        await until(pilot, lambda: app.screen.query_one("#stop").has_focus)
        for shown in ("out of service?", "The plan", "What will run", "In which folder"):
            await press(pilot, "escape")
            await until(pilot, lambda shown=shown: shown in text(app))  # type: ignore[misc]
        assert stand.asked == []
        await press(pilot, "enter")
        await until(pilot, lambda: "What will run" in text(app))
        await chosen(app, pilot, 0)
        await confirmed(app, pilot, "--yes")
        await until(pilot, lambda: ended(app))
        assert "not --yes" in plain(app)

    stand.play(acts)
    assert stand.given.statuses() == []
    assert times_run(tmp_path, "driver") == 0


def test_only_root_on_this_machine_is_offered_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = parser_of("tui").parse_args
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert command._is_here(parse([]))
    assert not command._is_here(parse(["--simulate", "new-node"]))
    assert not command._is_here(parse(["--root", "/srv/image"]))
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    assert not command._is_here(parse([]))
    monkeypatch.delenv("TEXTUAL_DRIVER")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert not command._is_here(parse([]))
