"""Quantities as a person reads them: a number with its unit, rounded."""

from __future__ import annotations

_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20))


def count_text(number: int) -> str:
    """How many there are: "812", "120 thousand", "58.7 million"."""
    if number < 10_000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.0f} thousand"
    return f"{number / 1_000_000:.1f} million".replace(".0 ", " ")


def size_text(number: float) -> str:
    """Bytes: "64 MiB", "1.5 TiB"."""
    for unit, least in _UNITS:
        if number >= least:
            return f"{number / least:.1f} {unit}".replace(".0 ", " ")
    return f"{number / 1024:.0f} KiB"
