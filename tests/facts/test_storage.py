"""File systems, shared memory and the logs' folder."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system import storage
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Unavailable

MOUNTS: list[dict[str, Any]] = [
    {"mount": "/", "fstype": "ext4", "options": "rw", "total": 100, "free": 50},
    {"mount": "/dev/shm", "fstype": "tmpfs", "options": "rw,size=65536k", "total": 67108864, "free": 67108864},
    {"mount": "/home", "fstype": "nfs4", "options": "rw"},
]
DISKS = [
    {"mount": "/", "fstype": "ext4", "total": 500, "free": 120, "files_total": 30, "files_free": 10},
    {"mount": "/home/dev", "fstype": "xfs", "total": 9, "free": 8},
]


def test_a_path_lies_on_the_deepest_mount_above_it() -> None:
    host = FakeHost(measures={"disks": DISKS, "mounts": MOUNTS})
    found = storage.disks(host, storage.mounts(host))
    where = {path: found.holding(path) for path in ("/", "/homework", "/home/dev/x", "/home/other")}
    assert {path: disk and (disk.mount, disk.free_bytes) for path, disk in where.items()} == {
        "/": ("/", 120),
        "/homework": ("/", 120),
        "/home/dev/x": ("/home/dev", 8),
        "/home/other": ("/home", None),
    }


def test_disks_are_known_without_the_mount_table() -> None:
    found = storage.disks(FakeHost(measures={"disks": DISKS}), None)
    home = found.holding("/home/other")
    assert home is not None and home.mount == "/"


def test_shared_memory_has_the_size_of_its_mount_or_of_its_option() -> None:
    assert storage.shared_memory(FakeHost(), storage.parse_mounts(MOUNTS)).total_bytes == 64 << 20
    bare = [{"mount": "/dev/shm", "fstype": "tmpfs", "options": "rw,size=2g"}]
    assert storage.shared_memory(FakeHost(), storage.parse_mounts(bare)).total_bytes == 2 << 30


@pytest.mark.parametrize("rows", [[], [{"mount": "/dev/shm", "fstype": "tmpfs"}]])
def test_shared_memory_without_mount_or_size_is_unknown(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(Unavailable, match=r"/dev/shm|file systems"):
        storage.shared_memory(FakeHost(), storage.parse_mounts(rows))


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"HOME": "/root"}, "/root/ascend/log"),
        ({"HOME": "/root", "ASCEND_WORK_PATH": "/w"}, "/w/log"),
        ({"ASCEND_WORK_PATH": "/w", "ASCEND_PROCESS_LOG_PATH": "/l"}, "/l"),
        ({}, None),
    ],
)
def test_the_logs_go_where_the_variables_say(variables: dict[str, str], path: str | None) -> None:
    assert storage.log_path(variables) == path


def test_the_logs_are_summed_without_following_links() -> None:
    host = FakeHost(
        files={"/root/ascend/log/debug/plog/a.log": "x" * 10, "/root/ascend/log/b.log": "y" * 5, "/big": "z" * 1000},
        links={"/root/ascend/log/elsewhere": "/big"},
    )
    found = storage.log_folder(host, JobEnvironment({"HOME": "/root"}))
    assert (found.path, found.size_bytes, found.files, found.at_least) == ("/root/ascend/log", 15, 2, False)


def test_too_many_logs_are_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MOST_LOG_FILES", 2)
    host = FakeHost(files={f"/root/ascend/log/{number}.log": "x" for number in range(5)})
    found = storage.log_folder(host, JobEnvironment({"HOME": "/root"}))
    assert (found.size_bytes, found.at_least) == (2, True)


def test_without_the_folder_there_is_nothing_to_sum() -> None:
    with pytest.raises(Unavailable, match="does not exist"):
        storage.log_folder(FakeHost(), JobEnvironment({"HOME": "/root"}))
    with pytest.raises(Unavailable, match="HOME is not set"):
        storage.log_folder(FakeHost(), JobEnvironment({}))
