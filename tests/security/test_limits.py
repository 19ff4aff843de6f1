"""Few descriptors, processes or bytes of memory: an answer or one line, never a hang, never an error of the driver."""

import errno
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import __version__, plugins, schedule, sim
from npudoctor.cli import main
from npudoctor.findings import Finding, Severity, Status
from npudoctor.host import Host, Unavailable, ask_each
from npudoctor.host.live import measures, proc
from npudoctor.host.live import tools as live_tools
from npudoctor.host.live.local import LocalHost
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.host.shortage import what_ran_out
from npudoctor.sdk import check
from npudoctor.testing import FakeHost, run
from tests.plain_user import as_root

ROOT = Path(__file__).resolve().parents[2]

ENTRY = "import sys; from npudoctor.cli import console; console()"
"""What the console script does; -P is not known to Python 3.10."""


@pytest.fixture(scope="module")
def tools() -> Iterator[Path]:
    """A folder with the tools of a healthy node, as real programs, and a log; any user can pass through it."""
    with tempfile.TemporaryDirectory(prefix="npudoctor test ") as name:
        folder = Path(name)
        sim.write_tools(sim.simulate("healthy-910a"), str(folder))
        (folder / "logs").mkdir()
        (folder / "logs" / "x.log").write_text("Failed to bind the IP port\n", encoding="utf-8")
        folder.chmod(0o755)
        yield folder


def limited(kind: int, most: int, words: list[str], *before: str) -> "subprocess.CompletedProcess[str]":
    def limit() -> None:
        resource.setrlimit(kind, (most, most))

    argv = [*before, sys.executable, "-c", ENTRY, *words]
    return subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, preexec_fn=limit, timeout=300)


def commands(tools: Path, folder: Path) -> dict[str, list[str]]:
    return {
        "check": ["check", "--profile", "quick", "--json", "--root", str(tools)],
        "facts": ["facts", "--root", str(tools)],
        "record": ["record", "--profile", "quick", "--root", str(tools), str(folder / "x.tar.gz")],
        "healthcheck": ["healthcheck", "--no-daemon", "--root", str(tools)],
        "explain": ["explain", "--log", str(tools / "logs")],
        "list": ["list"],
    }


@pytest.mark.parametrize("command", ["check", "facts", "record", "healthcheck", "explain", "list"])
@pytest.mark.parametrize("most", [5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 20])
def test_few_descriptors_are_no_error_of_the_driver(tools: Path, tmp_path: Path, most: int, command: str) -> None:
    if most not in (6, 8, 10, 11) and command not in ("check",):
        pytest.skip("tried with the numbers that were found to matter")
    done = limited(resource.RLIMIT_NOFILE, most, commands(tools, tmp_path)[command])
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert done.returncode in (0, 1, 3, 4)
    if done.returncode == 4:
        assert done.stderr.count("\n") == 1
    elif command == "check":
        results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
        for check in ("driver.npu-smi", "npu.present", "npu.health", "driver.installed"):
            assert results[check]["status"] in ("ok", "skipped"), (most, results[check])


@pytest.mark.parametrize("most", [13, 20])
def test_few_descriptors_are_no_crash_and_one_line(tools: Path, most: int) -> None:
    for _ in range(3):  # which check opens the last one depends on the threads
        done = limited(resource.RLIMIT_NOFILE, most, ["check", "--json", "--root", str(tools)])
        if done.returncode == 4:
            assert done.stderr == "npudoctor: no more files may be opened (ulimit -n)\n"
            continue
        report = json.loads(done.stdout)
        assert not [result for result in report["results"] if result["status"] == "crashed"]
        assert done.stderr == (
            f"npudoctor: only {most} files may be open (ulimit -n), too few to determine everything\n"
        )


REFUSING = """
import errno, random, sys
from npudoctor.cli import console

chance = random.Random(int(sys.argv.pop(1)))

def refuse(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "socket.__new__") and chance.random() < 0.004:
        raise OSError(errno.EMFILE, "Too many open files")

sys.addaudithook(refuse)
console()
"""
"""The console script where now and then nothing more may be opened, be it a module, a folder or a file of the node."""


@pytest.mark.parametrize("seed", range(6))
def test_a_descriptor_that_is_missing_anywhere_is_no_crash(tools: Path, seed: int) -> None:
    argv = [sys.executable, "-c", REFUSING, str(seed), "check", "--json", "--root", str(tools)]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, timeout=300)
    if done.returncode == 4:
        assert done.stderr == "npudoctor: no more files may be opened (ulimit -n)\n"
    else:
        assert not [result for result in json.loads(done.stdout)["results"] if result["status"] == "crashed"]


WITHOUT_PACKAGES = """
import errno, os, sys
from npudoctor import plugins

refused = []

def refuse(event, arguments):
    if event == "os.listdir" and os.path.basename(os.fspath(arguments[0] or "")) == "site-packages" and not refused:
        refused.append(arguments[0])
        raise OSError(errno.EMFILE, "Too many open files")

sys.addaudithook(refuse)
assert plugins.load().checks and refused
"""


def test_a_folder_of_packages_that_could_not_be_opened_once_is_opened_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PACKAGES], cwd=tmp_path, check=True, timeout=300)


def test_what_wraps_a_missing_descriptor_says_so() -> None:
    try:
        try:
            raise OSError(errno.EMFILE, "Too many open files")
        except OSError as problem:
            raise ValueError("the catalogue cannot be loaded") from problem
    except ValueError as problem:
        assert what_ran_out(problem) == "no more files may be opened (ulimit -n)"
    assert what_ran_out(BlockingIOError(errno.EAGAIN, "fork")) == "no more processes may be started (ulimit -u)"
    held = ValueError("another process holds the lock")
    held.__cause__ = BlockingIOError(errno.EAGAIN, "flock")
    assert what_ran_out(held) is None
    assert what_ran_out(ImportError("libx.so.1: cannot open shared object file: Too many open files"))
    assert what_ran_out(ImportError("libx.so.1: cannot open shared object file: No such file or directory")) is None


def test_a_module_of_npudoctor_that_is_not_found_is_a_lack_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ImportError("cannot import name 'layout'", name="npudoctor.knowledge.tables")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (13, 4096))
    assert what_ran_out(missing) == "no more files may be opened (ulimit -n)"
    assert what_ran_out(ImportError("cannot import name 'x'", name="torch_npu")) is None
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert what_ran_out(missing) is None


@as_root
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv (util-linux) is not installed")
@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 6, 8, 12])
def test_few_processes_are_one_line_or_an_answer(tools: Path, tmp_path: Path, most: int) -> None:
    tmp_path.chmod(0o777)
    uid = str(random.randrange(1_000_000, 2_000_000_000))  # the kernel counts by user, whoever else runs tests here
    passing = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=+dac_read_search"]
    before = [*passing, "--ambient-caps=+dac_read_search"]
    for command in ("check", "healthcheck", "explain"):
        done = limited(resource.RLIMIT_NPROC, most, commands(tools, tmp_path)[command], *before)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        assert done.returncode in (0, 1, 3, 4)
        if done.returncode == 4:
            assert done.stderr.count("\n") == 1
        elif command == "check":
            results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
            assert results["driver.npu-smi"]["status"] in ("ok", "skipped"), results["driver.npu-smi"]


@pytest.mark.parametrize(("kind", "most"), [(resource.RLIMIT_AS, 300 << 20), (resource.RLIMIT_CPU, 60)])
def test_little_memory_is_an_answer(tools: Path, tmp_path: Path, kind: int, most: int) -> None:
    done = limited(kind, most, commands(tools, tmp_path)["check"])
    assert done.returncode in (0, 1, 3), done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_is_explained_in_120_mb_of_address_space(tools: Path) -> None:
    log = tools / "logs" / "large.log"
    log.write_text(("x" * 200 + "\n") * (64 << 20 >> 8) + "Failed to bind the IP port\n", encoding="utf-8")
    done = limited(resource.RLIMIT_AS, 120 << 20, ["explain", "--log", str(log)])
    log.unlink()
    assert done.returncode == 0, done.stderr
    assert "Failed to bind the IP port" in done.stdout


@pytest.mark.parametrize("command", ["check", "healthcheck", "explain", "list"])
def test_a_second_of_the_processor_is_enough(tools: Path, tmp_path: Path, command: str) -> None:
    done = limited(resource.RLIMIT_CPU, 1, commands(tools, tmp_path)[command])
    assert done.returncode in (0, 1, 3), done.stderr
    assert done.stdout
    assert "Traceback" not in done.stderr


def test_where_only_one_thread_can_be_started_it_does_all_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start
    begun: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        begin(thread)
        time.sleep(0.2)  # it runs before anybody counts it

    monkeypatch.setattr(threading.Thread, "start", start)
    graph: dict[int, set[int]] = {number: set() for number in range(20)}
    done = [node for what, node, _ in schedule.Schedule(graph, lambda node: node).run() if what == "done"]
    assert sorted(done) == sorted(graph)


def test_where_no_thread_can_be_started_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(OSError, match="no thread can be started") as caught:
        list(schedule.Schedule({1: set()}, lambda node: node).run())
    assert what_ran_out(caught.value) == "no more processes may be started (ulimit -u)"


@as_root
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv (util-linux) is not installed")
def test_where_no_process_may_be_started_a_check_is_one_line_and_the_version_is_printed() -> None:
    uid = str(random.randrange(1_000_000, 2_000_000_000))
    before = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=+dac_read_search"]
    before.append("--ambient-caps=+dac_read_search")
    done = limited(resource.RLIMIT_NPROC, 1, ["check", "--simulate", "seed-910b1"], *before)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "npudoctor: no more processes may be started (ulimit -u)\n"
    done = limited(resource.RLIMIT_NPROC, 1, ["healthcheck", "--simulate", "seed-910b1"], *before)
    assert done.stdout == "unhealthy: no more processes may be started (ulimit -u)\n"
    done = limited(resource.RLIMIT_NPROC, 1, ["--version"], *before)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"npudoctor {__version__}\n", "")


def test_work_that_raises_ends_the_run_and_nobody_waits_for_it() -> None:
    def work(node: int) -> int:
        if node == 3:
            raise OSError(24, "Too many open files")
        return node

    graph: dict[int, set[int]] = {1: set(), 2: {1}, 3: {1}, 4: {3}}
    with pytest.raises(OSError, match="Too many open files"):
        list(schedule.Schedule(graph, work).run())


def test_a_command_that_cannot_be_started_for_want_of_descriptors_is_not_taken_for_a_missing_one() -> None:
    class Host:
        instant = False

        def run(self, argv: object, *, timeout: float) -> object:
            raise OSError(24, "Too many open files")

    with pytest.raises(OSError, match="Too many open files"):
        ask_each(Host(), [["a"], ["b"], ["c"]], timeout=1)  # type: ignore[arg-type]
    assert what_ran_out(OSError(24, "")) and not what_ran_out(OSError(2, "")) and not what_ran_out(Unavailable(""))


def no_descriptor(*_: object, **__: object) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_file_for_which_no_descriptor_is_left_does_not_count_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim.write_bundle(sim.simulate("seed-910b1"), str(tmp_path / "node"))
    host = open_bundle(str(tmp_path / "node"))
    assert host.exists("/etc/os-release")
    monkeypatch.setattr(os, "open", no_descriptor)
    try:
        with pytest.raises(OSError, match="Too many open files"):
            host.read("/etc/os-release")
    finally:
        monkeypatch.undo()


@pytest.mark.parametrize("after_a_finding", [False, True])
def test_a_check_for_which_no_descriptor_is_left_has_not_crashed(after_a_finding: bool) -> None:
    @check("test.files")
    def files(_: Host) -> Iterator[Finding]:
        """Files can be opened."""
        if after_a_finding:
            yield Finding(severity=Severity.INFO, subject="host", summary="a finding")
        no_descriptor()

    report = run(FakeHost(), "test.files", catalog=plugins.Catalog(checks={files.id: files}, probes={}))
    [result] = report.results
    assert result.status is (Status.OK if after_a_finding else Status.SKIPPED)
    assert result.reason == "no more files may be opened (ulimit -n)"
    assert report.exit_code == 3


def test_a_measurement_for_which_no_descriptor_is_left_is_no_fact_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measures._MEASURES, "memory", no_descriptor)
    with pytest.raises(OSError, match="Too many open files"):
        LocalHost().measure("memory")


@as_root
def test_a_tool_that_cannot_be_judged_for_want_of_descriptors_does_not_count_as_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_tools, "foreign_writer", no_descriptor)
    with pytest.raises(OSError, match="Too many open files"):
        live_tools.find("sh")


def test_a_host_name_of_megabytes_is_cut_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = tmp_path / "node"
    sim.write_bundle(sim.simulate("seed-910b1"), str(node))
    about = json.loads((node / "bundle.json").read_text(encoding="utf-8")) | {"hostname": "x" * (1 << 20)}
    (node / "bundle.json").write_text(json.dumps(about), encoding="utf-8")
    assert main(["check", "--replay", str(node), "--profile", "quick"]) == 0
    assert len(capsys.readouterr().out) < 1 << 16


@pytest.mark.parametrize("unset", ["HOME", "TERM", "PATH", "LANG"])
def test_a_variable_that_is_not_set_is_no_traceback(tools: Path, unset: str) -> None:
    variables = {name: value for name, value in os.environ.items() if name != unset}
    argv = [sys.executable, "-c", ENTRY, "check", "--profile", "quick", "--root", str(tools)]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, env=variables, timeout=300)
    assert done.returncode in (0, 1, 3) and "Traceback" not in done.stderr


CLOSED = {
    "stdout": ">&-",
    "stderr": "2>&-",
    "stdin": "<&-",
    "all": "<&- >&- 2>&-",
    "full": ">/dev/full",
    "no folder": "",
}


@pytest.mark.parametrize("what", CLOSED)
def test_closed_and_full_descriptors_and_a_folder_that_is_gone_are_no_traceback(
    tools: Path, tmp_path: Path, what: str
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = f'cd "{gone}"; rmdir "{gone}";' if what == "no folder" else ""
    script = f'{leave} exec "$@" {CLOSED[what]}'
    argv = [sys.executable, "-c", ENTRY, "check", "--profile", "quick", "--root", str(tools)]
    done = subprocess.run(
        ["sh", "-c", script, "sh", *argv], capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    assert done.returncode in (0, 1, 2, 3), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(
    not str(ROOT).isascii(), reason="an editable installation in such a folder is not found where no UTF-8 is spoken"
)
@pytest.mark.parametrize("locale", ["C", "POSIX", "zh_CN.GBK", "en_US.ISO-8859-1"])
def test_any_locale_is_an_answer(tools: Path, locale: str) -> None:
    variables = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    argv = [sys.executable, "-c", ENTRY, "check", "--profile", "quick", "--root", str(tools)]
    done = subprocess.run(argv, capture_output=True, check=False, env=variables, timeout=300)
    assert done.returncode in (0, 1, 3) and b"Traceback" not in done.stderr


def test_a_command_line_is_read_in_part() -> None:
    words = ["a" * 100_000] * 4
    argv = [sys.executable, "-c", "print(flush=True); input()", *words]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        row = next(row for row in proc.processes() if row["pid"] == running.pid)
        running.communicate(b"\n")
    assert row["cmdline"][1] == argv[1]
    assert len("".join(row["cmdline"])) <= 128 << 10
