"""The daemon as a process: what it survives, what it says of it, and what it refuses."""

import contextlib
import json
import os
import random
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from npudoctor import clock, plugins
from npudoctor.cli import main
from npudoctor.config import Config
from npudoctor.daemon import cycle, notify, run_checks, service, state, worker
from npudoctor.daemon.replies import Paused
from npudoctor.daemon.site import Places, Site
from npudoctor.daemon.timetable import Agenda, RunKind
from npudoctor.daemon.worker import Worker
from npudoctor.daemon_config import DaemonSettings
from npudoctor.data import to_json
from npudoctor.host.live import process_tree
from npudoctor.records import replace

from .conftest import Running, Watch

Start = Callable[..., Running]

FAST = "[daemon]\nquick_s = 1\ncounters_s = 2\nstandard_s = 3600\njitter_pct = 0\n"


def a_config(folder: Path, text: str = FAST) -> list[str]:
    (folder / "config.toml").write_text(text, encoding="utf-8")
    return ["--config", str(folder / "config.toml")]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line with which a daemon does not start; one that does ends at once, and is no refusal."""
    monkeypatch.setattr(service.Daemon, "_rest", lambda self: setattr(self, "_stopping", True))

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main(["daemon", *words]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    return run


def history(running: Running, limit: int = 1000) -> list[dict[str, str]]:
    changes: list[dict[str, str]] = running.get(f"/v1/history?limit={limit}").json()["changes"]
    return changes


def kinds(running: Running) -> list[str]:
    return [change["kind"] for change in reversed(history(running))]


def test_a_life_from_start_to_end(daemon: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)
        told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1500000"}
        running = daemon("--simulate", "sick-cards", "--listen", "127.0.0.1:0", *a_config(tmp_path), environment=told)
        lines: list[str] = []

        def listen() -> None:
            while "STOPPING=1" not in lines:
                lines.extend(systemd.recv(4096).decode().splitlines())

        listener = threading.Thread(target=listen)
        listener.start()
        running.until(lambda: any("issues" in line for line in lines) and lines.count("WATCHDOG=1") >= 3)
        assert lines[0] == "READY=1"
        assert any(line.startswith("STATUS=npu:2: 910B3 reports Alarm") for line in lines)
        assert stat.S_IMODE(running.socket.stat().st_mode) == 0o660
        assert running.get("/livez").status_code == 200
        assert running.get("/readyz").status_code == 503
        second = [sys.executable, "-m", "npudoctor", "daemon", "--simulate", "sick-cards", "--state-dir", str(tmp_path)]
        second += ["--socket", str(tmp_path / "other.sock")]
        done = subprocess.run(second, capture_output=True, encoding="utf-8", timeout=60, check=False)
        assert done.returncode == 2
        assert f"another daemon (process {running.pid}) uses" in done.stderr
        assert done.stderr.count("\n") == 1
        known = state.read(str(tmp_path / "state.json"))
        assert known is not None
        assert [card.device for card in known.cards if card.problem] == [2, 5]
        assert known.is_fresh
        (tmp_path / "config.toml").write_text("[daemon]\nquick_s = -1\n", encoding="utf-8")
        os.kill(running.pid, signal.SIGHUP)
        running.until(lambda: "configured" in kinds(running))
        assert "rejected" in history(running, 50)[0]["said"] or "rejected" in running.log
        running.until(lambda: any("rejected" in one for one in running.get("/readyz").json()["troubles"]))
        (tmp_path / "config.toml").write_text(
            FAST.replace("quick_s = 1", 'quick_s = 2\ngroup = "root"'), encoding="utf-8"
        )
        os.kill(running.pid, signal.SIGHUP)
        running.until(lambda: "restart required for group" in running.log)
        running.until(lambda: running.get("/readyz").json()["troubles"] == [])
        assert running.end() == 0
        listener.join(30)
        assert "STOPPING=1" in lines
    assert not running.socket.exists()
    assert not (tmp_path / "state.json").exists()
    with sqlite3.connect(tmp_path / "history.sqlite") as file:
        last = file.execute("SELECT kind FROM changes ORDER BY id DESC LIMIT 1").fetchone()[0]
    file.close()
    assert last == "stopped"


def test_a_tool_that_hangs_vanishes_and_returns(daemon: Start, tmp_path: Path) -> None:
    node = tmp_path / "node"
    assert main(["sim", "tools", str(node), "in-service"]) == 0
    words = a_config(tmp_path, f"tool_timeout_s = 3\n{FAST}")
    running = daemon("--root", str(node), *words)
    running.until_looked()
    assert running.get("/readyz").status_code == 200, running.get("/readyz").text
    tool = node / "bin" / "npu-smi"
    good = tool.read_text(encoding="utf-8")
    tool.write_text("#!/bin/sh\ntrap '' TERM\nsleep 1000 & wait; sleep 1000\n", encoding="utf-8")
    running.until(lambda: "timed out" in str(running.get("/readyz").json()["reason"]))
    assert running.get("/livez").status_code == 200
    assert running.get("/v1/issues").json()["undetermined"]
    running.until(lambda: running.get("/readyz").json()["interval_s"] > 1)
    assert state.read(str(tmp_path / "state.json"))._asdict()["undetermined"]  # type: ignore[union-attr]
    tool.unlink()
    running.until(lambda: "npu-smi not found" in str(running.get("/readyz").json()["reason"]))
    tool.write_text(good, encoding="utf-8")
    tool.chmod(0o755)
    running.until(lambda: running.get("/readyz").status_code == 200)
    issues = running.get("/v1/issues?all=true").json()["issues"]
    assert [one["check"] for one in issues if one["resolved_at"] is None] == []
    assert "driver.npu-smi" in [one["check"] for one in issues]
    assert [tools for child in process_tree.children(running.pid) for tools in process_tree.children(child)] == []
    assert running.end() == 0


def test_killed_and_started_again_it_says_so_and_has_lost_nothing(daemon: Start, tmp_path: Path) -> None:
    running = daemon("--simulate", "sick-cards", *a_config(tmp_path))
    running.until_looked()
    before = {(one["check"], one["first_seen"]) for one in running.get("/v1/issues").json()["issues"]}
    running.end(signal.SIGKILL)
    assert running.socket.exists()
    again = daemon("--simulate", "sick-cards", *a_config(tmp_path))
    again.until_looked()
    assert before <= {(one["check"], one["first_seen"]) for one in again.get("/v1/issues").json()["issues"]}
    killed = next(one for one in history(again) if one["kind"] == "killed")
    assert "killed or crashed" in killed["said"]
    assert again.end() == 0


def test_a_damaged_history_is_set_aside_and_told(daemon: Start, tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").write_bytes(os.urandom(20000))
    (tmp_path / "history.sqlite").chmod(0o600)
    running = daemon("--simulate", "seed-910b1", *a_config(tmp_path))
    running.until_looked()
    assert kinds(running)[0] == "set-aside"
    assert running.get("/readyz").status_code == 200
    assert running.end() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_told_and_survived(daemon: Start, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    running = None
    try:
        running = Running(tmp_path, "--simulate", "sick-cards", *a_config(tmp_path))
        running.words += ["--state-dir", str(disk), "--state", str(disk / "state.json")]
        running.start()
        running.until_looked()
        with open(disk / "ballast", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * 512)
        running.until(lambda: len(running.get("/readyz").json()["troubles"]) == 2)
        assert len(running.get("/v1/issues").json()["issues"]) == 4
        (disk / "ballast").unlink()
        running.until(lambda: running.get("/readyz").json()["troubles"] == [])
        assert "written" in kinds(running)
        known = state.read(str(disk / "state.json"))
        assert known is not None
        assert known.is_fresh
        assert running.end() == 0
    finally:
        if running is not None:
            running.end(signal.SIGKILL)
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--replay", "x.tar.gz"], "a recording does not change"),
        (["--simulate", "nope"], "there is no scenario 'nope'"),
        (["--listen", "0.0.0.0:9713"], "expected a loopback address"),
        (["--listen", "9713"], "expected ADDRESS:PORT"),
        (["--metrics-listen", "192.0.2.1:9714"], "192.0.2.1:9714 cannot be bound"),
        (["--config", "/nonexistent.toml"], "/nonexistent.toml: No such file or directory"),
        (["--socket", "/proc/npudoctor/s.sock"], "cannot create /proc/npudoctor"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, refused: Callable[..., str], words: list[str], said: str
) -> None:
    usual = ["--socket", str(tmp_path / "s.sock"), "--state-dir", str(tmp_path)]
    assert said in refused(*usual, *words)
    assert not (tmp_path / "s.sock").exists()


def test_what_others_could_have_written_is_refused_by_name(tmp_path: Path, refused: Callable[..., str]) -> None:
    path = tmp_path / "config.toml"
    usual = ["--socket", str(tmp_path / "s.sock"), "--state-dir", str(tmp_path), "--simulate", "seed-910b1"]
    path.write_text(FAST, encoding="utf-8")
    for mode in (0o666, 0o602):
        path.chmod(mode)
        assert f"other users can write {path}" in refused(*usual, "--config", str(path))
    if os.geteuid() == 0:
        path.chmod(0o644)
        os.chown(path, 65534, 65534)
        assert f"{path} belongs to another user (65534)" in refused(*usual, "--config", str(path))
    (tmp_path / "history.sqlite").touch(0o666)
    (tmp_path / "history.sqlite").chmod(0o666)
    assert f"other users can write {tmp_path}/history.sqlite" in refused(*usual)
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o777)
    for words in (["--socket", f"{tmp_path}/run/s"], ["--state-dir", f"{tmp_path}/run"]):
        assert f"other users can write {tmp_path}/run" in refused(*usual, *words)
    assert not (tmp_path / "s.sock").exists()


def a_service(watch: Watch) -> service.Daemon:
    """A daemon that does not run: its parts can be turned by hand, and it looks in this process."""
    watched = watch("seed-910b1")
    site = Site(config=Config(), options=watched.options, settings=DaemonSettings())
    folder = os.path.dirname(watched.history.path)
    places = Places(socket=f"{folder}/s", state=f"{folder}/state.json", history=watched.history.path)
    runner = Worker(watched.catalog, lambda _: contextlib.nullcontext(watched.host))
    daemon = service.Daemon(site, places, runner, reload=lambda: site, say=watched.said.append)
    daemon.history, daemon.board, daemon.agenda = watched.history, watched.board, Agenda(site.settings, 0.0)
    daemon.rounds = cycle.Rounds(
        places, runner, watched.history, watched.board, daemon.troubles, say=watched.said.append
    )
    return daemon


def run_once(daemon: service.Daemon, kind: RunKind = RunKind.QUICK) -> None:
    daemon.rounds.run(kind, daemon.site, 1)


def test_a_clock_that_jumps_is_told_and_makes_nothing_old(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = a_service(watch)
    daemon.history.note("configured", "before")
    monkeypatch.setattr(cycle, "PRUNE_EVERY_S", -1.0)
    usual = clock.shift_s
    for years in (10, -10, 0):
        monkeypatch.setattr(clock, "shift_s", usual + years * 365 * 86400)
        run_once(daemon)
    said = [change.said for change in daemon.history.changes(limit=100) if change.kind == "clock"]
    assert len(said) == 3
    assert "+315360000 s" in said[-1]
    assert "configured" in [change.kind for change in daemon.history.changes(limit=100)]
    known = state.read(daemon.places.state)
    assert known is not None
    assert known.is_fresh
    assert daemon.board.ready().ready


def test_while_the_driver_is_changed_nothing_is_asked(watch: Watch, tmp_path: Path) -> None:
    daemon = a_service(watch)
    run_once(daemon)
    assert daemon.board.ready().ready
    forbidden = tmp_path / "hands-off"
    forbidden.write_text("driver.install\n", encoding="utf-8")
    daemon.rounds.places = replace(daemon.places, hands_off=str(forbidden))
    with pytest.raises(Paused, match=r"maintenance: driver\.install"):
        run_once(daemon)
    known = state.read(daemon.places.state)
    assert known is not None
    assert known.undetermined is not None
    assert known.undetermined.startswith("maintenance: driver.install")
    assert not daemon.board.ready().ready
    forbidden.unlink()
    run_once(daemon)
    assert daemon.board.ready().ready


def test_while_a_long_look_goes_on_the_last_one_is_believed(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = a_service(watch)
    run_once(daemon)
    during: list[tuple[bool, bool]] = []
    now = state.now_s()

    def long_look(*args: object, **rest: object) -> object:
        monkeypatch.setattr(state, "now_s", lambda: now + 125)
        known = state.read(daemon.places.state)
        assert known is not None
        during.append((daemon.board.ready().ready, known.is_fresh))
        return run_checks.run_checks(*args, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(worker, "run_checks", long_look)
    run_once(daemon, RunKind.STANDARD)
    assert during == [(True, True)]
    monkeypatch.setattr(state, "now_s", lambda: now + 125 + 121)
    assert not daemon.board.ready().ready


def test_a_tool_that_cannot_be_ended_is_not_started_again(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from npudoctor.host.live import rooted

    node = tmp_path / "node"
    assert main(["sim", "tools", str(node), "in-service"]) == 0
    assert run_checks.leftovers() == {}
    (tmp_path / "npu-smi").symlink_to("/bin/sleep")
    stuck = subprocess.Popen([str(tmp_path / "npu-smi"), "1000"])
    try:
        deadline = time.monotonic() + 60
        while not run_checks.leftovers() and time.monotonic() < deadline:
            time.sleep(0.01)
        daemon = a_service(watch)
        opened = lambda _: contextlib.nullcontext(rooted.open_root(str(node)))  # noqa: E731
        daemon.rounds.runner = Worker(plugins.load(), opened)
        run_once(daemon)
        calls = (node / "calls.log").read_text(encoding="utf-8") if (node / "calls.log").exists() else ""
        assert "npu-smi" not in calls
        assert f"process {stuck.pid}" in str(daemon.troubles.get("leftover"))
        assert not daemon.board.ready().ready
    finally:
        stuck.kill()
        stuck.wait()
    run_once(daemon)
    assert "npu-smi info" in (node / "calls.log").read_text(encoding="utf-8")
    assert daemon.troubles.all == ()
    assert daemon.board.ready().ready


def test_a_look_that_fails_is_a_trouble_and_no_end(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = a_service(watch)
    monkeypatch.setattr(worker, "run_checks", lambda *_, **__: 1 / 0)
    daemon._orders.put(RunKind.QUICK)
    daemon._orders.put(None)
    daemon._run_on_order()
    assert daemon.troubles.all == ("the quick run failed: ZeroDivisionError: division by zero",)


def test_a_scheduler_that_is_stuck_does_not_feed_the_watchdog(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = a_service(watch)
    fed: list[str] = []
    monkeypatch.setattr(notify, "tell", lambda *lines: fed.extend(lines))

    class Moving:
        def __init__(self, moves: bool) -> None:
            self.moves = moves

        trouble = None

        def answers(self) -> bool:
            return self.moves

    daemon.listening = Moving(True)  # type: ignore[assignment]
    daemon._busy = (RunKind.QUICK, time.monotonic())
    daemon.rounds.until = time.monotonic() + 100
    daemon._turn()
    assert fed == ["WATCHDOG=1"]
    daemon.listening = Moving(False)  # type: ignore[assignment]
    daemon._turn()
    assert fed == ["WATCHDOG=1"]
    daemon.listening = Moving(True)  # type: ignore[assignment]
    daemon._busy = (RunKind.STANDARD, time.monotonic() - 10_000)
    daemon.rounds.until = time.monotonic() - 1
    daemon._turn()
    assert fed == ["WATCHDOG=1"]
    assert "has not ended" in str(daemon.troubles.get("stuck"))


@pytest.mark.slow
def test_killed_at_a_hundred_random_moments_it_loses_nothing_but_the_unfinished_look(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    chance = random.Random(7)
    seen: set[tuple[str, str]] = set()
    for round_ in range(110):
        scenario = ("sick-cards", "new-node", "seed-910b1")[round_ % 3]
        running = Running(tmp_path, "--simulate", scenario, *config).start()
        if round_ % 5 == 0:
            running.until_looked()
            seen |= {(one["at"], one["kind"]) for one in history(running)}
        time.sleep(chance.uniform(0, 2.5))
        running.end(signal.SIGKILL)
        kept = {(one["at"], one["kind"]) for one in _in_file(tmp_path)}
        assert seen <= kept, f"round {round_}: {seen - kept}"
    assert not list(tmp_path.glob("*.corrupt-*"))
    assert not list(tmp_path.glob("state.json.*"))
    told = [one["kind"] for one in _in_file(tmp_path)]
    assert told.count("killed") >= told.count("started") - 1
    last = Running(tmp_path, "--simulate", "seed-910b1", *config).start()
    last.until(lambda: last.get("/readyz").status_code == 200)
    assert last.end() == 0


def _in_file(folder: Path) -> list[dict[str, str]]:
    """The history as a fresh reader finds it, opened as SQLite recovers it."""
    from npudoctor.daemon import answers
    from npudoctor.daemon.store import Store

    if not (folder / "history.sqlite").exists():
        return []
    store = Store(str(folder / "history.sqlite"))
    found = [json.loads(to_json(answers.change(one))) for one in store.history(limit=100_000)]
    store.close()
    return found


def test_no_request_loads_what_only_a_check_needs(tmp_path: Path) -> None:
    code = (
        "import sys; import npudoctor.daemon.service; "
        "print(sorted({'torch', 'textual', 'rich', 'fastapi', 'websockets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "[]"
