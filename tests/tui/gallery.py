"""Draws the pictures and the animation of the README anew: `python -m tests.tui.gallery docs/pictures`."""

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from textual.widgets import Button

from npudoctor.records import replace
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model import smoking
from npudoctor.tui.model.series import KEPT
from npudoctor.tui.screens.cards import Cards
from npudoctor.tui.screens.fix import FixDialog
from tests.tui.driving import Driver, play, press, settled, text, until

PICTURES = (
    ("overview", "new-node", ("1",), "PROBLEMS"),
    ("cards", "sick-cards", ("2",), "AI Core fault"),
    ("smoke", "seed-910b1", ("5", "g"), "Node ready"),
    ("environment", "new-node", ("4",), "VERSIONS"),
    ("fix", "new-node", ("f",), "Apply"),
)
FRAME_S = 2.5
"""How long each picture of the animation is shown, in seconds."""
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def draw(node: str, keys: Sequence[str], words: str) -> str:
    """One screen as SVG that loads nothing from elsewhere."""
    drawn: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, *keys)
        await until(pilot, lambda: words in text(app))
        if isinstance(app.screen, Cards):
            _lived(app.screen)
        await pilot.pause(0.5)
        drawn.append(app.export_screenshot(title=f"npudoctor --simulate {node}"))

    play(node, acts, size=(104, 30), names=())
    return own_fonts(drawn[0])


def _lived(screen: Cards) -> None:
    """Readings of some minutes on an idle node whose NPU 2 failed under load."""
    reading = screen._reading
    assert reading is not None
    for number in range(KEPT):
        busy = number < KEPT - 30
        rows = [
            replace(
                row,
                chip=replace(
                    row.chip,
                    aicore_pct=0 if not busy else 20 + (37 * number + 11 * place) % 70,
                    temp_c=(row.chip.temp_c or 40)
                    + (12 + number % 5 if busy else max(0, 8 - (number - KEPT + 30) // 3)),
                    power_w=(row.chip.power_w or 90) + (150 + number * 13 % 60 if busy else 0),
                ),
            )
            for place, row in enumerate(reading.rows)
        ]
        screen._series.add(rows, "11:52:00")
    screen._series.add(reading.rows, "11:52:00")
    screen._show()


def own_fonts(svg: str) -> str:
    """The picture with fonts that the reader has, instead of an address."""
    svg = re.sub(r"@font-face \{[^}]*\}\s*|<!--.*?-->\s*", "", svg)
    return re.sub(r"font-family: (Fira Code, monospace|arial);", f"font-family: {FONTS};", svg)


def way() -> list[str]:
    """From a new node to a ready one, by its keys: a picture after each step."""
    drawn: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        async def shown(*keys: str, words: str = "") -> None:
            await press(pilot, *keys)
            await until(pilot, lambda: words in text(app))
            await pilot.pause(0.3)
            drawn.append(own_fonts(app.export_screenshot(title="npudoctor --simulate new-node")))

        await shown(words="PROBLEMS")
        await shown("f", words="Apply")
        await press(pilot, "enter")
        await until(pilot, lambda: app.screen.query_one("#close", Button).has_focus)
        await shown(words=" now ok; ")
        await press(pilot, "enter")
        await settled(app, pilot)
        while app.diagnosis.headline().state.broken:
            await press(pilot, "f")
            await until(pilot, lambda: isinstance(app.screen, FixDialog))
            await press(pilot, "enter")
            await until(pilot, lambda: app.screen.query_one("#close", Button).has_focus)
            await press(pilot, "enter")
            await settled(app, pilot)
        await shown(words="5, then g")
        await shown("5", "g", words="Node ready")

    play("new-node", acts, size=(92, 26), names=())
    return drawn


def animated(pictures: Sequence[str]) -> str:
    """One SVG that shows pictures of the same size one after the other; the first where motion is not wanted."""
    box = re.search(r'viewBox="([^"]+)"', pictures[0])
    assert box is not None
    share = 100 / len(pictures)
    style = f".f{{visibility:hidden;animation:f {FRAME_S * len(pictures):g}s step-end infinite}}"
    style += f"@keyframes f{{0%{{visibility:visible}}{share:.3f}%{{visibility:hidden}}}}"
    style += "@media (prefers-reduced-motion){.f{animation:none}.f:first-of-type{visibility:visible}}"
    frames = []
    for number, picture in enumerate(pictures):
        inner = re.sub(r"\s*\n\s*", "\n", picture[picture.index("<svg") :])
        frames.append(f'<g class="f" style="animation-delay:{FRAME_S * number:g}s">{inner}</g>')
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box[1]}"><style>{style}</style>{"".join(frames)}</svg>\n'


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, node, keys, words in PICTURES:
        (folder / f"{name}.svg").write_text(draw(node, keys, words), encoding="utf-8")
    (folder / "way.svg").write_text(animated(way()), encoding="utf-8")


if __name__ == "__main__":
    smoking.PLAYED = 1000.0
    os.environ |= {"LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": tempfile.mkdtemp()}
    main(Path(sys.argv[1]))
