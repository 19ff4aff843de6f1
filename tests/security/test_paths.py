"""What root writes, makes and removes cannot be led elsewhere by another user, not even between two system calls."""

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli import main
from npudoctor.fixer import plan, runner
from npudoctor.host import Refused
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.safe_files import append, make_folders, open_replacement
from npudoctor.host.recording import bundle_writer
from npudoctor.plugins import Catalog
from npudoctor.sdk import Fix, MakeFolder, Options, RemoveFile, RemoveFolder, Step, WriteFile, fix
from npudoctor.steps.system import RemoveLogs
from tests.plain_user import ALICE, as_root, give

FLIPPING = f"""
import os, sys
link, target, how = sys.argv[1:]
os.setgroups([]); os.setresgid(*[{ALICE}] * 3); os.setresuid(*[{ALICE}] * 3)
print("ready", flush=True)
while True:
    for act in ((os.symlink, target, link), (os.unlink, link), *(
        ((os.mkdir, link), (os.rmdir, link)) if how == "folder" else ()
    )):
        try:
            act[0](*act[1:])
        except OSError:
            pass
"""
TRIES = [100, pytest.param(1000, marks=pytest.mark.slow)]


@contextlib.contextmanager
def flipping(link: Path, target: Path, how: str) -> Iterator[None]:
    """Another user makes and removes a link as fast as it goes."""
    argv = [sys.executable, "-c", FLIPPING, str(link), str(target), how]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, encoding="utf-8") as attack:
        try:
            assert attack.stdout is not None
            assert attack.stdout.readline() == "ready\n"
            yield
        finally:
            attack.kill()


@pytest.fixture
def shared(open_folder: Path) -> Path:
    """A folder like /tmp."""
    folder = open_folder / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def victim(open_folder: Path) -> Path:
    """A folder of root's, in which nothing may appear."""
    folder = open_folder / "cron.d"
    folder.mkdir(mode=0o755)
    return folder


def applied(step: Step, state: Path) -> runner.Ended:
    """A fix of one step as a person would apply it."""

    @fix("test.one", resolves=())
    def one() -> Any:
        """Take one step."""
        yield step

    assert isinstance(one, Fix)
    catalog, host = Catalog(checks={}, probes={}, fixes={"test.one": one}), LocalHost()
    made = plan.make(catalog, host, plan.Request("test.one", {}), Options())
    last = list(runner.apply(catalog, host, made, Options(), state=str(state), irreversible=True))[-1]
    assert isinstance(last, runner.Ended)
    return last


@as_root
@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("planned", [True, False], ids=["as planned", "though the plan saw nothing"])
def test_a_fix_is_never_written_where_another_user_leads_it(
    shared: Path, victim: Path, tries: int, planned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 8: the link comes and goes while the fix is planned and applied."""
    if not planned:
        monkeypatch.setattr(WriteFile, "obstacle", lambda *_: None)
    path, outcomes = shared / "env.sh", set()
    with flipping(path, victim / "pwn", "file"):
        for _ in range(tries):
            outcomes.add(applied(WriteFile(str(path), "x\n"), shared.parent / "state").outcome)
            assert not os.listdir(victim)
            if path.is_file() and not path.is_symlink():
                path.unlink()
    assert planned is (outcomes == {runner.Outcome.REFUSED})


@as_root
@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("how", ["file", "folder"])
def test_no_change_follows_a_link_that_comes_and_goes(shared: Path, victim: Path, tries: int, how: str) -> None:
    (victim.parent / "precious").mkdir()
    (victim.parent / "precious" / "env.sh").write_text("precious\n", encoding="utf-8")
    host, link = LocalHost(), shared / "env.sh"
    path = str(link / "env.sh" if how == "folder" else link)
    target = victim.parent / "precious" if how == "folder" else victim.parent / "precious" / "env.sh"
    changes: tuple[Callable[[], None], ...] = (
        lambda: host.write_file(path, b"x"),
        lambda: host.sweep(path),
        lambda: host.remove(path, follow=True),
        lambda: host.make_folder(f"{path}.d"),
        lambda: host.remove_folder(f"{path}.d"),
    )
    with flipping(link, target, how):
        for _ in range(tries):
            for change in changes:
                with contextlib.suppress(Refused, OSError):
                    change()
    assert [one.name for one in (victim.parent / "precious").iterdir()] == ["env.sh"]
    assert (victim.parent / "precious" / "env.sh").read_text(encoding="utf-8") == "precious\n"


def standing(shared: Path, target: Path) -> Path:
    link = shared / "link"
    link.symlink_to(target)
    os.chown(link, ALICE, ALICE, follow_symlinks=False)
    return link


CHANGES: dict[str, Callable[[LocalHost, str], None]] = {
    "write": lambda host, path: host.write_file(path, b"x"),
    "remove": lambda host, path: host.remove(path),
    "remove what a link leads to": lambda host, path: host.remove(path, follow=True),
    "make a folder": lambda host, path: host.make_folder(f"{path}/new"),
    "remove a folder": lambda host, path: host.remove_folder(path),
    "sweep": lambda host, path: host.sweep(path),
    "lock": lambda host, path: host.lock(path).__enter__(),
}


@as_root
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("below", [False, True], ids=["the last part", "a folder above"])
def test_every_change_through_a_standing_link_of_another_user_is_refused(
    shared: Path, victim: Path, change: Callable[[LocalHost, str], None], below: bool
) -> None:
    (victim / "inside").mkdir()
    link = standing(shared, victim if below else victim / "inside")
    before = sorted(victim.rglob("*"))
    with pytest.raises(Refused, match="belongs to another user"):
        change(LocalHost(), str(link / "inside" if below else link))
    assert sorted(victim.rglob("*")) == before
    assert link.is_symlink()


STEPS: dict[str, Callable[[str], Step]] = {
    "write": lambda path: WriteFile(path, "x\n"),
    "remove": RemoveFile,
    "make a folder": lambda path: MakeFolder(f"{path}/new"),
    "remove a folder": lambda path: RemoveFolder(f"{path}/empty"),
    "remove logs": lambda path: RemoveLogs((f"{path}/log",)),
}


@as_root
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("way", ["link", "folder"])
def test_a_fix_on_a_path_of_another_user_is_refused(
    shared: Path, victim: Path, step: Callable[[str], Step], way: str
) -> None:
    (victim / "log").write_text("", encoding="utf-8")
    (victim / "empty").mkdir()
    path = standing(shared, victim) if way == "link" else give(victim, ALICE)
    last = applied(step(f"{path}" if "log" not in repr(step) else str(path)), shared.parent / "state")
    assert last.outcome is runner.Outcome.REFUSED
    assert sorted(one.name for one in victim.iterdir()) == ["empty", "log"]


@as_root
def test_root_is_refused_a_new_file_where_everybody_can_write(shared: Path) -> None:
    for path in (shared / "env.sh", shared / "new" / "env.sh"):
        last = applied(WriteFile(str(path), "x\n"), shared.parent / "state")
        assert (last.outcome, "is writable by all users" in last.reason) == (runner.Outcome.REFUSED, True)
    own = shared / "roots"
    own.write_text("old\n", encoding="utf-8")
    assert applied(WriteFile(str(own), "new\n"), shared.parent / "state").outcome is runner.Outcome.APPLIED


def test_links_that_are_trusted_are_followed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to("run")
    (tmp_path / "run" / "file").symlink_to("../run/real")
    host = LocalHost()
    host.write_file(f"{tmp_path}/var/file", b"x")
    assert (tmp_path / "run" / "real").read_bytes() == b"x"
    assert (tmp_path / "run" / "file").is_symlink()
    host.remove(f"{tmp_path}/var/file", follow=True)
    assert not (tmp_path / "run" / "real").exists()
    host.remove(f"{tmp_path}/var/file")
    assert not (tmp_path / "run" / "file").is_symlink()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        host.write_file(f"{tmp_path}/loop", b"x")


def test_links_below_another_root_stay_below_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("real", "usr"):
        (root / name).mkdir(parents=True)
    (root / "etc").symlink_to("/real")
    (root / "up").symlink_to("../../../../real")
    host = LocalHost(root=str(root))
    host.write_file("/etc/one", b"x")
    host.write_file("/up/two", b"x")
    host.write_file("/../real/three", b"x")
    assert sorted(one.name for one in (root / "real").iterdir()) == ["one", "three", "two"]


# Files that are no fix: reports, recordings, metrics, settings


@as_root
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("ours", [True, False])
def test_an_output_is_not_written_through_a_link_of_another_user(
    shared: Path, victim: Path, replace: bool, ours: bool
) -> None:
    link = standing(shared, victim / "pwn")
    folder = shared / "folder"
    folder.symlink_to(victim)
    os.chown(folder, ALICE, ALICE, follow_symlinks=False)
    for path in (link, folder / "pwn"):
        with (
            pytest.raises(Refused, match="symbolic link"),
            open_replacement(str(path), replace=replace, ours=ours) as file,
        ):
            file.write(b"x")
    assert not os.listdir(victim)


@as_root
def test_a_file_that_nobody_named_is_not_written_in_another_users_folder(open_folder: Path) -> None:
    home = open_folder / "home"
    home.mkdir()
    give(home, ALICE)
    with pytest.raises(Refused), open_replacement(str(home / "tui.json"), ours=True) as file:
        file.write(b"x")
    with pytest.raises(Refused):
        make_folders(str(home / "a" / "b"))
    with pytest.raises(Refused):
        append(str(home / "tui.log"), "x")
    assert not os.listdir(home)


@as_root
@pytest.mark.parametrize("option", ["--metrics-file", "record"])
def test_metrics_and_recordings_do_not_follow_a_link_of_another_user(
    shared: Path, victim: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = shared / ("node.tar.gz" if option == "record" else "node.prom")
    (victim / "pwn").write_text("precious\n", encoding="utf-8")
    link.symlink_to(victim / "pwn")
    os.chown(link, ALICE, ALICE, follow_symlinks=False)
    simulated = ("--simulate", "seed-910b1")
    words = ["record", str(link), "--force"] if option == "record" else ["check", "npu.present", option, str(link)]
    assert main([*words, *simulated]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert (victim / "pwn").read_text(encoding="utf-8") == "precious\n"


@as_root
@pytest.mark.parametrize("tries", TRIES)
def test_no_output_follows_a_link_that_comes_and_goes(shared: Path, victim: Path, tries: int) -> None:
    path = shared / "report.json"
    with flipping(path, victim / "pwn", "file"):
        for number in range(tries):
            with contextlib.suppress(Refused, OSError), open_replacement(str(path), replace=bool(number % 2)) as file:
                file.write(b"x")
            assert not os.listdir(victim)
            if path.is_file() and not path.is_symlink():
                path.unlink()


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        kept = tmp_path / "kept"
        kept.write_text("old\n", encoding="utf-8")
        kept.chmod(0o600)
        state = tmp_path / "state"
        assert applied(WriteFile(str(kept), "new\n"), state).outcome is runner.Outcome.APPLIED
        assert applied(WriteFile(str(tmp_path / "new"), "new\n"), state).outcome is runner.Outcome.APPLIED
        assert main(["record", str(tmp_path / "node.tar.gz"), "--simulate", "seed-910b1"]) == 0
        assert main(["record", str(tmp_path / "node"), "--simulate", "seed-910b1"]) == 0
    finally:
        os.umask(before)
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert modes == {"kept": 0o600, "new": 0o644, "state": 0o755, "node.tar.gz": 0o600, "node": 0o700}
    assert stat.S_IMODE((state / "runs").stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "lock").stat().st_mode) == 0o600
    for run in (state / "runs").iterdir():
        assert stat.S_IMODE(run.stat().st_mode) == 0o700
        assert {stat.S_IMODE(one.stat().st_mode) for one in run.iterdir()} == {0o600}


@as_root
def test_a_recording_is_not_written_into_a_folder_that_replaced_the_new_one(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers, victim = open_folder / "hers", open_folder / "victim"
    hers.mkdir()
    victim.mkdir()
    give(hers, ALICE)
    make = tempfile.mkdtemp

    def replaced(**options: Any) -> str:
        made = str(make(**options))
        os.rename(made, f"{made}.away")
        os.symlink(victim, made)
        return made

    monkeypatch.setattr(tempfile, "mkdtemp", replaced)
    with pytest.raises((Refused, OSError)):
        bundle_writer.write_folder({"root/etc/cron.d/x": b"content"}, str(hers / "recording"))
    assert not list(victim.iterdir())
