"""What a tool leaves behind is ended with it, wherever it went: its group, its session, its variables, its name."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from npudoctor.host.live import local, processes
from tests.plain_user import ALICE, as_root

SECONDS = "86400"
HANGS_S = 3.0
"""How long a tool that hangs is waited for: it starts what it leaves behind within a fraction of that."""

SHAPES = {
    "background": "sleep {seconds} &",
    "other group": "set -m; sleep {seconds} & set +m",
    "setsid": "setsid sleep {seconds} >/dev/null 2>&1 </dev/null &",
    "setsid, no variables": "setsid env -i /bin/sleep {seconds} >/dev/null 2>&1 </dev/null &",
    "double fork, no variables": "( setsid env -i /bin/sleep {seconds} >/dev/null 2>&1 & )",
    "nohup": "( env -i /usr/bin/nohup setsid sh -c '( sleep {seconds} & )' >/dev/null 2>&1 & )",
    "another name": "( env -i setsid bash -c 'exec -a systemd sleep {seconds}' >/dev/null 2>&1 & )",
    "many": "for n in 1 2 3 4 5 6 7 8 9; do ( setsid env -i /bin/sleep {seconds} >/dev/null 2>&1 </dev/null & ); done",
    "a tree": "( setsid env -i sh -c 'sleep {seconds} & sh -c \"sleep {seconds}; :\"; :' >/dev/null 2>&1 & )",
}
ENDINGS = {
    "hangs": "trap '' TERM; sleep 0.2; touch started; sleep {seconds}",
    "prints without end": "touch started; yes",
}


def tool(folder: Path, shape: str, ending: str) -> tuple[Path, str]:
    """A tool that leaves something behind, and by what that is known: how long it sleeps."""
    seconds = f"{SECONDS}.{os.getpid()}{abs(hash(folder)) % 10**6}"
    path = folder / "npu-smi"
    lines = (part.replace("{seconds}", seconds) for part in (shape, ending))
    path.write_text(f'#!/bin/bash\ncd "{folder}"\n' + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
    return path, seconds


def left(seconds: str) -> list[str]:
    """The processes, zombies aside, whose command line names this number of seconds."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0") if entry.isdigit() else []
            if seconds.encode() in words or any(f"sleep {seconds}".encode() in word for word in words):
                found.append(f"{entry} {words}")
    return found


def until_gone(seconds: str) -> list[str]:
    until = time.monotonic() + 60
    while (found := left(seconds)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


@pytest.fixture
def swept() -> list[str]:
    """Numbers of seconds; who sleeps so long is ended after the test, also where it fails."""
    return []


@pytest.fixture(autouse=True)
def _sweep(swept: list[str]) -> object:
    yield
    for seconds in swept:
        for one in left(seconds):
            with contextlib.suppress(OSError):
                os.kill(int(one.split()[0]), signal.SIGKILL)
    return None


OFTEN = {"background", "double fork, no variables", "another name", "a tree"}
"""The shapes that are tried in every run beside a tool that hangs, which takes its seconds."""


def _tried(shape: str, ending: str) -> Any:
    marks = () if ending != "hangs" or shape in OFTEN else (pytest.mark.slow,)
    return pytest.param(shape, ending, marks=marks, id=f"{shape}-{ending}")


@pytest.mark.parametrize(("shape", "ending"), [_tried(shape, ending) for shape in SHAPES for ending in ENDINGS])
def test_nothing_is_left(tmp_path: Path, swept: list[str], shape: str, ending: str) -> None:
    path, seconds = tool(tmp_path, SHAPES[shape], ENDINGS[ending])
    swept.append(seconds)
    host = local.LocalHost()
    done = host.run([str(path)], timeout=HANGS_S if ending == "hangs" else 60)
    assert done.timed_out or done.truncated
    assert (tmp_path / "started").exists()
    host.close()
    assert until_gone(seconds) == []


@as_root
def test_a_process_that_has_become_another_users_is_ended_by_root(tmp_path: Path, swept: list[str]) -> None:
    become = (
        f"( setsid setpriv --reuid {ALICE} --regid {ALICE} --clear-groups env -i sleep {{seconds}} >/dev/null 2>&1 & )"
    )
    path, seconds = tool(tmp_path, become, ENDINGS["hangs"])
    swept.append(seconds)
    local.LocalHost().run([str(path)], timeout=HANGS_S)
    assert until_gone(seconds) == []


def test_other_processes_of_ours_and_other_calls_are_left_alone(tmp_path: Path, swept: list[str]) -> None:
    path, seconds = tool(tmp_path, SHAPES["double fork, no variables"], ENDINGS["hangs"])
    swept.append(seconds)
    mine = processes.start(["sleep", "600"], start_new_session=True)
    quick = processes.start(["false"], start_new_session=True)
    in_our_session = subprocess.Popen(["sleep", "600"])
    try:
        local.LocalHost().run([str(path)], timeout=HANGS_S)
        assert (mine.poll(), in_our_session.poll(), quick.wait()) == (None, None, 1)
        assert until_gone(seconds) == []
    finally:
        for process in (mine, in_our_session):
            process.kill()
            process.wait()


def test_what_a_tool_that_has_answered_leaves_running_is_not_ended(tmp_path: Path, swept: list[str]) -> None:
    """A tool may start a service for good; only what had to be ended is ended with all that it started."""
    path, seconds = tool(tmp_path, SHAPES["double fork, no variables"], "echo fine")
    swept.append(seconds)
    host = local.LocalHost()
    assert host.run([str(path)], timeout=60).stdout == "fine\n"
    until = time.monotonic() + 60
    while not any("[b'/bin/sleep'" in one for one in left(seconds)) and time.monotonic() < until:
        time.sleep(0.1)
    host.close()
    assert len(left(seconds)) == 1


def test_orphans_that_end_by_themselves_do_not_stay_as_zombies(tmp_path: Path) -> None:
    name = f"nap-{os.getpid()}"  # not sleep: other tests in this process may have left one of that name
    (tmp_path / name).symlink_to("/bin/sleep")
    path, _ = tool(tmp_path, f"( setsid env -i {tmp_path / name} 0.3 >/dev/null 2>&1 </dev/null & )", "echo fine")
    host = local.LocalHost()
    host.run([str(path)], timeout=60)
    began, seen = time.monotonic(), False
    while time.monotonic() < began + 60 and (children_of(os.getpid(), name) or not seen):
        seen = seen or bool(children_of(os.getpid(), name))  # it becomes ours after a moment
        if seen:
            host.close()
        time.sleep(0.02)
    assert seen
    assert children_of(os.getpid(), name) == []


def children_of(parent: int, name: str) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError):
            told = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8") if entry.isdigit() else ""
            if told and f"({name})" in told and int(told.rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry))
    return found


@pytest.mark.parametrize("how", ["plain", "closed stdout", "terminated"])
def test_a_whole_check_leaves_nothing(tmp_path: Path, swept: list[str], how: str) -> None:
    _, seconds = tool(tmp_path, SHAPES["double fork, no variables"], ENDINGS["hangs"])
    swept.append(seconds)
    reading, writing = os.pipe()
    if how == "closed stdout":
        os.close(reading)
    (tmp_path / "site.toml").write_text(f"tool_timeout_s = {HANGS_S}\n", encoding="utf-8")
    argv = [sys.executable, "-m", "npudoctor", "check", "driver.npu-smi", "npu.health", "--timeout", "20"]
    argv += ["--config", str(tmp_path / "site.toml")]
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(argv, stdout=writing, stderr=subprocess.PIPE, env=variables) as process:
        os.close(writing)
        if how == "terminated":
            until = time.monotonic() + 60
            while not (tmp_path / "started").exists() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    if how != "closed stdout":
        os.close(reading)
    assert b"Traceback" not in said
    assert until_gone(seconds) == []
