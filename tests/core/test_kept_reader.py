"""The reader that stays between readings, and the file that makes every reader let go of the driver."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import cli, sim
from npudoctor.host import Completed, hands_off
from npudoctor.host.hands_off import Maintenance
from npudoctor.host.live import library, reader
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.rooted import open_root
from tests.fake_dcmi import answers, build, nodes
from tests.plain_user import ALICE, as_root
from tests.security.served import wait_for

pytestmark = pytest.mark.thorough
DRIVER = "/usr/local/Ascend/driver"
Ask = Callable[..., Completed]


@pytest.fixture(scope="module")
def a2() -> answers.Answers:
    return answers.of_scenario({"product": "atlas-800t-a2-910b3"})


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[reader.Kept]:
    """This process keeps its reader; a busy machine makes no question seem to hang, and no reader old."""
    monkeypatch.setattr(library, "CALL_S", nodes.PATIENT_S)
    monkeypatch.setattr(library, "INIT_S", nodes.PATIENT_S)
    monkeypatch.setattr(reader, "RENEWED_S", 3600.0)
    monkeypatch.setattr(reader.KEPT, "wanted", True)
    yield reader.KEPT
    reader.let_go()


@pytest.fixture
def ask(fake_dcmi: build.Library, open_folder: Path) -> Ask:
    """One reading, by a host of its own as in the NPUs screen; `said` gives the library other answers."""

    def reading(said: answers.Answers | None = None, *, pages: bool = False) -> Completed:
        if said is not None:
            nodes.put(fake_dcmi, open_folder, said)
        return LocalHost(root=str(open_folder)).ask_library(DRIVER, pages=pages, timeout=nodes.PATIENT_S)

    return reading


def _pid() -> int:
    kept = reader.KEPT._reader
    assert kept is not None
    return kept.process.pid


def _is_gone(process: subprocess.Popen[Any]) -> bool:
    return process.poll() is not None


def _waiting() -> subprocess.Popen[bytes]:
    kept = reader.KEPT._reader
    assert kept is not None
    return kept.process


def _inits(folder: Path) -> int:
    return sum(call.startswith("dcmi_init") for call in build.calls(folder / nodes.FOLDER / build.NAME))


def _told(done: Completed) -> dict[tuple[Any, ...], Any]:
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        (row["tells"], row.get("npu"), row.get("chip")): (row["rc"], row.get("value")) for row in rows if "tells" in row
    }


def _hands_off(folder: Path, text: str = "driver.install, run 7\n") -> Path:
    path = Path(f"{folder}{hands_off.PATH}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_one_reader_answers_again_and_again(ask: Ask, a2: answers.Answers, open_folder: Path) -> None:
    first = ask(a2)
    pid = _pid()
    again = [ask() for _ in range(3)]
    assert _pid() == pid
    assert [_told(one) for one in again] == [_told(first)] * 3
    assert _inits(open_folder) == 1


def test_other_answers_of_the_library_are_seen(ask: Ask, a2: answers.Answers, open_folder: Path) -> None:
    ask(a2)
    library_file = open_folder / nodes.FOLDER / build.NAME
    build.tell(library_file, a2.but("dcmi_get_device_health 2 0 refuse -8006").text())
    assert _told(ask())["health", 2, 0][0] == -8006
    assert ("ecc_hbm", 2, 0) not in _told(ask())
    assert _told(ask(pages=True))["ecc_hbm", 2, 0][0] == 0
    assert _inits(open_folder) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_reader_that_died_is_started_again(
    ask: Ask, a2: answers.Answers, open_folder: Path, number: signal.Signals
) -> None:
    first = ask(a2)
    process = _waiting()
    os.kill(process.pid, number)
    assert _told(ask()) == _told(first)
    assert _pid() != process.pid
    assert _inits(open_folder) == 2


def test_a_reader_that_crashes_in_a_later_reading_loses_that_question_alone(
    ask: Ask, a2: answers.Answers, open_folder: Path
) -> None:
    whole = _told(ask(a2))
    place = open_folder / nodes.FOLDER / build.NAME
    build.tell(place, a2.but("dcmi_get_device_power_info 3 0 segv").text())
    told = _told(ask())
    assert whole.keys() - told.keys() == {("power", 3, 0)}
    build.tell(place, a2.text())
    assert _told(ask()) == whole


def test_a_chip_that_is_lost_or_not_ready_is_asked_anew(ask: Ask, a2: answers.Answers, open_folder: Path) -> None:
    ask(a2.but("dcmi_get_device_health 2 0 refuse -8012"))
    assert reader.KEPT._reader is None
    build.tell(open_folder / nodes.FOLDER / build.NAME, a2.text())
    assert _told(ask())["health", 2, 0] == (0, 0)


def test_another_library_is_loaded_anew(ask: Ask, a2: answers.Answers) -> None:
    ask(a2)
    process = _waiting()
    ask(a2)  # the file was written anew, as by an update of the driver
    assert _is_gone(process)


def test_an_old_reader_is_replaced(ask: Ask, a2: answers.Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(a2)
    process = _waiting()
    monkeypatch.setattr(reader, "RENEWED_S", 0.0)
    ask()
    assert _is_gone(process)


def test_what_is_kept_ends_before_a_command_that_changes_the_node(ask: Ask, a2: answers.Answers) -> None:
    ask(a2)
    process = _waiting()
    LocalHost().run_streaming(["true"], timeout=nodes.PATIENT_S)
    assert _is_gone(process)


def test_the_reader_lets_go_when_it_must_and_comes_back(ask: Ask, a2: answers.Answers, open_folder: Path) -> None:
    first = ask(a2)
    process = _waiting()
    path = _hands_off(open_folder)
    wait_for(lambda: _is_gone(process))
    with pytest.raises(Maintenance, match=r"maintenance: driver\.install, run 7 \(.*hands-off\)"):
        ask()
    assert _inits(open_folder) == 1
    path.unlink()
    assert _told(ask()) == _told(first)


def test_a_question_that_hangs_lets_go_too(ask: Ask, a2: answers.Answers, open_folder: Path) -> None:
    import threading

    found: list[BaseException] = []

    def hanging() -> None:
        try:
            ask(a2.but("dcmi_get_device_health 2 0 hang"))
        except Maintenance as why:
            found.append(why)

    reading = threading.Thread(target=hanging)
    reading.start()
    wait_for(lambda: "hangs" in build.calls(open_folder / nodes.FOLDER / build.NAME))
    _hands_off(open_folder)
    reading.join(nodes.PATIENT_S)
    assert len(found) == 1


def test_a_tool_that_runs_is_ended_and_none_is_started(tmp_path: Path) -> None:
    import threading

    sim.write_tools(sim.simulate("seed-910b1"), str(tmp_path))
    tool = tmp_path / "bin" / "npu-smi"
    tool.unlink()
    tool.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexec sleep 1000\n", encoding="utf-8")
    tool.chmod(0o755)
    found: list[BaseException] = []

    def run() -> None:
        try:
            open_root(str(tmp_path)).run(["npu-smi", "info"], timeout=900.0)
        except Maintenance as why:
            found.append(why)

    running = threading.Thread(target=run)
    running.start()
    wait_for((tmp_path / "started").exists)
    _hands_off(tmp_path)
    running.join(nodes.PATIENT_S)
    assert len(found) == 1
    (tmp_path / "started").unlink()
    host = open_root(str(tmp_path))
    with pytest.raises(Maintenance):
        host.run(["npu-smi", "info"])
    with pytest.raises(Maintenance):
        host.run_in_target("x", "python3", timeout=9.0)
    assert not (tmp_path / "started").exists()


def test_a_check_in_maintenance_says_so_and_judges_nothing_of_the_chips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes_folder = tmp_path / "node"

    sim.write_tools(sim.simulate("sick-cards"), str(nodes_folder))
    _hands_off(nodes_folder, "firmware.install\n")
    code = cli.main(["check", "--json", "--root", str(nodes_folder)])
    report = json.loads(capsys.readouterr().out)
    told = {result["check"]: result for result in report["results"]}
    assert code == 3
    for check in ("npu.health", "driver.npu-smi", "npu.count"):
        assert told[check]["status"] == "skipped"
        assert told[check]["reason"].startswith("maintenance: firmware.install")
    assert not [row for row in told.values() if row["status"] == "error" and row["check"].startswith("npu.")]


def test_a_container_in_maintenance_is_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _hands_off(tmp_path)
    assert cli.main(["healthcheck", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith("unhealthy: maintenance: driver.install, run 7")


@as_root
def test_the_file_of_another_user_stops_nobody(tmp_path: Path) -> None:
    path = _hands_off(tmp_path)
    assert hands_off.reason(str(path)) is not None
    os.chown(path, ALICE, ALICE)
    assert hands_off.reason(str(path)) is None


@pytest.mark.parametrize("text", ["", "\n", "\x1b[2J" + "x" * 4000])
def test_an_odd_file_is_as_good_as_any(tmp_path: Path, text: str) -> None:
    path = _hands_off(tmp_path, text)
    said = hands_off.reason(str(path))
    assert said is not None
    assert said.startswith("maintenance: ")
    assert len(said) < 300 + len(str(path))


ALONE = """
import sys
from npudoctor.host.live import library, reader
reader.keep()
library.Library(sys.argv[1]).ask(sys.argv[2], pages=False, timeout=600.0)
print(reader.KEPT._reader.process.pid, flush=True)
sys.stdin.read()
"""


def test_a_reader_ends_with_a_process_that_is_killed(
    fake_dcmi: build.Library, a2: answers.Answers, open_folder: Path
) -> None:
    nodes.put(fake_dcmi, open_folder, a2)
    argv = [sys.executable, "-c", ALONE, str(open_folder), DRIVER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert _runs(pid)
        owner.kill()
        owner.wait(nodes.PATIENT_S)
    wait_for(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    """Whether it is a reader that has not ended; its number may belong to somebody else by then."""
    with contextlib.suppress(OSError):
        return b"read_dcmi" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_a_reader_that_nobody_asks_ends_by_itself(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(reader.PROGRAM)!r}); import read_dcmi; "
        f"read_dcmi.IDLE_S = 0.1; read_dcmi.main(1, {str(tmp_path / 'hands-off')!r})"
    )
    argv = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle:
        assert idle.wait(nodes.PATIENT_S) == 0
