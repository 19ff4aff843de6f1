"""Makes text of the node safe to print: escapes control and invisible characters.

Process names, host names, outputs of tools and names in archives are written by others. A control sequence among them
would reach the reader's terminal, a line break would forge a line of a report, a bidirectional control or a character
without width would make a command look like another one. They are spelled as Python spells them: `\\x1b`, `\\u202e`.

Findings, facts as JSON and the rows of the terminal interface pass through here where they are made; stdout, stderr
and the screen do so once more where they are written, so that no writer can forget it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar

_HIDDEN = (
    r"\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\uf8ff\ufeff\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
    # letters and marks that are drawn as nothing: Default_Ignorable_Code_Point of Unicode
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0"
)
"""C1, DEL, formats, surrogates, private use and separators of lines, but no blanks; C0 is added below."""

_DRAWN_AS_NOTHING = frozenset(
    chr(code)
    for codes in (
        (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0),
        range(0xFE00, 0xFE0E),
        range(0xE0100, 0xE01F0),
    )
    for code in codes
)
"""What of the above `str.isprintable` takes for visible."""

_LINE = rf"[\x00-\x1f{_HIDDEN}]"
_LINES = rf"[\x00-\x08\x0b-\x1f{_HIDDEN}]"
_SCREEN = rf"\x1b\[[0-9;]*m|{_LINES}"

Value = TypeVar("Value")


@functools.cache
def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


def _shows(text: str) -> bool:
    """Whether a text, line breaks aside, plainly has nothing to escape; fast."""
    return _shows_as_line(text.replace("\n", " "))


def _shows_as_line(line: str) -> bool:
    return line.isprintable() and (line.isascii() or _DRAWN_AS_NOTHING.isdisjoint(line))


def _escape(match: re.Match[str]) -> str:
    return match[0] if len(match[0]) > 1 else match[0].encode("unicode_escape").decode()


def escape(text: str) -> str:
    """The text as one line of visible characters."""
    return text if _shows_as_line(text) else _pattern(_LINE).sub(_escape, text)


def visible_lines(text: str) -> str:
    """The text as lines of visible characters; line breaks and tabs stay."""
    return text if _shows(text) else _pattern(_LINES).sub(_escape, text)


def visible_screen(text: str) -> str:
    """Text for a terminal: our own colours stay, besides line breaks and tabs."""
    return text if _shows(text) else _pattern(_SCREEN).sub(_escape, text)


def visible_json(text: str) -> str:
    """A JSON document with invisible characters of strings escaped; equal when parsed."""
    import json

    return text if _shows(text) else _pattern(_LINES).sub(lambda match: json.dumps(match[0])[1:-1], text)


_NUMBERS = (int, float, bool)


def all_visible(value: Value, show: Callable[[str], str] = escape) -> Value:
    """The same record, list or mapping with every text in it as it may be shown; numbers and the like as they are."""
    import dataclasses  # imported late, because `npudoctor --version` does not need it

    if value is None or type(value) in _NUMBERS:
        return value
    if isinstance(value, str):
        return value if isinstance(value, Enum) else show(value)  # type: ignore[return-value]
    if isinstance(value, Mapping):
        return {all_visible(key, show): all_visible(one, show) for key, one in value.items()}  # type: ignore[return-value]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(all_visible(one, show) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        known = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        shown = {name: all_visible(one, show) for name, one in known.items()}
        changed = {name: one for name, one in shown.items() if one is not known[name]}
        return dataclasses.replace(value, **changed) if changed else value
    return value
