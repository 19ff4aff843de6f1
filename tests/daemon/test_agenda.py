"""When the daemon runs: at its intervals, jittered, and less often while a tool is slow."""

import random
from typing import Any

from npudoctor.daemon.timetable import SELDOM_S, Agenda, RunKind
from npudoctor.daemon_config import DaemonSettings
from npudoctor.records import replace


def an_agenda(**settings: Any) -> Agenda:
    return Agenda(replace(DaemonSettings(jitter_pct=0), **settings), 0.0, random.Random(1))


def test_it_begins_at_once_with_the_quick_look() -> None:
    agenda = an_agenda()
    assert agenda.next() == (RunKind.QUICK, 0.0)
    agenda.plan_next(RunKind.QUICK, 0.5, 0.5, timed_out=False)
    assert agenda.next()[0] is RunKind.STANDARD
    assert agenda.next()[1] < 10


def test_a_standard_look_holds_the_quick_one() -> None:
    agenda = an_agenda()
    agenda.plan_next(RunKind.QUICK, 0.5, 0.5, timed_out=False)
    agenda.plan_next(RunKind.STANDARD, 20, 12, timed_out=False)
    assert agenda.due == {RunKind.QUICK: 80, RunKind.STANDARD: 3620, RunKind.COUNTERS: 300}


def test_an_hour_holds_as_many_looks_as_asked_for_and_no_more() -> None:
    agenda = an_agenda(jitter_pct=10)
    now, seen = 0.0, dict.fromkeys(RunKind, 0)
    while now < 36000:
        kind, due = agenda.next()
        now = max(now, due) + 0.5
        seen[kind] += 1
        agenda.plan_next(kind, now, 0.5, timed_out=False)
    assert 560 <= seen[RunKind.QUICK] <= 640
    assert 9 <= seen[RunKind.STANDARD] <= 13
    assert 110 <= seen[RunKind.COUNTERS] <= 130


def test_jitter_spreads_the_looks_of_many_nodes() -> None:
    agenda = an_agenda(jitter_pct=10)
    gaps = set()
    for _ in range(50):
        agenda.plan_next(RunKind.QUICK, 100.0, 0.1, timed_out=False)
        gaps.add(agenda.due[RunKind.QUICK] - 100)
    assert len(gaps) > 40
    assert 54 <= min(gaps) < 57
    assert 63 < max(gaps) <= 66


def test_a_tool_that_hangs_is_asked_seldom_and_at_once_again_when_it_is_back() -> None:
    agenda = an_agenda()
    gaps = []
    for _ in range(5):
        agenda.plan_next(RunKind.QUICK, 0.0, 10.0, timed_out=True)
        gaps.append(agenda.due[RunKind.QUICK])
    assert gaps == [120, 240, SELDOM_S, SELDOM_S, SELDOM_S]
    agenda.plan_next(RunKind.QUICK, 0.0, 0.7, timed_out=False)
    assert agenda.due[RunKind.QUICK] == 60


def test_a_slow_tool_counts_although_it_answers() -> None:
    agenda = an_agenda()
    agenda.plan_next(RunKind.QUICK, 0.0, 31.0, timed_out=False)
    assert agenda.due[RunKind.QUICK] == 120


def test_backing_off_never_looks_more_often_than_asked() -> None:
    agenda = an_agenda(quick_s=900)
    agenda.plan_next(RunKind.QUICK, 0.0, 600.0, timed_out=True)
    assert agenda.due[RunKind.QUICK] == 900


def test_a_shorter_interval_counts_at_once() -> None:
    agenda = an_agenda()
    agenda.plan_next(RunKind.STANDARD, 0.0, 1.0, timed_out=False)
    agenda.apply(DaemonSettings(jitter_pct=0, quick_s=10), 5.0)
    assert agenda.due[RunKind.QUICK] == 15
