"""Bars and curves of single letters."""

from __future__ import annotations

from collections.abc import Sequence

_HEIGHTS = "▁▂▃▄▅▆▇█"


def bar(part: float, width: int) -> tuple[str, str]:
    """The full and the empty piece of a bar, `part` between 0 and 1."""
    full = round(max(0.0, min(part, 1.0)) * width)
    return "█" * full, "░" * (width - full)


def curve(percentages: Sequence[int], width: int) -> str:
    """The last values as a curve, right-aligned; what was before them counts as nothing, so that rest draws nothing."""
    shown = percentages[-width:]
    return "".join(_HEIGHTS[max(0, min(7, round(value * 7 / 100)))] for value in shown).rjust(width, _HEIGHTS[0])
