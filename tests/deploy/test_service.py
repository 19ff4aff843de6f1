"""`npudoctor service`: the daemon's unit is installed, removed and taken back; systemctl is one that keeps its word."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.cli import main
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host import Completed, FileStat, User
from npudoctor.host.live.local import LocalHost
from npudoctor.plugins import Catalog
from npudoctor.records import replace
from npudoctor.sdk import Options

SYSTEMCTL = """#!/bin/sh
# Units below $ROOT/etc/systemd/system; what is enabled and active are files below $ROOT/state.
echo "$*" >>"$ROOT/log"
case $1 in
  is-enabled) [ -e "$ROOT/state/enabled.$2" ] && echo enabled || { echo disabled; exit 1; } ;;
  is-active) [ -e "$ROOT/state/active.$2" ] && echo active || { echo inactive; exit 3; } ;;
  enable) [ -e "$ROOT/etc/systemd/system/$2" ] || exit 1; : >"$ROOT/state/enabled.$2" ;;
  disable) rm -f "$ROOT/state/enabled.$2" ;;
  restart) [ -e "$ROOT/fails" ] && { echo "Job for $2 failed." >&2; exit 1; }
    cp "$ROOT/etc/systemd/system/$2" "$ROOT/state/active.$2" ;;
  stop) rm -f "$ROOT/state/active.$2" ;;
esac
"""


class Node(LocalHost):
    """A node below a folder that is its root's, and whose systemctl acts on that folder."""

    user = User(name="root", uid=0, gid=0)

    def __init__(self, root: Path) -> None:
        super().__init__(root=str(root), environ={})
        self.folder = root

    def fresh(self) -> Node:
        return Node(self.folder)

    def link_stat(self, path: str) -> FileStat | None:
        found = super().link_stat(path)
        return found and replace(found, uid=0)

    def measure(self, key: str) -> object:
        return None if key == "container" else super().measure(key)

    def run_streaming(
        self, argv: Sequence[str], *, timeout: float, stream: Callable[[str], None] | None = None
    ) -> Completed:
        return LocalHost().run_streaming(argv, timeout=timeout, stream=stream)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return plugins.load()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with systemd, and npudoctor at its usual place."""
    root = tmp_path / "node"
    for folder in ("etc/systemd/system", "run/systemd/system", "usr/local/bin", "var/lib", "state", "tools", "proc"):
        (root / folder).mkdir(parents=True)
    for path, text in ((root / "tools/systemctl", SYSTEMCTL), (root / "usr/local/bin/npudoctor", "#!/bin/sh\n")):
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("ROOT", str(root))
    monkeypatch.setenv("PATH", f"{root}/tools:/usr/bin:/bin")
    return root


def planned(catalog: Catalog, node: Path, id: str = "service.install", **params: Any) -> FixPlan:
    if id == "service.install":
        params.setdefault("command", "/usr/local/bin/npudoctor")
    return plan.make(catalog, Node(node), Request(id, params), Options())


def applied(catalog: Catalog, node: Path, made: FixPlan) -> Ended:
    *_, last = runner.apply(catalog, Node(node), made, Options(), state="/var/lib/npudoctor")
    assert isinstance(last, Ended)
    return last


def undone(node: Path) -> Ended:
    *_, last = runner.undo(Node(node), state="/var/lib/npudoctor")
    assert isinstance(last, Ended)
    return last


def state(node: Path) -> dict[str, str]:
    """The units, and what is enabled and active."""
    folders = (node / "etc/systemd/system", node / "state")
    return {
        str(path.relative_to(node)): f"{path.stat().st_mode:o} {path.read_text(encoding='utf-8')}"
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_service_is_installed_as_shown_and_taken_back_without_a_trace(catalog: Catalog, node: Path) -> None:
    before = state(node)
    made = planned(catalog, node, setup=True)
    assert made.refused is None
    assert "npudoctor.service: does not start at boot, not running → starts at boot, running" in made.preview
    assert state(node) == before
    ended = applied(catalog, node, made)
    assert (ended.outcome, ended.reason) == (Outcome.APPLIED, "applied; re-checked, all changes are as shown")
    for name in ("npudoctor.service", "npudoctor-setup.service"):
        text = (node / "etc/systemd/system" / name).read_text(encoding="utf-8")
        assert all(f"+{line}\n" in made.preview for line in text.splitlines())
        assert (node / "state" / f"enabled.{name}").exists()
    assert (node / "state/active.npudoctor.service").exists()
    assert not (node / "state/active.npudoctor-setup.service").exists()
    assert planned(catalog, node, setup=True).empty
    assert undone(node).outcome is Outcome.UNDONE
    assert state(node) == before


def test_a_unit_of_before_comes_back_as_it_was_and_runs_as_it_was(catalog: Catalog, node: Path) -> None:
    path = node / "etc/systemd/system/npudoctor.service"
    path.write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
    path.chmod(0o640)
    (node / "state/active.npudoctor.service").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    before = state(node)
    assert applied(catalog, node, planned(catalog, node)).outcome is Outcome.APPLIED
    assert state(node) != before
    assert "daemon\n" in (node / "state/active.npudoctor.service").read_text(encoding="utf-8"), (
        "it runs with the new unit"
    )
    assert undone(node).outcome is Outcome.UNDONE
    assert {**state(node)} == {**before}


def test_a_service_that_does_not_start_is_taken_back(catalog: Catalog, node: Path) -> None:
    before = state(node)
    (node / "fails").touch()
    ended = applied(catalog, node, planned(catalog, node))
    assert ended.outcome is Outcome.ROLLED_BACK
    assert "`systemctl restart npudoctor.service` failed: Job for npudoctor.service failed." in ended.reason
    assert state(node) == before


def test_it_is_removed_and_brought_back(catalog: Catalog, node: Path) -> None:
    applied(catalog, node, planned(catalog, node, setup=True))
    installed = state(node)
    made = planned(catalog, node, "service.remove")
    assert "-ExecStart=/usr/local/bin/npudoctor daemon" in made.preview
    assert applied(catalog, node, made).outcome is Outcome.APPLIED
    assert state(node) == {}
    assert planned(catalog, node, "service.remove").empty
    assert undone(node).outcome is Outcome.UNDONE
    assert state(node) == installed


def test_without_a_running_systemd_it_is_enabled_for_the_next_boot(catalog: Catalog, node: Path) -> None:
    (node / "run/systemd/system").rmdir()
    made = planned(catalog, node)
    assert "the service is enabled and starts at the next boot" in made.notes[0]
    assert applied(catalog, node, made).outcome is Outcome.APPLIED
    assert (node / "state/enabled.npudoctor.service").exists()
    assert not {"restart", "daemon-reload"} & {
        line.split()[0] for line in (node / "log").read_text(encoding="utf-8").splitlines()
    }


@pytest.mark.parametrize(
    ("option", "gone", "kept"),
    [("network", "IPAddressDeny", "ProtectSystem"), ("fixes", "ProtectSystem", "IPAddressDeny")],
)
def test_what_a_site_asks_to_be_left_out_is_left_out(
    catalog: Catalog, node: Path, option: str, gone: str, kept: str
) -> None:
    [one] = planned(catalog, node, "service.install", **{option: True}).steps
    assert f"+{gone}" not in one.preview
    assert f"+{kept}" in one.preview
    assert f"+{gone}" in planned(catalog, node).preview


def test_root_does_not_run_what_others_can_change(catalog: Catalog, node: Path) -> None:
    (node / "usr/local/bin/npudoctor").chmod(0o777)
    made = planned(catalog, node)
    assert made.refused is not None
    assert "other users can write /usr/local/bin/npudoctor" in made.refused.reason


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("npudoctor", "Give an absolute path"),
        ("/bin/x\nExecStart=/bin/evil", "Give an absolute path"),
        ("/bin/%n", "Give an absolute path"),
        ("/nowhere/npudoctor", "command not found: /nowhere/npudoctor"),
    ],
)
def test_a_command_that_cannot_be_started_is_refused(catalog: Catalog, node: Path, command: str, why: str) -> None:
    made = planned(catalog, node, command=command)
    assert made.refused is not None
    assert why in made.refused.reason


def test_only_root_installs_it_and_that_is_said_before_anything_is_changed(
    catalog: Catalog, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Node, "user", User(name="dev", uid=1007, gid=1007))
    made = planned(catalog, node)
    assert made.obstacle is not None
    assert made.obstacle.root
    ended = applied(catalog, node, made)
    assert (ended.outcome, ended.instead) == (Outcome.REFUSED, "sudo")
    assert "enable" not in (node / "log").read_text(encoding="utf-8").replace("is-enabled", "")


def test_a_masked_unit_is_left_alone(catalog: Catalog, node: Path) -> None:
    (node / "etc/systemd/system/npudoctor.service").symlink_to("/dev/null")
    made = planned(catalog, node)
    assert made.obstacle is not None
    assert made.obstacle.reason == "npudoctor.service is masked; run systemctl unmask npudoctor.service"


def test_a_daemon_whose_libraries_are_missing_is_not_installed(
    catalog: Catalog, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/npudoctor/bin/python3")
    own = node / sys.executable.lstrip("/")
    own.parent.mkdir(parents=True)
    beside = own.parent / "npudoctor"
    beside.write_text("", encoding="utf-8")
    beside.chmod(0o755)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    made = planned(catalog, node, command="")
    assert made.refused is not None
    assert made.refused.reason == "Python packages for the daemon missing: starlette, uvicorn, prometheus_client"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["remove", "--setup"], "--setup is an option of install only; see npudoctor service --help"),
        (["start"], "invalid choice: 'start'"),
        ([], "the following arguments are required"),
    ],
)
def test_bad_usage_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["service", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_where_no_systemd_runs_it_is_refused_with_what_would_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["service", "install", "--yes", "--state", str(tmp_path)]) == 7
    assert "refused: " in "".join(capsys.readouterr())
