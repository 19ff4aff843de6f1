"""Change control and audit: reasons, windows, freezes, who asked, and runs of other nodes in a shared home."""

from __future__ import annotations

import datetime
import json
import os
import syslog
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from npudoctor import change_control, plugins, sim
from npudoctor.change_control import ChangeControl
from npudoctor.cli import main
from npudoctor.fixer import control, plan, runner
from npudoctor.fixer.journal import Journal
from npudoctor.host import About, FileStat, Refused, User, hold
from npudoctor.host.live import audit
from npudoctor.records import replace
from npudoctor.sdk import Options
from npudoctor.steps.files import WriteFile
from npudoctor.testing import FakeHost

NODE = ("--simulate", "new-node")
FIX = ("fix", "hccl.reserve-ports", *NODE, "--yes")
RUNS = "/var/lib/npudoctor/runs"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A simulated node that the commands of one test share."""
    host = sim.simulate("new-node")
    monkeypatch.setattr(sim, "simulate", lambda _: host)
    monkeypatch.setattr("sys.stdin", None)
    return host


def config(folder: Path, text: str) -> str:
    path = folder / "config.toml"
    path.write_text(f"[changes]\n{text}\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("require_reason = true", "requires a reason for every change"),
        ('frozen = "release week"', "changes are frozen on this node: release week"),
        ('frozen = "release week, until 9999-12-31"', "release week, until 9999-12-31"),
    ],
)
def test_a_site_allows_no_change(
    kept: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    where = ("--config", config(tmp_path, text))
    assert main([*FIX, *where]) == 7
    assert said in capsys.readouterr().err
    assert not kept.exists(RUNS) or not kept.list_dir(RUNS)
    assert main(["fix", "hccl.reserve-ports", *NODE, "--dry-run", *where]) == 0
    assert main(["history", *NODE, *where]) == 0
    assert main(["setup", "--yes", *NODE, *where]) == 7


@pytest.mark.parametrize(
    ("path", "said", "stands"),
    [
        ("/etc/npudoctor/hold", "alice: cables are replaced", True),
        ("/run/npudoctor/hold", "bob: memory test, until 9999-12-31\nmore", True),
        ("/etc/npudoctor/hold", "bob: until the 30th, until 9999-02-30", True),
        ("/etc/npudoctor/hold", "", True),
        ("/etc/npudoctor/hold", "alice: cables, until 2020-01-01", False),
    ],
)
def test_a_node_on_hold_is_not_changed(
    kept: Any, capsys: pytest.CaptureFixture[str], path: str, said: str, stands: bool
) -> None:
    kept.make_folder(path.rpartition("/")[0])
    kept.write_file(path, said.encode(), mode=0o644)
    assert main(list(FIX)) == (7 if stands else 0)
    about = said.split("\n")[0] or "no reason given"
    assert (f"on hold: {about} ({path})" in capsys.readouterr().err) is stands
    if stands:
        assert main(["fix", "hccl.reserve-ports", *NODE, "--dry-run"]) == 0
        assert main(["setup", "--yes", *NODE]) == 7
        assert not kept.exists(RUNS) or not kept.list_dir(RUNS)


@pytest.mark.parametrize(("uid", "mode"), [(1000, 0o644), (0, 0o666), (0, 0o664)])
def test_a_hold_that_another_user_can_write_says_nothing(uid: int, mode: int) -> None:
    found = FileStat(kind="file", mode=mode, uid=uid, gid=0, access="r")
    root = User(name="root")
    host: Any = SimpleNamespace(user=root, stat=lambda _: found, read_part=lambda *_: b"mallory")
    assert hold.reason(host, datetime.date(2026, 11, 23)) is None
    assert f"(owner {uid}, mode 0{mode:o})" in (hold.why_ignored(host) or "")


def test_a_hold_that_does_not_count_is_named_by_the_plan(kept: Any, capsys: pytest.CaptureFixture[str]) -> None:
    kept.make_folder("/etc/npudoctor")
    kept.write_file("/etc/npudoctor/hold", b"alice: cables", mode=0o664)
    assert main(["fix", "hccl.reserve-ports", *NODE, "--dry-run"]) == 0
    assert "/etc/npudoctor/hold does not count as a hold" in " ".join(capsys.readouterr().out.split())


def test_a_reason_is_kept_with_who_asked_and_what_ran(
    kept: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FIX, "--config", config(tmp_path, "require_reason = true"), "--reason", "CHG-42"]) == 0
    capsys.readouterr()
    assert main(["history", *NODE, "--json"]) == 0
    [one] = json.loads(capsys.readouterr().out)
    assert (one["why"], one["host"], one["reason"]) == ("CHG-42", kept.about.hostname, "applied and verified")
    assert {"login", "sudo_user", "origin", "machine_id"} <= set(one)
    assert main(["history", *NODE]) == 0
    assert "    reason: CHG-42\n" in capsys.readouterr().out


def test_undo_is_allowed_in_a_freeze(kept: Any, tmp_path: Path) -> None:
    assert main([*FIX]) == 0
    assert main(["undo", *NODE, "--config", config(tmp_path, 'frozen = "audit"')]) == 0


def test_commands_and_exit_codes_are_journalled(kept: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", "python.install-pair", *NODE, "--yes"]) == 0
    capsys.readouterr()
    assert main(["history", *NODE, "--json"]) == 0
    [one] = json.loads(capsys.readouterr().out)
    assert [row["exit_code"] for row in one["commands"]] == [0] * len(one["commands"])
    assert any("install" in row["command"] for row in one["commands"])


@pytest.mark.parametrize(
    "line", ['window = "25:00-06:00"', 'window = "Foo 22:00-06:00"', 'frozen = "x, until 2026-13-01"']
)
def test_a_mistake_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert main(["check", "npu.present", *NODE, "--config", config(tmp_path, line)]) == 2
    assert "in [changes]: " in capsys.readouterr().err


MONDAY = datetime.datetime(2026, 11, 23)


@pytest.mark.parametrize(
    ("window", "day", "hour", "is_open"),
    [
        ("22:00-06:00", 0, 23, True),
        ("22:00-06:00", 0, 5, True),
        ("22:00-06:00", 0, 12, False),
        ("08:00-20:00", 0, 8, True),
        ("08:00-20:00", 0, 20, False),
        ("Sat-Sun 22:00-06:00", 5, 23, True),
        ("Sat-Sun 22:00-06:00", 7, 5, True),
        ("Sat-Sun 22:00-06:00", 5, 5, False),
        ("Fri-Mon 08:00-20:00", 7, 9, True),
        ("Fri-Mon 08:00-20:00", 1, 9, False),
        ("Wed 00:00-00:00", 2, 13, True),
    ],
)
def test_a_window_belongs_to_the_day_on_which_it_opens(window: str, day: int, hour: int, is_open: bool) -> None:
    moment = MONDAY + datetime.timedelta(days=day, hours=hour)
    assert change_control.is_open(change_control.window(window), moment) is is_open
    assert (ChangeControl(windows=(window,)).closed_window(moment) is None) is is_open


def test_a_freeze_ends_after_its_day() -> None:
    control = ChangeControl(frozen=("release week, until 2026-12-04",))
    assert control.frozen_for(datetime.date(2026, 12, 4)) == "release week, until 2026-12-04"
    assert control.frozen_for(datetime.date(2026, 12, 5)) is None


def test_the_site_s_file_counts_whatever_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site.toml"
    site.write_text('[changes]\nfrozen = "audit"\n', encoding="utf-8")
    monkeypatch.setattr("npudoctor.config.SYSTEM", str(site))
    assert main([*FIX, "--config", config(tmp_path, "require_reason = false")]) == 7
    assert "changes are frozen on this node: audit" in capsys.readouterr().err


def test_an_unknown_run_is_named_where_nothing_was_changed_either(
    kept: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["undo", "99", *NODE]) == 7
    assert "there is no run '99'" in capsys.readouterr().err


# Other nodes


def on(kept: Any, name: str) -> Any:
    """The journal of the node's user as another node sees it that shares the folder."""

    class Other:
        about: About = replace(kept.about, hostname=name)

        def __getattr__(self, key: str) -> Any:
            return getattr(kept, key)

        def fresh(self) -> Any:
            return self

    return Other()


def test_a_run_of_another_node_is_not_recovered(kept: Any) -> None:
    assert main([*FIX]) == 0
    (run,) = kept.list_dir(RUNS)
    path = f"{RUNS}/{run}/status.json"
    kept.write_file(path, kept.read(path).replace('"applied"', '"applying"', 1).encode())
    other = on(kept, "another-node")
    assert Journal(other).cut_off() == () and Journal(other).unfinished_runs() == (run,)
    *_, ended = runner.recover(other)
    assert isinstance(ended, runner.Ended)
    assert (ended.outcome, kept.about.hostname in ended.reason) == (runner.Outcome.NOTHING, True)
    assert Journal(kept).cut_off() == (run,)
    *_, ended = runner.recover(kept)
    assert isinstance(ended, runner.Ended) and ended.outcome is runner.Outcome.UNDONE


def test_undo_names_the_node_of_a_run(kept: Any) -> None:
    assert main([*FIX]) == 0
    *_, ended = runner.undo(on(kept, "another-node"))
    assert isinstance(ended, runner.Ended)
    assert ended.outcome is runner.Outcome.REFUSED and f"was made on {kept.about.hostname}" in ended.reason


def test_a_refusal_names_the_run_that_holds_the_lock(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([*FIX]) == 0
    (run,) = kept.list_dir(RUNS)
    path = f"{RUNS}/{run}/status.json"
    kept.write_file(path, kept.read(path).replace('"applied"', '"applying"', 1).encode())

    def held(_: str) -> Any:
        raise Refused("another fix is under way")

    monkeypatch.setattr(kept, "lock", held)
    with pytest.raises(Refused) as why, control.lock_journal(Journal(kept)):
        pass
    assert f"it is run {run} of root (uid 0) on {kept.about.hostname}" in why.value.reason


def test_a_file_on_a_network_file_system_is_said() -> None:
    mounts = "/dev/sda1 / ext4 rw 0 0\nfiler:/home /export/home nfs4 rw 0 0\nmeta:9421 /data fuse.juicefs rw 0 0\n"
    host = FakeHost(files={"/proc/self/mounts": mounts}, links={"/home": "/export/home"})
    steps = [WriteFile(path, "x") for path in ("/home/a/.bashrc", "/export/home/a/.profile", "/etc/sysctl.d/x.conf")]
    [note] = control.on_network(host, steps)
    assert note.startswith("/home/a/.bashrc, /export/home/a/.profile on a network file system (nfs4 at /export/home)")
    [note] = control.on_network(host, [WriteFile("/data/env.sh", "x")])
    assert "(fuse.juicefs at /data)" in note
    assert control.on_network(FakeHost(files={}), steps) == ()


# Who


def test_who_asks_is_read_from_the_environment_of_sudo_and_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "alice\x1b[2J")
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 50022 192.0.2.1 22")
    found = audit.asker()
    assert (found.sudo_user, found.origin) == ("alice\\x1b[2J", "192.0.2.7")
    monkeypatch.setenv("SSH_CONNECTION", "no address")
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert audit.asker().origin == ""


def test_a_change_is_one_line_of_the_system_s_log(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(syslog, "openlog", lambda *_: None)
    monkeypatch.setattr(syslog, "syslog", lambda _, text: said.append(text))
    catalog, options = plugins.load(), Options(reason="CHG-42\n✔ forged")
    planned = plan.make(catalog, kept, plan.Request("hccl.reserve-ports"), options)
    list(runner.apply(catalog, kept, planned, options))
    assert said == [], "a simulated node is no entry of this machine's log"
    (run,) = kept.list_dir(RUNS)
    live = on(kept, kept.about.hostname)
    live.about = replace(kept.about, source="live")
    control.log(Journal(live), run, "applied", "applied and verified")
    [line] = said
    assert line.startswith(f"applied hccl.reserve-ports, run {run}, by root (uid 0)")
    assert "CHG-42" in line and "\n" not in line
