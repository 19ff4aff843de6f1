"""Bars and curves made of single characters."""

from __future__ import annotations

from collections.abc import Sequence

_HEIGHTS = "▁▂▃▄▅▆▇█"


def bar(part: float, width: int) -> tuple[str, str]:
    """The full and the empty piece of a bar, `part` between 0 and 1."""
    full = round(max(0.0, min(part, 1.0)) * width)
    return "█" * full, "░" * (width - full)


def curve(percentages: Sequence[int], width: int) -> tuple[str, str]:
    """The last values as a right-aligned curve; zero and missing values are drawn as the base line."""
    heights = "".join(_HEIGHTS[max(0, min(7, round(value * 7 / 100)))] for value in percentages[-width:])
    risen = heights.lstrip(_HEIGHTS[0])
    return _HEIGHTS[0] * (width - len(risen)), risen
