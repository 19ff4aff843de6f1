"""A real Docker builds the image, runs it as documented, and follows the health of its cards. Slow."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from npudoctor.cli import setup_image
from npudoctor.facts.node.device_nodes import DeviceNode, DeviceNodes
from npudoctor.host import Completed, Refused

from .conftest import ROOT, Cards, needs
from .test_page import marked

pytestmark = pytest.mark.slow

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
CANN = "/usr/local/Ascend/cann/lib64"
"""What a CANN image has in LD_LIBRARY_PATH."""

BASE = "debian-with-python:12"

TURNING_S = 60


class Docker:
    """An engine of our own, on a socket of its own."""

    def __init__(self, socket: str) -> None:
        self.environment = {**os.environ, "DOCKER_HOST": socket, "DOCKER_BUILDKIT": "1"}
        self.client = "/usr/bin/docker" if os.access("/usr/bin/docker", os.X_OK) else "docker"

    def __call__(self, *argv: str, check: bool = True, **options: object) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]
            [self.client, *argv], capture_output=True, encoding="utf-8", env=self.environment, check=False, **options
        )
        assert not (check and done.returncode), f"docker {shlex.join(argv)}: {done.stdout}{done.stderr}"
        return done


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    needs("dockerd", "docker")
    folder = tmp_path_factory.mktemp("docker")
    for driver in ("overlay2", "vfs"):
        started = _engine(folder / driver, driver)
        if started is not None:
            break
    else:
        pytest.skip(
            f"no Docker engine starts here: {(folder / 'vfs/log').read_text(encoding='utf-8').splitlines()[-1]}"
        )
    process, socket = started
    try:
        yield Docker(socket)
    finally:
        process.terminate()
        process.wait(60)


def _engine(folder: Path, driver: str) -> tuple[subprocess.Popen[bytes], str] | None:
    folder.mkdir()
    socket = f"unix://{folder}/socket"
    quiet = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", driver]
    where = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "-p", f"{folder}/pid", "-H", socket]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(["dockerd", *quiet, *where], stdout=log, stderr=log)
    for _ in range(150):
        if process.poll() is not None:
            return None
        if Docker(socket)("version", check=False).returncode == 0:
            return process, socket
        time.sleep(0.2)
    process.terminate()
    process.wait(60)
    return None


@pytest.fixture(scope="module")
def image(docker: Docker, debian: Path, source: Path) -> str:
    """The image, built by the documented command over a Debian: no registry is asked for the base that FROM names."""
    with subprocess.Popen(["tar", "-C", str(debian), "-c", "."], stdout=subprocess.PIPE) as packed:
        docker("import", "--change", f"ENV LD_LIBRARY_PATH={CANN}", "-", BASE, stdin=packed.stdout)
    assert packed.returncode == 0
    command = shlex.split(marked("docker"))
    assert command[:2] == ["docker", "build"]
    secrets = ["--secret", f"id=ca,src={CERTIFICATES}"] if Path(CERTIFICATES).exists() else []
    options = ["--build-arg", f"BASE={BASE}", "--network", "host", "--progress", "plain", *secrets]
    done = docker(*command[1:-1], *options, ".", cwd=source, check=False)
    if done.returncode and re.search(r"(No matching distribution|Could not fetch URL|Max retries)", done.stderr):
        pytest.skip("pip reaches no index of packages from within a build")
    assert done.returncode == 0, done.stderr[-3000:]
    return "npudoctor"


def bound(cards: Cards) -> list[str]:
    """What passes the simulated cards in: their nodes as --device, npu-smi and its answers as -v."""
    words = [f"--device={node}:/dev/{node.name}" for node in sorted((cards.folder / "dev").iterdir())]
    words += ["-v", f"{cards.folder}/well/bin/npu-smi:/usr/local/bin/npu-smi:ro"]
    words += [
        "-v",
        f"{cards.folder}/commands:/usr/local/commands:ro",
        "-v",
        f"{cards.folder}/calls.log:/usr/local/calls.log",
    ]
    return [*words, "--group-add=1000"]


def test_the_image_is_small_in_rights_and_has_its_labels(docker: Docker, image: str) -> None:
    [said] = json.loads(docker("image", "inspect", image).stdout)
    assert said["Config"]["User"] == "npudoctor"
    assert said["Config"]["Healthcheck"]["Test"] == ["CMD", "npudoctor", "healthcheck", "--timeout", "20"]
    [libraries] = [text for text in said["Config"]["Env"] if text.startswith("LD_LIBRARY_PATH=")]
    assert libraries.endswith(f"/usr/local/dcmi:{CANN}")
    assert "org.opencontainers.image.title" in said["Config"]["Labels"]
    alone = ["run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", image, "-c"]
    left = docker(
        *alone, "ls /opt/npudoctor/bin /run/secrets 2>/dev/null; id -u; touch /opt/npudoctor/x || echo no"
    ).stdout
    assert "pip" not in left.replace("npudoctor", "")
    assert "\n0\n" not in left
    assert left.endswith("no\n")


def test_the_documented_command_runs(docker: Docker, image: str, cards: Cards) -> None:
    """`docker run … npudoctor check --json`, each path of the host taken from a folder of simulated ones."""
    words = []
    for word in shlex.split(marked("run-command docker").replace("\\\n", " ")):
        if word == "--device=/dev/davinci0":
            words += [f"--device={cards.folder}/dev/davinci0:/dev/davinci0"]
            words += [f"--device={cards.folder}/dev/davinci1:/dev/davinci1"]
        elif word.startswith("--device="):
            words.append(f"--device={cards.folder}{word[9:]}:{word[9:]}")
        elif word.startswith("-v="):
            host, inside, mode = word[3:].split(":")
            place = cards.folder / ("well/bin/npu-smi" if inside.endswith("npu-smi") else f"well/root{host}")
            words.append(f"-v={place}:{inside}:{mode}")
        else:
            words.append(word)
    at = words.index(image)
    answers = [f"-v={cards.folder}/commands:/usr/local/commands:ro", "--network=none"]
    done = docker(*words[1:at], *answers, *words[at:], check=False)
    report = json.loads(done.stdout)
    results = {row["check"]: row for row in report["results"]}
    assert report["host"]["container"] == "docker"
    for check in ("npu.present", "npu.count", "npu.health", "driver.access", "container.devices"):
        assert results[check]["status"] == "ok", results[check]
    assert done.returncode == report["exit_code"]


def test_docker_s_health_state_turns_as_the_cards_do(docker: Docker, image: str, cards: Cards) -> None:
    often = ["--health-interval=1s", "--health-start-period=5s", "--health-retries=2", "--network=none"]
    name = docker("run", "-d", *often, *bound(cards), "--entrypoint", "sleep", image, "600").stdout.strip()
    try:
        seen = [_health(docker, name)]
        assert seen == ["starting"]
        for change, wanted in ((cards.be_well, "healthy"), (cards.be_ill, "unhealthy"), (cards.be_well, "healthy")):
            change()
            seen.append(_until(docker, name, wanted))
        assert seen == ["starting", "healthy", "unhealthy", "healthy"]
        [said] = json.loads(docker("inspect", name).stdout)
        lines = {row["Output"].strip() for row in said["State"]["Health"]["Log"]}
        assert "healthy: 2 chips" in lines
        assert said["State"]["Running"]
    finally:
        docker("rm", "-f", name)


def _health(docker: Docker, name: str) -> str:
    return docker("inspect", "--format", "{{.State.Health.Status}}", name).stdout.strip()


def _until(docker: Docker, name: str, wanted: str) -> str:
    until = time.monotonic() + TURNING_S
    while (found := _health(docker, name)) != wanted and time.monotonic() < until:
        time.sleep(0.3)
    return found


def test_a_container_without_npu_smi_is_judged_by_its_nodes(docker: Docker, image: str, cards: Cards) -> None:
    nodes = [word for word in bound(cards) if word.startswith(("--device", "--group-add"))]
    nodes.append(f"-v={cards.folder}/well/root/usr/local/Ascend/driver:/usr/local/Ascend/driver:ro")
    done = docker("run", "--rm", "--network=none", *nodes, image, "healthcheck", check=False)
    assert done.stdout == "healthy (limited): 2 chips by device nodes; npu-smi is missing in this container\n"
    assert done.returncode == 0
    bare = docker("run", "--rm", "--network=none", image, "healthcheck", check=False)
    assert bare.returncode == 1
    assert bare.stdout.startswith("unhealthy: no NPU device is mapped into this container")


def test_the_daemon_of_the_image_answers_to_its_own_health_check(docker: Docker, image: str, cards: Cards) -> None:
    often = ["--health-interval=1s", "--health-start-period=20s", "--health-retries=2", "--network=none"]
    name = docker("run", "-d", *often, *bound(cards), image, "daemon").stdout.strip()
    try:
        assert _until(docker, name, "healthy") == "healthy", docker("logs", name).stderr
        assert _succeeds(docker, name, "npudoctor", "healthcheck", "--require", "daemon"), docker("logs", name).stderr
        docker("stop", "--time", "60", name)
        [said] = json.loads(docker("inspect", name).stdout)
        assert said["State"]["ExitCode"] == 0, "it ends when it is told to, and is not killed"
    finally:
        docker("rm", "-f", name)


def test_the_daemon_runs_as_the_daemonset_says(docker: Docker, image: str, cards: Cards, tmp_path: Path) -> None:
    path = Path(__file__).resolve().parents[2] / "npudoctor/deploy/kubernetes/daemonset.yaml"
    held = {one["kind"]: one for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))}
    (tmp_path / "config.toml").write_text(held["ConfigMap"]["data"]["config.toml"], encoding="utf-8")
    [container] = held["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    words = ["--read-only", "--user=0", "--network=none", "--tmpfs=/tmp"]
    for folder in ("run", "var/lib"):
        (tmp_path / folder).mkdir(parents=True)
        words.append(f"-v={tmp_path}/{folder}:/{folder}/npudoctor")
    words.append(f"-v={tmp_path}/config.toml:/etc/npudoctor/config.toml:ro")
    name = docker("run", "-d", *words, *bound(cards), image, *container["args"]).stdout.strip()
    try:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert _succeeds(docker, name, *container[probe]["exec"]["command"]), probe
        fetch = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9713/metrics', timeout=5).read()"
        assert _succeeds(docker, name, "python3", "-c", fetch)
        other = ["--network=none", f"-v={tmp_path}/run:/run/npudoctor:ro", *bound(cards)[:5]]
        said = docker("run", "--rm", *other, image, "healthcheck").stdout
        assert re.fullmatch(r"healthy: 2 chips, checked by the daemon \d+ s ago\n", said), (
            "what another pod reads of it"
        )
    finally:
        docker("rm", "-f", name)


def _succeeds(docker: Docker, name: str, *command: str) -> bool:
    """Whether a command in the container ends with 0 before long."""
    until = time.monotonic() + TURNING_S
    while docker("exec", name, *command, check=False).returncode and time.monotonic() < until:
        time.sleep(0.3)
    return time.monotonic() < until


class Engine:
    """This machine, with only the engine of these tests.

    What is not there is not mounted, so that none is made, and a limit that this machine cannot raise is left out.
    """

    def __init__(self, docker: Docker) -> None:
        self.docker = docker

    def which(self, name: str) -> str | None:
        return self.docker.client if name == "docker" else None

    def run_streaming(self, argv: tuple[str, ...], *, timeout: float) -> Completed:
        there = [word for word in argv[1:] if not word.startswith("-v=") or os.path.exists(word[3:].partition(":")[0])]
        if resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] != resource.RLIM_INFINITY:
            there = [word for word in there if not word.startswith("--ulimit=")]
        at = there.index("run") + 1 if "run" in there else len(there)
        network = ["--network=none"] if "run" in there else []
        done = self.docker(*there[:at], *network, *there[at:], check=False, timeout=timeout)
        return Completed(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)


def test_setup_runs_its_smoke_run_in_an_image_of_the_site(
    docker: Docker, debian: Path, cards: Cards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["tar", "-C", str(debian), "-c", "."], stdout=subprocess.PIPE) as packed:
        docker("import", "-", "site/train:8.5.0", stdin=packed.stdout)
    nodes = DeviceNodes(
        cards=(DeviceNode(path=f"{cards.folder}/dev/davinci0", number=0),),
        managers=(DeviceNode(path=f"{cards.folder}/dev/davinci_manager"),),
    )
    host: Any = Engine(docker)
    with pytest.raises(Refused, match="no image site/other in docker; npudoctor pulls none"):
        setup_image.must_be_there(host, "site/other")
    where = (*setup_image.itself(), str(ROOT))
    monkeypatch.setattr(setup_image, "itself", lambda: where)
    said: list[str] = []
    why = setup_image.problem(host, nodes, "site/train:8.5.0", said.append)  # there is no torch in it
    assert re.fullmatch(r"the smoke run in site/train:8.5.0 has failed with exit code [13]", why), (why, said)
    assert any(line.startswith("  | ") and "torch" in line for line in said), said
    passes = tmp_path / "own" / "python"
    passes.parent.mkdir()
    passes.write_text('#!/bin/sh\necho "$@"; [ -c "$(dirname "$0")/../cards/dev/davinci0" ]\n', encoding="utf-8")
    passes.chmod(0o755)
    monkeypatch.setattr(setup_image, "itself", lambda: (str(passes.parent),))
    monkeypatch.setattr("sys.executable", str(passes))
    assert setup_image.problem(host, nodes, "site/train:8.5.0", said.append) == "", said
    assert said[-1] == "  | -I -m npudoctor smoke"
    assert docker("ps", "--all", "--quiet").stdout == ""
