"""A simulated node keeps what was done to it between commands: `--simulate NAME --state DIR`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from npudoctor import sim
from npudoctor.host.simulated import redo

from .conftest import Command


def test_the_whole_way_can_be_tried_across_commands(npudoctor: Command, tmp_path: Path) -> None:
    node = ("--simulate", "new-node", "--state", str(tmp_path))
    assert npudoctor("check", *node).code == 1
    assert list(tmp_path.iterdir()) == [], "a check changes nothing"
    for fix in ("env.profile", "python.install-pair", "hccl.reserve-ports"):
        ran = npudoctor("fix", fix, *node, "--yes")
        assert ran.code == 0, ran.err
        assert "discarded" not in ran.err
    assert npudoctor("check", *node).code == 0
    assert npudoctor("check", "--simulate", "new-node").code == 1, "without the folder the node is new"
    runs = npudoctor("history", "--json", *node).json
    assert [one["status"] for one in runs] == ["applied"] * 3
    assert npudoctor("undo", runs[1]["id"], *node).code == 0
    report = npudoctor("check", "--json", *node)
    assert (report.code, report.worse()) == (1, {"python.pairing": "error"})
    assert [one["status"] for one in npudoctor("history", "--json", *node).json] == ["applied", "undone", "applied"]


def test_an_applied_fix_names_the_command_that_says_what_is_left(npudoctor: Command, tmp_path: Path) -> None:
    node = ("--simulate", "new-node")
    assert "what is left" not in npudoctor("fix", "env.profile", *node, "--yes").err, "nothing was kept"
    ran = npudoctor("fix", "env.profile", *node, "--state", str(tmp_path), "--yes")
    assert ran.err.splitlines()[-1].startswith(
        f"  $ npudoctor check --simulate new-node --state {tmp_path}   # what is left"
    )
    assert npudoctor("check", *node, "--state", str(tmp_path)).out.startswith("✖ 2 problems found")


def test_commands_name_the_folder(npudoctor: Command, tmp_path: Path) -> None:
    node = ("--simulate", "new-node", "--state", str(tmp_path))
    assert npudoctor("check", "python", *node).out.splitlines()[-1].endswith(f"--state {tmp_path}")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": "x", "done": []}', '{"schema": "npudoctor.simulated/1", "done": [{"do": "close"}]}']
)
def test_another_file_is_refused_in_one_line(npudoctor: Command, tmp_path: Path, text: str) -> None:
    (tmp_path / "new-node.json").write_text(text, encoding="utf-8")
    ran = npudoctor("check", "--simulate", "new-node", "--state", str(tmp_path))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert str(tmp_path) in ran.err


@pytest.mark.parametrize("command", ["check", "history", "report", "smoke"])
def test_a_folder_that_is_not_there_is_a_simulated_node_without_changes(
    npudoctor: Command, tmp_path: Path, command: str
) -> None:
    ran = npudoctor(command, "--simulate", "new-node", "--state", str(tmp_path / "no"))
    assert (ran.code in (0, 1), ran.err) == (True, "")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("command", ["check", "history", "report"])
def test_a_folder_that_is_not_there_is_named_by_what_only_reads(
    npudoctor: Command, tmp_path: Path, command: str
) -> None:
    ran = npudoctor(command, "--state", str(tmp_path / "no"))
    assert (ran.code, ran.out, ran.err) == (2, "", f"npudoctor: --state {tmp_path / 'no'}: no such folder\n")


def test_a_folder_that_is_not_there_is_made_by_what_changes_the_node(npudoctor: Command, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "state"
    node = ("--simulate", "new-node", "--state", str(folder))
    assert npudoctor("fix", "hccl.reserve-ports", *node, "--dry-run").code == 0
    assert not folder.exists()
    assert npudoctor("fix", "hccl.reserve-ports", *node, "--yes").code == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    assert npudoctor("check", "hccl.ports-reserved", *node).code == 0


def test_a_smoke_run_is_of_the_node_as_fixes_have_left_it(npudoctor: Command, tmp_path: Path) -> None:
    node = ("--simulate", "new-node", "--state", str(tmp_path))
    ran = npudoctor("smoke", *node)
    assert ran.code == 1 and "cann.environment" in ran.out and "--keep-logs" not in ran.out
    assert [line for line in ran.out.splitlines() if "$ npudoctor" in line and not line.endswith(" ".join(node))] == []
    for fix in ("env.profile", "python.install-pair"):
        assert npudoctor("fix", fix, *node, "--yes").code == 0
    assert npudoctor("smoke", *node).code == 0


def test_an_undo_says_what_it_changes_before_it_does(npudoctor: Command, tmp_path: Path) -> None:
    node = ("--simulate", "new-node", "--state", str(tmp_path))
    changed = "torch: 2.5.1 → 2.7.1; torch-npu: 2.6.0 → 2.7.1"
    ran = npudoctor("fix", "python.install-pair", "--set", "torch=2.7.1", "torch_npu=2.7.1", *node, "--yes")
    assert ran.code == 0 and changed in ran.err
    assert changed in npudoctor("history", *node).out
    assert changed in npudoctor("report", *node).out
    for words in (["--dry-run"], ["--yes"]):
        ran = npudoctor("undo", *words, *node)
        assert ran.code == 0 and {"  torch: 2.7.1 → 2.5.1", "  torch-npu: 2.7.1 → 2.6.0"} <= set(ran.out.splitlines())
    assert "torch: 2.7.1 → 2.5.1; torch-npu: 2.7.1 → 2.6.0" in ran.err
    assert npudoctor("undo", "--dry-run", *node).code == 7


@pytest.mark.parametrize(("answer", "code", "status"), [("n\n", 7, "applied"), ("y\n", 0, "undone")])
def test_an_undo_asks_on_a_terminal(
    npudoctor: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, status: str
) -> None:
    node = ("--simulate", "new-node", "--state", str(tmp_path))
    assert npudoctor("fix", "hccl.reserve-ports", *node, "--yes").code == 0
    typed = io.StringIO(answer)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    assert npudoctor("undo", *node).code == code
    assert [one["status"] for one in npudoctor("history", "--json", *node).json] == [status]


def test_what_was_done_is_done_again(tmp_path: Path) -> None:
    first, second = sim.simulate("new-node"), sim.simulate("new-node")
    first.make_folder("/etc/x", mode=0o700)
    first.write_file("/etc/x/y", b"\xff\0", mode=0o600)
    first.set_sysctl("net.ipv4.ip_local_reserved_ports", "1-2")
    first.run_streaming(["usermod", "-aG", "HwHiAiUser", "nobody"], timeout=5)
    redo.redo(second, redo.write_changes(first))
    assert second.read_bytes("/etc/x/y") == b"\xff\0"
    assert second.stat("/etc/x/y").mode == 0o600
    assert second.read("/proc/sys/net/ipv4/ip_local_reserved_ports") == "1-2\n"
    assert json.loads(redo.write_changes(second)) == json.loads(redo.write_changes(first))


@pytest.mark.parametrize("name", ["in-service", "healthy-a3", "sick-cards"])
def test_a_pair_of_torch_and_torch_npu_that_matches_is_left_alone(name: str, npudoctor: Command) -> None:
    ran = npudoctor("fix", "python.install-pair", "--simulate", name, "--dry-run")
    assert ran.code == 0
    assert "nothing to change" in ran.out + ran.err
