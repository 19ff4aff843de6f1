"""The consumers themselves: they read, check or run what npudoctor ships. Slow, because they are fetched first."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

from npudoctor import plugins
from npudoctor.fixer import handover, plan
from npudoctor.sdk import Options
from npudoctor.sim import machine, scenario
from tests.fleet import test_install

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).resolve().parents[2] / "npudoctor" / "deploy"


def run(*argv: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in argv], capture_output=True, encoding="utf-8", check=False, **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the consumers that are Python packages."""
    packages = ("kubernetes-validate", "configobj", "oauthlib", "requests", "jsonpatch", "netifaces")
    return environment(tmp_path_factory.mktemp("consumers"), *packages)


@pytest.fixture(scope="module")
def playbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ansible-playbook, in an environment of its own."""
    return environment(tmp_path_factory.mktemp("ansible"), "ansible-core>=2.15").with_name("ansible-playbook")


def environment(folder: Path, *packages: str) -> Path:
    """The Python of a new environment with these packages."""
    venv.create(folder, with_pip=True)
    done = run(folder / "bin/pip", "install", "-q", *packages)
    if done.returncode:
        pytest.skip(f"the consumers cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the consumers that are Debian packages are unpacked; nothing is installed."""
    if shutil.which("dpkg") is None:
        pytest.skip("this is no Debian: its packages cannot be unpacked")
    folder = tmp_path_factory.mktemp("debian")
    for package in ("prometheus", "cloud-init"):
        if run("apt-get", "download", package, cwd=folder).returncode:
            pytest.skip(f"the package {package} cannot be fetched; apt-get update may help")
    for path in folder.glob("*.deb"):
        assert run("dpkg", "-x", path, folder / "root").returncode == 0
    return folder / "root"


@pytest.mark.parametrize("path", sorted((DEPLOY / "kubernetes").glob("*.yaml")), ids=lambda path: path.name)
@pytest.mark.parametrize("release", ["1.26", "1.30", "1.33"])
def test_kubernetes_takes_the_manifests(python: Path, path: Path, release: str) -> None:
    done = run(python.with_name("kubernetes-validate"), "-k", release, "--strict", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kubernetes_refuses_a_manifest_that_is_wrong(python: Path, tmp_path: Path) -> None:
    text = (DEPLOY / "kubernetes/pod.yaml").read_text(encoding="utf-8").replace("periodSeconds", "periodSecond")
    (tmp_path / "pod.yaml").write_text(text, encoding="utf-8")
    assert run(python.with_name("kubernetes-validate"), "-k", "1.30", "--strict", tmp_path / "pod.yaml").returncode != 0


def test_prometheus_takes_the_alerts_and_the_target(debian: Path, tmp_path: Path) -> None:
    for name in ("alerts.yaml", "scrape.yaml"):
        shutil.copy(DEPLOY / "prometheus" / name, tmp_path)
    promtool = debian / "usr/bin/promtool"
    done = run(promtool, "check", "config", tmp_path / "scrape.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 rules found" in done.stdout
    samples = {"npudoctor_cards_fit": "0x10", 'npudoctor_card_health{card="npu:2"}': "2x10", "up": "1x10"}
    (tmp_path / "test.yaml").write_text(
        "rule_files: [alerts.yaml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n"
        + "".join(f"      - {{series: '{name}', values: '{values}'}}\n" for name, values in samples.items())
        + "    alert_rule_test:\n"
        "      - {eval_time: 2m, alertname: NPUsUnfit, exp_alerts: []}\n"
        "      - eval_time: 5m\n        alertname: NPUCardUnfit\n        exp_alerts:\n"
        "          - exp_labels: {card: 'npu:2', severity: critical}\n"
        "            exp_annotations: {summary: ' npu:2 unhealthy'}\n",
        encoding="utf-8",
    )
    done = run(promtool, "test", "rules", tmp_path / "test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_cloud_init_takes_the_user_data(debian: Path, python: Path) -> None:
    packages = {**os.environ, "PYTHONPATH": str(debian / "usr/lib/python3/dist-packages")}
    path = DEPLOY / "cloud-init/user-data.yaml"
    done = run(python, "-m", "cloudinit.cmd.main", "schema", "--config-file", path, env=packages)
    assert "Valid cloud-config" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["compose.yaml", "compose.ascend.yaml"])
def test_compose_takes_its_files(name: str) -> None:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed: apt-get install docker-compose")
    done = run("docker-compose", "-f", DEPLOY / "docker" / name, "config")
    assert done.returncode == 0, done.stderr
    assert "- daemon" in done.stdout


def test_ansible_fills_a_drop_folder_with_the_answers_of_many_nodes(playbook: Path, tmp_path: Path) -> None:
    drop, inventory = tmp_path / "the answers", tmp_path / "inventory"
    drop.mkdir()
    inventory.write_text("[npus]\nn[1:3] ansible_connection=local\nbad ansible_connection=local\n", encoding="utf-8")
    here = f"{shlex.quote(sys.executable)} -m npudoctor"
    told = {
        "ansible_python_interpreter": sys.executable,
        "npudoctor_drop": str(drop),
        "npudoctor_command": f"{{{{ '/nowhere' if inventory_hostname == 'bad' else {json.dumps(here)} }}}}",
        "npudoctor_options": "--simulate bare-host",
    }
    plain = {**os.environ, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8", "ANSIBLE_LOCAL_TEMP": str(tmp_path)}
    plain["NPUDOCTOR_CONFIG"] = str(tmp_path / "config.toml")
    (tmp_path / "config.toml").write_text("", encoding="utf-8")
    play = [playbook, "-i", inventory, "-e", json.dumps(told)]
    done = run(*play, DEPLOY / "ansible/fleet.yml", env=plain)
    assert done.returncode == 0, done.stdout + done.stderr
    words = ["fleet", "check", "--drop", drop, "--inventory", inventory, "--json"]
    merged = run(sys.executable, "-m", "npudoctor", *words, env=plain)
    report = json.loads(merged.stdout)
    outcomes = {row["name"]: row["outcome"] for row in report["nodes"]}
    assert outcomes == {"n1": "answered", "n2": "answered", "n3": "answered", "bad": "silent"}
    assert merged.returncode == 1, merged.stderr  # of the bare host that answers


def test_the_role_installs_an_archive_and_changes_nothing_the_second_time(playbook: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    path = test_install.archive(tmp_path, "1.0")
    told = {
        "ansible_python_interpreter": sys.executable,
        "npudoctor_hosts": "all",
        "npudoctor_become": False,
        "npudoctor_archive": str(path),
        "npudoctor_prefix": str(tmp_path / "p"),
    }
    words = ["-i", "n1,", "-c", "local", "-e", json.dumps(told)]
    plain = {**os.environ, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8", "ANSIBLE_LOCAL_TEMP": str(tmp_path)}
    for mode, changed in (["--check"], 1), ([], 5), ([], 0):
        done = run(playbook, *words, *mode, DEPLOY / "ansible/install.yml", env=plain)
        assert done.returncode == 0 and f"changed={changed} " in done.stdout, done.stdout + done.stderr
        assert (tmp_path / "p").exists() is not bool(mode)
    assert os.readlink(tmp_path / "p/current").startswith("releases/npudoctor-1.0-")
    beside = path.with_name(f"{path.name}.sha256")
    told["npudoctor_prefix"] = str(tmp_path / "q")
    words[-1] = json.dumps(told)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  other.tar.gz\n", encoding="utf-8")
    stated = beside.read_text(encoding="utf-8").split()[0]
    beside.unlink()
    done = run(playbook, *words, DEPLOY / "ansible/install.yml", env=plain)
    assert done.returncode == 2 and "its checksum is missing" in done.stdout, done.stdout
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  other.tar.gz\n{stated}  {path.name}\n", encoding="utf-8")
    done = run(playbook, *words, DEPLOY / "ansible/install.yml", env=plain)
    assert done.returncode == 0 and "changed=5 " in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("scenario", "mode", "code", "said"),
    [
        ("seed-910b1", [], 0, "changed=0"),
        ("in-service", [], 0, "changed=0"),
        ("new-node", [], 2, "torch_npu 2.6.0 requires torch 2.6.0"),
        ("new-node", ["--check"], 0, "changed=1"),
        ("sick-cards", [], 2, "910B3 reports Alarm"),
    ],
)
def test_ansible_makes_a_node_ready_and_fails_with_what_is_left(
    playbook: Path, tmp_path: Path, scenario: str, mode: list[str], code: int, said: str
) -> None:
    told = {
        "ansible_python_interpreter": sys.executable,
        "npudoctor_hosts": "localhost",
        "npudoctor_become": False,
        "npudoctor_command": f"{sys.executable} -m npudoctor",
        "npudoctor_options": f"--simulate {scenario}",
    }
    words = ["-e", json.dumps(told)]
    plain = {**os.environ, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8", "ANSIBLE_LOCAL_TEMP": str(tmp_path)}
    plain["NPUDOCTOR_CONFIG"] = str(tmp_path / "config.toml")
    (tmp_path / "config.toml").write_text("", encoding="utf-8")
    play = [playbook, "-i", "localhost,", "-c", "local", *words, *mode]
    done = run(*play, DEPLOY / "ansible/npudoctor.yml", env=plain)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


SYSCTL = """#!/bin/sh
[ "$1" = -n ] && exec cat "$0.value"
echo "${2#*=}" > "$0.value"
echo x >> "$0.set"
"""


def test_ansible_carries_out_the_tasks_that_a_fix_prints_and_changes_nothing_the_second_time(
    playbook: Path, tmp_path: Path
) -> None:
    """The paths are below a folder, and sysctl is a script: all else is what `fix --as ansible` prints."""
    managed = "# Ansible managed: do not edit\nnet.ipv4.ip_local_reserved_ports = 10050\n"
    said = {
        "product": "atlas-800t-a3",
        "sysctl": {"net.ipv4.ip_local_reserved_ports": "10050"},
        "files": {"/etc/sysctl.conf": managed},
    }
    host = machine.build(scenario.parse(said, "n"), "n")
    made = plan.make(plugins.load(), host, plan.Request("hccl.reserve-ports"), Options())
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/sysctl.conf").write_text(managed, encoding="utf-8")
    sysctl = tmp_path / "sysctl"
    sysctl.write_text(SYSCTL, encoding="utf-8")
    sysctl.chmod(0o755)
    Path(f"{sysctl}.value").write_text("10050\n", encoding="utf-8")
    tasks = handover.render(made, host, "ansible").replace("/etc/sysctl", f"{tmp_path}/etc/sysctl")
    tasks = tasks.replace("become: true", "become: false").replace('"sysctl"', f'"{sysctl}"')
    play = tmp_path / "play.yml"
    head = "- hosts: all\n  gather_facts: false\n  tasks:\n"
    play.write_text(head + textwrap.indent(tasks, "    "), encoding="utf-8")
    words = [playbook, "-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}", play]
    changed = []
    for _ in range(2):
        done = run(*words, env={**os.environ, "LC_ALL": "C.UTF-8"})
        assert done.returncode == 0, done.stdout + done.stderr
        changed.append(int(re.search(r"changed=(\d+)", done.stdout)[1]))  # type: ignore[index]
    lines = (tmp_path / "etc/sysctl.conf").read_text(encoding="utf-8").splitlines()
    assert lines == ["# Ansible managed: do not edit", "net.ipv4.ip_local_reserved_ports = 10050,60000-60031"]
    assert (changed[0] > 0, changed[1]) == (True, 0)
    assert Path(f"{sysctl}.set").read_text(encoding="utf-8") == "x\n"
