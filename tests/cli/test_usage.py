"""Help, versions and every kind of bad input: one clear line, the right exit code, nothing lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npudoctor import __version__
from npudoctor.cli import COMMANDS
from npudoctor.cli.fleet import ACTIONS
from npudoctor.smoke import launch

from .conftest import Command


def test_the_version_is_one_line(npudoctor: Command) -> None:
    ran = npudoctor("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"npudoctor {__version__}\n", "")


def test_the_help_teaches_every_command(npudoctor: Command) -> None:
    ran = npudoctor("--help")
    assert ran.code == 0
    for name in COMMANDS:
        assert f"  {name} " in ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(npudoctor: Command, name: str) -> None:
    ran = npudoctor(name, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"usage: npudoctor {name}")
    assert ran.err == ""
    assert npudoctor("help", name).out == ran.out


def test_the_help_of_facts_names_a_fact(npudoctor: Command) -> None:
    (named,) = re.findall(r"npudoctor facts --json (\S+)", npudoctor("facts", "--help").out)
    assert npudoctor("facts", "--json", named, "--simulate", "new-node").json


def test_the_simulated_nodes_are_listed_with_what_to_do_with_one(npudoctor: Command) -> None:
    ran = npudoctor("sim", "list")
    assert "\nnew-node " in ran.out and "card" not in ran.out.replace("sick-cards", "")
    assert "npudoctor check --simulate NAME" in ran.err


@pytest.mark.parametrize("action", ACTIONS.split("|"))
def test_the_help_of_each_action_of_fleet_has_examples_and_exit_codes(npudoctor: Command, action: str) -> None:
    ran = npudoctor("fleet", action, "--help")
    assert f"\n  npudoctor fleet {action}" in ran.out
    assert "\nexit codes: 0 " in ran.out


@pytest.mark.parametrize("argv", [("--help",), *((name, "--help") for name in COMMANDS)], ids=" ".join)
def test_every_help_fits_a_terminal(npudoctor: Command, argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = npudoctor(*argv).out.splitlines()
    assert lines
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "healthcheck"])
def test_every_command_refuses_an_option_that_it_does_not_know(npudoctor: Command, name: str) -> None:
    ran = npudoctor(name, "--no-such-option")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.endswith("--help\n") and ran.err.count("\n") == 1


BAD = {
    ("chekc",): "unknown command 'chekc'; did you mean check?",
    ("check", "npu.helth"): "unknown check or tag 'npu.helth'; did you mean npu.health",
    ("check", "new-node"): "new-node is a simulated node: --simulate new-node",
    ("check", "--skip", "nothing.like-it"): "unknown check or tag 'nothing.like-it'",
    ("check", "--simulate", "sed-910b1"): "seed-910b1",
    ("check", "--replay", "/no/such/bundle"): "/no/such/bundle",
    ("check", "--root", "/no/such/folder"): "folder not found",
    ("check", "--config", "/no/such/config.toml"): "/no/such/config.toml: No such file or directory",
    ("check", "--python", "/bin/true"): "/bin/true",
    ("check", "--python", "/no/such/python"): "/no/such/python",
    ("check", "--environment", "pid:999999999"): "there is no process 999999999",
    (
        "check",
        "--environment",
        "process",
        "--simulate",
        "bare-host",
    ): "--environment cannot be combined with --simulate",
    ("check", "--simulate", "bare-host", "--replay", "x"): "not allowed with argument",
    ("check", "--format", "xml"): "invalid choice: 'xml'",
    ("check", "--fail-on", "fatal"): "invalid choice: 'fatal'",
    ("check", "--timeout", "-1"): "expected seconds above 0 and below 1,000,000, found '-1'",
    ("check", "--timeout", "soon"): "'soon'",
    ("check", "npu", "--skip", "npu", "--simulate", "new-node"): "no checks to run",
    ("facts", "no.such-fact"): "unknown fact 'no.such-fact'; `npudoctor facts` lists them\n",
    ("facts", "node.chip"): "unknown fact 'node.chip'; did you mean node.chips",
    ("parse", "npu-smi-inf"): "unknown kind 'npu-smi-inf'; did you mean npu-smi-info?",
    ("parse", "npu-smi-info", "/no/such/file"): "/no/such/file: No such file or directory",
    ("sim", "tools", "/proc/nowhere", "seed-910b1"): "/proc/nowhere",
    ("sim", "tools", "/proc/nowhere", "no-such-node"): "no-such-node",
    ("sim", "bundle", "/etc/passwd/folder", "seed-910b1"): "/etc/passwd/folder: Not a directory\n",
    ("sim",): "the following arguments are required",
    ("completion", "ksh"): "invalid choice: 'ksh'",
    ("--versio",): "did you mean --version?",
    ("check", "--jsno"): "did you mean --json?",
    ("check", "--sim", "new-node"): "unrecognized arguments: --sim; did you mean --simulate? see",
    ("validate", "--foo"): "unrecognized arguments: --foo; see",
    ("service",): "the following arguments are required: install|remove; see",
    ("report", "--json"): "unrecognized arguments: --json; see npudoctor report --help",
    ("fix", "hccl.reserve-port", "--simulate", "new-node"): "did you mean hccl.reserve-ports?",
    ("fix", "--yes", "--simulate", "new-node"): "--yes requires the fix to apply, or --all-safe",
}


@pytest.mark.parametrize(("argv", "said"), BAD.items(), ids=[" ".join(argv) for argv in BAD])
def test_bad_input_is_one_line_and_exit_2(npudoctor: Command, argv: tuple[str, ...], said: str) -> None:
    ran = npudoctor(*argv)
    assert ran.code == 2, ran
    assert ran.out == ""
    assert said in ran.err
    assert ran.err.count("\n") == 1, ran.err
    assert "Traceback" not in ran.err
    assert "[Errno" not in ran.err


@pytest.mark.parametrize("options", [("--bogus",), ("--timeout", "soon"), ("--config", "/no/such/file")])
def test_a_healthcheck_says_once_what_is_wrong_with_its_options(npudoctor: Command, options: tuple[str, ...]) -> None:
    ran = npudoctor("healthcheck", *options)
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("unhealthy: ")
    assert ran.out.count("\n") == 1


def test_a_bundle_of_a_newer_schema_is_refused(npudoctor: Command, tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text('{"schema": "npudoctor.bundle/2", "machine": "aarch64"}', encoding="utf-8")
    ran = npudoctor("check", "--replay", str(tmp_path))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "npudoctor.bundle/2" in ran.err


def test_a_configuration_with_a_wrong_type_names_file_key_and_what_was_expected(
    npudoctor: Command, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('tool_timeout_s = "long"\n', encoding="utf-8")
    ran = npudoctor("check", "--config", str(path))
    assert ran.code == 2
    assert ran.err == (f"npudoctor: {path}: tool_timeout_s: expected a number, found 'long'\n")


def test_an_old_python_is_refused_with_its_version(npudoctor: Command, tmp_path: Path) -> None:
    old = tmp_path / "python2"
    old.write_text("#!/bin/sh\necho 'SyntaxError: invalid syntax' >&2\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    ran = npudoctor("check", "python", "--python", str(old))
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran
    assert str(old) in ran.err


@pytest.mark.parametrize("format", ["text", "json", "jsonl", "markdown"])
def test_a_reader_that_goes_away_early_is_no_error(format: str) -> None:
    command = f"'{sys.executable}' -m npudoctor check --simulate new-node --format {format} | head -c 10"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1, "the exit code is still the verdict's"
    assert done.stderr == ""


def test_a_closed_stdout_is_no_traceback() -> None:
    command = f"'{sys.executable}' -m npudoctor check --simulate bare-host >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, encoding="utf-8", check=False)
    assert "Traceback" not in done.stderr


def hanging_tool(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "npu-smi").write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 600\n", encoding="utf-8")
    (folder / "npu-smi").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_run_leaves_no_child_behind(tmp_path: Path, number: int, code: int) -> None:
    argv = [sys.executable, "-m", "npudoctor", "check", "--json"]
    with subprocess.Popen(argv, env=hanging_tool(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        until = time.monotonic() + 60
        while not (tmp_path / "pids").exists() and time.monotonic() < until:
            time.sleep(0.05)
        run.send_signal(number)
        out, err = run.communicate(timeout=120)
    assert run.returncode == code, err
    assert out == b""
    assert b"Traceback" not in err
    for pid in (tmp_path / "pids").read_text(encoding="utf-8").split():
        until = time.monotonic() + 60
        while launch.is_alive(int(pid)) and time.monotonic() < until:  # nobody may be there to reap a zombie
            time.sleep(0.05)
        assert not launch.is_alive(int(pid))


def test_the_run_s_own_deadline_is_kept_over_a_tool_that_hangs(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "npudoctor", "check", "--json", "--timeout", "1"]
    began = time.monotonic()
    done = subprocess.run(argv, env=hanging_tool(tmp_path), capture_output=True, check=False)
    assert time.monotonic() - began < 60
    assert done.returncode in (1, 3)


@pytest.mark.parametrize("format", ["text", "json", "jsonl"])
def test_a_full_disk_is_one_line_and_no_internal_error(format: str) -> None:
    argv = [sys.executable, "-m", "npudoctor", "check", "--simulate", "seed-910b1", "--format", format]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (2, "npudoctor: cannot write the output: No space left on device\n")


def test_a_python_of_the_environment_that_is_none_is_one_line(
    npudoctor: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPUDOCTOR_PYTHON", "/nope")
    ran = npudoctor("check", "system.disk")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "npudoctor: NPUDOCTOR_PYTHON=/nope: /nope cannot be started: No such file or directory\n"


def test_a_simulated_node_has_one_python_and_no_other(npudoctor: Command) -> None:
    own = npudoctor("check", "python.version", "system", "--simulate", "seed-910b1", "--json").json["host"]["python"]
    own = own or "/workspace/installs/conda/envs/llm-dev/bin/python"
    assert npudoctor("check", "python.version", "--simulate", "seed-910b1", "--python", own).code == 0
    ran = npudoctor("check", "python.version", "--simulate", "seed-910b1", "--python", "/usr/bin/python3.9")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "this node has data of " in ran.err


def test_what_needs_no_npu_smi_is_judged_though_it_hangs_past_the_deadline(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "npudoctor", "check", "--json", "--timeout", "3"]
    done = subprocess.run(argv, env=hanging_tool(tmp_path), capture_output=True, check=False, timeout=300)
    results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
    assert all(results[id]["status"] in ("ok", "warning") for id in ("system.disk", "system.memory", "system.shm"))
    assert results["driver.npu-smi"]["status"] != "ok"


def test_an_internal_error_is_one_line_unless_debug_is_asked_for(
    npudoctor: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from npudoctor import plugins

    def broken(*_: object) -> plugins.Catalog:
        raise RuntimeError("a surprise")

    monkeypatch.setattr(plugins, "load", broken)
    ran = npudoctor("check")
    assert ran.code == 4
    assert ran.err == "npudoctor: internal error: RuntimeError: a surprise; run with --debug for the traceback\n"
    debugged = npudoctor("--debug", "check")
    assert debugged.code == 4
    assert "Traceback (most recent call last)" in debugged.err
    assert debugged.err.endswith(ran.err)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completions_know_every_command(npudoctor: Command, shell: str) -> None:
    ran = npudoctor("completion", shell)
    assert ran.code == 0
    assert all(name in ran.out for name in COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completions_know_checks_fixes_scenarios_and_files(npudoctor: Command, shell: str) -> None:
    said = npudoctor("completion", shell).out
    assert all(name in said for name in ("hccl.reserve-ports", "npu.health", "container-broken"))


@pytest.mark.parametrize("option", ["--log", "--html", "--replay", "--state"])
def test_the_fish_completion_offers_files_and_folders(npudoctor: Command, option: str) -> None:
    said = npudoctor("completion", "fish").out
    [line] = [one for one in said.splitlines() if "_using report'" in one and f" -l {option[2:]} " in one]
    assert "__fish_complete_" in line


def test_the_bash_completion_completes(npudoctor: Command, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(npudoctor("completion", "bash").out, encoding="utf-8")
    ask = "COMP_WORDS=(npudoctor ch); COMP_CWORD=1; _shtab_npudoctor; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", f"source {tmp_path}/script; {ask}"], capture_output=True, encoding="utf-8", check=False
    )
    assert "check" in done.stdout.split(), done
