"""From a new node to "Node ready" without leaving the interface, and how far each problem is on the way."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from textual.widgets import Button

from npudoctor import sim
from npudoctor.cli import main
from npudoctor.steps import output_to, system
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model import fixing, smoking
from npudoctor.tui.model.diagnosis import Headline, State
from npudoctor.tui.screens.fix import FixDialog
from npudoctor.tui.screens.leave import Leave
from npudoctor.tui.widgets.masthead import Masthead
from tests.tui.driving import FEW, Driver, node_of, play, play_on, press, settled, text, until


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(smoking, "PLAYED", 1000.0)


async def confirmed(app: DoctorApp, pilot: Driver, key: str) -> str:
    """Open the dialog of a change by a key, confirm and close it; what it said at the end."""
    await press(pilot, key)
    await until(pilot, lambda: isinstance(app.screen, FixDialog))
    await press(pilot, "enter")
    await until(pilot, lambda: app.screen.query_one("#close", Button).has_focus)
    said = " ".join(text(app).split())
    await press(pilot, "enter")
    await settled(app, pilot)
    return said


def test_the_way_from_a_new_node_ends_with_a_ready_one() -> None:
    said: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        while app.diagnosis.headline().state.broken:
            assert len(said) < 9, text(app)
            said.append(await confirmed(app, pilot, "f"))
        await until(pilot, lambda: "NEXT LOGIN" in text(app) and "5, then g" in text(app))
        await press(pilot, "5", "g")
        await until(pilot, lambda: "Node ready" in text(app))
        report = app.diagnosis.report
        assert report is not None
        counted = f"({len(report.results)} checks, {report.summary['skipped']} not applicable)"
        assert f"✔ Node ready: no problems {counted}, smoke PASS: 8 of 8 NPUs" in text(app)
        await press(pilot, "4")
        await until(pilot, lambda: "Node ready" in text(app) and "✖" not in text(app))
        await press(pilot, "6")
        await until(pilot, lambda: "after-login" in text(app) and "verified" in text(app))
        await press(pilot, "e")
        await settled(app, pilot)
        await until(pilot, lambda: "in force in new logins" in text(app) and "Node ready" not in text(app))

    play("new-node", acts, size=(120, 36), names=())
    assert all(" now ok; " in one and "run again in" in one for one in said)


def test_undoing_one_fix_forgets_no_other() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await confirmed(app, pilot, "F")
        await press(pilot, "e")
        await settled(app, pilot)
        assert app.diagnosis.row("cann.environment").state is State.WAITING
        assert app.diagnosis.row("hccl.ports-reserved").state is State.OK
        await press(pilot, "6")
        await until(pilot, lambda: "hccl.reserve-ports" in text(app))
        fixes = [run["fix"] for run in app.session.history()]
        await press(pilot, *["down"] * fixes.index("hccl.reserve-ports"))
        await confirmed(app, pilot, "u")
        assert app.diagnosis.row("cann.environment").state is State.WAITING
        assert app.diagnosis.row("hccl.ports-reserved").state is State.WARNING

    play("new-node", acts, names=(*FEW, "env.values"))


def test_a_preview_is_remembered_until_the_fix_is_applied() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "f")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await press(pilot, "escape")
        await until(pilot, lambda: "previewed; nothing changed yet" in text(app))
        progress = app.diagnosis.progress_of("cann.environment")
        assert progress is not None and progress.stage.value == "previewed"

    play("new-node", acts)


def test_the_key_of_the_environment_says_which_one_it_judges() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for screen in ("5", "1"):
            await press(pilot, screen)
            await until(pilot, lambda: "e Next login" in text(app))
        await press(pilot, "e")
        await settled(app, pilot)
        for screen in ("1", "5"):
            await press(pilot, screen)
            await until(pilot, lambda: "e This login" in text(app))
        await press(pilot, "e")
        await until(pilot, lambda: "e Next login" in text(app))

    play("new-node", acts, names=FEW)


def test_a_recording_has_no_next_login(tmp_path: Any) -> None:
    place = str(tmp_path / "node.tar.gz")
    assert main(["record", "--simulate", "new-node", place]) == 0

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "e")
        await until(pilot, lambda: "e Next login" in text(app))
        await until(pilot, lambda: any("next login is unknown" in note.message for note in app._notifications))
        await settled(app, pilot)
        assert not app.session.at_login and "NEXT LOGIN" not in text(app)

    play_on(lambda: node_of("--replay", place, names=FEW), acts)


def test_the_output_of_a_step_is_shown_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    printed, goes_on = threading.Event(), threading.Event()

    def slowly(*_: Any, stream: Any, **__: Any) -> Iterator[fixing.Line]:
        yield fixing.Line(fixing.Kind.STEP, "step 1")
        stream("Collecting torch\n  Downloading torch-2.6.0 \x1b[31mred\n")
        printed.set()
        goes_on.wait(300)
        yield fixing.Line(fixing.Kind.DONE, "step 1 done")

    monkeypatch.setattr(fixing, "carry_out", slowly)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "f")
        await until(pilot, lambda: isinstance(app.screen, FixDialog))
        await press(pilot, "enter")
        await until(pilot, printed.is_set)
        await until(pilot, lambda: "Downloading torch-2.6.0" in text(app))
        assert "\x1b" not in text(app)
        await until(pilot, lambda: "in progress · " in text(app))
        goes_on.set()
        await until(pilot, lambda: app.screen.query_one("#close", Button).has_focus)
        assert "Downloading" not in text(app)

    play("new-node", acts)


def test_leaving_asks_while_a_smoke_run_is_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def run(*_: Any) -> Iterator[Any]:
        going.wait(300)
        yield from ()

    monkeypatch.setattr(smoking, "run", run)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "5", "g", "1", "q")
        await until(pilot, lambda: isinstance(app.screen, Leave) and "a smoke run" in text(app))
        assert app.return_code is None
        await press(pilot, "escape")
        await until(pilot, lambda: not isinstance(app.screen, Leave))
        await press(pilot, "q", "q")
        going.set()
        await until(pilot, lambda: app.return_code == 0)

    play("new-node", acts)


def test_an_applied_step_hands_on_what_its_command_prints() -> None:
    said: list[str] = []
    with output_to(said.append, []):
        system.Run(("sysctl", "-w", "net.ipv4.ip_local_reserved_ports=60000-60015")).apply(sim.simulate("new-node"))
    assert said == ["net.ipv4.ip_local_reserved_ports = 60000-60015\n"]


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (80, "✔ No problems found (83 checks)  5, then g: smoke run"),
        (50, "✔ No problems found  5, then g: smoke run"),
        (20, "✔ No problems found"),
    ],
)
def test_the_next_step_stays_where_the_counts_have_no_room(room: int, shown: str) -> None:
    head = Masthead()
    said = Headline(
        state=State.OK, text="No problems found (83 checks)", short="No problems found", next="5, then g: smoke run"
    )
    head.set_reactive(Masthead.headline, said)
    assert head._verdict(room).plain == shown
