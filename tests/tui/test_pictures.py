"""How each screen looks, as text with its styles. After a change that is meant: `PICTURES=write pytest tests/tui`."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from npudoctor import engine
from npudoctor.tui import SCREENS
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model.cards import Pace
from npudoctor.tui.model.series import Series
from npudoctor.tui.screens.fix import FixDialog
from tests.tui.driving import Driver, picture, play, press, text, until

GOLDEN = Path(__file__).parent / "golden"
SIZES = ((80, 24), (160, 48))
NODES = ("new-node", "seed-910b1", "healthy-a3", "sick-cards", "bare-host")
SHOWN: dict[str, Callable[[DoctorApp], bool]] = {
    "cards": lambda app: "every " in text(app),
    "environment": lambda app: "VERSIONS" in text(app),
    "history": lambda app: "No changes by npudoctor" in text(app),
}
SETTLING_TRIES = 100
"""Five seconds and more: on a busy machine a screen is drawn in several steps."""
SAFE = ("hccl.ports-reserved", "hccl.ports-persistent", "npu.present")


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch, noon: None) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.fixture(autouse=True)
def _a_machine_that_is_never_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run or a reading took is shown, and decides where the text beside it is cut off."""
    report = engine._Run._report
    monkeypatch.setattr(engine._Run, "_report", lambda run, at, _: report(run, at, 0.1))
    monkeypatch.setattr(Pace, "record_duration", lambda *_, **__: None)
    add = Series.add  # a second reading would move the curves, and there may be time for one
    monkeypatch.setattr(Series, "add", lambda series, rows, at: series.count or add(series, rows, at))


async def differing(name: str, app: DoctorApp, pilot: Driver, folder: Path) -> list[str]:
    """The part that a person reads, where a picture stays another than it was, and where it lies as SVG."""
    golden = GOLDEN / f"{name}.txt"
    await pilot.pause(0.1)
    if os.environ.get("PICTURES") == "write":
        golden.write_text(picture(app), encoding="utf-8")
    expected = golden.read_text(encoding="utf-8") if golden.exists() else ""
    for _ in range(SETTLING_TRIES):
        if picture(app) == expected:
            return []
        await pilot.pause(0.05)
    drawn = folder / f"{name}.svg"
    drawn.write_text(app.export_screenshot(title=name), encoding="utf-8")
    return [f"{name}, drawn in {drawn}:\n{picture(app).partition(chr(10) * 2)[0]}"]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("node", NODES)
def test_every_screen_looks_as_it_did(node: str, size: tuple[int, int], tmp_path: Path) -> None:
    wrong: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for number, name in enumerate(map(str.lower, SCREENS), 1):
            await press(pilot, str(number))
            await until(pilot, partial(SHOWN.get(name, lambda _: True), app))
            wrong.extend(await differing(f"{name}-{node}-{size[0]}x{size[1]}", app, pilot, tmp_path))

    play(node, acts, size=size)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("dialog", "key", "shown"),
    [
        ("help", "question_mark", lambda app: "Go to cause" in text(app)),
        ("save", "w", lambda app: "Recording" in text(app)),
        ("fix", "F", lambda app: isinstance(app.screen, FixDialog)),
    ],
    ids=("help", "save", "fix"),
)
def test_a_dialog_looks_as_it_did(dialog: str, key: str, shown: Callable[[DoctorApp], bool], tmp_path: Path) -> None:
    wrong: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, key)
        await until(pilot, lambda: shown(app))
        wrong.extend(await differing(f"{dialog}-new-node-80x24", app, pilot, tmp_path))

    play("new-node", acts, names=SAFE)
    assert not wrong, "\n\n".join(wrong)
