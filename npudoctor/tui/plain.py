"""Filters terminal output: no foreign control characters, and only ASCII where the terminal requires it.

Every character is replaced by one of the same width.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from npudoctor.control_characters import escape

_TWINS = {
    "✔": "+",
    "✖": "x",
    "–": "-",
    "—": "-",
    "…": "~",
    "·": "-",
    "›": ">",
    "→": ">",
    "←": "<",
    "↑": "^",
    "↓": "v",
    "↻": "@",
    "⏎": "<",
    "×": "x",
    "°": "'",
    "≥": ">",
    "≤": "<",
    "•": "*",
    "┃": "|",
    "▌": "|",
    "▎": "|",
    "▏": "|",
    "▊": "|",
    "│": "|",
    "─": "-",
    "━": "-",
    "▁": "_",
    "▂": "_",
    "▃": "-",
    "▄": "-",
    "▅": "=",
    "▆": "=",
    "▇": "#",
    "█": "#",
    "░": ".",
    "▒": ":",
    "▓": "#",
    "●": "*",
    "○": "o",
    "■": "#",
    "□": ".",
    "▔": "-",
    "‑": "-",
    "“": '"',
    "”": '"',
    "’": "'",
    "‘": "'",
}


class Visible(LineFilter):
    """Removes control characters that rows and pages failed to escape; a driver's own sequences never pass here."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        """The same segments without control characters and the like."""
        return [
            segment if segment.text.isascii() and segment.text.isprintable() else _without_controls(segment)
            for segment in segments
        ]


def _without_controls(segment: Segment) -> Segment:
    text = segment.text
    if escape(text) != text:
        text = "".join(letter if escape(letter) == letter else "?" * cell_len(letter) for letter in text)
    return Segment(text, segment.style, segment.control)


class Ascii(LineFilter):
    """Rewrites all output to the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        """The same segments in ASCII."""
        return [
            segment if segment.text.isascii() else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(4096)
def plain(text: str) -> str:
    """The text in ASCII, as wide as before."""
    return "".join(letter if letter.isascii() else _twin(letter) for letter in text)


def _twin(letter: str) -> str:
    if letter in _TWINS:
        return _TWINS[letter]
    if "\u2500" <= letter <= "\u257f":
        return "+"
    if "\u2800" <= letter <= "\u28ff":
        return " " if letter == "\u2800" else "."
    if "\u2580" <= letter <= "\u259f":
        return "#"
    first = unicodedata.normalize("NFKD", letter)[:1]
    wide = unicodedata.east_asian_width(letter) in ("W", "F")
    return (first if first.isascii() and first.isprintable() else "?") + "?" * wide


def ascii_only(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the locale has no Unicode."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    return "utf" not in locale.lower()
