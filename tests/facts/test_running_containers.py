"""The containers of a host: by control groups, mountinfo and a /dev in memory, without a daemon."""

import pytest

from npudoctor.facts.node.running_containers import container_of, is_in_memory, parse_names, pod_names, reduce_mountinfo
from npudoctor.sdk import Completed
from npudoctor.testing import FakeHost, run

ID = "3f0c9d1e7a52b84c6d0e9f13a7b25c84d6e0f9a13b7c52d84e6f0a9b13c7d52e"
UID = "5c0a1f7e-3b2d-4e8f-9a6c-1d2e3f4a5b6c"
GROUPS = "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/system.slice/docker-{ID}.scope", (ID, "docker", None)),
        (f"/docker/{ID}", (ID, "docker", None)),
        (f"/isulad/{ID}", (ID, "isulad", None)),
        (f"/machine.slice/libpod-{ID}.scope", (ID, "podman", None)),
        (f"/kubepods/burstable/pod{UID}/{ID}", (ID, "containerd", UID)),
        (
            f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
            (ID, "containerd", UID),
        ),
        (f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{ID}.scope", (ID, "cri-o", UID)),
        ("/system.slice/docker.service", None),
        (f"/system.slice/docker-{ID[:40]}.scope", None),
    ],
)
def test_a_control_group_names_its_container(path: str, expected: object) -> None:
    assert container_of(GROUPS + path) == expected


def test_a_pod_has_a_name_by_its_folder_of_logs() -> None:
    assert pod_names([f"jobs_qwen-0_{UID}", "other"]) == {UID: "jobs/qwen-0"}


def test_a_name_that_is_none_is_not_taken() -> None:
    assert parse_names(Completed(returncode=0, stdout=f"{ID} good\n{ID}x \x1b[2Jbad\nonly-one\n")) == {ID: "good"}
    assert parse_names(Completed(returncode=1, stdout=f"{ID} good\n")) == {}


MEMORY = "901 900 0:60 / /dev rw - tmpfs tmpfs rw"
DISK = "901 900 0:60 / /dev rw - fuse.sshfs user@host: rw"
SECRET = "930 900 0:70 /vault/key /run/secrets/key ro - tmpfs tmpfs rw"
FILES = "931 900 253:0 /usr/local/Ascend/driver/lib64 /usr/local/Ascend/driver/lib64 ro - ext4 /dev/sda rw"


@pytest.mark.parametrize(
    ("lines", "expected"), [([MEMORY], True), ([DISK], False), ([MEMORY, DISK], False), ([], False)]
)
def test_only_a_dev_in_memory_is_listed(lines: list[str], expected: bool) -> None:
    assert is_in_memory("\n".join(lines), "/dev") is expected


def test_a_recording_keeps_of_the_mounts_what_is_read() -> None:
    assert reduce_mountinfo("\n".join([MEMORY, SECRET, FILES])) == f"{MEMORY}\n{FILES}\n"


def host(dev: str) -> FakeHost:
    return FakeHost(
        files={
            f"{GROUPS}/cgroup.controllers": "cpu\n",
            f"{GROUPS}/system.slice/docker-{ID}.scope/cgroup.procs": "4242\n",
            "/proc/4242/mountinfo": f"{dev}\n{FILES}\n",
            "/proc/4242/root/dev/davinci3": "",
            "/proc/modules": "drv_davinci_intf_host 65536 1 - Live 0x0\n",
        }
    )


@pytest.mark.parametrize(
    ("dev", "codes"),
    [
        (MEMORY, ["containers.complete/no-manager", "containers.complete/no-network-files"]),
        (DISK, []),
    ],
)
def test_a_container_whose_dev_cannot_be_listed_safely_is_not_judged_by_it(dev: str, codes: list[str]) -> None:
    result = run(host(dev), "containers.complete").results[-1]
    assert [finding.code for finding in result.findings] == codes


def test_a_host_without_containers_is_not_asked() -> None:
    result = run(FakeHost(files={f"{GROUPS}/cgroup.controllers": "cpu\n"}), "containers.complete").results[-1]
    assert (result.status.value, result.reason) == ("skipped", "no running container uses an NPU")
