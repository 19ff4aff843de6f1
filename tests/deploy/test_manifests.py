"""What npudoctor ships for Kubernetes, Docker, Prometheus, Ansible and cloud-init agrees with npudoctor and itself.

Whether the consumers themselves take it is asked by the slow tests beside this one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from npudoctor import config
from npudoctor.cli import main, parser_of
from npudoctor.facts.node import _container_stanzas as stanzas
from npudoctor.knowledge import layout
from npudoctor.report import npd

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "npudoctor" / "deploy"
SHIPPED = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def kinds(name: str) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in documents(name)}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_file_can_be_read_and_is_in_the_wheel(path: Path) -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"][
        "npudoctor"
    ]
    assert any(path.relative_to(ROOT / "npudoctor").match(pattern) for pattern in said)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml" or path.suffix == ".yml":
        assert list(yaml.safe_load_all(text))
    elif path.suffix == ".json":
        json.loads(text)
    elif path.suffix == ".sh":
        assert path.stat().st_mode & 0o111
        subprocess.run([shutil.which(text.split("\n")[0][2:].split("/")[-1]) or "sh", "-n", str(path)], check=True)
    else:
        assert path.suffix in (".service", ".lock")


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def npudoctor_calls() -> Iterator[tuple[str, list[str]]]:
    """Every command line of npudoctor in the manifests, with where it stands."""
    [rule] = json.loads((DEPLOY / "node-problem-detector/npudoctor.json").read_text(encoding="utf-8"))["rules"]
    yield "node-problem-detector", rule["args"]
    pod = kinds("kubernetes/pod.yaml")["Pod"]["spec"]
    yield "init container", pod["initContainers"][0]["args"]
    daemon = kinds("kubernetes/daemonset.yaml")["DaemonSet"]["spec"]["template"]["spec"]
    for where, spec in (("pod", pod), ("daemonset", daemon)):
        for probe in PROBES:
            if probe in spec["containers"][0]:
                yield f"{probe} of {where}", spec["containers"][0][probe]["exec"]["command"][1:]
    for name in ("cloud-init/user-data.yaml",):
        for command in documents(name)[0]["runcmd"]:
            if command[0] == "npudoctor":
                yield name, command[1:]


@pytest.mark.parametrize(("where", "argv"), npudoctor_calls())
def test_every_command_is_one_that_npudoctor_understands(where: str, argv: list[str]) -> None:
    name, *rest = argv
    parser_of(name).parse_args(rest)


def test_every_probe_ends_before_its_consumer_gives_up() -> None:
    pod = kinds("kubernetes/pod.yaml")["Pod"]["spec"]["containers"][0]
    daemon = kinds("kubernetes/daemonset.yaml")["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]
    for probe in [one[name] for one in (pod, daemon) for name in PROBES if name in one]:
        command = probe["exec"]["command"]
        assert parser_of("healthcheck").parse_args(command[2:]).timeout < probe["timeoutSeconds"]
    said = json.loads((DEPLOY / "node-problem-detector/npudoctor.json").read_text(encoding="utf-8"))
    [rule] = said["rules"]
    seconds = [int(text.removesuffix("s")) for text in (rule["timeout"], said["pluginConfig"]["timeout"])]
    assert parser_of("check").parse_args(rule["args"][1:]).timeout < seconds[0] <= seconds[1]


def test_the_problem_detector_knows_every_key_and_takes_the_whole_line() -> None:
    """The keys are those of its documentation, docs/custom_plugin_monitor.md, and of its own configurations."""
    said = json.loads((DEPLOY / "node-problem-detector/npudoctor.json").read_text(encoding="utf-8"))
    assert set(said) == {"plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules"}
    assert said["plugin"] == "custom"
    assert set(said["pluginConfig"]) <= {
        *("invoke_interval", "timeout", "max_output_length", "concurrency"),
        *("enable_message_change_based_condition_update", "skip_initial_status"),
    }
    assert said["pluginConfig"]["max_output_length"] >= npd.MESSAGE_BYTES
    [condition], [rule] = said["conditions"], said["rules"]
    assert set(condition) == {"type", "reason", "message"}
    assert set(rule) <= {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"}
    assert (rule["type"], rule["condition"]) == ("permanent", condition["type"])
    assert re.fullmatch("[A-Z][A-Za-z]+", rule["reason"])


def test_the_manifests_fit_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rbac, daemonset = kinds("kubernetes/rbac.yaml"), kinds("kubernetes/daemonset.yaml")
    account = rbac["ServiceAccount"]["metadata"]
    assert rbac["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert rbac["ClusterRoleBinding"]["roleRef"]["name"] == rbac["ClusterRole"]["metadata"]["name"]
    spec = daemonset["DaemonSet"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == account["name"]
    assert spec["automountServiceAccountToken"] is False, "the daemon itself needs nothing of the cluster"
    [container] = spec["containers"]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in spec["volumes"]}
    held = daemonset["ConfigMap"]["data"]["config.toml"]
    (tmp_path / "config.toml").write_text(held, encoding="utf-8")
    config.load(str(tmp_path / "config.toml"))
    told = tomllib.loads(held)["daemon"]
    assert "listen" not in told, "the probes use the socket"
    scraped = daemonset["DaemonSet"]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
    assert told["metrics_listen"].endswith(f":{scraped}")
    assert documents("prometheus/scrape.yaml")[0]["scrape_configs"][0]["static_configs"][0]["targets"][0].endswith(
        f":{scraped}"
    )


def test_the_daemonset_says_why_it_is_privileged_and_gives_its_account_to_nobody() -> None:
    text = (DEPLOY / "kubernetes/daemonset.yaml").read_text(encoding="utf-8")
    spec = kinds("kubernetes/daemonset.yaml")["DaemonSet"]["spec"]["template"]["spec"]
    assert spec["containers"][0]["securityContext"]["privileged"] is True
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert "takes those NPUs out of the scheduler's pool" in text
    sidecar = documents("kubernetes/node-condition.yaml")[0]["spec"]["template"]["spec"]
    assert "automountServiceAccountToken" not in sidecar
    assert sidecar["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_driver_is_mounted_where_the_knowledge_says_that_it_lies() -> None:
    spec = kinds("kubernetes/daemonset.yaml")["DaemonSet"]["spec"]["template"]["spec"]
    mounted = {one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    wanted = [one.host for one in layout().mounts if one.plain and not one.several_nodes]
    for path in wanted:
        assert any(path == one or path.startswith(f"{one}/") for one in mounted), path


def test_a_job_gathers_one_answer_of_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["manifest", "k8s", "-w", "n[1-3]", "--image", "registry.site:5000/npudoctor:1", "--claim", "shared"]
    assert main(["fleet", *words]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    assert (job["kind"], job["spec"]["completions"], job["spec"]["parallelism"]) == ("Job", 3, 3)
    assert job["spec"]["backoffLimit"] >= 3  # a node that fails does not end the others
    spec = job["spec"]["template"]["spec"]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["n1", "n2", "n3"]
    [apart] = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    [container] = spec["containers"]
    assert container["image"] == "registry.site:5000/npudoctor:1"
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "shared"}
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert set(mounts) == {one["name"] for one in spec["volumes"]}
    daemon = kinds("kubernetes/daemonset.yaml")["DaemonSet"]["spec"]["template"]["spec"]
    sidecar = documents("kubernetes/node-condition.yaml")[0]["spec"]["template"]["spec"]
    volumes = [*daemon["volumes"], *sidecar["volumes"]]
    node = {one["name"]: one["hostPath"] for one in volumes if "hostPath" in one}
    assert {"run", "etc"} <= set(mounts)  # hands-off and hold of the node
    for name, place in ((one["name"], one.get("hostPath")) for one in spec["volumes"]):
        assert place is None or place == node[name]
    for words in (["--image", "a b"], ["--claim", "-x"], ["--image", "x\ny: z"]):
        assert main(["fleet", "manifest", "k8s", "-w", "n1", f"{words[0]}={words[1]}"]) == 2
    assert main(["fleet", "manifest", "k8s"]) == 2


def test_the_job_fails_only_where_there_is_no_answer(tmp_path: Path) -> None:
    """Its command line is run by sh, with an npudoctor that ends with each code."""
    [container] = kinds("kubernetes/fleet-job.yaml")["Job"]["spec"]["template"]["spec"]["containers"]
    program = tmp_path / "npudoctor"
    program.write_text('#!/bin/sh\n[ "$5" = "a node" ] || exit 9\nexit $CODE\n', encoding="utf-8")
    program.chmod(0o755)
    ended = {}
    for code in ("0", "1", "2", "3", "4"):
        variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE_NAME": "a node", "CODE": code}
        ended[code] = subprocess.run(container["command"], env=variables, check=False).returncode == 0
    assert ended == {"0": True, "1": True, "2": False, "3": True, "4": False}


def test_the_sidecar_is_laid_over_the_daemonset() -> None:
    patch, whole = documents("kubernetes/node-condition.yaml")[0], kinds("kubernetes/daemonset.yaml")["DaemonSet"]
    for key in ("apiVersion", "kind"):
        assert patch[key] == whole[key]
    assert patch["metadata"]["name"] == whole["metadata"]["name"]
    assert patch["spec"]["selector"] == whole["spec"]["selector"]


DEVICES = (*(f"/dev/davinci{n}" for n in range(8)), "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")


@pytest.mark.parametrize(
    ("name", "written"), [("compose.yaml", stanzas.compose), ("compose.ascend.yaml", stanzas.ascend_compose)]
)
def test_the_compose_files_are_what_the_fix_prints(name: str, written: Any) -> None:
    one = stanzas.stanza(DEVICES, "npudoctor", shm=None, name="npudoctor", group="1000", command=("daemon",))
    text = (DEPLOY / "docker" / name).read_text(encoding="utf-8")
    assert re.sub(r"\A(#.*\n)+", "", text) == written(one)
    service = yaml.safe_load(text)["services"]["npudoctor"]
    assert service["command"] == ["daemon"]


def test_every_alert_is_about_a_metric_that_the_daemon_has() -> None:
    pytest.importorskip("prometheus_client", reason="the daemon's libraries are not installed")
    source = (ROOT / "npudoctor" / "daemon" / "metrics.py").read_text(encoding="utf-8")
    for rule in documents("prometheus/alerts.yaml")[0]["groups"][0]["rules"]:
        for name in re.findall(r"npudoctor_(\w+)", rule["expr"]):
            known = name if not name.startswith("card_") else name.removeprefix("card_")
            assert f'"{known}"' in source or f'"{name}"' in source, name


# The sidecar's script, with the real curl


class Cluster(ThreadingHTTPServer):
    """An API server that notes what it is asked, and the daemon of a node."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.patches: list[tuple[str, str, str, Any]] = []
        self.ready: tuple[int, str] = (200, "")


class Answering(BaseHTTPRequestHandler):
    server: Cluster

    def do_GET(self) -> None:
        self._answer(*self.server.ready)

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = (self.path, self.headers["Content-Type"], self.headers["Authorization"], json.loads(body))
        self.server.patches.append(said)
        self._answer(200, "{}")

    def _answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    with Cluster() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ready(is_ready: bool, reason: str | None, looked_at: str | None) -> str:
    said = {"schema": "npudoctor.ready/1", "ready": is_ready, "reason": reason, "looked_at": looked_at}
    return json.dumps({**said, "interval_s": 60.0, "troubles": []}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("answer", "status", "fit", "message"),
    [
        ((200, ready(True, None, "2026-11-21T10:00:00Z")), "False", "true", "all NPUs healthy"),
        ((503, ready(False, 'npu:2: "Alarm" \\ é', "2026-11-21T10:00:00Z")), "True", "false", 'npu:2: "Alarm" \\ é'),
        ((503, ready(False, "the first look goes on", None)), "Unknown", "unknown", "the first look goes on"),
        ((500, "oops"), "Unknown", "unknown", "no answer of the daemon"),
    ],
)
def test_a_node_gets_its_condition_and_its_label(
    cluster: Cluster, tmp_path: Path, answer: tuple[int, str], status: str, fit: str, message: str
) -> None:
    (tmp_path / "token").write_text("secret", encoding="utf-8")
    (tmp_path / "ca.crt").write_text("", encoding="utf-8")
    cluster.ready = answer
    here = f"http://127.0.0.1:{cluster.server_port}"
    script = DEPLOY / "kubernetes" / "node-condition.sh"
    told = {"KUBERNETES_API": here, "READY": f"{here}/readyz", "ACCOUNT": str(tmp_path), "NODE_NAME": "n1", "ONCE": "1"}
    done = subprocess.run(
        ["sh", str(script)], env={**told, "PATH": "/usr/bin:/bin"}, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    (first, kind, who, condition), (second, other, _, label) = cluster.patches
    assert (first, kind) == ("/api/v1/nodes/n1/status", "application/strategic-merge-patch+json")
    assert who == "Bearer secret"
    [one] = condition["status"]["conditions"]
    assert (one["type"], one["status"], one["message"]) == ("NPUUnhealthy", status, message)
    assert one["lastHeartbeatTime"] == one["lastTransitionTime"]
    assert (second, other) == ("/api/v1/nodes/n1", "application/merge-patch+json")
    assert label == {"metadata": {"labels": {"npudoctor/fit": fit}}}


def test_the_label_of_a_node_on_hold_is_left_as_it_is(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret", encoding="utf-8")
    (tmp_path / "ca.crt").write_text("", encoding="utf-8")
    cluster.ready = (503, ready(False, "npu:2: Alarm", "2026-11-21T10:00:00Z"))
    here = f"http://127.0.0.1:{cluster.server_port}"
    script, hold = DEPLOY / "kubernetes" / "node-condition.sh", tmp_path / "hold"
    told = {"KUBERNETES_API": here, "READY": f"{here}/readyz", "ACCOUNT": str(tmp_path), "NODE_NAME": "n1", "ONCE": "1"}
    for line, patches in (("alice: cables, until 9999-12-31", 1), ("alice: cables, until 2020-01-01", 2)):
        hold.write_text(f"{line}\n", encoding="utf-8")
        hold.chmod(0o644)
        cluster.patches.clear()
        environment = {**told, "NPUDOCTOR_HOLD": str(hold), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["sh", str(script)], env=environment, capture_output=True, encoding="utf-8", check=False)
        assert (done.returncode, len(cluster.patches)) == (0, patches), done.stderr
    hold.write_text("mallory\n", encoding="utf-8")
    hold.chmod(0o664)
    cluster.patches.clear()
    done = subprocess.run(["sh", str(script)], env=environment, capture_output=True, encoding="utf-8", check=False)
    assert len(cluster.patches) == 2 and "does not count as a hold" in done.stderr
