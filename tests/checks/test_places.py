"""A remedy fits the place: a host, Docker, a pod, a notebook; and a mount that is itself the fault."""

from __future__ import annotations

import re
from typing import Any

import pytest

from npudoctor.facts.node import _container_stanzas as stanzas
from npudoctor.findings import Finding
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sim import machine, scenario
from npudoctor.testing import run

SMALL = {"shm_gib": 0.0625, "limits": {"nofile": [1024, 4096]}, "node_group": 1987}
STRANGER = {"name": "train", "uid": 1001, "groups": {"train": 1001}}
NOTEBOOK_USER = {"name": "ma-user", "uid": 1001, "groups": {"ma-group": 100}}
OF_A_POD = {"KUBERNETES_SERVICE_HOST": "10.247.0.1"}
INSIDE = (
    *("system.shm", "system.limits", "driver.access", "driver.installed", "driver.npu-smi"),
    *("container.devices", "container.driver-files"),
)

ENGINES = {"docker": "docker", "podman": "podman", "containerd": "nerdctl", "isula": "isula", "lxc": "docker"}
"""What starts a container of a runtime; for one that nobody here knows, the words of docker."""


def found(said: dict[str, Any], *names: str) -> list[Finding]:
    node = machine.build(scenario.parse({"product": "atlas-800t-a2-910b3", **said}, "n"), "n")
    report = run(node, *(names or INSIDE), profile="standard")
    return [finding for result in report.results for finding in result.findings if finding.severity.value != "info"]


@pytest.mark.parametrize(
    "said",
    [
        {**SMALL, "user": STRANGER},
        {"remove": ["/dev/davinci_manager"]},
        {"container": {"devices": [], "managers": False}},
        {"container": {"driver_files": False}},
        {"remove": ["/usr/local/Ascend/driver/lib64"]},
        {"remove": ["/usr/local/bin/npu-smi"]},
    ],
)
@pytest.mark.parametrize("place", ["pod", "notebook", "docker", "podman", "containerd", "isula", "lxc"])
def test_a_remedy_can_be_carried_out_where_one_stands(said: dict[str, Any], place: str) -> None:
    runtime = {"pod": "kubernetes", "notebook": "kubernetes"}.get(place, place)
    box = {**said.get("container", {}), "runtime": runtime}
    user = {"user": NOTEBOOK_USER} if place == "notebook" else {}
    findings = found({**said, **user, "container": box, "environ": OF_A_POD if runtime == "kubernetes" else {}})
    assert findings
    for finding in findings:
        words = " ".join([*finding.commands, finding.hint or "", finding.detail or ""])
        engines = {one for one in ENGINES.values() if re.search(rf"\b{one} run\b", words)}
        assert engines <= {ENGINES.get(place)}, finding.code
        assert place != "lxc" or "docker run" not in words or "as for docker" in words, finding.code
        assert finding.hint
        if place == "notebook":
            assert "Text to send: “" in finding.hint, finding.code


def test_the_line_of_everyone_does_not_apply_to_root() -> None:
    [root] = found({"limits": {"nofile": [1024, 4096]}}, "system.limits")
    assert root.commands[0].startswith("echo 'root - nofile 1048576' |")
    user = {"name": "train", "uid": 1001, "groups": {"train": 1001, "HwHiAiUser": 1000}}
    [other] = found({"limits": {"nofile": [1024, 4096]}, "user": user}, "system.limits")
    assert other.commands[0].startswith("echo '* - nofile 1048576' |")


def test_what_is_mounted_wrongly_is_found_on_the_host_first() -> None:
    path = "/etc/ascend_install.info"
    said = {"product": "atlas-800t-a2-910b3", "container": {}, "remove": [path]}
    host = machine.build(scenario.parse(said, "n"), "n")
    host.tree.stats[path] = Overlay(kind="dir", mode=0o755)
    report = run(host, "container.driver-files", profile="standard")
    [finding] = next(result for result in report.results if result.check == "container.driver-files").findings
    assert finding.commands[0] == f"ls -ld {path}  # on the host"


@pytest.mark.parametrize("inside", ["/dev/davinci116", "/dev/vdavinci116"])
def test_a_vnpu_is_passed_by_its_name_on_the_host(inside: str) -> None:
    one = stanzas.stanza((inside, "/dev/davinci_manager"))
    for text in (stanzas.docker(one), stanzas.compose(one)):
        assert "/dev/vdavinci116:/dev/davinci116" in text
        assert "/dev/davinci_manager:" not in text
    for text in (stanzas.ascend_runtime(one), stanzas.ascend_compose(one)):
        assert re.search(r"ASCEND_VISIBLE_DEVICES\W+116\b", text)
        assert re.search(r"ASCEND_RUNTIME_OPTIONS\W+VIRTUAL\b", text)
    assert "VIRTUAL" not in stanzas.ascend_runtime(stanzas.stanza(("/dev/davinci3",)))
