"""The host under the cards, as a user would see the findings."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.findings import Because, Result, Severity, Status
from npudoctor.testing import run_check

GIB = 1 << 30
CARDS = {f"/dev/davinci{number}": "" for number in range(8)}
IN_DOCKER = {"runtime": "docker", "cgroup": "v2"}


def run(id: str, *, cards: int = 8, files: dict[str, str] | None = None, **more: Any) -> Result:
    environ = more.pop("environ", {"HOME": "/root"})
    nodes = dict(list(CARDS.items())[:cards])
    return run_check(id, files={**nodes, **(files or {})}, environ=environ, measures=more)


def severities(result: Result) -> list[Severity]:
    return [finding.severity for finding in result.findings]


@pytest.mark.parametrize("id", ["system.memory", "system.shm", "system.limits", "system.disk"])
def test_without_the_measurement_nothing_is_judged(id: str) -> None:
    result = run(id)
    assert (result.status, result.because) == (Status.SKIPPED, Because.NOT_RECORDED)


# system.memory


@pytest.mark.parametrize(
    ("available", "cards", "expected"), [(900, 8, []), (60, 8, []), (50, 8, [Severity.WARNING]), (50, 0, [])]
)
def test_memory_that_runs_out_is_a_warning_where_there_are_cards(
    available: int, cards: int, expected: list[Severity]
) -> None:
    result = run("system.memory", cards=cards, memory={"total": 1024 * GIB, "available": available * GIB})
    assert severities(result) == expected


TWO_CHIPS = """
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B2               | OK            | 95.7        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3300 / 65536         |
+===========================+===============+====================================================+
| 1     910B2               | OK            | 92.7        37                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3349 / 65536         |
+===========================+===============+====================================================+
"""


@pytest.mark.parametrize(("total", "limit", "expected"), [(256, None, []), (64, None, 1), (256, 64, 1)])
def test_less_memory_than_the_cards_have_is_info(total: int, limit: int | None, expected: Any) -> None:
    result = run_check(
        "system.memory",
        files={**dict(list(CARDS.items())[:2]), "/sys/fs/cgroup/memory.max": str(limit * GIB) if limit else "max"},
        commands={"npu-smi info": TWO_CHIPS},
        measures={"memory": {"total": total * GIB, "available": total * GIB // 2}},
    )
    assert severities(result) == ([Severity.INFO] if expected else [])
    summary = "Host memory (64 GiB) is less than the memory of all chips together (128 GiB)"
    assert [one.summary for one in result.findings] == ([summary] if expected else [])


# system.shm


def shm(gib: float) -> list[dict[str, Any]]:
    return [{"mount": "/dev/shm", "fstype": "tmpfs", "options": "rw", "total": int(gib * GIB), "free": int(gib * GIB)}]


@pytest.mark.parametrize(
    ("gib", "cards", "expected"),
    [
        (64, 8, []),
        (8, 8, []),
        (4, 8, [Severity.WARNING]),
        (4, 1, []),
        (0.0625, 8, [Severity.ERROR]),
        (0.0625, 1, [Severity.ERROR]),
        (0.0625, 0, [Severity.INFO]),
    ],
)
def test_shared_memory_is_judged_by_the_cards_that_need_it(gib: float, cards: int, expected: list[Severity]) -> None:
    assert severities(run("system.shm", cards=cards, mounts=shm(gib))) == expected


def test_a_container_is_given_more_at_its_start_and_a_pod_by_a_volume() -> None:
    inside = run("system.shm", mounts=shm(0.0625), container=IN_DOCKER).findings[0]
    assert inside.summary == "/dev/shm too small: 64 MiB"
    assert inside.commands == ("docker run --shm-size=16g IMAGE  # IMAGE and all other options as before",)
    pod = run("system.shm", mounts=shm(0.0625), container=IN_DOCKER, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert pod.findings[0].hint is not None and "emptyDir" in pod.findings[0].hint


@pytest.mark.parametrize("container", [None, IN_DOCKER])
def test_no_shared_memory_at_all_is_an_error_on_a_host_and_in_a_container(container: dict[str, str] | None) -> None:
    root = [{"mount": "/", "fstype": "ext4", "options": "rw", "total": 900 * GIB, "free": 500 * GIB}]
    measures: dict[str, Any] = {"mounts": root} | ({"container": container} if container else {})
    found = run("system.shm", **measures).findings
    assert [(one.severity, one.summary) for one in found] == [(Severity.ERROR, "/dev/shm not mounted")]


def test_shared_memory_may_be_a_link_to_where_it_is_mounted() -> None:
    elsewhere = [{**shm(64)[0], "mount": "/run/shm"}]
    result = run_check("system.shm", files=CARDS, measures={"mounts": elsewhere}, links={"/dev/shm": "/run/shm"})
    assert (result.status, result.findings) == (Status.OK, ())


# system.limits

HIGH = {"nofile": [1024, 1048576], "nproc": [-1, -1], "memlock": [-1, -1], "core": [0, -1]}


@pytest.mark.parametrize(
    ("change", "severity", "summary"),
    [
        ({}, None, None),
        (
            {"nofile": [1024, 4096]},
            Severity.WARNING,
            "Limit on open files (ulimit nofile) too low: 4096, required 65535",
        ),
        (
            {"nproc": [1024, 1500]},
            Severity.WARNING,
            "Limit on processes and threads (ulimit nproc) too low: 1500, required 1600",
        ),
        ({"nproc": [1024, 2000]}, None, None),
        (
            {"memlock": [65536, 65536]},
            Severity.INFO,
            "Limit on locked memory (ulimit memlock) too low: 64 KiB, required 32 GiB",
        ),
        ({"nofile": None, "nproc": None, "memlock": None}, None, None),
    ],
)
def test_limits_are_judged_by_what_a_job_can_raise_them_to(
    change: dict[str, Any], severity: Severity | None, summary: str | None
) -> None:
    found = run("system.limits", limits={**HIGH, **change}).findings
    assert [(one.severity, one.summary) for one in found] == ([(severity, summary)] if severity else [])


def test_locked_memory_matters_where_there_are_several_nodes() -> None:
    interfaces = [{"name": "eth0", "up": True, "addresses": ["10.0.0.7/24"]}]
    limits = {**HIGH, "memlock": [65536, 65536]}
    environ = {"MASTER_ADDR": "10.0.0.9"}
    result = run("system.limits", limits=limits, interfaces=interfaces, environ=environ)
    assert severities(result) == [Severity.WARNING]
    assert result.findings[0].code == "system.limits/memlock"
    assert result.findings[0].params == {"limit": "64 KiB", "least": "32 GiB"}


def test_the_tasks_of_the_control_group_count_too() -> None:
    result = run("system.limits", limits=HIGH, files={"/sys/fs/cgroup/pids.max": "1024\n"})
    assert severities(result) == [Severity.WARNING]
    assert result.findings[0].summary == (
        "Limit of the control group on processes and threads too low: 1024, required 1600"
    )


def test_the_remedy_fits_the_place() -> None:
    low = {**HIGH, "nofile": [1024, 4096]}
    assert "limits.d" in run("system.limits", limits=low).findings[0].commands[0]
    assert "--ulimit nofile=" in run("system.limits", limits=low, container=IN_DOCKER).findings[0].commands[0]


def test_a_host_without_cards_is_told_for_information_only() -> None:
    assert severities(run("system.limits", cards=0, limits={**HIGH, "nofile": [1024, 4096]})) == [Severity.INFO]


# system.disk


def disk(mount: str, total: float, free: float, **more: Any) -> dict[str, Any]:
    return {"mount": mount, "fstype": "ext4", "total": int(total * GIB), "free": int(free * GIB), **more}


@pytest.mark.parametrize(
    ("root", "expected", "summary"),
    [
        (disk("/", 500, 100), [], None),
        (disk("/", 500, 9), [Severity.WARNING], "/ almost full: 9 GiB of 500 GiB free"),
        (disk("/", 50, 0.9), [Severity.ERROR], "/ almost full: 921.6 MiB of 50 GiB free"),
        (disk("/", 2000, 15), [Severity.ERROR], "/ almost full: 15 GiB of 2 TiB free"),
        (
            disk("/", 500, 100, files_total=1000, files_free=9),
            [Severity.ERROR],
            "/ almost out of inodes: 9 of 1000 free",
        ),
        (
            disk("/", 500, 100, files_total=58_720_256, files_free=120_000),
            [Severity.ERROR],
            "/ almost out of inodes: 120 thousand of 58.7 million free",
        ),
        (disk("/", 500, 100, files_total=0, files_free=0), [], None),
        (
            disk("/", 500, 9, files_total=1000, files_free=9),
            [Severity.ERROR],
            "/ almost full: 9 GiB of 500 GiB free",
        ),
        ({**disk("/", 5, 0), "fstype": "squashfs"}, None, None),
    ],
)
def test_room_is_judged_in_bytes_and_inodes(
    root: dict[str, Any], expected: list[Severity] | None, summary: str | None
) -> None:
    result = run("system.disk", disks=[root])
    assert severities(result) == (expected or [])
    assert [one.summary for one in result.findings] == ([summary] if summary else [])
    assert (result.status is Status.SKIPPED) is (expected is None)


def test_only_file_systems_that_jobs_write_to_matter() -> None:
    disks = [disk("/", 500, 100), disk("/data", 500, 0), disk("/home", 500, 0.5)]
    assert run("system.disk", disks=disks).findings == ()
    result = run("system.disk", disks=disks, environ={"HOME": "/home/dev"})
    assert [finding.summary for finding in result.findings] == ["/home almost full: 512 MiB of 500 GiB free"]
    assert result.findings[0].params["uses"] == ["the home folder", "the logs", "compiled operators"]
    moved = {"HOME": "/root", "ASCEND_PROCESS_LOG_PATH": "/data/log"}
    assert severities(run("system.disk", disks=disks, environ=moved)) == [Severity.ERROR]


def test_a_network_file_system_hides_the_disk_below_it() -> None:
    mounts = [{"mount": "/home", "fstype": "nfs4", "options": "rw"}]
    full = [disk("/", 500, 0.5)]
    result = run("system.disk", disks=full, mounts=mounts, environ={"HOME": "/home/dev"})
    assert result.findings[0].params["uses"] == ["the system"]


@pytest.mark.parametrize(
    ("options", "home", "expected"),
    [
        ("ro,relatime,errors=remount-ro", "/home/dev", [Severity.ERROR]),
        ("rw,relatime", "/home/dev", []),
        ("rw,errors=remount-ro", "/home/dev", []),
        ("ro,relatime", "/data/dev", []),
    ],
)
def test_a_read_only_file_system_that_jobs_write_to_is_an_error(
    options: str, home: str, expected: list[Severity]
) -> None:
    mounts = [{"mount": "/", "fstype": "xfs", "options": "ro"}, {"mount": "/home", "fstype": "xfs", "options": options}]
    disks = [disk("/", 500, 100), disk("/home", 500, 100), disk("/data", 500, 100)]
    result = run("system.disk", disks=disks, mounts=mounts, environ={"HOME": home})
    assert severities(result) == expected
    assert [(one.code, one.params["path"]) for one in result.findings] == [
        ("system.disk/read-only", "/home") for _ in expected
    ]


@pytest.mark.parametrize(
    ("log_gib", "total_gib", "expected"), [(4, 100, []), (6, 1000, [Severity.INFO]), (20, 100, [Severity.WARNING])]
)
def test_large_logs_are_told_and_weigh_by_their_share(
    monkeypatch: pytest.MonkeyPatch, log_gib: int, total_gib: int, expected: list[Severity]
) -> None:
    from npudoctor.host import FileStat
    from npudoctor.host.recording.canned import FakeHost

    real = FakeHost.stat

    def stat(self: FakeHost, path: str) -> FileStat:
        if path.endswith(".log"):
            return FileStat(kind="file", mode=0o644, uid=0, gid=0, access="r", size=log_gib * GIB)
        return real(self, path)

    monkeypatch.setattr(FakeHost, "stat", stat)
    files = {"/root/ascend/log/debug/plog/plog-1.log": ""}
    result = run("system.disk", disks=[disk("/", total_gib, total_gib / 2)], files=files)
    assert severities(result) == expected
    assert [one.summary for one in result.findings] == [f"Logs in /root/ascend/log use {log_gib} GiB" for _ in expected]
