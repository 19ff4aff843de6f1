"""File systems: how much room is left where, what is mounted, shared memory, and the folder of CANN's logs."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.records import record
from npudoctor.sdk import Because, Host, Unavailable, probe, real_path

SHARED_MEMORY = "/dev/shm"  # noqa: S108 (a mount, not a file of ours)
MOST_LOG_FILES = 5000
"""More files than this are not counted; the sum is then a lower bound."""


@record(frozen=True, kw_only=True)
class Disk:
    """A file system with its room in bytes and its inodes; None where not known (usually network file systems)."""

    mount: str
    fstype: str
    total_bytes: int | None = None
    free_bytes: int | None = None
    files_total: int | None = None
    files_free: int | None = None


@record(frozen=True, kw_only=True)
class Mount:
    """One row of the mount table; sizes in bytes, None where not known."""

    mount: str
    fstype: str
    options: tuple[str, ...] = ()
    total_bytes: int | None = None
    free_bytes: int | None = None


@record(frozen=True)
class Mounts:
    """What is mounted where; of two mounts on one place the later one is seen."""

    mounts: tuple[Mount, ...]

    def at(self, path: str) -> Mount | None:
        """What is mounted on exactly this path."""
        return next((mount for mount in reversed(self.mounts) if mount.mount == path), None)


@record(frozen=True)
class Disks:
    """The file systems whose room is known, and the others that are mounted."""

    disks: tuple[Disk, ...]

    def holding(self, path: str) -> Disk | None:
        """The file system that a path lies on."""
        above = [disk for disk in self.disks if _lies_below(path, disk.mount)]
        return max(above, key=lambda disk: len(disk.mount), default=None)


def _lies_below(path: str, mount: str) -> bool:
    return mount == "/" or path == mount or path.startswith(mount + "/")


def parse_mounts(rows: Iterable[Mapping[str, Any]]) -> Mounts:
    """Read the `mounts` of a recording."""
    return Mounts(
        tuple(
            Mount(
                mount=str(row["mount"]),
                fstype=str(row.get("fstype") or ""),
                options=tuple(str(row.get("options") or "").split(",")) if row.get("options") else (),
                total_bytes=row.get("total"),
                free_bytes=row.get("free"),
            )
            for row in rows
        )
    )


def parse_disks(rows: Iterable[Mapping[str, Any]], mounts: Mounts) -> Disks:
    """Read the `disks` of a recording; a mount that is none of them hides what is below it, its room unknown."""
    found = {
        str(row["mount"]): Disk(
            mount=str(row["mount"]),
            fstype=str(row.get("fstype") or ""),
            total_bytes=row.get("total"),
            free_bytes=row.get("free"),
            files_total=row.get("files_total"),
            files_free=row.get("files_free"),
        )
        for row in rows
    }
    for mount in mounts.mounts:
        found.setdefault(
            mount.mount,
            Disk(mount=mount.mount, fstype=mount.fstype, total_bytes=mount.total_bytes, free_bytes=mount.free_bytes),
        )
    return Disks(tuple(found.values()))


@probe(of_the_moment=True)
def mounts(host: Host) -> Mounts:
    """From the mount table."""
    rows = host.measure("mounts")
    if rows is None:
        raise Unavailable("mounted file systems unknown", because=Because.NOT_RECORDED)
    return parse_mounts(rows)


@probe(of_the_moment=True)
def disks(host: Host, mounts: Mounts | None) -> Disks:
    """From the kernel, without asking the servers of network file systems."""
    rows = host.measure("disks")
    if rows is None:
        raise Unavailable("free space of the file systems unknown", because=Because.NOT_RECORDED)
    return parse_disks(rows, mounts or Mounts(()))


@record(frozen=True)
class SharedMemory:
    """The size of /dev/shm and what is free of it, in bytes; none at all where nothing is `mounted` there."""

    total_bytes: int
    free_bytes: int | None = None
    mounted: bool = True


@probe
def shared_memory(host: Host, mounts: Mounts) -> SharedMemory:
    """From the mount on /dev/shm, or on what this is a link to."""
    if not mounts.mounts:
        raise Unavailable("mounted file systems unknown", because=Because.NOT_RECORDED)
    mount = mounts.at(SHARED_MEMORY) or mounts.at(real_path(host, SHARED_MEMORY))
    if mount is None:
        return SharedMemory(0, 0, mounted=False)
    total = mount.total_bytes if mount.total_bytes is not None else _size_option(mount.options)
    if total is None:
        raise Unavailable("size of /dev/shm unknown", because=Because.NOT_RECORDED)
    return SharedMemory(total, mount.free_bytes)


def _size_option(options: Iterable[str]) -> int | None:
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    for option in options:
        key, _, value = option.lower().partition("=")
        number, unit = (value[:-1], units[value[-1]]) if value[-1:] in units else (value, 1)
        if key == "size" and number.isdecimal():
            return int(number) * unit
    return None


@record(frozen=True, kw_only=True)
class LogFolder:
    """The folder that CANN's logs go to, and what it holds; `at_least` where there were too many files to count."""

    path: str
    size_bytes: int = 0
    files: int = 0
    at_least: bool = False


def log_path(environment: Mapping[str, str]) -> str | None:
    """Where a job's logs go: ASCEND_PROCESS_LOG_PATH over ASCEND_WORK_PATH over ~/ascend/log."""
    if direct := environment.get("ASCEND_PROCESS_LOG_PATH"):
        return direct
    if work := environment.get("ASCEND_WORK_PATH"):
        return posixpath.join(work, "log")
    home = environment.get("HOME")
    return posixpath.join(home, "ascend/log") if home else None


@probe(of_the_moment=True)
def log_folder(host: Host, environment: JobEnvironment) -> LogFolder:
    """From the folder itself; links are not followed."""
    path = log_path(environment)
    if path is None:
        raise Unavailable("log directory unknown: HOME is not set")
    size = files = 0
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        try:
            names = host.list_dir(folder)
        except Unavailable:
            if folder == path:
                raise
            continue
        for name in names:
            inside = posixpath.join(folder, name)
            if files >= MOST_LOG_FILES:
                return LogFolder(path=path, size_bytes=size, files=files, at_least=True)
            with contextlib.suppress(Unavailable):
                if host.read_link(inside) is not None:
                    continue
                found = host.stat(inside)
                if found.kind == "dir":
                    waiting.append(inside)
                else:
                    size += found.size
                    files += 1
    return LogFolder(path=path, size_bytes=size, files=files)
