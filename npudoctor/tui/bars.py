"""Bars and curves made of single characters."""

from __future__ import annotations

from collections.abc import Sequence

_HEIGHTS = "▁▂▃▄▅▆▇█"
UNKNOWN = "·"
"""Drawn where a value is not known, or not read yet."""


def bar(part: float | None, width: int) -> tuple[str, str]:
    """The full and the empty piece of a bar, `part` between 0 and 1; None is unknown and no empty bar."""
    if part is None:
        return "", UNKNOWN * width
    full = round(max(0.0, min(part, 1.0)) * width)
    return "█" * full, "░" * (width - full)


def curve(
    values: Sequence[float | None], width: int, *, least: float = 0.0, most: float = 100.0, height: int = 1
) -> list[str]:
    """The last values as lines, the top one first; unknown values are dots in the lowest line.

    They begin at the left, so that a value more changes one column until the line is full.
    """
    shown = list(values[-width:] if width > 0 else ())
    shown += [None] * (width - len(shown))
    steps = len(_HEIGHTS) * height - 1
    extent = (most - least) or 1.0
    levels = [None if one is None else max(0, min(steps, round((one - least) / extent * steps))) for one in shown]
    return ["".join(_cell(level, row) for level in levels) for row in range(height - 1, -1, -1)]


def _cell(level: int | None, row: int) -> str:
    if level is None:
        return " " if row else UNKNOWN
    above = level - row * len(_HEIGHTS)
    return " " if above < 0 else _HEIGHTS[min(above, len(_HEIGHTS) - 1)]
