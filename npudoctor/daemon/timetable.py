"""The timetable of runs: three kinds at their intervals, with jitter, one at a time, less often on a slow node."""

from __future__ import annotations

import random
from enum import Enum

from npudoctor.daemon_config import DaemonSettings

BACK_OFF_AT_MOST = 8
SELDOM_S = 300.0
"""Back-off never makes an interval longer than this many seconds, or than configured."""

SLOW_SHARE = 0.5
"""A run that takes longer than this share of its interval is slow."""

FIRST_STANDARD_S = 5.0


class RunKind(str, Enum):
    """The kinds of runs: the quick profile, the chips' counters, the standard profile."""

    QUICK = "quick"
    COUNTERS = "counters"
    STANDARD = "standard"


class Agenda:
    """The next run and its time; `now` is always a time of a monotonic clock, in seconds."""

    def __init__(self, settings: DaemonSettings, now: float, chance: random.Random | None = None) -> None:
        self.settings = settings
        self.factor = 1
        self._chance = chance or random.Random()  # noqa: S311 - jitter
        self.due = {
            RunKind.QUICK: now,
            RunKind.STANDARD: now + min(FIRST_STANDARD_S, settings.quick_s / 2),
            RunKind.COUNTERS: now + self._interval(RunKind.COUNTERS),
        }

    def next(self) -> tuple[RunKind, float]:
        """The run that is due first, and when; of two that are due, the cheaper one."""
        return min(self.due.items(), key=lambda one: one[1])

    def effective_s(self, kind: RunKind) -> float:
        """The current interval in seconds."""
        usual: float = getattr(self.settings, f"{kind.value}_s")
        return max(usual, min(usual * self.factor, SELDOM_S))

    def plan_next(self, kind: RunKind, now: float, seconds: float, *, timed_out: bool) -> None:
        """Plan the next run of this kind; a slow run, or one in which a tool timed out, lengthens all intervals."""
        slow = timed_out or seconds > SLOW_SHARE * getattr(self.settings, f"{kind.value}_s")
        self.factor = min(self.factor * 2, BACK_OFF_AT_MOST) if slow else 1
        self.due[kind] = now + self._interval(kind)
        if kind is RunKind.STANDARD:
            self.due[RunKind.QUICK] = now + self._interval(RunKind.QUICK)

    def apply(self, settings: DaemonSettings, now: float) -> None:
        """Apply new settings: runs that are due later than these allow are moved forward."""
        self.settings = settings
        for kind in RunKind:
            self.due[kind] = min(self.due[kind], now + self._interval(kind))

    def _interval(self, kind: RunKind) -> float:
        share = self.settings.jitter_pct / 100
        return self.effective_s(kind) * self._chance.uniform(1 - share, 1 + share)
