"""What `explain --log` may be given, and by whom: nothing in a folder holds it up or leads root elsewhere."""

import gzip
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from npudoctor.cli import logfiles
from npudoctor.explain import neighbours, scan
from npudoctor.explain.lines import source_of
from tests.plain_user import ALICE, as_root, give

LINE = b"ERROR EI0006 Failed to bind the IP port\n"


def explain(*words: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    argv = [sys.executable, "-m", "npudoctor", "explain", "--log", *words]
    return subprocess.run(argv, capture_output=True, check=False, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of logs with everything in it that is no log."""
    logs = tmp_path / "logs"
    (logs / "inner").mkdir(parents=True)
    (logs / "inner" / "rank_0.log").write_bytes(LINE)
    os.mkfifo(logs / "pipe.log")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(logs)  # the path of a socket is short
        try:
            listening.bind("socket.log")
        finally:
            os.chdir(here)
    (tmp_path / "secret.log").write_bytes(b"ERROR the secret of root EI0006 Failed to bind the IP port\n")
    (logs / "link.log").symlink_to("../secret.log")
    (logs / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    (logs / "nowhere.log").symlink_to("nothing")
    return logs


def test_a_pipe_and_a_socket_in_a_folder_are_skipped_and_said(folder: Path) -> None:
    done = explain(str(folder))
    assert done.returncode == 0 and b"P003" in done.stdout
    assert b"skipped: pipes, sockets and devices: 2\n" in done.stderr


@as_root
def test_as_root_no_link_in_a_folder_is_followed(folder: Path) -> None:
    done = explain(str(folder), "--json")
    assert b"secret" not in done.stdout
    assert b"skipped: symbolic links, which root does not follow: 2\n" in done.stderr


@as_root
def test_a_plain_user_reads_what_a_link_names_with_his_own_rights(folder: Path) -> None:
    os.chmod(folder.parent / "secret.log", 0o600)
    give(folder, ALICE)
    script = (
        f"import os, sys; from npudoctor.cli import logfiles; os.setresuid(*3 * [{ALICE}]);"
        "logs = logfiles.Logs(sys.argv[1:]); print([name for name, blocks in logs.read(99) if list(blocks)]);"
        "print(list(logs.skip_clauses()))"
    )
    ask = [sys.executable, "-c", script, str(folder)]
    assert "secret.log" not in subprocess.run(ask, capture_output=True, encoding="utf-8", check=True).stdout
    assert "link.log" not in subprocess.run(ask, capture_output=True, encoding="utf-8", check=True).stdout
    os.chmod(folder.parent / "secret.log", 0o644)
    assert "link.log" in subprocess.run(ask, capture_output=True, encoding="utf-8", check=True).stdout


@as_root
def test_a_link_or_folder_that_is_exchanged_meanwhile_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "later.log").write_bytes(LINE)
    logs = logfiles.Logs([str(folder)])
    (folder / "later.log").unlink()
    (folder / "later.log").symlink_to(tmp_path / "secret.log")
    (folder / "inner").rename(folder / "was-inner")
    (folder / "inner").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "rank_0.log").write_bytes(b"secret\n")
    assert [b"".join(blocks) for _, blocks in logs.read(1 << 20)] == []


def test_a_file_that_becomes_a_pipe_meanwhile_is_skipped(folder: Path) -> None:
    (folder / "later.log").write_bytes(LINE)
    logs = logfiles.Logs([str(folder)])
    (folder / "later.log").unlink()
    os.mkfifo(folder / "later.log")
    assert [name for name, _ in logs.read(1 << 20) if name.endswith("later.log")] == []


@pytest.mark.parametrize("what", ["pipe", "/dev/zero", "/dev/tty", "/dev/full"])
def test_a_pipe_or_device_that_is_named_is_refused_in_one_line(folder: Path, what: str) -> None:
    done = explain(str(folder / "pipe.log") if what == "pipe" else what, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1 and not done.stdout


def test_stdin_and_what_a_shell_hands_in_are_read_to_their_end(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(LINE)
    assert b"P003" in explain("-", input=LINE).stdout
    if bash := shutil.which("bash"):
        script = f'"{sys.executable}" -m npudoctor explain --log <(sleep 0.2; cat x.log) /dev/stdin </dev/null'
        done = subprocess.run([bash, "-c", script], capture_output=True, check=False, cwd=tmp_path, timeout=120)
        assert done.returncode == 0 and b"P003" in done.stdout, done.stderr


def test_a_log_that_grows_while_it_is_read_has_an_end(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(LINE * 1000)
    logs = logfiles.Logs([str(path)])
    with open(path, "ab") as file:
        file.write(LINE * 1000)
    assert [sum(map(len, blocks)) for _, blocks in logs.read(1 << 20)] == [len(LINE) * 1000]


def test_a_closed_stdout_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(LINE)
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "npudoctor", "explain", "--log", str(tmp_path / "x.log")]
    done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=120)
    os.close(writing)
    assert done.returncode == 0 and b"Traceback" not in done.stderr


def work_on(unit: bytes, mib: int) -> float:
    """Seconds of computing for one line of so many MiB that repeats a text."""
    block = (unit * ((1 << 20) // len(unit) + 1))[: 1 << 20]
    scanner = scan.Scanner()
    began = time.process_time()
    read = scanner.read("x.log", [*([block] * mib), b"\n" + LINE])
    assert [one.offset for one in scanner.sightings if one.line == 2][:1] == [(mib << 20) + 1]
    assert (read.bytes, read.lines) == ((mib << 20) + 1 + len(LINE), 2)
    return time.process_time() - began


@pytest.mark.parametrize("unit", [b"x", b"EI0006", b"ERROR EI0006 error code 507033 rank 3 "])
def test_the_work_on_one_line_is_bounded(unit: bytes) -> None:
    work_on(unit, 8)
    once, long = work_on(unit, 8), work_on(unit, 160)
    assert long < 8 * once + 1, "twenty times the line costs nearly twenty times as much"


def test_the_end_of_a_line_without_end_is_looked_at() -> None:
    scanner = scan.Scanner()
    scanner.read("x.log", [*([b"x" * (1 << 20)] * 40), b" " + LINE])
    assert [one.found.what for one in scanner.sightings if one.found.what == "P003"] == ["P003"]


def test_many_files_and_a_sparse_one_are_read_in_bounded_memory(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.log").write_bytes(LINE)
    with open(tmp_path / "sparse.log", "wb") as file:
        file.truncate(5 << 30)
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(b"a" * (300 << 20)))
    done = explain(str(tmp_path))
    assert done.returncode == 0 and b"binary" in done.stderr and b"a gzip file that unpacks to more than" in done.stderr


def test_nobody_waits_for_whoever_opens_a_pipe_meanwhile(folder: Path) -> None:
    """A writer that comes late finds nobody: the reader has not waited."""
    ended = threading.Event()

    def ask() -> None:
        explain(str(folder))
        ended.set()

    thread = threading.Thread(target=ask)
    thread.start()
    assert ended.wait(120)
    thread.join()


@pytest.mark.parametrize("begin", ["[rank", "RankID:", "(PID: ", "Process rank: ", "rankId["])
def test_a_number_of_thousands_of_digits_is_no_rank(begin: str) -> None:
    number = "9" * 5000
    assert source_of(f"{begin}{number}] ERROR EI0006").known is False
    assert neighbours.rank_below([b"Root Cause:", f"  rank : {number}".encode()], 0) is None
