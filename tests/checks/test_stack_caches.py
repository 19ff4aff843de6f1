"""The folders to which a job writes caches and logs: whose variables count, whose rights, and what is created."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.facts.node.cache_folders import cache_folders
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.storage import Mount, Mounts
from npudoctor.findings import Severity
from npudoctor.host import User
from npudoctor.host.live.local import LocalHost
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sdk import NotApplicable

judge: Any = plugins.load().checks["stack.cache-folders"]
POD = Container(runtime="containerd", orchestrator="Kubernetes")
JOB = 1001
STATS = {
    "/": Overlay(kind="dir"),
    "/proc/1": Overlay(kind="dir", mode=0o555, uid=JOB),
    "/root": Overlay(kind="dir", mode=0o700),
    "/root/open": Overlay(kind="dir", mode=0o777),
    "/data": Overlay(kind="dir", uid=JOB),
    "/data/.triton": Overlay(kind="dir"),
    "/tmp": Overlay(kind="dir", mode=0o1777),
    "/usr/lib": Overlay(kind="dir"),
    "/etc/fstab": Overlay(kind="file"),
}


def of_pod(variables: dict[str, str], *mounts: Mount, user: int = JOB, links: dict[str, str] | None = None) -> Any:
    function: Any = cache_folders.function
    stats = STATS | {"/proc/1": Overlay(kind="dir", mode=0o555, uid=user)}
    host = FakeHost(stats=stats, links=links or {}, user=User(name="root", uid=0))
    return function(host, JobEnvironment(variables), POD, Mounts(mounts) if mounts else None)


@pytest.mark.parametrize(
    ("variable", "value", "severity"),
    [
        ("ASCEND_WORK_PATH", "/root/nope", Severity.ERROR),
        ("ASCEND_WORK_PATH", "/root/open/ascend", Severity.ERROR),
        ("ASCEND_CACHE_PATH", "/nonexistent/cache", Severity.ERROR),
        ("ASCEND_CACHE_PATH", "/usr/lib", Severity.ERROR),
        ("TRITON_CACHE_DIR", "/usr/lib/a/b", Severity.WARNING),
        ("TORCHINDUCTOR_CACHE_DIR", "/usr/lib", Severity.WARNING),
        ("VLLM_CACHE_ROOT", "/etc/fstab/vllm", Severity.WARNING),
        ("XDG_CACHE_HOME", "/root", Severity.WARNING),
        ("ACL_OP_COMPILER_CACHE_DIR", "/", Severity.WARNING),
        ("HOME", "/nonexistent", Severity.WARNING),
        ("HOME", "/", Severity.WARNING),
    ],
)
def test_a_folder_where_the_user_of_the_job_may_not_write_is_named(
    variable: str, value: str, severity: Severity
) -> None:
    [finding] = judge(of_pod({variable: value}))
    assert finding.severity is severity
    assert finding.summary.startswith(f"{variable}: {value} ")
    assert list(judge(of_pod({variable: value}, user=0))) == [] or value.startswith("/etc/fstab")


@pytest.mark.parametrize(
    "variables",
    [
        {"HOME": "/data", "TRITON_CACHE_DIR": "/data/triton"},
        {"HOME": "/data/new", "ASCEND_WORK_PATH": "/data/a/b/c", "ASCEND_CACHE_PATH": "/tmp/cache"},
        {"TRITON_CACHE_DIR": "relative", "VLLM_CACHE_ROOT": "/data"},
    ],
)
def test_a_folder_that_can_be_created_is_fine(variables: dict[str, str]) -> None:
    assert list(judge(of_pod(variables))) == []


def test_a_folder_of_another_user_in_the_home_of_the_job_is_named_by_itself() -> None:
    [finding] = judge(of_pod({"HOME": "/data"}))
    assert finding.summary.startswith("HOME: /data/.triton is not writable")
    assert finding.params["what"] == ["compiled kernels of Triton"]


def test_a_home_that_nothing_is_written_to_is_not_judged() -> None:
    elsewhere = dict.fromkeys(("ASCEND_CACHE_PATH", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT"), "/data/x")
    assert list(judge(of_pod({"HOME": "/nope", "ASCEND_PROCESS_LOG_PATH": "/data/log", **elsewhere}))) == []


def test_a_read_only_file_system_stops_root_too() -> None:
    mounts = (Mount(mount="/", fstype="overlay", options=("ro",)), Mount(mount="/data", fstype="ext4"))
    [finding] = judge(of_pod({"HOME": "/root", "TRITON_CACHE_DIR": "/data/x"}, *mounts, user=0))
    assert finding.code == "stack.cache-folders/read-only"


def test_the_environment_of_npudoctor_itself_is_not_judged() -> None:
    function: Any = cache_folders.function
    with pytest.raises(NotApplicable):
        function(FakeHost(stats=STATS), JobEnvironment({"TRITON_CACHE_DIR": "/usr/lib"}), None, None)


def test_a_folder_below_a_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    function: Any = cache_folders.function
    variables = {"TRITON_CACHE_DIR": f"{tmp_path}/file/a/b", "VLLM_CACHE_ROOT": f"{tmp_path}/new/a"}
    found = function(LocalHost(), JobEnvironment(variables, f"pid:{os.getpid()}"), None, None)
    [finding] = judge(found)
    assert (finding.code, finding.params["judged"]) == ("stack.cache-folders/no-directory", f"{tmp_path}/file")


def test_paths_of_a_job_in_a_container_are_not_looked_up_on_its_host() -> None:
    links = {"/proc/self/ns/mnt": "mnt:[4026531840]", "/proc/1/ns/mnt": "mnt:[4026532270]"}
    with pytest.raises(NotApplicable, match="in a container"):
        of_pod({"TRITON_CACHE_DIR": "/usr/lib"}, links=links)
