"""How each screen looks, as text with its styles. After a change that is meant: `PICTURES=write pytest tests/tui`."""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from npudoctor.tui.app import SCREENS, DoctorApp
from npudoctor.tui.screens.fix import FixDialog
from tests.tui.driving import Driver, picture, play, press, text, until

GOLDEN = Path(__file__).parent / "golden"
SIZES = ((80, 24), (160, 48))
NODES = ("new-node", "seed-910b1", "healthy-a3", "sick-cards", "bare-host")
SHOWN: dict[str, Callable[[DoctorApp], bool]] = {
    "cards": lambda app: "every " in text(app),
    "environment": lambda app: "VERSIONS" in text(app),
    "history": lambda app: "has changed nothing" in text(app),
}
SAFE = ("hccl.ports-reserved", "hccl.ports-persistent", "npu.present")


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def differing(name: str, app: DoctorApp) -> list[str]:
    """The part that a person reads, where a picture is another than it was, and where it lies as SVG."""
    golden, seen = GOLDEN / f"{name}.txt", picture(app)
    if os.environ.get("PICTURES") == "write":
        golden.write_text(seen)
    if golden.exists() and golden.read_text() == seen:
        return []
    drawn = Path(tempfile.gettempdir()) / f"{name}.svg"
    drawn.write_text(app.export_screenshot(title=name))
    return [f"{name}, drawn in {drawn}:\n{seen.partition(chr(10) * 2)[0]}"]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("node", NODES)
def test_every_screen_looks_as_it_did(node: str, size: tuple[int, int]) -> None:
    wrong: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for number, name in enumerate(map(str.lower, SCREENS), 1):
            await press(pilot, str(number))
            await until(pilot, partial(SHOWN.get(name, lambda _: True), app))
            await pilot.pause(0.1)
            wrong.extend(differing(f"{name}-{node}-{size[0]}x{size[1]}", app))

    play(node, acts, size=size)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("dialog", "key", "shown"),
    [
        ("help", "question_mark", lambda app: "To its cause" in text(app)),
        ("save", "w", lambda app: "Recording" in text(app)),
        ("fix", "F", lambda app: isinstance(app.screen, FixDialog)),
    ],
    ids=("help", "save", "fix"),
)
def test_a_dialog_looks_as_it_did(dialog: str, key: str, shown: Callable[[DoctorApp], bool]) -> None:
    wrong: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, key)
        await until(pilot, lambda: shown(app))
        await pilot.pause(0.1)
        wrong.extend(differing(f"{dialog}-new-node-80x24", app))

    play("new-node", acts, names=SAFE)
    assert not wrong, "\n\n".join(wrong)
