"""Readings of a chip over time: of the daemon, then of the screen; a value that is not known stays unknown."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from npudoctor.records import record

if TYPE_CHECKING:
    from npudoctor.tui.model.cards import ChipRow

KEPT = 120
"""How many readings are kept: four minutes at one reading in 2 s."""

Value = float | None


@record(frozen=True, kw_only=True)
class Measure:
    """One quantity. `least` and `most` are the ends of its axis; None for those of the values."""

    name: str
    unit: str
    least: float | None = None
    most: float | None = None


MEASURES = (
    Measure(name="AI Core", unit="%", least=0, most=100),
    Measure(name="HBM", unit="%", least=0, most=100),
    Measure(name="temp", unit="°C", least=20, most=110),
    Measure(name="power", unit="W", least=0),
    Measure(name="ECC", unit="errors", least=0),
)


class Series:
    """The values of each chip and quantity, oldest first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], deque[Value]] = {}
        self.count = 0
        self.since = ""

    def add(self, rows: Iterable[ChipRow], at: str) -> None:
        """Keep a reading of all chips."""
        self.since = self.since or at
        self.count += 1
        for row in rows:
            for name, value in values_of(row).items():
                self._kept.setdefault((row.chip.subject, name), deque(maxlen=KEPT)).append(value)

    def begin_with(self, rows: Iterable[tuple[str, str, Iterable[Value]]]) -> None:
        """Take over readings from before the screen was opened: local time, chip, and the values of MEASURES."""
        times = set()
        for at, subject, values in rows:
            self.since = self.since or at
            times.add(at)
            for measure, value in zip(MEASURES, values, strict=True):
                self._kept.setdefault((subject, measure.name), deque(maxlen=KEPT)).append(value)
        self.count = len(times)

    def of(self, subject: str, name: str) -> tuple[Value, ...]:
        """The values of one quantity."""
        return tuple(self._kept.get((subject, name), ()))

    def peaks(self, subject: str, name: str, most: int) -> tuple[Value, ...]:
        """The values of one quantity in at most so many groups of equally many readings, each by its highest value."""
        values, size = self._kept.get((subject, name), ()), -(-KEPT // most)
        groups: dict[int, Value] = {}
        for number, value in enumerate(values, self.count - len(values)):
            before = groups.setdefault(number // size, value)
            if value is not None and (before is None or value > before):
                groups[number // size] = value
        return tuple(groups.values())[-most:]


def values_of(row: ChipRow) -> dict[str, Value]:
    """The present value of each quantity; ECC counts double-bit and single-bit errors since the driver was loaded."""
    chip = row.chip
    used = chip.memory_used_mb
    return {
        "AI Core": chip.aicore_pct,
        "HBM": 100 * used / chip.memory_mb if used is not None and chip.memory_mb else None,
        "temp": chip.temp_c,
        "power": chip.power_w,
        "ECC": row.ecc_errors,
    }


def span(values: Iterable[Value]) -> tuple[float, float] | None:
    """The least and the most of the known values; None where none is known."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
