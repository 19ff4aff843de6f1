"""Undo of an installation: the way back of its plan and nothing else, and what cannot be undone is said."""

import argparse
from pathlib import Path

import pytest

from npudoctor.cli import setup_undo
from npudoctor.host import Refused
from npudoctor.installing import conditions, run, undoing
from npudoctor.records import replace
from tests.plain_user import as_root

from .node import package, times_run
from .test_command import Given

INFO = "usr/local/Ascend/driver/version.info"


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "POLL_S", 0.02)


def undo(given: Given, **how: object) -> int:
    asked = {
        "run_id": "",
        "dry_run": False,
        "unmanaged": True,
        "expect_host": given.host.about.hostname,
        "state": "/var/lib/npudoctor",
        **how,
    }
    args = argparse.Namespace(**asked)
    args.run_id = args.run_id or next(iter(sorted((given.folder / "var/lib/npudoctor/runs").iterdir()))).name
    assert setup_undo.is_installation(given.host, args)
    return setup_undo.run(args)


def driver_alone(given: Given, *, upgrade: str = "") -> None:
    """The plan is for the driver alone, over the version that `upgrade` names and that the node has."""
    one = given.plan.steps[0]
    if upgrade:
        package(given.folder, "driver", upgrade)
        folder = given.folder / "usr/local/Ascend/driver/tools"
        folder.mkdir(parents=True)
        (folder / "upgrade-tool").touch()
        (given.folder / INFO).write_text(f"Version={upgrade}\n", encoding="utf-8")
        command = one.command.replace("--full", "--upgrade").replace(" --install-for-all", "")
        one = replace(one, now=upgrade, way_back=f"driver-{upgrade}.run in /repo", command=command)
    given.plan = replace(given.plan, steps=(one,))


def uninstaller(folder: Path) -> None:
    path = folder / undoing.UNINSTALLER.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(f"echo removed $* && rm -rf '{folder}/usr/local/Ascend/driver'\n", encoding="utf-8")


def test_an_upgrade_is_undone_by_the_kept_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    driver_alone(given, upgrade="25.3.1")
    assert given.install() == 0
    assert (tmp_path / INFO).read_text() == "Version=25.5.2\n"
    assert undo(given, dry_run=True) == 0
    assert "NPU driver 25.5.2 → 25.3.1: bash /repo/driver-25.3.1.run" in capsys.readouterr().out
    assert (tmp_path / INFO).read_text() == "Version=25.5.2\n"
    with pytest.raises(Refused, match="not another"):
        undo(given, expect_host="another")
    assert given.statuses() == ["done"]
    assert undo(given) == 0
    assert (tmp_path / INFO).read_text() == "Version=25.3.1\n"
    assert (tmp_path / "ran-driver").read_text() == "--upgrade\n--upgrade\n"
    assert given.statuses() == ["replaced", "done"]
    assert capsys.readouterr().out.endswith("READY\n")


def test_a_first_driver_is_removed_by_its_own_uninstaller_and_firmware_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    given.install()
    uninstaller(tmp_path)
    assert given.statuses() == ["waiting-for-reboot"]
    assert undo(given) == 1
    out = capsys.readouterr().out
    assert "NPU firmware 7.8.0.7.220 stays: it is flashed into the chips, and has no way back\n" in out
    assert "  | removed --quiet\n" in out
    assert out.endswith(f"{run.REMOVED}\n")
    assert not (tmp_path / "usr/local/Ascend/driver").exists()
    assert (times_run(tmp_path, "firmware"), given.statuses()) == (1, ["replaced", "done"])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("gone", "the way back to 25.3.1, is not there any more"),
        ("changed", "the way back to 25.3.1, has changed since"),
        ("none", "the package of 25.3.1 was not in the folder (NO WAY BACK)"),
    ],
)
def test_without_the_kept_package_it_is_said_and_nothing_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str, said: str
) -> None:
    given = Given(tmp_path, monkeypatch)
    driver_alone(given, upgrade="25.3.1")
    if fault == "none":
        given.plan = replace(given.plan, steps=(replace(given.plan.steps[0], way_back="NO WAY BACK"),))
    given.install()
    old = tmp_path / "repo/driver-25.3.1.run"
    if fault == "gone":
        old.unlink()
    elif fault == "changed":
        old.write_bytes(old.read_bytes() + b"x")
    with pytest.raises(Refused, match="nothing of it can be undone"):
        undo(given)
    assert f"stays: {'' if fault == 'none' else '/repo/driver-25.3.1.run, '}{said}\n" in capsys.readouterr().out
    assert given.statuses() == ["done"]


def test_a_failed_upgrade_that_left_no_driver_is_undone_by_a_full_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(tmp_path, monkeypatch, "fails")
    driver_alone(given, upgrade="25.3.1")
    assert given.install() == 6
    assert not (tmp_path / "usr/local/Ascend/driver").exists()
    assert undo(given) == 0
    assert (tmp_path / INFO).read_text() == "Version=25.3.1\n"
    assert (tmp_path / "ran-driver").read_text() == "--upgrade\n--full\n"


def test_what_did_nothing_does_not_take_the_way_back_of_the_run_that_it_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(tmp_path, monkeypatch, "fails")
    driver_alone(given, upgrade="25.3.1")
    assert given.install() == 6
    with monkeypatch.context() as held:
        held.setattr(run.Installation, "_let_go", lambda self: conditions.refuse_holders(["python3 pid 9"]))
        assert given.install() == 6
    assert given.statuses() == ["stopped", "stopped"]
    assert undo(given) == 0
    assert given.statuses() == ["replaced", "stopped", "done"]
    assert (tmp_path / INFO).read_text() == "Version=25.3.1\n"
    with pytest.raises(Refused, match="nothing of it can be undone"):
        undo(given)


def test_an_undo_that_was_not_begun_leaves_what_waits_for_the_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(tmp_path, monkeypatch)
    assert given.install() == 1
    uninstaller(tmp_path)
    with monkeypatch.context() as held:
        held.setattr(run.Installation, "_let_go", lambda self: conditions.refuse_holders(["python3 pid 9"]))
        assert undo(given) == 6
    assert given.statuses() == ["waiting-for-reboot", "stopped"]
    given.host.boot = "33333333-3333-3333-3333-333333333333"
    assert given.go_on(resume=True) == 0
    assert given.statuses() == ["done", "stopped"]


def test_what_was_installed_since_is_undone_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(tmp_path, monkeypatch)
    driver_alone(given, upgrade="25.3.1")
    given.install()
    (tmp_path / INFO).write_text("Version=26.0.1\n", encoding="utf-8")
    with pytest.raises(Refused, match=r"is 26\.0\.1 now, not 25\.5\.2: undo what was installed since first"):
        undo(given)


def test_a_step_that_was_not_begun_is_not_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(tmp_path, monkeypatch)
    monkeypatch.setattr(run.Installation, "go_on", lambda self: self._stop_at(1, "not begun"))
    assert given.install() == 6
    with pytest.raises(Refused, match="nothing of it can be undone"):
        undo(given)


def test_a_kept_package_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="driver-1"):
        undoing.digest(Given(tmp_path, monkeypatch).host, "/repo/driver-1.run")


@as_root
def test_an_uninstaller_that_another_user_can_change_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    driver_alone(given)
    given.install()
    uninstaller(tmp_path)
    monkeypatch.setattr(undoing, "not_roots", lambda *_: "mallory can change it")
    with pytest.raises(Refused, match="mallory can change it"):
        undo(given)
    assert (tmp_path / INFO).exists()
    capsys.readouterr()
