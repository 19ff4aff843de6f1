"""How each screen looks, as text with its styles. After a change that is meant: `PICTURES=write pytest tests/tui`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from npudoctor.tui.app import DoctorApp
from npudoctor.tui.screens.fix import FixDialog
from tests.tui.driving import FEW, Driver, picture, play, press, text, until

GOLDEN = Path(__file__).parent / "golden"
SIZES = ((80, 24), (160, 48))
NODES = ("new-node", "seed-910b1", "healthy-a3", "sick-cards", "bare-host")
SHOWN: dict[str, Callable[[DoctorApp], bool]] = {
    "1": lambda _: True,
    "2": lambda app: "every " in text(app),
    "3": lambda _: True,
    "6": lambda app: "has changed nothing" in text(app),
    "w": lambda app: "Recording" in text(app),
    "F": lambda app: isinstance(app.screen, FixDialog),
}
CASES = [
    *(("overview", "1", node, size) for node in NODES for size in SIZES),
    *(("cards", "2", node, size) for node in ("healthy-a3", "sick-cards", "bare-host") for size in SIZES),
    *(("topology", "3", node, size) for node in ("healthy-a3", "seed-910b1") for size in SIZES),
    ("history", "6", "new-node", SIZES[0]),
    ("save", "w", "new-node", SIZES[0]),
    ("fix", "F", "new-node", SIZES[0]),
]


@pytest.mark.parametrize(("screen", "key", "node", "size"), CASES, ids=lambda value: str(value).replace(" ", ""))
def test_a_screen_looks_as_it_did(
    screen: str, key: str, node: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    seen: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, key)
        await until(pilot, lambda: SHOWN[key](app))
        await pilot.pause(0.1)
        seen.append(picture(app))

    play(node, acts, size=size, names=_SAFE if key == "F" else FEW)
    golden = GOLDEN / f"{screen}-{node}-{size[0]}x{size[1]}.txt"
    if os.environ.get("PICTURES") == "write":
        golden.write_text(seen[0])
    assert seen[0] == golden.read_text(), text_of(seen[0])


_SAFE = ("hccl.ports-reserved", "hccl.ports-persistent", "npu.present")


def text_of(picture: str) -> str:
    """The part of a picture that a person reads first when a test fails."""
    return picture.split("\n\n")[0]
