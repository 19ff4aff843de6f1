"""`npudoctor self uninstall`: what it shows, removes and keeps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from npudoctor.cli import main, self_uninstall
from npudoctor.host.live.local import LocalHost


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder that stands for / of a node on which a daemon and a smoke run have been."""
    user = "root:x:0:0::/root:/bin/sh\nme:x:4242:4242::/home/me:/bin/sh\n"
    own = f"test:x:{os.geteuid()}:0::/home/me:/bin/sh\n" if os.geteuid() not in (0, 4242) else ""
    for path, text in {
        "etc/passwd": user + own,
        "etc/systemd/system/npudoctor.service": "[Unit]\n",
        "etc/npudoctor/config.toml": "",
        "var/lib/npudoctor/history.db": "rows",
        "var/lib/npudoctor/runs/one/run.json": "{}",
        "var/cache/npudoctor/aa/bin/npudoctor": "#!/bin/sh\n",
        "root/.local/state/npudoctor/smoke-history.jsonl": "{}\n",
        "home/me/.local/state/npudoctor/smoke-history.jsonl": "{}\n",
        "home/me/.cache/npudoctor/aa/bin/npudoctor": "#!/bin/sh\n",
        "srv/precious": "stays",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def test_root_removes_units_state_and_what_was_unpacked_and_keeps_the_configuration(node: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("requires root: an ordinary user has no units")
    kept = self_uninstall.find_kept(LocalHost(root=str(node)))
    assert kept.units == ("/etc/systemd/system/npudoctor.service",)
    assert kept.folders == ("/var/lib/npudoctor", "/root/.local/state/npudoctor", "/var/cache/npudoctor")
    assert kept.configurations == ("/etc/npudoctor",)
    assert kept.applied == ()


class Named(LocalHost):
    """With the variables of a sudo that keeps those of its caller."""

    variables: Mapping[str, str] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        return self.variables


def test_reports_of_fleet_runs_are_shown_and_stay(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where HOME, under sudo, is that of somebody else, whose state is not removed."""
    (node / "home/you/.local/state/npudoctor").mkdir(parents=True)
    monkeypatch.setattr(Named, "variables", {"HOME": "/home/you", "XDG_STATE_HOME": "/data/state"})
    host = Named(root=str(node))
    place = "/root/.local/state/npudoctor" if os.geteuid() == 0 else "/data/state/npudoctor"
    runs = [f"{place}/fleet", "/data/state/npudoctor/fleet", "/home/you/.local/state/npudoctor/fleet"]
    for folder in runs:
        (node / folder[1:] / "20261122T1").mkdir(parents=True, exist_ok=True)
        (node / folder[1:] / "20261122T1" / "fleet.json").write_text("{}", encoding="utf-8")
    (node / "home/you/.local/state/npudoctor/smoke-history.jsonl").write_text("{}", encoding="utf-8")
    (node / place[1:] / "smoke-history.jsonl").write_text("{}", encoding="utf-8")
    kept = self_uninstall.find_kept(host)
    assert set(kept.fleets) == set(runs)
    assert kept.others == ("/home/you/.local/state/npudoctor",)
    assert place in kept.folders and "/data/state/npudoctor" not in kept.others
    assert all(f"  keep    {folder} (reports of fleet runs)" in self_uninstall.describe_kept(kept) for folder in runs)
    for folder in kept.folders:
        self_uninstall.remove_folder(host, folder, keep=kept.fleets)
    assert all((node / folder[1:] / "20261122T1" / "fleet.json").exists() for folder in runs)
    assert not (node / place[1:] / "smoke-history.jsonl").exists()
    assert place not in self_uninstall.find_kept(host).folders


def test_links_in_a_removed_folder_are_not_followed(node: Path) -> None:
    folder = node / "home/me/.local/state/npudoctor"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "file").symlink_to("/srv/precious")
    (folder / "deep" / "folder").symlink_to("/srv")
    self_uninstall.remove_folder(LocalHost(root=str(node)), "/home/me/.local/state/npudoctor")
    assert not folder.exists()
    assert (node / "srv" / "precious").read_text(encoding="utf-8") == "stays"


def test_what_fixes_changed_is_shown_as_kept() -> None:
    runs = [
        {"status": "applied", "fix": "hccl.reserve-ports"},
        {"status": "undone", "fix": "env.profile"},
        {"status": "applied", "fix": "service.install"},
    ]
    assert [self_uninstall._in_force(run) for run in runs] == [True, False, False]
    kept = self_uninstall.Kept(folders=("/var/lib/npudoctor",), applied=("20261121T1  Reserve ports",))
    assert self_uninstall.describe_kept(kept) == (
        "  remove  /var/lib/npudoctor\n"
        "  keep    20261121T1  Reserve ports (a change; undo it before: npudoctor undo)\n"
    )  # fmt: skip


def test_without_a_terminal_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "state" / "npudoctor"
    folder.mkdir(parents=True)
    monkeypatch.setattr(
        self_uninstall, "find_kept", lambda host: self_uninstall.Kept(folders=(str(folder),))
    )  # else it would be about the state of whoever runs the tests
    monkeypatch.setattr("sys.stdin", None)
    assert main(["self", "uninstall"]) == 7
    assert folder.is_dir()
    assert "--yes" in capsys.readouterr().err
    assert main(["self", "uninstall", "--dry-run"]) == 0
    assert folder.is_dir()
    assert str(folder) in capsys.readouterr().out
    assert main(["self", "uninstall", "--yes"]) == 0
    assert not folder.exists()
