"""The abilities of a terminal: width, colours and marks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console

GLYPHS = {
    "ok": "✔",
    "info": "i",
    "warning": "!",
    "error": "✖",
    "skipped": "–",
    "silenced": "–",
    "crashed": "✖",
    "undetermined": "?",
}
ASCII_GLYPHS = {
    "ok": "+",
    "info": "i",
    "warning": "!",
    "error": "x",
    "skipped": "-",
    "silenced": "-",
    "crashed": "x",
    "undetermined": "?",
}
STYLES = {
    "ok": "green",
    "info": "cyan",
    "warning": "yellow",
    "error": "bold red",
    "skipped": "dim",
    "silenced": "dim",
    "crashed": "bold magenta",
    "undetermined": "bold magenta",
}


@dataclass(frozen=True)
class Look:
    """The terminal's abilities: `width` in columns."""

    width: int = 80
    color: bool = False
    unicode: bool = True

    @property
    def glyphs(self) -> Mapping[str, str]:
        """The mark of each status and severity."""
        return GLYPHS if self.unicode else ASCII_GLYPHS

    def console(self, out: TextIO) -> Console:
        """A console that writes to `out` within the terminal's abilities, without automatic markup."""
        return Console(
            file=out,
            width=self.width,
            force_terminal=self.color,
            color_system="standard" if self.color else None,
            no_color=not self.color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )


def look_of(stream: TextIO, *, no_color: bool = False) -> Look:
    """The style for a stream: plain where it is no terminal, or colours are disabled (NO_COLOR, TERM=dumb)."""
    encoding = (stream.encoding or "ascii").lower().replace("-", "")
    forced = "FORCE_COLOR" in os.environ
    color = (stream.isatty() or forced) and not (
        no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    )
    width = shutil.get_terminal_size((80, 24)).columns if stream.isatty() or "COLUMNS" in os.environ else 80
    return Look(width=max(20, min(width, 120)), color=color, unicode=encoding.startswith("utf"))
