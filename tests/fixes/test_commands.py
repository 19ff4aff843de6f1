"""fix, undo, history, setup and env as they are typed: what they say, and their exit codes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.cli import main

NODE = ("--simulate", "new-node")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A simulated node that the commands of one test share."""
    host = sim.simulate("new-node")
    monkeypatch.setattr(sim, "simulate", lambda _: host)
    monkeypatch.setattr("sys.stdin", None)
    return host


def test_what_could_be_mended_is_listed_with_commands_that_work(kept: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", *NODE]) == 0
    commands = re.findall(r"\$ npudoctor (.*)", capsys.readouterr().out)
    assert [shlex.split(one)[1] for one in commands] == ["env.profile", "hccl.reserve-ports", "python.install-pair"]
    for one in commands:
        assert main([*shlex.split(one), "--yes"]) == 0
    assert main(["fix", *NODE]) == 0
    left = capsys.readouterr().out.splitlines()[-3:]
    assert [line.partition(" ")[0] for line in left if not line.startswith(" ")] == ["env.profile"]


def test_problems_without_a_fix_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", "--simulate", "sick-cards"]) == 0
    assert capsys.readouterr().out.startswith("no automatic fix for the problems found (4); ")


def test_a_fix_is_kept_in_the_history_and_undone_by_its_name(kept: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", "hccl.reserve-ports", *NODE, "--yes"]) == 0
    assert main(["fix", "env.profile", *NODE, "--yes"]) == 0
    capsys.readouterr()
    assert main(["history", *NODE, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert [first["status"], second["status"], first["fix"]] == ["applied", "applied", "hccl.reserve-ports"]
    assert main(["undo", first["id"], *NODE]) == 0
    assert "undoing step 1: net.ipv4.ip_local_reserved_ports: 60000-60031 → (empty)" in capsys.readouterr().err
    assert main(["undo", first["id"], *NODE]) == 7
    assert main(["undo", "no-such-run", *NODE]) == 7
    assert "`npudoctor history` lists them" in capsys.readouterr().err
    assert main(["history", *NODE]) == 0
    assert f"{first['id']}  undone" in capsys.readouterr().out
    assert main(["fix", "--recover", *NODE]) == 0


@pytest.mark.parametrize("again", [["fix", "hccl.reserve-ports"], ["fix", "--all-safe"], ["setup"]])
def test_what_was_cut_off_is_undone_before_the_next_fix(
    kept: Any, capsys: pytest.CaptureFixture[str], again: list[str]
) -> None:
    """Killed just before it was done: the node looks mended, and the journal says that it is not."""
    assert main(["fix", "hccl.reserve-ports", *NODE, "--yes"]) == 0
    (run,) = kept.list_dir("/var/lib/npudoctor/runs")
    path = f"/var/lib/npudoctor/runs/{run}/status.json"
    kept.write_file(path, kept.read(path).replace("applied", "applying", 1).encode())
    capsys.readouterr()
    assert main([*again, *NODE, "--dry-run"]) in (0, 1)
    assert f"interrupted runs must be undone first: {run}\n" in capsys.readouterr().err
    assert main([*again, *NODE]) == 7
    assert "$ npudoctor fix --recover" in capsys.readouterr().err
    assert main([*again, *NODE, "--yes"]) in (0, 1)
    capsys.readouterr()
    assert main(["history", *NODE, "--json"]) == 0
    ran = {one["fix"]: one["status"] for one in json.loads(capsys.readouterr().out)[1:]}
    assert (json.loads(kept.read(path))["status"], ran["hccl.reserve-ports"]) == ("rolled-back", "applied")
    assert kept.read("/proc/sys/net/ipv4/ip_local_reserved_ports") == "60000-60031\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["hccl.reserve-ports"], 7, "--simulate new-node --yes"),
        (["hccl.reserve-ports", "--dry-run"], 0, "60000-60031"),
        (["no.such", "--yes"], 2, "unknown fix 'no.such'; known are "),
        (["--set", "a=b"], 2, "--set requires exactly one fix"),
        (["hccl.reserve-ports", "--set", "ports"], 2, "--set ports: expected key=value"),
        (["hccl.reserve-ports", "--set", "port=1", "--yes"], 7, "port: no such key; did you mean ports?"),
        (["hccl.reserve-ports", "--set", "ports=abc", "--yes"], 7, "is not a port"),
        (["hccl.reserve-ports", "--all-safe"], 2, "expected one of: fix ids, --all-safe, --recover"),
        (["npu.release", "--yes"], 7, "$ npudoctor fix npu.release --simulate new-node --set pids=4711"),
        (["npu.release", "--set", "pids=1,x"], 7, 'pids[1]: expected a whole number, found "x"'),
        (["container.run-command", "--set", "image=a;b", "--dry-run"], 7, "not the name of an image: 'a;b'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    kept: Any, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main(["fix", *words, *NODE]) == code
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


def test_what_needs_root_among_several_is_told_once_and_the_rest_is_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(sim.__file__).with_name("scenarios").joinpath("new-node.toml").read_text(encoding="utf-8")
    user = 'user = { name = "dev", uid = 1007, groups = { dev = 1007 } }\n'
    (tmp_path / "plain.toml").write_text(user + text, encoding="utf-8")
    assert main(["fix", "--all-safe", "--yes", "--simulate", str(tmp_path / "plain.toml")]) == 5
    said = capsys.readouterr().err
    assert said.count("refused") == 1
    assert re.search(r"\$ sudo (/\S+|'/[^']+') fix hccl.reserve-ports --simulate", said)
    assert "env.profile: applied" in said


def test_a_recording_is_previewed_and_never_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sim.write_bundle(sim.simulate("new-node"), str(tmp_path / "bundle"))
    node = ["--replay", str(tmp_path / "bundle")]
    assert main(["fix", "hccl.reserve-ports", "--dry-run", *node]) == 0
    assert "+net.ipv4.ip_local_reserved_ports = 60000-60031" in capsys.readouterr().out
    assert main(["setup", "--dry-run", *node]) == 1
    assert main(["env", *node]) == 0
    for words in (["fix", "--all-safe", "--yes"], ["fix", "--recover"], ["setup", "--yes"], ["undo"], ["history"]):
        assert main([*words, *node]) == 7
        assert "recordings are read-only" in capsys.readouterr().err


def test_setup_makes_a_new_node_healthy_and_finds_nothing_to_do_after_that(
    kept: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["setup", *NODE, "--yes", "--json", "--allow", "python.install-pair"]
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert [one["fix"] for one in first["done"]] == ["env.profile", "hccl.reserve-ports", "python.install-pair"]
    assert (first["verdict"], first["remaining"]) == ("ok", [])
    assert main(words) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["done"], second["remaining"]) == ([], [])


def test_without_leave_setup_says_what_is_left_for_a_person(kept: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *NODE, "--dry-run"]) == 1
    assert capsys.readouterr().out.count("$ npudoctor fix") == 1
    assert main(["setup", *NODE]) == 7
    assert "$ npudoctor setup --yes --simulate new-node" in capsys.readouterr().err
    assert main(["setup", *NODE, "--yes", "--json"]) == 1
    (left,) = json.loads(capsys.readouterr().out)["remaining"]
    assert (left["check"], left["fix"]) == ("python.pairing", "python.install-pair")
    assert main(["setup", *NODE, "--allow", "no.such"]) == 2


def test_env_is_printed_for_each_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for shell, word in {"bash": "    . /usr/local", "fish": "string join :", "csh": "setenv"}.items():
        assert main(["env", *NODE, "--shell", shell]) == 0
        assert word in capsys.readouterr().out
    assert main(["env", *NODE, "--systemd"]) == 0
    said = capsys.readouterr().out
    assert ('ASCEND_HOME_PATH="/usr' in said, "undo" in said) == (True, False)
    assert main(["env", *NODE, "--check"]) == 1
    assert main(["env", "--simulate", "seed-910b1", "--check"]) == 0


def test_nnal_is_in_force_in_shells_that_its_script_does_not_work_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node.toml").write_text(
        'product = "atlas-800t-a2-910b3"\ncann = { version = "8.2.RC1", sourced = false, nnal = "8.2.RC1" }\n',
        encoding="utf-8",
    )
    assert main(["env", "--simulate", str(tmp_path / "node.toml"), "--shell", "zsh"]) == 0
    text = capsys.readouterr().out.replace("/usr/local/Ascend", str(tmp_path))
    (tmp_path / "ascend-toolkit").mkdir()
    (tmp_path / "ascend-toolkit/set_env.sh").write_text("export LD_LIBRARY_PATH=/cann/lib64\n", encoding="utf-8")
    (tmp_path / "nnal/atb").mkdir(parents=True)
    (tmp_path / "nnal/atb/set_env.sh").write_text('export ATB_HOME_PATH="${BASH_SOURCE[0]} $1"\n', encoding="utf-8")
    for shell in filter(shutil.which, ("bash", "sh", "zsh")):
        script = f'{text}\necho "$ATB_HOME_PATH $LD_LIBRARY_PATH"'
        said = subprocess.run([shell, "-euc", script], capture_output=True, encoding="utf-8", check=True, env={}).stdout
        home = f"{tmp_path}/nnal/atb/8.2.RC1/atb/cxx_abi_1"
        by_script = f"{tmp_path}/nnal/atb/set_env.sh --cxx_abi=1 /cann/lib64\n"
        assert said == (by_script if shell == "bash" else f"{home} {home}/lib:/cann/lib64\n")


def test_what_is_left_of_many_cards_is_said_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(
        'product = "atlas-800t-a2-910b3"\ncard = [{ id = 1, health = "Alarm" }, { id = 4, health = "Alarm" }]\n',
        encoding="utf-8",
    )
    words = ["setup", "--yes", "--simulate", str(tmp_path / "node.toml")]
    assert main(words) == 1
    assert capsys.readouterr().out.count("(npu.health: npu:1, npu:4)\n") == 1
    assert main([*words, "--json"]) == 1
    left = json.loads(capsys.readouterr().out)["remaining"]
    assert [one["subject"] for one in left] == ["npu:1", "npu:4"]
