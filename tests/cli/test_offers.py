"""What is offered can be done: fixes of nodes that cannot be changed, a journal below --root, missing plug-ins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import Command


@pytest.mark.parametrize("command", ["check", "list", "fix", "report", "facts"])
def test_a_plug_in_that_is_not_there_is_a_usage_error(npudoctor: Command, command: str) -> None:
    ran = npudoctor(command, "--plugin", "/no/such/plugin.py")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "/no/such/plugin.py does not exist" in ran.err


def test_a_fix_of_a_node_that_cannot_be_changed_is_offered_for_the_node_itself(
    npudoctor: Command, tmp_path: Path
) -> None:
    recording = str(tmp_path / "node.tar.gz")
    assert npudoctor("record", "--simulate", "new-node", recording).code == 0
    for ran in (npudoctor("check", "--replay", recording), npudoctor("fix", "--replay", recording)):
        assert "$ npudoctor fix python.install-pair  # on the node itself\n" in ran.out
    ran = npudoctor("fix", "python.install-pair", "--replay", recording, "--yes")
    assert (ran.code, "run this on the node itself" in ran.err) == (7, True)


def test_the_journal_of_a_node_below_root_is_read_and_not_changed(npudoctor: Command, tmp_path: Path) -> None:
    (tmp_path / "node" / "etc").mkdir(parents=True)
    (tmp_path / "node" / "etc" / "passwd").write_text(f"me:x:{os.getuid()}:0::/home/me:/bin/sh\n", encoding="utf-8")
    ran = npudoctor("history", "--root", str(tmp_path / "node"))
    assert (ran.code, ran.out) == (0, "no changes by npudoctor\n")
    ran = npudoctor("undo", "--root", str(tmp_path / "node"))
    assert ran.code == 7


def test_a_simulated_change_names_the_command_that_undoes_it(npudoctor: Command, tmp_path: Path) -> None:
    node = ["--simulate", "new-node", "--state", str(tmp_path)]
    ran = npudoctor("fix", "hccl.reserve-ports", "--yes", *node)
    undo = next(line for line in ran.err.splitlines() if "npudoctor undo" in line).split("#")[0].split()[2:]
    assert undo[2:] == node
    assert npudoctor(*undo).code == 0


@pytest.mark.parametrize(
    ("cann", "python", "said"),
    [
        ("8.2.RC1", "3.12.4", "CANN 8.2.RC1 supports Python 3.7 to 3.11, and this one is 3.12.4"),
        ("8.0.0", "3.13.1", "the package index has no torch_npu for this CANN and this Python"),
    ],
)
def test_no_pair_is_installed_that_cannot_work_or_is_not_in_the_index(
    npudoctor: Command, tmp_path: Path, cann: str, python: str, said: str
) -> None:
    (tmp_path / "node.toml").write_text(
        f"product = 'atlas-800t-a2-910b3'\ncann = {{ version = '{cann}' }}\n[python]\nversion = '{python}'\n"
        "torch = ''\ntorch_npu = ''\n",
        encoding="utf-8",
    )
    ran = npudoctor("fix", "python.install-pair", "--dry-run", "--simulate", str(tmp_path / "node.toml"))
    assert said in " ".join(f"{ran.out} {ran.err}".split())
