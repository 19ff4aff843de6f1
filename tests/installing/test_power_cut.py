"""npudoctor is killed before each record of the journal, and the node starts anew: the journal tells the truth, and a
resume ends READY or NOT READY."""

import argparse
import datetime
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor import clock
from npudoctor.cli import setup_install, setup_node
from npudoctor.fixer.journal import Journal
from npudoctor.host import Refused
from npudoctor.installing import conditions, run, validity
from npudoctor.packages.plan import Plan
from npudoctor.records import replace
from tests.plain_user import as_root

from .node import installation, node_of, times_run, tree
from .test_command import Given
from .test_run import NEXT_BOOT, ROOT, both, operations_of_a_whole_run, status, wait_until_ended

CUT = """
import os, signal, sys
from pathlib import Path
from tests.installing.node import installation, tree
from npudoctor.fixer.journal import Journal
from npudoctor.installing import conditions, run, validity
run.POLL_S = 0.02
host = tree(Path(sys.argv[1]))
host.cut_at, host.problem = int(sys.argv[3]), lambda: os.kill(os.getpid(), signal.SIGKILL)
installation(host, Journal(host, "/var/lib/npudoctor"), sys.argv[2], []).go_on()
"""


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "POLL_S", 0.02)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_before_any_record_a_resume_ends_ready_or_not(tmp_path: Path, every: int) -> None:
    total = operations_of_a_whole_run(tmp_path / "whole")
    endings = set()
    for number in (*range(1, total, every), total):
        folder = tmp_path / str(number)
        host = tree(folder)
        journal, id = both(host, folder)
        done = subprocess.run([sys.executable, "-c", CUT, str(folder), id, str(number)], cwd=ROOT, check=False)
        assert done.returncode == -signal.SIGKILL
        wait_until_ended(host, journal, id)
        before = status(journal, id)
        assert before in ("running", "waiting-for-reboot")
        with pytest.raises(Refused, match=r"does not wait|was not rebooted"):
            installation(host, journal, id, []).resume(node_of(host))
        host.boot = NEXT_BOOT
        line = installation(host, journal, id, []).resume(node_of(host))
        endings.add(line.partition(":")[0])
        whole = [
            (folder / f"usr/local/Ascend/{kind}/version.info").exists() and times_run(folder, kind) == 1
            for kind in ("driver", "firmware")
        ]
        if line == run.READY:
            assert all(whole) and status(journal, id) == "done"
        else:
            assert line.startswith("NOT READY: INTERRUPTED at step ") and status(journal, id) == "stopped"
    assert endings == {"READY", "NOT READY"}


def test_a_node_that_went_down_in_a_step_is_not_ready_and_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch, "waits")
    monkeypatch.setattr(setup_install, "_follow_log", lambda *_: 6)
    given.install()
    monkeypatch.undo()
    given = Given(tmp_path, monkeypatch, "waits")
    given.host.boot = NEXT_BOOT
    assert given.go_on(resume=True) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("NOT READY: INTERRUPTED at step 1: the node was rebooted before step 1")
    assert (times_run(tmp_path, "driver"), given.statuses()) == (0, ["stopped"])
    with pytest.raises(Refused, match="no installation goes on, and none waits"):
        given.go_on(resume=True)


def first_boot(given: Given) -> int:
    """What `setup --yes --resume` of the first-boot service does before it sets the node up."""
    where = dict.fromkeys(("simulate", "replay", "root"))
    args = argparse.Namespace(attach=False, resume=True, yes=True, state="/var/lib/npudoctor", **where)
    return setup_install.verify_waiting(args)


@as_root
def test_the_first_boot_goes_on_with_what_waits_and_with_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    assert first_boot(given) == 0
    done = tmp_path / "var/lib/npudoctor/setup.done"
    done.parent.mkdir()
    done.touch()
    enabled = tmp_path / run.AT_BOOT.lstrip("/")
    enabled.parent.mkdir(parents=True)
    enabled.touch()
    assert given.install() == 1
    assert not done.exists()
    out = capsys.readouterr().out
    assert "setup --resume   # after it, within 24 hours, which npudoctor-setup.service does at the boot\n" in out
    assert first_boot(given) == 1
    assert capsys.readouterr().out == "NOT READY: the node was not rebooted since\n"
    given.host.boot = NEXT_BOOT
    assert first_boot(given) == 0
    assert capsys.readouterr().out.endswith("READY\n")
    assert given.statuses() == ["done"]
    assert first_boot(given) == 0
    assert capsys.readouterr().out == ""


@as_root
def test_the_first_boot_of_a_clone_goes_on_with_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    given.install()
    given.host.boot = NEXT_BOOT
    (tmp_path / "etc/machine-id").write_text("0" * 31 + "1\n")
    capsys.readouterr()
    assert first_boot(given) == 0
    assert capsys.readouterr().out == ""
    assert given.statuses() == ["waiting-for-reboot"]


@as_root
def test_a_first_boot_that_is_not_ready_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    given.install()
    given.host.boot = NEXT_BOOT
    given.wrong.append("NPU 1 is missing (npu.count)")
    assert first_boot(given) == 1
    assert capsys.readouterr().out.endswith("NOT READY: NPU 1 is missing (npu.count)\n")
    assert Journal(given.host, "/var/lib/npudoctor").runs()


@as_root
def test_the_first_boot_sets_no_node_up_that_an_interrupted_step_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch, "fails")
    assert given.install() == 6
    capsys.readouterr()
    given.host.boot = NEXT_BOOT
    assert first_boot(given) == 1
    out = capsys.readouterr().out
    assert out.startswith("NOT READY: run ") and "INTERRUPTED at step 1: its installer ended with exit code 1" in out
    assert given.statuses() == ["stopped"]


@as_root
def test_one_that_was_not_begun_does_not_take_the_place_of_what_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch, "fails")
    assert given.install() == 6
    given = Given(tmp_path, monkeypatch)
    with monkeypatch.context() as held:
        held.setattr(run.Installation, "_let_go", lambda self: conditions.refuse_holders(["python3 pid 9"]))
        assert given.install() == 6
    assert capsys.readouterr().out.endswith(
        "NPUs are held by python3 pid 9; stop these by their owner first; it was not begun\n"
    )
    assert given.statuses() == ["stopped", "stopped"]
    given.host.boot = NEXT_BOOT
    assert first_boot(given) == 1
    assert "INTERRUPTED at step 1: its installer ended with exit code 1" in capsys.readouterr().out
    assert given.install() == 1
    assert given.statuses() == ["replaced", "replaced", "waiting-for-reboot"]


@as_root
def test_the_first_boot_verifies_again_what_was_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    given.install()
    given.host.boot = NEXT_BOOT
    given.wrong.append("NPU 1 is missing (npu.count)")
    assert (first_boot(given), first_boot(given)) == (1, 1)
    given.wrong.clear()
    assert first_boot(given) == 0
    assert capsys.readouterr().out.endswith("READY\n")
    assert given.statuses() == ["done"]


@as_root
def test_the_first_boot_goes_on_where_a_stopped_installation_has_changed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    frees = iter((None, Refused("NPUs are held by python3 pid 9")))

    def free() -> None:
        if why := next(frees):
            raise why

    monkeypatch.setattr(setup_node, "caller_of", lambda *_: replace(given._caller(), free=free))
    assert given.install() == 6
    assert "it was not begun\n" in capsys.readouterr().out
    assert given.statuses() == ["stopped"]
    given.host.boot = NEXT_BOOT
    assert first_boot(given) == 0
    assert capsys.readouterr().out == ""


def test_an_installation_that_is_too_old_to_be_resumed_gives_way_to_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(tmp_path, monkeypatch)
    assert given.install() == 1
    later = clock.now() + datetime.timedelta(hours=validity.VALID_H - 1)
    monkeypatch.setattr(clock, "now", lambda: later)
    with pytest.raises(Refused, match="waits for a reboot"):
        given.install()
    later += datetime.timedelta(hours=2)
    given.host.boot = NEXT_BOOT
    with pytest.raises(Refused, match="not of the last 24 hours; plan again"):
        given.go_on(resume=True)
    assert given.install() == 1
    assert given.statuses() == ["replaced", "waiting-for-reboot"]


@as_root
@pytest.mark.parametrize("does", ["installs", "fails"])
def test_where_all_is_installed_by_now_the_same_words_verify_it_after_a_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], does: str
) -> None:
    given = Given(tmp_path, monkeypatch, does)
    assert given.install() == (1 if does == "installs" else 6)  # then a day goes by, or a person corrects it
    later = clock.now() + datetime.timedelta(hours=validity.VALID_H + 1)
    monkeypatch.setattr(clock, "now", lambda: later)
    given.plan = Plan(steps=())
    with pytest.raises(Refused, match="was interrupted on this boot: reboot the node"):
        given.install()
    given.host.boot = NEXT_BOOT
    assert first_boot(given) == 1
    with pytest.raises(Refused, match="not another"):
        given.install(expect_host="another")
    given.wrong.append("firmware is 7.1, not 7.8.0.7.220")
    assert given.install() == 1
    assert capsys.readouterr().out.endswith("NOT READY: firmware is 7.1, not 7.8.0.7.220\n")
    given.wrong.clear()
    assert given.install() == 0
    assert capsys.readouterr().out.endswith("READY\n")
    assert (given.statuses(), first_boot(given)) == (["done"], 0)
    with pytest.raises(Refused, match="nothing is to be installed"):
        given.install()
    assert times_run(tmp_path, "driver") == 1
