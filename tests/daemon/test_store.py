"""The daemon's memory: issues that open and resolve by themselves, bounded, and safe against what befalls a file."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npudoctor.daemon.store import KEPT_CHANGES, Store
from npudoctor.findings import (
    Because,
    Finding,
    HostSummary,
    Report,
    Result,
    Severity,
    Skip,
    Status,
    count,
    judge,
    status_of,
)
from npudoctor.records import replace


def a_report(*findings: Finding, check: str = "npu.health", skipped: bool = False) -> Report:
    result = Result(
        check=check,
        title="Every chip is healthy",
        status=Status.SKIPPED if skipped else status_of(findings),
        skip=Skip.COULD_NOT_LOOK if skipped else None,
        because=Because.TIMED_OUT if skipped else None,
        findings=findings,
    )
    verdict, code = judge([result])
    return Report(
        tool_version="0",
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=0.1,
        host=HostSummary(),
        profile="quick",
        verdict=verdict,
        exit_code=code,
        role="full",
        in_service=None,
        environment="process",
        summary=count([result]),
        results=(result,),
    )


SICK = Finding(subject="npu:3", summary="910B1 reports Alarm")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "history.sqlite")


def test_an_issue_opens_once_is_seen_again_and_resolves_by_itself(path: str) -> None:
    store = Store(path)
    assert [change.kind for change in store.take(a_report(SICK), at=100)] == ["opened"]
    assert store.take(a_report(SICK), at=160) == []
    [issue] = store.issues(at=160)
    assert (issue.check, issue.subject, issue.first_seen, issue.last_seen, issue.count) == (
        "npu.health",
        "npu:3",
        100,
        160,
        2,
    )
    assert [change.kind for change in store.take(a_report(), at=220)] == ["resolved"]
    assert store.issues(at=220) == []
    assert [one.resolved_at for one in store.issues(all_of_them=True, at=220)] == [220]
    assert [change.kind for change in store.history()] == ["resolved", "opened"]


def test_a_run_that_could_not_look_resolves_nothing(path: str) -> None:
    store = Store(path)
    store.take(a_report(SICK), at=100)
    assert store.take(a_report(skipped=True), at=160) == []
    assert len(store.issues(at=160)) == 1


def test_information_is_no_issue_and_a_severity_that_changes_is_told(path: str) -> None:
    store = Store(path)
    assert store.take(a_report(replace(SICK, severity=Severity.INFO))) == []
    store.take(a_report(replace(SICK, severity=Severity.WARNING)))
    assert [(one.kind, one.severity) for one in store.take(a_report(SICK))] == [("changed", "error")]


def test_what_comes_and_goes_is_called_flapping(path: str) -> None:
    store = Store(path)
    for minute in range(3):
        store.take(a_report(SICK), at=1000 + 120 * minute)
        store.take(a_report(), at=1060 + 120 * minute)
    store.take(a_report(SICK), at=1400)
    [issue] = store.issues(at=1400)
    assert (issue.flapping, issue.opened, issue.first_seen) == (True, 4, 1400)
    assert not store.issues(at=1400 + 4000)[0].flapping


def test_old_changes_and_too_many_are_forgotten(path: str) -> None:
    store = Store(path, kept_days=1)
    store.take(a_report(SICK), at=100)
    store.take(a_report(), at=200)
    store.prune(at=300)
    assert len(store.history()) == 2
    store.prune(at=2 * 86400 + 300)
    assert (store.history(), store.issues(all_of_them=True)) == ([], [])
    for number in range(3):
        store.note("started", str(number))
    with store._connection as connection:
        connection.execute("INSERT INTO changes (id, at, kind, said) VALUES (?, ?, 'x', 'y')", (KEPT_CHANGES + 2, 1e12))
    store.prune()
    assert [change.said for change in store.history()] == ["y", "2"]


@pytest.mark.parametrize("damage", [b"", b"no database at all, but long enough to be read as one" * 40, "middle"])
def test_a_file_that_cannot_be_read_is_set_aside_and_told(path: str, damage: bytes | str) -> None:
    store = Store(path)
    for number in range(200):
        store.note("started", "x" * 200 + str(number))
    store.close()
    if isinstance(damage, str):
        whole = bytearray(Path(path).read_bytes())
        whole[4096 : len(whole) - 4096] = os.urandom(len(whole) - 8192)
        damage = bytes(whole)
    Path(path).write_bytes(damage)
    again = Store(path)
    again.take(a_report(SICK))
    kinds = [change.kind for change in again.history()]
    assert kinds == (["opened", "set-aside"] if damage else ["opened"])
    assert bool(list(Path(path).parent.glob("*.corrupt-*"))) == bool(damage)


def test_a_kill_loses_nothing_but_the_last_run(path: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_store import *\n"
        "store = Store(sys.argv[1])\n"
        "for number in range(10**9):\n"
        "    store.take(a_report(SICK) if number % 2 else a_report()); print(number, flush=True)\n"
    )
    for _ in range(3):
        done = subprocess.Popen(
            [sys.executable, "-c", code, path, str(Path(__file__).parent)], stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert done.stdout is not None
        assert done.stdout.readline()
        time.sleep(0.05)
        done.send_signal(signal.SIGKILL)
        told = [line for line in done.stdout.read().splitlines() if line]
        done.stdout.close()
        done.wait()
        store = Store(path)
        assert len(told) <= len(store.history(limit=10**9)) + 2
        kinds = [change.kind for change in reversed(store.history(limit=10**9))]
        assert kinds == [("opened", "resolved")[place % 2] for place in range(len(kinds))]
        store.close()


def test_a_disk_that_is_full_is_an_error_of_sqlite_and_the_history_stays(path: str) -> None:
    store = Store(path)
    store.take(a_report(SICK))
    store._connection.execute("PRAGMA max_page_count = 8")
    with pytest.raises(sqlite3.OperationalError):
        for number in range(1000):
            store.note("started", str(number) * 1000)
    assert store.history(limit=10_000)[-1].kind == "opened"
