"""Containers and orchestrators."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.facts.network.interfaces import Interfaces, parse
from npudoctor.facts.node import container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.findings import Because
from npudoctor.host.live import measures
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import NotApplicable

IN_DOCKER: dict[str, Any] = {"container": {"runtime": "docker", "cgroup": "v2"}}


def named(*names: str) -> Interfaces:
    return parse([{"name": name, "up": True} for name in names])


@pytest.mark.parametrize("measured", [{}, {"container": None}])
def test_a_host_is_no_container(measured: dict[str, Any]) -> None:
    with pytest.raises(NotApplicable) as why:
        container.container(FakeHost(measures=measured), None, None)
    assert why.value.reason == "this is not a container"
    assert why.value.because is Because.NOT_APPLICABLE


@pytest.mark.parametrize(("mark", "runtime"), [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")])
def test_the_file_that_a_runtime_leaves_is_enough(mark: str, runtime: str) -> None:
    assert container.container(FakeHost(files={mark: ""}), None, None).runtime == runtime


HOSTS_OF = {
    "/var/lib/kubelet/pods/0a1b2c3d/etc-hosts": "kubernetes",
    "/data/kubelet/pods/0a1b2c3d/etc-hosts": "kubernetes",
    "/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/5f1d/resolv.conf": "kubernetes",
    "/var/lib/nerdctl/1935db59/etchosts/default/5f1d/hosts": "containerd",
    "/data/docker/containers/5f1d/hosts": "docker",
    "/containers/storage/overlay-containers/5f1d/userdata/hosts": "podman",
    "/var/lib/isulad/engines/lcr/5f1d/hosts": "isula",
}


@pytest.mark.parametrize("point", ["/etc/hosts", "/etc/resolv.conf", "/etc/hostname"])
@pytest.mark.parametrize(("shown", "runtime"), HOSTS_OF.items())
def test_a_runtime_is_known_by_what_it_mounts_on_the_files_of_names(shown: str, runtime: str, point: str) -> None:
    row = f"620 612 253:0 {shown} {point} rw,relatime - ext4 /dev/vda1 rw\n"
    assert measures._by_mounts(f"612 580 0:71 / / rw - overlay overlay rw\n{row}") == runtime


def test_a_pod_that_docker_started_is_a_pod_in_a_shell_without_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    row = "620 612 253:0 /var/lib/kubelet/pods/0a1b/etc-hosts /etc/hosts rw - ext4 /dev/vda1 rw\n"
    files = {"/proc/1/cgroup": "0::/\n", "/proc/self/mountinfo": row, "/.dockerenv": ""}
    host: Any = FakeHost(files=files)
    assert (measures._container(host) or {})["runtime"] == "kubernetes"
    alone: Any = FakeHost(files={**files, "/proc/self/mountinfo": ""})
    assert (measures._container(alone) or {})["runtime"] == "docker"


@pytest.mark.parametrize("point", ["/", "/mnt/old/etc/hosts", "/var/lib/kubelet/pods/0a1b2c3d/volumes"])
def test_a_host_that_mounts_files_of_its_containers_is_none(point: str) -> None:
    rows = (f"620 612 253:0 {shown} {point} rw,relatime - ext4 /dev/vda1 rw\n" for shown in HOSTS_OF)
    assert measures._by_mounts("".join(rows) + "31 1 253:0 / /etc/hosts rw - ext4 /dev/vda1 rw\nx\n") is None


@pytest.mark.parametrize(
    ("runtime", "engine"),
    [("docker", "docker"), ("podman", "podman"), ("containerd", "nerdctl"), ("isula", "isula"), ("lxc", None)],
)
def test_the_engine_is_what_starts_containers_of_the_runtime(runtime: str, engine: str | None) -> None:
    assert container.Container(runtime=runtime).engine == engine


def test_a_recording_that_does_not_know_the_marks_is_no_container() -> None:
    with pytest.raises(NotApplicable):
        container.container(FakeHost(measures={"container": None}, unrecorded="unknown"), None, None)


def test_the_measurement_says_runtime_and_control_groups() -> None:
    found = container.container(FakeHost(measures=IN_DOCKER), named("lo", "enp1s0"), JobEnvironment({}))
    assert (found.runtime, found.cgroup, found.host_network, found.orchestrator) == ("docker", "v2", True, None)


@pytest.mark.parametrize(
    ("names", "devices", "hosts", "hostname", "shared"),
    [
        (("lo", "enp1s0"), {}, "", "node1", True),
        (("lo", "eth0", "docker0"), {}, "", "node1", True),
        (("lo", "eth0", "tunl0"), {"eth0": "../../devices/virtual/net/eth0"}, "", "node1", False),
        (("lo", "eth0", "ifb0"), {"eth0": "../../devices/pci0/net/eth0", "ifb0": "../virtual/net/ifb0"}, "", "n", True),
        (("lo", "eth0"), {}, "", "3f2b9c1d7e55", False),
        (("lo", "eth0"), {}, "", "node1", None),
        (("lo", "enp1s0"), {}, "# Kubernetes-managed hosts file.\n", "pod", False),
        (("lo", "eth0"), {}, "# Kubernetes-managed hosts file (host network).\n", "node1", True),
    ],
)
def test_the_network_of_a_container_is_told_by_its_interfaces(
    names: tuple[str, ...], devices: dict[str, str | None], hosts: str, hostname: str, shared: bool | None
) -> None:
    assert container.host_network(names, devices, hosts, hostname) is shared


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "Kubernetes"),
        ({"SLURM_JOB_ID": "7"}, "Slurm"),
        ({"MA_NUM_HOSTS": "2"}, "ModelArts"),
        ({"WORLD_SIZE": "8"}, None),
    ],
)
def test_orchestrators_are_known_by_their_variables(variables: dict[str, str], name: str | None) -> None:
    assert container.orchestrator(JobEnvironment(variables)).name == name
