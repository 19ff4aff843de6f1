"""The abilities of a terminal: width, colours and marks."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

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


def wrap(text: Text, width: int, *, whole: bool = False) -> list[Text]:
    """The text in lines of at most `width` columns, broken between words, and a longer word after a separator.

    A name without a separator that is longer than a line is cut; with `whole` it has a line of its own instead.
    """
    lines: list[Text] = []
    for line in text.split(allow_blank=True):
        line.expand_tabs(8)
        used, starts = 0, []
        for start, piece in _pieces(line.plain, width, whole=whole):
            if used and used + cell_len(piece.rstrip()) > width:
                starts.append(start)
                used = 0
            used += cell_len(piece)
        lines += line.divide(starts)
    return lines


def _pieces(text: str, width: int, *, whole: bool) -> Iterator[tuple[int, str]]:
    """What stays on one line, with its position: words, the parts of long ones, and characters if need be."""
    for word in re.finditer(r"\s*\S+\s*", text):
        parts = (
            [word]
            if cell_len(word[0].rstrip()) <= width
            else re.finditer(r"\s*/*[^\s/:,;=]*(?:/|[:,;=]+|\s+|$)", word[0])
        )
        for part in parts:
            start = part.start() if part is word else word.start() + part.start()
            if part[0] and (whole or cell_len(part[0].rstrip()) <= width):
                yield start, part[0]
            else:
                yield from ((start + place, character) for place, character in enumerate(part[0]))
