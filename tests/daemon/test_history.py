"""The history outlives its file: a full disk, a folder that is gone, a file that is damaged while it is open."""

import os
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor.daemon.history import History
from npudoctor.daemon.state import Untrusted
from npudoctor.daemon.store import Store

from .test_store import SICK, a_report


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(str(tmp_path / "history.sqlite"), kept_days=30)
    yield made
    made.close()


def kinds(history: History) -> list[str]:
    return [change.kind for change in reversed(history.changes(limit=1000))]


def fill(history: History) -> None:
    """Let the file take nothing more, as a full disk does."""
    assert history._file is not None
    pages = history._file._connection.execute("PRAGMA page_count").fetchone()[0]
    history._file._connection.execute(f"PRAGMA max_page_count = {pages}")


def test_while_the_disk_is_full_memory_goes_on_and_is_written_afterwards(history: History) -> None:
    history.take(a_report(SICK))
    fill(history)
    for number in range(100):
        history.note("configured", str(number) * 500)
    assert "is full" in (history.trouble or "")
    assert [issue.subject for issue in history.issues()] == ["npu:3"]
    history.take(a_report())
    assert history.issues() == []
    assert "unwritten" in kinds(history)
    assert history._file is not None
    history._file._connection.execute("PRAGMA max_page_count = 1000000")
    history.note("configured", "again")
    assert history.trouble is None
    with sqlite3.connect(history.path) as file:
        written = [row[0] for row in file.execute("SELECT kind FROM changes ORDER BY id")]
        open_issues = file.execute("SELECT COUNT(*) FROM issues WHERE resolved_at IS NULL").fetchone()[0]
    file.close()
    assert written.count("configured") == 101
    assert written[0] == "opened"
    assert written[-2:] == ["written", "configured"]
    assert (written.count("resolved"), open_issues) == (1, 0)


def test_a_file_that_is_damaged_while_it_is_open_is_set_aside(history: History, tmp_path: Path) -> None:
    for number in range(300):
        history.note("configured", str(number) * 100)
    assert history._file is not None
    history._file._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = Path(history.path).read_bytes()
    Path(history.path).write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    history._file._connection.execute("PRAGMA shrink_memory")
    history.take(a_report(SICK))
    assert kinds(history)[-1] == "opened"
    if "set-aside" not in kinds(history):
        history.changes(limit=1000)
        history.close()
        assert "set-aside" in kinds(History(history.path, kept_days=30))
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 1


def test_a_folder_that_cannot_be_written_is_no_outage(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    history = History(str(gone / "history.sqlite"), kept_days=30)
    assert "is kept in memory" in (history.trouble or "")
    history.take(a_report(SICK))
    assert len(history.issues()) == 1
    gone.mkdir()
    history.note("configured", "the folder is there")
    assert history.trouble is None
    history.close()
    again = History(str(gone / "history.sqlite"), kept_days=30)
    assert [issue.subject for issue in again.issues()] == ["npu:3"]
    again.close()


def test_what_somebody_else_could_have_written_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    Store(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o666)
    with pytest.raises(Untrusted, match=r"other users can write .*history\.sqlite"):
        History(str(path), kept_days=30)
    path.chmod(0o600)
    tmp_path.chmod(0o777)
    with pytest.raises(Untrusted, match=f"other users can write {tmp_path};"):
        History(str(path), kept_days=30)
    tmp_path.chmod(0o755)
    other = tmp_path / "other.sqlite"
    other.symlink_to(path)
    with pytest.raises(Untrusted, match="must be a regular file"):
        History(str(other), kept_days=30)


def test_a_history_of_another_layout_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    Store(str(path)).close()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()
    os.chmod(path, 0o600)
    history = History(str(path), kept_days=30)
    [change] = history.changes(limit=10)
    assert (change.kind, "layout 99" in change.said) == ("set-aside", True)
    history.close()


def test_only_the_latest_damaged_files_are_kept(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"history.sqlite.corrupt-2026010{number}T000000").touch()
    (tmp_path / "history.sqlite").write_bytes(b"no database" * 500)
    (tmp_path / "history.sqlite").chmod(0o600)
    Store(str(tmp_path / "history.sqlite")).close()
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        history = History(str(disk / "history.sqlite"), kept_days=30)
        history.take(a_report(SICK))
        ballast = disk / "ballast"
        with open(ballast, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * 4096)
        for number in range(200):
            history.note("configured", str(number) * 200)
        history.take(a_report())
        assert history.trouble
        assert history.issues() == []
        ballast.unlink()
        history.note("configured", "there is room again")
        assert history.trouble is None
        history.close()
        again = History(str(disk / "history.sqlite"), kept_days=30)
        assert kinds(again).count("configured") == 201
        assert again.issues() == []
        again.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)
