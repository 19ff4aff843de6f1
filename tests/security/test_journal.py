"""The journal and its lock are their owner's: nobody else can hold up fixes, or have something undone."""

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor.cli import main
from npudoctor.cli.daemon import LOCK
from npudoctor.fixer import runner
from npudoctor.host import Refused
from npudoctor.host.live.local import LocalHost
from npudoctor.sdk import WriteFile
from tests.plain_user import ALICE, as_root, give, identity, run_as
from tests.security.test_paths import applied


@contextlib.contextmanager
def held(path: Path, uid: int) -> Iterator[None]:
    """A lock that a plain user holds."""
    if not shutil.which("flock"):
        pytest.skip("flock (util-linux) is not installed")
    argv = ["flock", "--exclusive", str(path), "cat"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", **identity(uid)
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write("locked\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "locked\n"
        yield
        holder.stdin.close()


def one_fix(folder: Path, state: Path, text: str = "x\n") -> runner.Outcome:
    return applied(WriteFile(str(folder / "file"), text), state).outcome


@as_root
def test_a_plain_user_cannot_lock_what_root_locks(open_folder: Path) -> None:
    state = open_folder / "state"
    assert one_fix(open_folder, state) is runner.Outcome.APPLIED
    assert stat.S_IMODE((state / "lock").stat().st_mode) == 0o600
    if shutil.which("flock"):
        done = run_as(ALICE, ["flock", "--nonblock", str(state / "lock"), "true"], env={**os.environ, "LC_ALL": "C"})
        assert (done.returncode != 0, "Permission denied" in done.stderr) == (True, True)


@as_root
@pytest.mark.parametrize("mode", [0o644, 0o604])
def test_a_lock_of_an_older_npudoctor_that_a_plain_user_holds_stops_nothing(open_folder: Path, mode: int) -> None:
    """Finding 9; the new lock is another file, so that what is held of the old one does not count."""
    state = open_folder / "state"
    state.mkdir(mode=0o755)
    (state / "lock").touch()
    (state / "lock").chmod(mode)
    with held(state / "lock", ALICE):
        assert one_fix(open_folder, state) is runner.Outcome.APPLIED
        assert stat.S_IMODE((state / "lock").stat().st_mode) == 0o600
        assert one_fix(open_folder, state, "y\n") is runner.Outcome.APPLIED
        assert list(runner.undo(LocalHost(), state=str(state)))[-1].outcome is runner.Outcome.UNDONE  # type: ignore[union-attr]
        assert list(runner.recover(LocalHost(), state=str(state)))[-1].outcome is runner.Outcome.NOTHING  # type: ignore[union-attr]


def test_a_lock_that_is_held_is_refused_and_names_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with LocalHost().lock(path), pytest.raises(Refused, match=f"another fix is under way: process {os.getpid()}"):
        LocalHost().lock(path).__enter__()
    with LocalHost().lock(path):
        pass


@as_root
@pytest.mark.parametrize("command", [["undo"], ["fix", "--recover"], ["history"]], ids=" ".join)
def test_the_journal_of_another_user_is_not_believed(
    open_folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    state = open_folder / "state"
    assert one_fix(open_folder, state) is runner.Outcome.APPLIED
    give(state, ALICE)
    assert main([*command, "--state", str(state), "--environment", "process"]) == 7
    assert "belongs to another user" in capsys.readouterr().err
    assert (open_folder / "file").read_text(encoding="utf-8") == "x\n"


@as_root
@pytest.mark.parametrize("whose", ["the link", "the folder"])
def test_a_link_in_place_of_the_journal_is_not_believed(open_folder: Path, whose: str) -> None:
    state, real = open_folder / "state", open_folder / "real"
    assert one_fix(open_folder, real) is runner.Outcome.APPLIED
    state.symlink_to(real)
    os.chown(state if whose == "the link" else real / "runs", ALICE, ALICE, follow_symlinks=False)
    last = list(runner.undo(LocalHost(), state=str(state)))[-1]
    assert isinstance(last, runner.Ended)
    assert (last.outcome, "another user" in last.reason) == (runner.Outcome.REFUSED, True), last.reason
    assert one_fix(open_folder, state, "y\n") is runner.Outcome.REFUSED
    assert (open_folder / "file").read_text(encoding="utf-8") == "x\n"


@as_root
def test_a_plain_user_is_told_that_the_journal_of_root_is_not_to_be_seen(open_folder: Path) -> None:
    state = open_folder / "state"
    assert one_fix(open_folder, state) is runner.Outcome.APPLIED
    before = os.geteuid(), os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(ALICE)
    os.seteuid(ALICE)
    try:
        with pytest.raises(Refused, match="only its owner can read the journal"):
            runner.history(LocalHost(), state=str(state))
        last = list(runner.undo(LocalHost(), state=str(state)))[-1]
    finally:
        os.seteuid(before[0])
        os.setegid(before[1])
        os.setgroups(before[2])
    assert isinstance(last, runner.Ended)
    assert (last.outcome, last.instead) == (runner.Outcome.REFUSED, "sudo")


@as_root
def test_a_daemon_does_not_lock_a_file_of_another_user(open_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = open_folder / "run"
    folder.mkdir()
    (folder / LOCK).touch(0o644)
    os.chown(folder / LOCK, ALICE, ALICE)
    words = ["--socket", str(folder / "s"), "--state-dir", str(folder), "--simulate", "seed-910b1"]
    assert main(["daemon", *words]) == 2
    assert "belongs to another user" in capsys.readouterr().err
