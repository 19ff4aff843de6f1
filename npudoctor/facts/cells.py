"""The smallest pieces of what a vendor tool prints: its lines, and the word or number that one cell holds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudoctor.sdk import ParseError

_MOST_CHARACTERS = 1 << 20
_LONGEST_LINE = 4096
_MISSING = frozenset({"", "-", "--", "na", "n/a"})
_INTEGER = r"-?[0-9]{1,18}"
_DECIMAL = r"-?[0-9]{1,15}(\.[0-9]{1,6})?"
_COLOUR = r"\x1b\[[0-9;]*[A-Za-z]"


def lines_of(text: str) -> list[str]:
    """The lines of a text, whatever ends them, without a byte order mark and terminal colours.

    A text far longer than any that the tools print raises ParseError; a line far too long reads as blank.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ParseError(f"text too long: {len(text)} characters")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = (re.sub(_COLOUR, "", text) if "\x1b" in text else text).split("\n")
    return [line if len(line) <= _LONGEST_LINE else "" for line in lines]


def refusal(problem: str, lines: Sequence[str], number: int | None = None) -> ParseError:
    """The error for a text that is not understood, at a line of it; at its first where no other is to blame."""
    number = number or next((place for place, line in enumerate(lines, 1) if line.strip()), 1)
    return ParseError(problem, line_number=number, line=lines[number - 1])


def word(cell: str | None) -> str | None:
    """What a cell says; None where it is blank or reads NA, N/A or a dash."""
    cell = (cell or "").strip()
    return None if cell.lower() in _MISSING else cell


def integer(cell: str | None) -> int | None:
    """The whole number that a cell holds; None for anything else."""
    cell = (cell or "").strip()
    return int(cell) if re.fullmatch(_INTEGER, cell) else None


def parse_decimal(cell: str | None) -> float | None:
    """The number that a cell holds; None for anything else."""
    cell = (cell or "").strip()
    return float(cell) if re.fullmatch(_DECIMAL, cell) else None
