"""Draws the pictures of the README anew: `python -m tests.tui.gallery docs/pictures`."""

import os
import re
import sys
import tempfile
from pathlib import Path

from npudoctor.tui.app import DoctorApp
from tests.tui.driving import Driver, play, press, text, until

PICTURES = (("overview", "new-node", "1", "PROBLEMS"), ("cards", "sick-cards", "2", "AI Core fault"))
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def draw(node: str, key: str, words: str) -> str:
    """One screen as SVG that loads nothing from elsewhere."""
    drawn: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, key)
        await until(pilot, lambda: words in text(app))
        await pilot.pause(0.5)
        drawn.append(app.export_screenshot(title=f"npudoctor --simulate {node}"))

    play(node, acts, size=(104, 30), names=())
    svg = re.sub(r"@font-face \{[^}]*\}\s*", "", drawn[0])
    return re.sub(r"font-family: (Fira Code, monospace|arial);", f"font-family: {FONTS};", svg)


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, node, key, words in PICTURES:
        (folder / f"{name}.svg").write_text(draw(node, key, words), encoding="utf-8")


if __name__ == "__main__":
    os.environ |= {"LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": tempfile.mkdtemp()}
    main(Path(sys.argv[1]))
