"""Driver and firmware from packages: the order, the proof, and what the journal says after every way to end."""

import datetime
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from npudoctor import clock, plugins
from npudoctor.explain.diagnosis import diagnose
from npudoctor.explain.patterns import Sought
from npudoctor.explain.scan import Scanner
from npudoctor.fixer import runner
from npudoctor.fixer.journal import Journal
from npudoctor.host import Completed, Refused, hands_off
from npudoctor.installing import apart, earlier, proof, run, state, validity
from npudoctor.records import replace
from npudoctor.sdk import Options

from .node import CARDS, Tree, installation, node_of, opened, package, step, times_run, tree

ROOT = Path(__file__).resolve().parents[2]
NEXT_BOOT = "22222222-2222-2222-2222-222222222222"


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "POLL_S", 0.02)


def wait_for(condition: Callable[[], object], limit_s: float = 90.0) -> None:
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def status(journal: Journal, id: str) -> str:
    found = journal.status(id)
    assert found is not None
    return found.status


def both(host: Tree, folder: Path, does: str = "installs", *, chips: int = 2) -> tuple[Journal, str]:
    steps = [
        step(host, package(folder, "driver", "25.5.2", does)),
        step(host, package(folder, "firmware", "7.8.0.7.220", chips=chips)),
    ]
    return opened(host, steps)


def test_driver_and_firmware_then_the_reboot_then_ready(tmp_path: Path) -> None:
    host, said = tree(tmp_path), list[str]()
    journal, id = both(host, tmp_path)
    line = installation(host, journal, id, said).go_on()
    assert line == "NOT READY: reboot the node, then npudoctor setup --resume"
    assert status(journal, id) == "waiting-for-reboot"
    assert (tmp_path / "ran-driver").read_text() == (tmp_path / "ran-firmware").read_text() == "--full\n"
    assert "  | [Firmware] [2026-05-06 07:08:09] [INFO]The firmware of [2] chips are successfully upgraded." in said
    assert [one["exit_code"] for one in journal.commands(id)] == [0, 0]
    assert not (tmp_path / "run/npudoctor/hands-off").exists()
    host.boot = NEXT_BOOT
    assert installation(host, journal, id, said).resume(node_of(host)) == run.READY
    assert status(journal, id) == "done"
    with pytest.raises(Refused, match="does not wait"):
        installation(host, journal, id, said).resume(node_of(host))


def test_a_driver_that_takes_effect_at_once_is_ready_and_one_that_fails_a_check_is_not(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = opened(host, [step(host, package(tmp_path, "driver", "25.5.2"))])
    assert installation(host, journal, id, []).go_on() == run.READY
    journal, id = opened(host, [step(host, package(tmp_path, "driver", "25.5.2"))])
    line = installation(host, journal, id, [], ["NPU 1 is missing (npu.count)"]).go_on()
    assert line == "NOT READY: NPU 1 is missing (npu.count)"
    assert status(journal, id) == "stopped"


def test_exit_code_2_is_a_reboot_that_is_due(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = opened(host, [step(host, package(tmp_path, "driver", "25.5.2", "reboots"))])
    assert installation(host, journal, id, []).go_on().startswith("NOT READY: reboot")


@pytest.mark.parametrize("does", ["fails", "nothing"])
def test_what_is_not_proved_stops_before_the_next_step(tmp_path: Path, does: str) -> None:
    host, said = tree(tmp_path), list[str]()
    journal, id = both(host, tmp_path, does)
    line = installation(host, journal, id, said).go_on()
    assert line.startswith(
        "INTERRUPTED at step 1: its installer ended with exit code 1"
        if does == "fails"
        else "INTERRUPTED at step 1: /usr"
    )
    assert (status(journal, id), times_run(tmp_path, "driver"), times_run(tmp_path, "firmware")) == ("stopped", 1, 0)
    assert any("way back: uninstall.sh" in one for one in said)


def test_the_log_of_a_failed_installer_is_explained(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path, "fails")
    installation(host, journal, id, []).go_on()
    scanner = Scanner(Sought())
    scanner.read("log", [Path(host.outside(journal.archive(id, "step-1/log"))).read_bytes()])
    assert [one.pitfall.id for one in diagnose(scanner).suspects][:1] == ["P069"]


def test_fewer_chips_flashed_than_there_are_is_no_proof(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path, chips=1)
    assert installation(host, journal, id, []).go_on() == (
        "INTERRUPTED at step 2: firmware of 1 chips was flashed, of 2 NPUs on the PCI bus"
    )


def test_a_copy_that_changed_is_not_executed(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path)
    copy = Path(host.outside(journal.archive(id, "packages/driver.run")))
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    copy.write_bytes(copy.read_bytes() + b"x")
    assert "is not the file of the preview" in installation(host, journal, id, []).go_on()
    assert times_run(tmp_path, "driver") == 0


def test_a_package_that_changed_since_the_preview_is_not_copied(tmp_path: Path) -> None:
    host = tree(tmp_path)
    one = replace(step(host, package(tmp_path, "driver", "25.5.2")), sha256="0" * 64)
    with pytest.raises(Refused, match="has changed since its SHA-256 was shown"):
        opened(host, [one])
    journal = Journal(host, "/var/lib/npudoctor")
    assert [status(journal, id) for id in journal.runs()] == ["stopped"]


def test_a_step_is_begun_on_the_boot_and_out_of_service_as_it_was_confirmed(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path)
    host.names = frozenset({"slurmd"})
    line = installation(host, journal, id, []).go_on()
    assert line.startswith("INTERRUPTED at step 1: slurmd runs here") and line.endswith("; it was not begun")
    host.names = frozenset({"sh"})
    journal, id = both(host, tmp_path)
    host.boot = NEXT_BOOT
    line = installation(host, journal, id, []).go_on()
    assert line.startswith("INTERRUPTED at step 1: the node was rebooted before step 1")
    assert times_run(tmp_path, "driver") == 0


def test_the_proof_of_a_driver_is_its_version_and_its_tool(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = opened(host, [step(host, package(tmp_path, "driver", "25.5.2"))])
    one = state.plan_of(journal, id)[1][0]
    folder = tmp_path / "usr/local/Ascend/driver"
    (folder / "tools").mkdir(parents=True)

    def problem() -> str:
        return proof.of_step(host, one, node_of(host), 0, "", "now").problem

    assert problem().endswith("is not there: no driver is installed")
    (folder / "version.info").write_text("Version=25.5.2\n", encoding="utf-8")
    assert problem().endswith("the installation is not complete")
    (folder / "tools/upgrade-tool").touch()
    assert problem() == ""
    (folder / "version.info").write_text("Version=25.5.1\n", encoding="utf-8")
    assert problem().endswith("names 25.5.1, not 25.5.2")


def test_firmware_that_says_nothing_of_its_flash_is_not_proved(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = opened(host, [step(host, package(tmp_path, "firmware", "7.8.0.7.220"))])
    one = state.plan_of(journal, id)[1][0]
    (tmp_path / "usr/local/Ascend/firmware").mkdir(parents=True)
    (tmp_path / "usr/local/Ascend/firmware/version.info").write_text("Version=7.8.0.7.220\n", encoding="utf-8")
    found = proof.of_step(host, one, node_of(host), 0, "started\n", "now")
    assert found.problem == "its log does not say that the firmware was flashed" and found.reboot


@pytest.mark.parametrize(("room", "ends"), [(True, "stopped"), (False, "running")])
def test_without_room_for_the_copies_nothing_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: bool, ends: str
) -> None:
    host = tree(tmp_path)
    mark = Journal.mark

    def marked(journal: Journal, run: str, status: str, *rest: str) -> None:
        if status == "stopped" and not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        mark(journal, run, status, *rest)

    monkeypatch.setattr(Journal, "mark", marked)
    one = step(host, package(tmp_path, "driver", "25.5.2"))
    full = Completed(returncode=1, stderr="cp: error writing: No space left on device")
    monkeypatch.setattr(host, "run_streaming", lambda *_, **__: full)
    with pytest.raises(Refused, match="No space left on device"):
        opened(host, [one])
    journal = Journal(host, "/var/lib/npudoctor")
    assert [(status(journal, id), journal.document(id, state.PLAN)) for id in journal.runs()] == [(ends, None)]
    assert times_run(tmp_path, "driver") == 0
    monkeypatch.undo()
    earlier.refuse_second(host, journal)  # a run without a plan keeps no other from beginning
    assert [status(journal, id) for id in journal.runs()] == ["stopped"]


def test_a_package_that_another_user_can_change_is_not_copied(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("root alone judges the owner of packages")
    host = tree(tmp_path)
    path = package(tmp_path, "driver", "25.5.2")
    one = step(host, path)
    path.chmod(0o666)
    with pytest.raises(Refused, match="root does not run a package that others can change"):
        opened(host, [one])
    assert not list((tmp_path / "var/lib/npudoctor/runs").glob("*/packages/*"))


def test_a_holder_stops_it_before_the_first_step(tmp_path: Path) -> None:
    host = tree(tmp_path)
    host.holders = ("python3 pid 4711",)
    journal, id = both(host, tmp_path)
    run_limit, run.LET_GO_S = run.LET_GO_S, 0.0
    try:
        line = installation(host, journal, id, []).go_on()
    finally:
        run.LET_GO_S = run_limit
    assert line.startswith("INTERRUPTED at step 1: NPUs are held by python3 pid 4711")
    assert times_run(tmp_path, "driver") == 0
    assert not (tmp_path / "run/npudoctor/hands-off").exists()


@pytest.mark.parametrize("state_of", ["running", "waiting-for-reboot", "stopped", "done"])
def test_recovery_and_undo_change_nothing_of_it(tmp_path: Path, state_of: str) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path)
    if state_of != "running":
        installation(host, journal, id, []).go_on()
        journal.mark(id, state_of)
    before = {
        path: path.read_bytes()
        for path in sorted((tmp_path / "var").rglob("*"))
        if path.is_file() and path.name != "lock"
    }
    folder = "/var/lib/npudoctor"
    for events in (
        runner.recover(host, state=folder),
        runner.undo(host, state=folder),
        runner.undo(host, id, force=True, state=folder),
    ):
        ended = list(events)[-1]
        assert isinstance(ended, runner.Ended)
        assert ended.outcome in (runner.Outcome.NOTHING, runner.Outcome.REFUSED)
    after = {
        path: path.read_bytes()
        for path in sorted((tmp_path / "var").rglob("*"))
        if path.is_file() and path.name != "lock"
    }
    assert after == before
    assert (state.current_run(journal) == id) is (state_of != "done")


# Ended at any moment


def operations_of_a_whole_run(folder: Path) -> int:
    host = tree(folder)
    journal, id = both(host, folder)
    host.operations = 0
    installation(host, journal, id, []).go_on()
    return host.operations


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("boot", ["the same boot", "another boot"])
def test_cut_between_any_two_operations_the_journal_tells_the_truth(tmp_path: Path, boot: str, every: int) -> None:
    total = operations_of_a_whole_run(tmp_path / "whole")
    assert total > 15
    endings = set()
    for number in (*range(1, total, every), total):
        folder = tmp_path / str(number)
        host = tree(folder)
        journal, id = both(host, folder)
        host.operations, host.cut_at = 0, number
        with pytest.raises(KeyboardInterrupt):
            installation(host, journal, id, []).go_on()
        wait_until_ended(host, journal, id)
        host.cut_at = None
        if boot == "another boot":
            host.boot = NEXT_BOOT
        line = installation(host, journal, id, []).go_on()
        endings.add(line.partition(" at step")[0].partition(":")[0])
        assert line != run.READY
        assert times_run(folder, "driver") <= 1
        assert times_run(folder, "firmware") <= 1
        if line.startswith("NOT READY"):
            assert (folder / "usr/local/Ascend/firmware/version.info").read_text() == "Version=7.8.0.7.220\n"
            assert status(journal, id) == "waiting-for-reboot"
        else:
            assert status(journal, id) == "stopped"
    assert endings <= {"NOT READY", "INTERRUPTED"}
    assert every > 1 or len(endings) == 2


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_is_full_starts_nothing_twice_and_is_never_done(tmp_path: Path, code: int, every: int) -> None:
    total = operations_of_a_whole_run(tmp_path / "whole")
    for number in range(1, total + 1, every):
        folder = tmp_path / str(number)
        host = tree(folder)
        journal, id = both(host, folder)
        host.operations, host.cut_at, host.problem = 0, number, lambda: OSError(code, os.strerror(code))
        try:
            line = installation(host, journal, id, []).go_on()
        except OSError:
            line = "INTERRUPTED"
        wait_until_ended(host, journal, id)
        assert line != run.READY
        assert times_run(folder, "driver") <= 1 and times_run(folder, "firmware") <= 1
        assert status(journal, id) in ("running", "stopped", "waiting-for-reboot")


def wait_until_ended(host: Tree, journal: Journal, id: str) -> None:
    for number in (1, 2):
        folder = journal.archive(id, f"step-{number}")
        run.follow(host, folder, lambda _: None)


# Processes

PROGRAM = """
import sys
from pathlib import Path
from tests.installing.node import installation, tree
from npudoctor.fixer.journal import Journal
from npudoctor.host.live import process_tree
process_tree.adopt_orphans()
host = tree(Path(sys.argv[1]))
print(installation(host, Journal(host, "/var/lib/npudoctor"), sys.argv[2], []).go_on())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_killed_npudoctor_leaves_the_installer_running_and_is_attached_to(
    tmp_path: Path, number: signal.Signals
) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path, "waits")
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), id]
    with subprocess.Popen(
        words, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        wait_for(lambda: times_run(tmp_path, "driver"))
        os.killpg(child.pid, number)
        child.wait()
    folder = journal.archive(id, "step-1")
    assert apart.running_pid(host, folder)
    assert status(journal, id) == "running"
    (tmp_path / "go").touch()
    said: list[str] = []
    run.follow(host, folder, said.append)
    assert any("Driver package installed successfully" in line for line in said)
    assert installation(host, journal, id, said).go_on().startswith("NOT READY: reboot")
    assert (times_run(tmp_path, "driver"), times_run(tmp_path, "firmware")) == (1, 1)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_starter_does_not_end_it(tmp_path: Path, number: signal.Signals) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path, "waits")
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), id]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        wait_for(lambda: times_run(tmp_path, "driver"))
        starter = int(host.read(journal.archive(id, "step-1/pid")).split()[0])
        os.kill(starter, number)
        (tmp_path / "go").touch()
        out, _ = child.communicate()
    assert out == "NOT READY: reboot the node, then npudoctor setup --resume\n"
    assert apart.exit_code(host, journal.archive(id, "step-1")) == 0


def test_an_installer_whose_starter_was_killed_still_counts_as_running(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path, "waits")
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), id]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        wait_for(lambda: times_run(tmp_path, "driver"))
        child.kill()
        child.wait()
    folder = journal.archive(id, "step-1")
    starter = int(host.read(f"{folder}/pid").split()[0])
    os.kill(starter, signal.SIGKILL)
    wait_for(lambda: host.start_of(starter) is None)
    assert apart.running_pid(host, folder) not in (None, starter)
    (tmp_path / "go").touch()
    wait_for(lambda: apart.running_pid(host, folder) is None)
    line = installation(host, journal, id, []).go_on()
    assert line == "INTERRUPTED at step 1: its installer was ended, or the node went down: its exit code is not known"


def test_a_service_that_the_installer_starts_is_left_alone(tmp_path: Path) -> None:
    host = tree(tmp_path)
    _, id = opened(host, [step(host, package(tmp_path, "driver", "25.5.2", "serves"))])
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), id]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout == "READY\n"
    service = int((tmp_path / "services").read_text())
    assert host.start_of(service)
    os.kill(service, signal.SIGKILL)


def test_what_a_killed_installer_has_left_is_awaited_before_a_new_installation(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = opened(host, [step(host, package(tmp_path, "driver", "25.5.2", "dies"))])
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), id]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout == "INTERRUPTED at step 1: its installer was ended by signal 9\n"
    left = int((tmp_path / "services").read_text().split()[-1])
    for but in ("", id):
        with pytest.raises(Refused, match=f"process {left} of the interrupted installation {id} still runs"):
            earlier.refuse_second(host, journal, but=but)
    os.kill(left, signal.SIGKILL)
    wait_for(lambda: host.start_of(left) is None)
    earlier.refuse_second(host, journal)
    assert earlier.runs_to_replace(journal) == [id]


def test_the_exit_code_is_kept_on_a_disk_that_the_installer_has_filled(small_disk: Path, tmp_path: Path) -> None:
    package = tmp_path / "driver.run"
    package.write_text(f"head -c 1000000 /dev/zero >'{small_disk}/all'; exit 2\n", encoding="utf-8")
    words = ["sh", "-c", apart.SCRIPT, "sh", str(small_disk), str(tmp_path / "hands-off"), str(package), ""]
    subprocess.run(words, stderr=subprocess.DEVNULL, check=False)
    assert apart.exit_code(Tree(), str(small_disk)) == 2


def test_a_hands_off_file_that_a_person_writes_meanwhile_outlives_the_step(tmp_path: Path) -> None:
    host = tree(tmp_path)
    _, id = opened(host, [step(host, package(tmp_path, "driver", "25.5.2", "waits"))])
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), id]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        wait_for(lambda: times_run(tmp_path, "driver"))
        (tmp_path / "run/npudoctor/hands-off").write_text("by hand: card 3 is replaced\n")
        (tmp_path / "go").touch()
        child.communicate()
    assert (tmp_path / "run/npudoctor/hands-off").read_text() == "by hand: card 3 is replaced\n"


def test_a_killed_installer_is_said(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path, "waits")
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), id]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        wait_for(lambda: times_run(tmp_path, "driver"))
        folder = journal.archive(id, "step-1")
        starter = int(host.read(f"{folder}/pid").split()[0])
        for pid in host.processes_with(f"TMPDIR={host.outside(folder)}/tmp"):
            if pid != starter:
                os.kill(pid, signal.SIGKILL)
        out, _ = child.communicate()
    assert out == "INTERRUPTED at step 1: its installer was ended by signal 9\n"
    assert status(journal, id) == "stopped"


# Only on this node


def test_a_resume_on_another_node_or_boot_is_refused(tmp_path: Path) -> None:
    host = tree(tmp_path)
    steps = [step(host, package(tmp_path, "firmware", "7.8.0.7.220"))]
    journal, id = opened(host, steps, serials=("npu:0 2102", "npu:1 2103"))
    installation(host, journal, id, []).go_on()
    serials = ("npu:0 2102", "npu:1 2103")

    def refused(**other: Any) -> str:
        with pytest.raises(Refused) as why:
            again = replace(node_of(host, serials), **other)
            installation(host, Journal(host, "/var/lib/npudoctor"), id, []).resume(again)
        return why.value.reason

    assert refused() == "the node was not rebooted since"
    host.boot = NEXT_BOOT
    assert refused(cards=CARDS[:1]).endswith("its NPUs on the PCI bus differ")
    assert refused(system="5d5d").endswith("its system UUID differs")
    assert refused(serials=()).endswith("serial numbers of its NPUs cannot be read now")
    assert refused(serials=("npu:0 2102", "npu:1 9999")).endswith("serial numbers of NPUs differ")
    copy = Path(host.outside(journal.archive(id, "packages/firmware.run")))
    content = copy.read_bytes()
    copy.write_bytes(content + b"x")
    assert "is not the file of the preview" in refused()
    copy.write_bytes(content)
    (tmp_path / "etc/machine-id").write_text("0" * 31 + "1\n")
    assert refused().endswith("/etc/machine-id differs")
    assert times_run(tmp_path, "firmware") == 1


def test_a_pid_of_another_boot_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path)
    monkeypatch.setattr(host, "start_apart", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        installation(host, journal, id, []).go_on()
    own = f"{os.getpid()} {host.start_of(os.getpid())}\n"
    host.write_file(journal.archive(id, "step-1/pid"), own.encode())
    assert apart.running_pid(host, journal.archive(id, "step-1")) == os.getpid()
    host.boot = NEXT_BOOT
    line = installation(host, journal, id, []).go_on()  # without an end, if this process were followed
    assert line == "INTERRUPTED at step 1: its installer was ended, or the node went down: its exit code is not known"


def test_a_resume_is_valid_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = tree(tmp_path)
    journal, id = opened(host, [step(host, package(tmp_path, "firmware", "7.8.0.7.220"))])
    installation(host, journal, id, []).go_on()
    host.boot = NEXT_BOOT
    for hours, why in (
        (-1, "later than the clock of this node says; set the clock"),
        (validity.VALID_H + 1, "plan again"),
    ):
        later = clock.now() + datetime.timedelta(hours=hours)
        with monkeypatch.context() as patch, pytest.raises(Refused, match=why):
            patch.setattr(clock, "now", lambda later=later: later)
            installation(host, journal, id, []).resume(node_of(host))


def killed_in_a_step(folder: Path, **how: Any) -> tuple[Tree, Journal, str]:
    """npudoctor was killed while the installer of a driver ran, which then ended, and the node was rebooted."""
    host = tree(folder)
    journal, id = opened(host, [step(host, package(folder, "driver", "25.5.2"))], **how)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run.Installation, "_verify_step", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        installation(host, journal, id, []).go_on()
    assert (apart.exit_code(host, journal.archive(id, "step-1")), status(journal, id)) == (0, "running")
    host.boot = NEXT_BOOT
    return host, journal, id


def test_what_a_reboot_cut_off_is_proved_within_a_day_and_with_its_own_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, journal, id = killed_in_a_step(tmp_path / "soon")
    assert installation(host, journal, id, []).resume(node_of(host)) == run.READY
    host, journal, id = killed_in_a_step(tmp_path / "changed")
    Path(host.outside(journal.archive(id, "packages/driver.run"))).write_bytes(b"x")
    line = installation(host, journal, id, []).resume(node_of(host))
    assert line.startswith("NOT READY: INTERRUPTED at step 1: the copy of driver.run is not the file of the preview")
    host, journal, id = killed_in_a_step(tmp_path / "late")
    later = clock.now() + datetime.timedelta(hours=validity.VALID_H + 1)
    monkeypatch.setattr(clock, "now", lambda: later)
    line = installation(host, journal, id, []).resume(node_of(host))
    assert line.startswith("NOT READY: INTERRUPTED at step 1: the installation is of ")
    assert line.endswith("not of the last 24 hours; plan again")
    assert status(journal, id) == "stopped"
    earlier.refuse_second(host, journal)  # a new one may begin


def test_npus_that_answer_only_before_or_only_after_are_of_the_same_node(tmp_path: Path) -> None:
    both_npus = ("npu:0 2102", "npu:1 2103")
    for name, before, after in (("more", both_npus[:1], both_npus), ("fewer", both_npus, ("npu:0 2103",))):
        host = tree(tmp_path / name)
        steps = [step(host, package(tmp_path / name, "firmware", "7.8.0.7.220"))]
        journal, id = opened(host, steps, serials=before)
        installation(host, journal, id, []).go_on()
        host.boot = NEXT_BOOT
        assert installation(host, journal, id, []).resume(node_of(host, after)) == run.READY


def test_firmware_without_an_end_says_that_the_flashed_chips_are_not_known(tmp_path: Path) -> None:
    host, said = tree(tmp_path), list[str]()
    journal, id = opened(host, [step(host, package(tmp_path, "firmware", "7.8.0.7.220", "fails"))])
    assert installation(host, journal, id, said).go_on().startswith("INTERRUPTED at step 1: its installer ended with")
    assert any("as they were; how many chips were flashed is not known; way back: NO WAY BACK" in one for one in said)


# Beside it


def test_nothing_else_is_changed_while_an_installation_runs(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path)
    with pytest.raises(Refused, match=f"installation {id} runs, or was interrupted") as why:
        journal.refuse_during_installation()
    assert why.value.instead == "npudoctor setup --attach"
    for events in (runner.recover(host, state=journal.folder), runner.undo(host, state=journal.folder)):
        ended = list(events)[-1]
        assert isinstance(ended, runner.Ended) and ended.outcome is runner.Outcome.REFUSED
        assert "runs, or was interrupted" in ended.reason
    planned: Any = SimpleNamespace(
        fix=SimpleNamespace(id="hccl.reserve-ports"), refused=None, obstacle=None, irreversible=False, empty=False
    )
    ended = list(runner.apply(plugins.load(folder=""), host, planned, Options(), state=journal.folder))[-1]
    assert isinstance(ended, runner.Ended) and "runs, or was interrupted" in ended.reason
    for status_of in ("waiting-for-reboot", "stopped", "replaced", "done"):
        journal.mark(id, status_of)
        journal.refuse_during_installation()


def test_a_leftover_hands_off_file_is_removed_and_another_one_stays(tmp_path: Path) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path, "waits")
    off = tmp_path / "run/npudoctor/hands-off"
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), id]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        wait_for(lambda: times_run(tmp_path, "driver"))
        child.kill()
        child.wait()
    assert hands_off.reason(str(off)) == f"maintenance: NPU driver 25.5.2 is being installed (run {id}) ({off})"
    run.lift_leftover(host, journal)
    assert off.exists()
    (tmp_path / "go").touch()
    wait_until_ended(host, journal, id)
    wait_for(lambda: not off.exists())
    off.write_text(f"NPU driver 25.5.2 is being installed (run {id})\n", encoding="utf-8")
    run.lift_leftover(host, journal)
    assert not off.exists()
    for other in ("maintenance by hand", "NPU driver is being installed (run 20200101T00000000-setup.packages)"):
        off.write_text(f"{other}\n", encoding="utf-8")
        run.lift_leftover(host, journal)
        assert off.exists()


def test_an_installer_that_was_given_up_never_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path)
    late: list[tuple[Sequence[str], str]] = []
    monkeypatch.setattr(host, "start_apart", lambda argv, variable: late.append((argv, variable)))
    assert installation(host, journal, id, []).go_on() == f"INTERRUPTED at step 1: {run.NOT_STARTED}"
    monkeypatch.undo()
    host.start_apart(*late[0])
    folder = journal.archive(id, "step-1")
    wait_for(lambda: apart.exit_code(host, folder) is not None)
    assert apart.gave_up(host, folder)
    assert times_run(tmp_path, "driver") == 0


def test_a_step_is_not_begun_a_day_after_it_was_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = tree(tmp_path)
    journal, id = both(host, tmp_path)
    later = clock.now() + datetime.timedelta(hours=validity.VALID_H + 1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert "not of the last 24 hours; plan again; it was not begun" in installation(host, journal, id, []).go_on()
    assert times_run(tmp_path, "driver") == 0


def test_the_journal_has_the_vendors_logs_the_boots_and_what_is_different(tmp_path: Path) -> None:
    host = tree(tmp_path)
    (tmp_path / "var/log/ascend_seclog").mkdir(parents=True)
    (tmp_path / "var/log/ascend_seclog/ascend_install.log").write_text("[Driver] failed\n", encoding="utf-8")
    journal, id = both(host, tmp_path, "fails")
    said: list[str] = []
    installation(host, journal, id, said).go_on()
    assert "  cause: known" in said
    assert host.read(journal.archive(id, "step-1/vendor-ascend_install.log")) == "[Driver] failed\n"
    ending = journal.document(id, state.ENDING)
    assert ending is not None
    assert ending["before"]["npus"] == ending["after"]["npus"] == list(CARDS)
    assert ending["before"]["boot_id"] == ending["after"]["boot_id"] == host.boot
    assert ending["different"] == [
        "step 1, driver 25.5.2: not verified; the vendor's files and modules are as they were; way back: uninstall.sh"
    ]
    assert not (tmp_path / f"var/lib/npudoctor/runs/{id}/packages/driver.run").exists()


def test_under_systemd_it_is_a_transient_unit_without_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = tree(tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(Tree, "rooted", False)
    there = {"systemd-run", "systemd-inhibit"}
    monkeypatch.setattr(host, "which", lambda name: f"/usr/bin/{name}" if name in there else None)
    words = apart.command(host, "unit-1", "/runs/1/step-1", "/run/off", "/runs/1/p.run", ["--full", "--quiet"])
    assert words[0] == "systemd-run"
    assert {"--unit=unit-1", "--property=TimeoutStopSec=infinity", "--property=SendSIGKILL=no"} <= set(words)
    assert "--property=KillMode=process" in words and "systemd-inhibit" not in words  # it would end at SIGTERM
    assert apart.SCRIPT.replace("$", "$$") in words  # of which systemd makes $ again
    assert "systemd-inhibit --what=shutdown:sleep --mode=block" in apart.SCRIPT and words[-3].startswith("NPU driver")
    assert words[-2:] == ["--full", "--quiet"]
    for tool in sorted(there):
        there.remove(tool)
        with pytest.raises(Refused, match=f"{tool} is not installed"):
            apart.command(host, "unit-1", "/runs/1/step-1", "/run/off", "/runs/1/p.run", [])
        there.add(tool)
