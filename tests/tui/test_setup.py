"""A node without driver or CANN is set up from the first entry of the overview: questions, plan, and cann.install."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from textual.widgets import Button, Input, OptionList

from npudoctor import plugins
from npudoctor.cli.setup_plan import Prepared
from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.fixer import journal
from npudoctor.fixer.plan import Request
from npudoctor.host import Host
from npudoctor.host.live.local import LocalHost
from npudoctor.packages.folder import read_folders
from npudoctor.packages.node import of_facts
from npudoctor.packages.sets import PackageSet
from npudoctor.sdk import Options
from npudoctor.selection import Selection
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model import fixing, setting_up
from npudoctor.tui.model.fixing import Kind
from npudoctor.tui.model.session import CannotPlan, Node, Session
from npudoctor.tui.screens.copy import Copy
from npudoctor.tui.screens.fix import FixDialog
from npudoctor.tui.screens.setup import SetUp
from npudoctor.tui.widgets.check_list import CheckList
from tests.packages import build
from tests.packages.installers import installer
from tests.tui.driving import Driver, node_of, play, play_on, press, text, until

NAMES = ("npu.present", "driver.installed", "driver.npu-smi", "cann.installed", "system.shm")
SIZES = ((80, 24), (160, 48))


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """An A2 node without driver and CANN."""
    return scenario(tmp_path, "driver = { installed = false }")


@pytest.fixture
def without_cann(tmp_path: Path) -> str:
    return scenario(tmp_path, 'driver = { version = "25.5.2" }')


def scenario(folder: Path, driver: str) -> str:
    path = folder / "node.toml"
    rows = ('about = "a node"', 'product = "atlas-800t-a2-910b3"', "cann = { installed = false }", driver)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


async def answered(app: DoctorApp, pilot: Driver, folder: Path, row: int = 0) -> None:
    """Open the dialog, name the folder, and choose what will run."""
    await press(pilot, "enter")
    await until(pilot, lambda: "In which folder" in text(app))
    app.screen.query_one("#folder", Input).value = str(folder)
    await press(pilot, "enter")
    await until(pilot, lambda: "What will run" in text(app))
    await chosen(app, pilot, row)


def is_highlighted(listed: OptionList, row: int) -> bool:
    return listed.highlighted == row


async def chosen(app: DoctorApp, pilot: Driver, row: int) -> None:
    """Choose a row of the list: a key that comes before the list has the focus is another's."""
    listed = app.screen.query_one("#answers", OptionList)
    await until(pilot, lambda: listed.has_focus and listed.option_count > row)
    for number in range(1, row + 1):
        await press(pilot, "down")
        await until(pilot, partial(is_highlighted, listed, number))
    await press(pilot, "enter")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_plan_of_a_bare_node_names_the_order_and_installs_nothing(
    bare: str, tmp_path: Path, size: tuple[int, int]
) -> None:
    build.a2_release(repo := tmp_path / "the repo")
    before = sorted(os.listdir(repo))

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        listed = app.screen.query_one(CheckList)
        assert (listed.chosen, listed.highlighted) == (setting_up.ENTRY, 1)
        await until(pilot, lambda: "No driver and no CANN on this node" in text(app))
        await answered(app, pilot, repo)
        await until(pilot, lambda: "nothing was changed" in text(app) and "driver and firmware first" in text(app))
        assert not app.screen.query_one("#go").display
        plan = app.screen.query_one("#lines").plain  # type: ignore[attr-defined]
        assert "1. driver.install (driver): none → 25.5.2" in plan
        assert plan.index("way back: NO WAY BACK") < plan.index("cann.install (toolkit)")
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, Copy))
        assert "--only driver,firmware" in app.screen._choices[0].text  # type: ignore[attr-defined]
        await press(pilot, "escape")
        await press(pilot, "escape", "escape", "escape")
        await until(pilot, lambda: not isinstance(app.screen, SetUp))

    play(bare, acts, names=NAMES, size=size)
    assert sorted(os.listdir(repo)) == before


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_cann_is_offered_after_the_licence_was_accepted(
    without_cann: str, tmp_path: Path, size: tuple[int, int]
) -> None:
    build.a2_release(repo := tmp_path / "repo")

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await answered(app, pilot, repo, 3)
        await until(pilot, lambda: "nothing was changed" in text(app) and "Install CANN" in text(app))
        button = app.screen.query_one("#go", Button)
        assert button.disabled
        await press(pilot, "space")
        await until(pilot, lambda: "✔" in text(app).rpartition("accept the licence")[0].rpartition("\n")[2])
        assert not button.disabled
        await press(pilot, "right", "enter")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        assert "fix cann.install --packages" in text(app).replace("\n", " ")

    play(without_cann, acts, names=NAMES, size=size)


def test_several_sets_are_a_question(without_cann: str, tmp_path: Path) -> None:
    build.a2_release(repo := tmp_path / "repo")
    for part in ("toolkit", "910b-ops", "nnal"):
        build.cann(repo, f"Ascend-cann-{part}_9.0.0_linux-aarch64.run", "9.0.0", package=f"Ascend-cann-{part}")

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await answered(app, pilot, repo, 3)
        await until(pilot, lambda: all(part in text(app) for part in ("which one?", "cann=8.5.0", "cann=9.0.0")))
        rows = [line for line in text(app).splitlines() if "cann=" in line]
        await chosen(app, pilot, next(row for row, line in enumerate(rows) if "cann=8.5.0" in line))
        await until(pilot, lambda: "nothing was changed" in text(app) and "CANN 8.5.0" in text(app))

    play(without_cann, acts, names=NAMES, size=(120, 40))


def test_a_folder_that_is_not_there_is_asked_for_again(bare: str, tmp_path: Path) -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await answered(app, pilot, tmp_path / "nowhere")
        await until(pilot, lambda: "does not exist" in text(app).replace("\n", " "))
        await until(pilot, lambda: app.screen.query_one("#folder").has_focus)

    play(bare, acts, names=NAMES, size=(160, 48))


def test_tab_completes_the_folder(bare: str, tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "enter")
        await until(pilot, lambda: "In which folder" in text(app))
        field = app.screen.query_one("#folder", Input)
        field.value = f"{tmp_path}/pa"
        await press(pilot, "tab")
        await until(pilot, lambda: field.value == f"{tmp_path}/packages/")
        assert field.has_focus

    play(bare, acts, names=NAMES)


def test_the_entry_is_not_there_on_other_nodes_and_in_read_only_sessions(bare: str) -> None:
    async def acts(app: DoctorApp, _: Driver) -> None:
        assert setting_up.ENTRY not in text(app)

    play("new-node", acts, names=NAMES)
    play_on(lambda: node_of("--simulate", bare, names=NAMES), acts, read_only="read-only: here")


def test_completion_names_the_folders_of_which_there_are_several(tmp_path: Path) -> None:
    for name in ("ascend-8.5", "ascend-9.0", ".hidden", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "ascend-file").touch()
    assert setting_up.complete_path(f"{tmp_path}/as") == (f"{tmp_path}/ascend-", ["ascend-8.5", "ascend-9.0"])
    assert setting_up.complete_path(f"{tmp_path}/") == (f"{tmp_path}/", ["ascend-8.5", "ascend-9.0", "other"])
    assert setting_up.complete_path(f"{tmp_path}/.h") == (f"{tmp_path}/.hidden/", [])
    assert setting_up.complete_path(f"{tmp_path}/none") == (f"{tmp_path}/none", [])
    assert setting_up.complete_path("relative") == ("relative", [])


def test_a_folder_with_control_characters_is_neither_offered_nor_planned(tmp_path: Path) -> None:
    hostile = tmp_path / "pk\x1b]52;c;UFdO\x1b\\"
    hostile.mkdir()
    assert setting_up.complete_path(f"{tmp_path}/pk") == (f"{tmp_path}/pk", [])
    session = Session(lambda: node_of("--simulate", "bare-host"))
    with pytest.raises(CannotPlan, match="control characters"):
        setting_up.plan(session, setting_up.Answers(folder=str(hostile)))


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="CANN has packages for two architectures")
def test_the_change_runs_the_packages_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "state_folder", lambda _: str(tmp_path / "state"))
    prefix, repo = tmp_path / "Ascend", tmp_path / "repo"
    installer(repo, "toolkit", "8.5.0", os.uname().machine)
    staged = read_folders(LocalHost(), [str(repo)])
    request = setting_up.request
    monkeypatch.setattr(setting_up, "request", lambda found: with_prefix(request(found), prefix))
    session = Session(here)
    job = setting_up.propose(session, prepared(staged))
    assert job.ready, job.obstacle
    lines = list(fixing.carry_out(session, job))
    assert lines[-1].kind is Kind.DONE, lines
    assert (prefix / "cann-8.5.0" / "set_env.sh").exists()


def prepared(staged: StagedPackages) -> Prepared:
    """A plan with these packages; of the rest nothing is read."""
    return Prepared(
        purpose="bare",
        only=("cann",),
        staged=staged,
        node=of_facts({}),
        report=None,  # type: ignore[arg-type]
        sets=(PackageSet(parts=tuple(staged.usable)),),
        plan=None,
        lacks=(),
        sums=(),
        absent=(),
    )


def with_prefix(request: Request, prefix: Path) -> Request:
    return Request(request.id, {**(request.params or {}), "prefix": str(prefix)})


def here() -> Node:
    @contextlib.contextmanager
    def opened() -> Iterator[Host]:
        yield LocalHost()

    return Node(catalog=plugins.load(folder=""), selection=Selection(options=Options(python="/nowhere")), open=opened)
