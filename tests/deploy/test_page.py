"""docs/provisioning.md is true: every example on it is run, or is what npudoctor ships and prints."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from junitparser import JUnitXml

from npudoctor import config
from npudoctor.cli import main
from npudoctor.facts.node import _container_stanzas as stanzas
from npudoctor.sim import scenarios

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "provisioning.md").read_text(encoding="utf-8")
DEPLOY = ROOT / "npudoctor" / "deploy"
BLOCK = re.compile(r"(?:<!-- (.+?) -->\n)?```(\w+)\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A block of the page: what stands above it, its language and its text."""

    mark: str
    language: str
    text: str


EXAMPLES = [Example(*match.groups("")) for match in BLOCK.finditer(PAGE)]
RUN = [one.text for one in EXAMPLES if one.language == "sh" and not one.mark]
SHIPPED = [one for one in EXAMPLES if one.mark.startswith("deploy/")]
ELSEWHERE = {"docker", "systemd"}
"""Run by the slow tests of Docker and systemd."""


def marked(mark: str) -> str:
    [text] = [one.text for one in EXAMPLES if one.mark == mark]
    return text


def test_every_example_is_run_or_compared() -> None:
    known = {"run-command docker", "run-command ascend", "Dockerfile", "slurm.conf", "config.toml", "nrpe", "gitlab"}
    assert PAGE.count("```") == 2 * len(EXAMPLES)
    for one in EXAMPLES:
        assert one.mark.startswith("deploy/") or one.mark in known | ELSEWHERE | (
            {""} if one.language == "sh" else set()
        )


@pytest.mark.parametrize("one", SHIPPED, ids=lambda one: one.mark)
def test_what_the_page_shows_of_a_file_stands_in_it(one: Example) -> None:
    assert one.text in (DEPLOY.parent / one.mark).read_text(encoding="utf-8")


def test_every_file_that_is_named_is_shipped() -> None:
    for name in re.findall(r"deploy/[\w./-]+\w", PAGE):
        assert (DEPLOY.parent / name).exists(), name


# What is run

DOCTOR = """#!/bin/sh
[ "$1" = service ] || set -- "$@" --simulate "$SCENARIO"
exec '{python}' -m npudoctor "$@"
"""
TAKES_FILES = """#!/bin/sh
# Stands in for a command that is given files: they have to be there.
for word in "$@"; do
    case $word in inventory | *.y*ml | *.sh) [ -e "${word#--from-file=}" ] || { echo "no $word" >&2; exit 1; } ;; esac
done
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with the socket of a daemon that looks after a simulated node."""
    for name in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(name, reason="the daemon's libraries are not installed")
    folder = tmp_path_factory.mktemp("daemon")
    path = folder / "npudoctor.sock"
    argv = [sys.executable, "-m", "npudoctor", "daemon", "--socket", str(path), "--state-dir", str(folder)]
    environment = {**os.environ, "NPUDOCTOR_CONFIG": str(folder / "config.toml")}
    (folder / "config.toml").write_text("", encoding="utf-8")
    (folder / "config.toml").chmod(0o644)
    process = subprocess.Popen([*argv, "--simulate", "seed-910b1"], env=environment, stderr=subprocess.DEVNULL)
    try:
        _until_it_is_ready(path)
        yield folder
    finally:
        process.terminate()
        process.wait(30)


def _until_it_is_ready(path: Path) -> None:
    for _ in range(400):
        try:
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(str(path))
                asking.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
                if asking.recv(100).startswith(b"HTTP/1.1 200"):
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("the daemon does not get ready")


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    """A folder in which the page's commands act, with stand-ins for what would reach outside."""
    tools = tmp_path / "tools"
    tools.mkdir()
    scripts = {
        "npudoctor": DOCTOR.format(python=sys.executable),
        "python3": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
    }
    for name in ("kubectl", "ansible-playbook"):
        scripts[name] = TAKES_FILES
    for name, text in scripts.items():
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
    (tmp_path / "here").mkdir()
    (tmp_path / "etc/slurm").mkdir(parents=True)
    (tmp_path / "here/inventory").write_text("[npus]\n", encoding="utf-8")
    (tmp_path / "config.toml").write_text("", encoding="utf-8")
    return tmp_path


def ran(
    sandbox: Path, text: str, scenario: str = "seed-910b1", run: str = "/run/npudoctor"
) -> subprocess.CompletedProcess[str]:
    text = text.replace("/etc/slurm", f"{sandbox}/etc/slurm").replace("/run/npudoctor", run)
    text = text.replace("/usr/local/bin/npudoctor", "npudoctor")
    environment = {**os.environ, "PATH": f"{sandbox}/tools:{os.environ['PATH']}", "SCENARIO": scenario}
    environment["NPUDOCTOR_CONFIG"] = str(sandbox / "config.toml")
    argv = ["bash", "-euo", "pipefail", "-c", text]
    return subprocess.run(
        argv, cwd=sandbox / "here", env=environment, capture_output=True, encoding="utf-8", check=False
    )


@pytest.mark.parametrize("text", RUN, ids=lambda text: text.splitlines()[-1][:40])
def test_an_example_runs(sandbox: Path, text: str, request: pytest.FixtureRequest) -> None:
    if "deploy/" in text and not text.startswith("cp "):
        shutil.copytree(DEPLOY, sandbox / "here/deploy")
    run = str(request.getfixturevalue("daemon")) if "/run/npudoctor" in text else "/nowhere"
    done = ran(sandbox, text, run=run)
    assert done.returncode == 0, done.stdout + done.stderr
    if text.startswith("cp "):
        assert (sandbox / "here/deploy/slurm/prolog.sh").exists()
    if "setup" in text:
        assert done.stdout == "this node is ready\n"
    if "readyz" in text:
        assert json.loads(done.stdout.partition("}")[0] + "}")["ready"] is True
    if "/metrics" in text:
        assert done.stdout == "npudoctor_cards_fit 1.0\n"
    if "--metrics-file" in text:
        assert "npudoctor_check_status" in (sandbox / "here/npudoctor.prom").read_text(encoding="utf-8")


def test_a_provisioning_script_says_what_is_left(sandbox: Path) -> None:
    [text] = [text for text in RUN if "npudoctor setup" in text]
    done = ran(sandbox, text, "new-node")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch_npu 2.6.0 requires torch 2.6.0; found 2.5.1\n"


def test_what_slurm_is_told_is_what_was_installed() -> None:
    installed = re.findall(r"install -m 755 deploy/slurm/(\S+) (\S+)", PAGE)
    told = dict(line.split("=") for line in marked("slurm.conf").split())
    assert {told["HealthCheckProgram"], told["Prolog"]} == {path for _, path in installed}
    for name, key in (("healthcheck.sh", "HealthCheck"), ("prolog.sh", "Prolog")):
        text = (DEPLOY / "slurm" / name).read_text(encoding="utf-8")
        assert all(
            f"#   {key}{rest}" in text for key, rest in re.findall(rf"^({key}\w*)(=.*)$", marked("slurm.conf"), re.M)
        )


@pytest.mark.parametrize("scenario", [name for name in scenarios() if name in ("in-service", "sick-cards")])
def test_nrpe_gets_what_nagios_reads(sandbox: Path, scenario: str) -> None:
    command = marked("nrpe").partition("=")[2]
    done = ran(sandbox, command, scenario)
    assert done.stdout.split(" - ")[0] == {"in-service": "OK", "sick-cards": "CRITICAL"}[scenario]
    assert done.returncode == {"in-service": 0, "sick-cards": 2}[scenario]


def test_the_job_of_the_ci_writes_a_report_that_it_reads(sandbox: Path) -> None:
    job = yaml.safe_load(marked("gitlab"))["npu-node"]
    done = ran(sandbox, "\n".join(job["script"]), "sick-cards")
    assert done.returncode == 1
    report = JUnitXml.fromfile(str(sandbox / "here" / job["artifacts"]["reports"]["junit"]))
    assert report.failures > 0


def test_the_configuration_is_one(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(marked("config.toml"), encoding="utf-8")
    config.load(str(tmp_path / "config.toml"))


@pytest.mark.parametrize(("mark", "written"), [("docker", stanzas.docker), ("ascend", stanzas.ascend_runtime)])
def test_the_run_commands_are_what_the_fix_prints(mark: str, written: object) -> None:
    devices = ("/dev/davinci0", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
    one = stanzas.stanza(devices, "npudoctor", shm=None, group="1000", command=("check", "--json"))
    assert marked(f"run-command {mark}") == written(one)  # type: ignore[operator]
    assert shlex.split(marked(f"run-command {mark}").replace("\\\n", ""))[-3:] == ["npudoctor", "check", "--json"]


def test_the_health_check_is_the_dockerfiles() -> None:
    assert marked("Dockerfile") in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_page_has_the_fix_that_prints_the_run_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "`npudoctor fix container.run-command`" in PAGE
    assert main(["fix", "container.run-command", "--simulate", "seed-910b1", "--set", "image=npudoctor"]) == 0
    assert "--device=/dev/davinci7" in capsys.readouterr().out
