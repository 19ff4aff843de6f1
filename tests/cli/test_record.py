"""`npudoctor record`: the recording answers as the node did, holds no secret, and is written whole or not at all."""

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.cli import main
from tests.cli.conftest import Command

SHARED = Path(__file__).resolve().parents[2] / "../shared"
TIMES = {"started_at", "duration_s", "seconds"}


def without_times(said: Any) -> Any:
    if isinstance(said, dict):
        return {key: without_times(value) for key, value in said.items() if key not in TIMES}
    return [without_times(value) for value in said] if isinstance(said, list) else said


def unpacked(archive: Path) -> str:
    """The contents of an archive, and the names in it, as one text."""
    with tarfile.open(archive) as tar:
        texts = [member.name for member in tar.getmembers()]
        for member in tar.getmembers():
            file = tar.extractfile(member)
            texts.append(file.read().decode("utf-8", "replace") if file else "")
    return "\n".join(texts)


@pytest.mark.parametrize("name", sim.scenarios())
def test_a_recording_of_the_live_host_gives_what_the_live_host_gives(
    name: str, npudoctor: Command, tmp_path: Path
) -> None:
    node, archive = str(tmp_path / "node"), str(tmp_path / "node.tar.gz")
    sim.write_tools(sim.simulate(name), node)
    recorded = npudoctor("record", "--root", node, archive)
    assert (recorded.code, recorded.out) == (0, f"npudoctor check --replay {archive}\n")
    assert npudoctor("record", "--root", node, str(tmp_path / "again.tar.gz")).code == 0
    assert (tmp_path / "again.tar.gz").read_bytes() == (tmp_path / "node.tar.gz").read_bytes()
    for command in (("check", "--json"), ("facts", "--json")):
        live, again = npudoctor(*command, "--root", node), npudoctor(*command, "--replay", archive)
        assert again.code == live.code
        assert without_times(again.json) == without_times(live.json)


@pytest.mark.parametrize("name", ["in-service", "container-broken"])
def test_simulated_nodes_and_recordings_can_be_recorded_too(name: str, npudoctor: Command, tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second.tar.gz")
    assert npudoctor("record", "--simulate", name, first).code == 0
    assert npudoctor("record", "--replay", first, second).code == 0
    third = str(tmp_path / "third.tar.gz")
    assert npudoctor("record", "--replay", second, third).code == 0
    assert Path(second).read_bytes() == Path(third).read_bytes()
    for command in (("check", "--json"), ("facts", "--json")):
        wanted = without_times(npudoctor(*command, "--simulate", name).json)
        assert without_times(npudoctor(*command, "--replay", first).json) == wanted
        assert without_times(npudoctor(*command, "--replay", second).json) == wanted


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_every_profile_is_recorded_as_it_asks(profile: str, npudoctor: Command, tmp_path: Path) -> None:
    archive = str(tmp_path / "node.tar.gz")
    recorded = npudoctor("record", "--simulate", "sick-cards", "--profile", profile, archive)
    command = shlex.split(recorded.out)
    assert command == ["npudoctor", "check", "--replay", archive, "--profile", profile]
    live = npudoctor("check", "--simulate", "sick-cards", "--profile", profile, "--json")
    assert without_times(npudoctor(*command[1:], "--json").json) == without_times(live.json)


@pytest.mark.parametrize("fault", ["crash", "timeout"])
def test_a_tool_that_fails_fails_in_the_recording_too(fault: str, npudoctor: Command, tmp_path: Path) -> None:
    scenario, node = tmp_path / "node.toml", str(tmp_path / "node")
    scenario.write_text('product = "atlas-800t-a3"\n', encoding="utf-8")
    sim.write_tools(sim.simulate(str(scenario)), node)
    says = {"crash": "ulimit -c 0; kill -11 $$", "timeout": "exec sleep 60"}[fault]
    (tmp_path / "node/bin/npu-smi").write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    (tmp_path / "config.toml").write_text("tool_timeout_s = 4\n", encoding="utf-8")  # others need it
    config = ("--config", str(tmp_path / "config.toml"))
    archive = str(tmp_path / "node.tar.gz")
    assert npudoctor("record", "--root", node, archive, *config).code == 0
    asked = ("driver", "npu", "hccl", "--json", *config)  # a busy machine may not start a Python within the limit
    live = npudoctor("check", "--root", node, *asked)
    assert without_times(npudoctor("check", "--replay", archive, *asked).json) == without_times(live.json)
    assert live.status("driver.npu-smi") == "error"


def test_a_recording_of_this_machine_gives_the_same_findings(process: Command, tmp_path: Path) -> None:
    archive = str(tmp_path / "node.tar.gz")
    recorded = process("record", archive)
    assert recorded.code == 0, recorded.err
    live = process("check", "--json")
    again = process(*shlex.split(recorded.out)[1:], "--json")
    assert again.code == live.code
    judged = [
        (result["check"], result["status"], result["reason"], result["findings"]) for result in again.json["results"]
    ]
    assert judged == [
        (result["check"], result["status"], result["reason"], result["findings"]) for result in live.json["results"]
    ]
    assert again.json["host"] == live.json["host"]


def test_the_python_that_was_named_is_named_in_the_command_that_replays(npudoctor: Command, tmp_path: Path) -> None:
    archive = str(tmp_path / "node.tar.gz")
    recorded = npudoctor("record", archive, "--python", sys.executable, "--expect-idle", "--role", "full")
    command = shlex.split(recorded.out)
    assert command[4:] == ["--python", sys.executable, "--role", "full", "--expect-idle"]
    assert npudoctor(*command[1:], "--json").json["host"]["python"] == sys.executable


# What it holds


@contextmanager
def running(*words: str) -> Iterator[None]:
    """A process with these words on its command line."""
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", *words], stdout=-1
    )
    assert sleeper.stdout is not None
    sleeper.stdout.readline()
    try:
        yield
    finally:
        sleeper.kill()
        sleeper.wait()
        sleeper.stdout.close()


def test_an_environment_full_of_secrets_leaves_none_in_the_recording(process: Command, tmp_path: Path) -> None:
    environment = {
        name: f"s3cr3t-{number}"
        for number, name in enumerate(
            [
                *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "GITHUB_TOKEN"),
                *("WANDB_API_KEY", "OPENAI_API_KEY", "MYSQL_PWD", "PGPASSWORD", "DB_PASSWORD", "SSH_ASKPASS_SECRET"),
                *("http_proxy", "https_proxy", "ASCEND_PRIVATE_THING", "MY_HCCL_IF_IP", "NPUDOCTOR_NOTES"),
            ]
        )
    }
    words = [
        *(
            "--password",
            "s3cr3t-p",
            "--api-key=s3cr3t-q",
            "AWS_SECRET_ACCESS_KEY=s3cr3t-r",
            "https://me:s3cr3t-s@host/x",
        ),
        *("-H", "Authorization: Bearer s3cr3t-tttt", "--env=HF_TOKEN=s3cr3t-u", '{"password": "s3cr3t-v w"}'),
        *("export PGPASSWORD='s3cr3t-w x'; psql", "--auth-token", "s3cr3t-y", "AKIAABCDEFGHIJKLMNOP"),
    ]
    archive = tmp_path / "node.tar.gz"
    with running("--visible-word", *words):
        assert process("record", str(archive), environment=environment).code == 0
    text = unpacked(archive)
    assert re.search(r"\(\+1[56] arguments #", text)  # a program whose path has spaces counts as one of them
    assert "s3cr3t" not in text
    assert "AKIA" not in text
    assert not set(environment) & set(json.loads(text[text.index("\n{") :].split("\n}\n")[0] + "\n}")), "variables"


def test_it_says_what_it_took_and_what_it_left_out(npudoctor: Command, tmp_path: Path) -> None:
    said = npudoctor("record", "--simulate", "in-service", str(tmp_path / "node.tar.gz"))
    assert "commands; " in said.err
    assert "ASCEND_HOME_PATH" in said.err
    assert "Left out:" in said.err
    assert "npu-smi info -t topo" not in said.err
    verbose = npudoctor("record", "--simulate", "in-service", str(tmp_path / "node2.tar.gz"), "--verbose")
    assert "    npu-smi info -t topo\n" in verbose.err
    assert "    /usr/local/Ascend/driver/version.info\n" in verbose.err


def test_without_a_name_the_node_s_own_is_taken(
    npudoctor: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = npudoctor("record", "--simulate", "healthy-910a")
    (name,) = os.listdir(tmp_path)
    assert name.startswith("npudoctor-")
    assert said.out == f"npudoctor check --replay {name}\n"


@pytest.mark.skipif(not (SHARED / "scenarios").is_dir(), reason="the labelled nodes are not beside this repository")
def test_labelled_nodes_are_judged_the_same_when_recorded_again(npudoctor: Command, tmp_path: Path) -> None:
    for number, bundle in enumerate(sorted((SHARED / "scenarios").glob("*/bundle"))):
        archive = str(tmp_path / f"{number}.tar.gz")
        assert npudoctor("record", "--replay", str(bundle), archive).code == 0
        wanted = npudoctor("check", "--json", "--replay", str(bundle)).json
        assert without_times(npudoctor("check", "--json", "--replay", archive).json) == without_times(wanted)


# Where it is written


def refused(npudoctor: Command, *argv: str) -> str:
    """The one line that a refusal prints."""
    said = npudoctor("record", "--simulate", "bare-host", *argv)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1, said.err
    return said.err


def test_nothing_is_overwritten_unless_it_is_asked_for(npudoctor: Command, tmp_path: Path) -> None:
    target = tmp_path / "node.tar.gz"
    target.write_text("precious", encoding="utf-8")
    assert refused(npudoctor, str(target)) == f"npudoctor: {target} exists; --force replaces it\n"
    assert "ends in .tar.gz" in refused(npudoctor, str(tmp_path / "node.zip"))
    assert not (tmp_path / "node.zip").exists()
    assert target.read_text(encoding="utf-8") == "precious"
    assert npudoctor("record", "--simulate", "bare-host", str(target), "--force").code == 0
    assert npudoctor("check", "--replay", str(target)).code == 1
    assert os.listdir(tmp_path) == ["node.tar.gz"]


def test_a_folder_must_be_empty_or_not_there(npudoctor: Command, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    assert npudoctor("record", "--simulate", "bare-host", f"{folder}/").code == 0
    assert (folder / "bundle.json").exists()
    for force in ((), ("--force",)):
        assert "is not empty; give an empty or new folder" in refused(npudoctor, str(folder), *force)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("nowhere/node.tar.gz", "does not exist"),
        ("file", "is a file; give a folder, or a name that ends in .tar.gz"),
        ("folder.tar.gz", "is a folder; give a path that does not exist"),
        ("pipe", "is neither a file nor a folder"),
        ("file/node.tar.gz", "Not a directory"),
        ("x" * 300 + ".tar.gz", "File name too long"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line_before_anything_is_asked(
    npudoctor: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, expected: str
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "folder.tar.gz").mkdir()
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("npudoctor.engine.run", None)
    assert expected in refused(npudoctor, str(tmp_path / target))


def test_a_link_of_ours_is_followed_and_one_of_somebody_else_is_refused(
    npudoctor: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "node.tar.gz"
    link.symlink_to(tmp_path / "real.tar.gz")
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert "is a symbolic link of another user" in refused(npudoctor, str(link))
    monkeypatch.undo()
    assert npudoctor("record", "--simulate", "bare-host", str(link)).code == 0
    assert link.is_symlink()
    assert (tmp_path / "real.tar.gz").is_file()


def test_an_interrupted_recording_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tarfile.TarFile.addfile", interrupted)
    assert main(["record", "--simulate", "bare-host", str(tmp_path / "node.tar.gz")]) == 130
    assert os.listdir(tmp_path) == []
