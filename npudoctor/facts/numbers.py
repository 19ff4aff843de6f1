"""Numbers in the texts of others: Python refuses to read or write one of over 4300 digits, and checks read and add."""

from __future__ import annotations

import re

_LONG = re.compile(r"(?<!\d)(\d{1000})\d+")


def shorten_numbers(text: str) -> str:
    """The text with at most 1000 digits of each number."""
    return _LONG.sub(r"\1", text) if len(text) > 1000 else text
