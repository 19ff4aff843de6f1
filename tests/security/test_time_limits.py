"""No time limit depends on the interpreter being free: of `check`, `facts`, `healthcheck` and of the daemon's looks.

Finding 4 of the review: expressions that hold the interpreter for minutes made `check --timeout` and the daemon hang.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from npudoctor.cli import parser_of
from npudoctor.cli.check import FORMATS, give_up
from tests.daemon.conftest import Running
from tests.plain_user import ALICE, identity
from tests.security import held_interpreter as plugin

DEADLINE_S = 120
"""Far more than any of this takes; what hangs takes for ever."""

NPUDOCTOR = [sys.executable, "-m", "npudoctor"]


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    """Writes a plug-in; its path."""

    def write(text: str) -> str:
        path = tmp_path / "plugin.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NPUDOCTOR, *words],
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def check(path: str, *words: str) -> subprocess.CompletedProcess[str]:
    quick = ("--simulate", "seed-910b1", "--profile", "quick", "--timeout", "1", "--plugin", path)
    return run("check", "test.stuck", *quick, *words)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_check_that_holds_the_interpreter_ends_at_the_time_limit(written: Callable[[str], str]) -> None:
    done = check(written(plugin.HOLDS))
    assert done.returncode == 3
    assert "the time limit of 1 s has passed" in done.stdout
    assert done.stderr == ""


def test_the_last_resort_is_a_valid_document_in_every_format(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    done = check(written(plugin.HOLDS), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"], report["exit_code"]) == (3, "undetermined", 3)
    assert [one["check"] for one in report["results"]] == ["run.time-limit"]
    said = {}
    for shape in FORMATS:
        args = parser_of("check").parse_args(["--format", shape])
        assert give_up(args, "the time limit has passed") == (2 if shape == "npd" else 3)
        said[shape] = capsys.readouterr().out
        assert "the time limit has passed" in said[shape]
    assert [json.loads(line) for line in said["jsonl"].splitlines()][-1]["verdict"] == "undetermined"
    assert ElementTree.fromstring(said["junit"]).get("errors") == "1"
    assert said["nagios"].startswith("UNKNOWN - ")
    assert len(said["npd"].splitlines()) == 1


def test_an_import_that_holds_the_interpreter_is_under_the_limit_too(written: Callable[[str], str]) -> None:
    path = written(plugin.HOLD)
    assert check(path).returncode == 3
    facts = run("facts", "--simulate", "seed-910b1", "--timeout", "1", "--plugin", path)
    assert (facts.returncode, facts.stderr.count("\n")) == (3, 1)
    assert "could not determine: the time limit of 1 s has passed" in facts.stderr


@pytest.mark.parametrize("words", [("record", "{folder}/node.tar.gz"), ("env",)], ids=["record", "env"])
def test_a_recording_and_an_environment_have_a_limit_too(
    written: Callable[[str], str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    told = [word.format(folder=tmp_path) for word in words]
    done = run(*told, "--simulate", "seed-910b1", "--timeout", "1", "--plugin", written(plugin.HOLD))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("npudoctor: could not determine: the time limit of 1 s has passed\n")
    assert not (tmp_path / "node.tar.gz").exists()


SLEEPS = plugin.CHECK.format(body="import time; time.sleep(60)")


def test_a_recording_keeps_what_was_known_when_the_time_was_up_and_setup_goes_on(
    written: Callable[[str], str], tmp_path: Path
) -> None:
    path = written(SLEEPS)
    began = time.monotonic()
    words = ("--simulate", "seed-910b1", "--timeout", "2", "--plugin", path)
    done = run("record", str(tmp_path / "node.tar.gz"), *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "node.tar.gz").exists()
    done = run("setup", "--dry-run", "--json", *words)
    assert json.loads(done.stdout)["schema"] == "npudoctor.setup/1"
    assert time.monotonic() - began < 60


def test_the_limit_of_the_configuration_counts_too(written: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("timeout_s = 1\n", encoding="utf-8")
    quick = ("--simulate", "seed-910b1", "--profile", "quick", "--config", str(tmp_path / "config.toml"))
    assert run("check", "test.stuck", *quick, "--plugin", written(plugin.HOLDS)).returncode == 3


def test_a_check_that_ends_or_crashes_the_process_is_no_healthy_node(written: Callable[[str], str]) -> None:
    done = check(written(plugin.LEAVES))
    assert done.returncode == 3
    assert "exited unexpectedly, with exit code 0" in " ".join(done.stdout.split())
    done = check(written(plugin.CRASHES))
    assert done.returncode == 3
    assert "was killed by SIGSEGV" in " ".join(done.stdout.split())


def test_everything_that_the_run_has_started_is_ended_with_it(written: Callable[[str], str], tmp_path: Path) -> None:
    check(written(plugin.starts_first(str(tmp_path / "pid"))))
    assert not is_alive(int((tmp_path / "pid").read_text(encoding="utf-8")))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_run_that_is_stuck(
    written: Callable[[str], str], tmp_path: Path, number: int, code: int
) -> None:
    path = written(plugin.starts_first(str(tmp_path / "pid")))
    argv = [*NPUDOCTOR, "check", "test.stuck", "--profile", "quick", "--simulate", "seed-910b1", "--plugin", path]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8"))
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == code
    finally:
        process.kill()
        process.wait()
    assert not is_alive(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_a_signal_that_the_caller_has_ignored_ends_nothing(written: Callable[[str], str], tmp_path: Path) -> None:
    """nohup(1) ignores SIGHUP, so that a check goes on when its terminal is closed."""
    said = tmp_path / "said"
    path = written(plugin.CHECK.format(body=f"open({str(said)!r}, 'w').close(); import time; time.sleep(86400)"))
    argv = ["nohup", *NPUDOCTOR, "check", "test.stuck", "--plugin", path, "--timeout", "100"]
    devnull = subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=devnull, stdout=devnull, stderr=devnull) as process:
        try:
            wait_for(said.exists)
            process.send_signal(signal.SIGHUP)
            time.sleep(1)
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM


def test_a_check_without_descriptors_for_the_guard_answers(tmp_path: Path) -> None:
    """The guard needs four; without them the check runs without it, and says what it can."""
    script = "import os, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)); "
    script += "from npudoctor.cli import limits; print(len(os.listdir('/dev/fd')), limits.run(lambda limit: 7, len)); "
    script += "print(len(os.listdir('/dev/fd')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=False)
    assert done.stdout.split()[1] == "7" and done.stdout.split()[0] == done.stdout.split()[2], done.stderr


def test_a_run_whose_parent_is_killed_ends_too(written: Callable[[str], str], tmp_path: Path) -> None:
    path = written(plugin.CHECK.format(body=f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); {LOOP}"))
    argv = [*NPUDOCTOR, "check", "test.stuck", "--profile", "quick", "--simulate", "seed-910b1", "--plugin", path]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8"))
    process.kill()
    process.wait()
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    assert pid != process.pid
    wait_for(lambda: not is_alive(pid))


LOOP = "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')"


def wait_for(true: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_run_that_is_not_stuck_prints_and_ends_as_ever(tmp_path: Path) -> None:
    words = ("check", "--simulate", "sick-cards", "--json")
    done = run(*words, "--timeout", "600")
    assert done.returncode == 1
    assert len(json.loads(done.stdout)["results"]) > 20
    usage = run("check", "no.such-check", "--simulate", "sick-cards")
    assert (usage.returncode, usage.stderr.count("\n")) == (2, 1)
    closed = subprocess.run(
        f"{shlex.quote(NPUDOCTOR[0])} -m npudoctor {' '.join(words)} | head -c 1", shell=True, check=True
    )
    assert closed.returncode == 0


def test_a_reader_who_is_slower_than_the_limit_gets_the_whole_report() -> None:
    argv = [*NPUDOCTOR, "check", "--simulate", "sick-cards", "--json", "--timeout", "1"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), True)
    time.sleep(5)  # the limit and its grace have passed; what does not fit the pipe is still to be written
    text = process.stdout.read()
    process.stdout.close()
    assert process.wait(DEADLINE_S) in (1, 3)
    assert json.loads(text)["results"]


# The daemon


FAST = "[daemon]\nquick_s = 1\ncounters_s = 3600\nstandard_s = 3600\ntimeout_s = 1\njitter_pct = 0\n"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts a daemon over a simulated node, and ends it."""
    started: list[Running] = []
    (tmp_path / "config.toml").write_text(FAST, encoding="utf-8")

    def start(*words: str) -> Running:
        usual = ("--simulate", "seed-910b1", "--config", str(tmp_path / "config.toml"))
        started.append(Running(tmp_path, *usual, *words).start())
        return started[-1]

    yield start
    for one in started:
        one.end(signal.SIGKILL)


@pytest.mark.parametrize("text", [plugin.HOLDS, plugin.LEAVES, plugin.CRASHES])
def test_a_check_that_never_ends_or_crashes_does_not_end_the_daemon(
    daemon: Callable[..., Running], written: Callable[[str], str], text: str
) -> None:
    running = daemon("--plugin", written(text))
    running.until(lambda: running.get("/livez").status_code == 200)
    running.until(lambda: "the check process" in str(running.get("/readyz").json()["reason"]))
    for _ in range(8):
        assert running.get("/livez").status_code == 200
    assert running.end() == 0
    assert "Traceback" not in running.log


def test_a_plugin_that_hangs_when_it_is_imported_does_not_end_the_daemon(
    daemon: Callable[..., Running], written: Callable[[str], str]
) -> None:
    path = written("import os\nos._exit(0)\n")
    running = daemon("--plugin", path)
    running.until(lambda: "the check process exited with code 0" in str(running.get("/readyz").json()["reason"]))
    assert running.get("/livez").status_code == 200
    Path(path).write_text("", encoding="utf-8")
    running.until(lambda: running.get("/readyz").status_code == 200)
    assert running.end() == 0


def test_a_daemon_whose_look_is_stuck_ends_when_it_is_told(
    daemon: Callable[..., Running], written: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(FAST.replace("timeout_s = 1", "timeout_s = 3600"), encoding="utf-8")
    running = daemon("--plugin", written(plugin.starts_first(str(tmp_path / "pid"))))
    running.until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8"))
    assert running.get("/livez").status_code == 200
    assert running.end() == 0
    assert not is_alive(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_a_daemon_that_is_killed_leaves_no_process_behind(
    daemon: Callable[..., Running], written: Callable[[str], str], tmp_path: Path
) -> None:
    body = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); {LOOP}"
    (tmp_path / "config.toml").write_text(FAST.replace("timeout_s = 1", "timeout_s = 3600"), encoding="utf-8")
    running = daemon("--plugin", written(plugin.CHECK.format(body=body)))
    running.until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8"))
    running.end(signal.SIGKILL)
    wait_for(lambda: not is_alive(int((tmp_path / "pid").read_text(encoding="utf-8"))))


LISTENS = (
    "import socket, time; s = socket.socket(); s.bind(('', 60003)); s.listen(); print(flush=True); time.sleep(600)"
)
BESIDE = """
import json, subprocess, sys
listens, checks, identity = map(json.loads, sys.argv[1:])
with subprocess.Popen(listens, stdout=subprocess.PIPE, **identity) as listener:
    listener.stdout.readline()
    done = subprocess.run(checks, stdout=subprocess.PIPE)
    listener.kill()
sys.stdout.buffer.write(done.stdout)
sys.exit(done.returncode)
"""


@pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="requires root and unshare")
def test_the_arguments_of_another_users_process_hold_nothing_up() -> None:
    """60,000 letters as one argument of whoever listens on an HCCL port: the reproduction of finding 4."""
    listens = [shutil.which("python3", path="/usr/bin:/bin") or sys.executable, "-c", LISTENS, "a" * 60000]
    checks = [*NPUDOCTOR, "check", "--profile", "quick", "hccl", "--timeout", "5", "--json"]
    told = [json.dumps(one) for one in (listens, checks, identity(ALICE))]
    argv = ["unshare", "--net", sys.executable, "-c", BESIDE, *told]
    done = subprocess.run(argv, capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    assert json.loads(done.stdout)["schema"] == "npudoctor.report/1"
