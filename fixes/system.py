"""The host system: limits of a login, shared memory, old logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from npudoctor import clock
from npudoctor.facts.node.container import Container
from npudoctor.facts.system.storage import LogFolder, SharedMemory
from npudoctor.records import field, record
from npudoctor.sdk import (
    Effect,
    FileStat,
    Host,
    Note,
    Parameters,
    Refused,
    Remount,
    RemoveLogs,
    Step,
    Unavailable,
    fix,
    real_path,
    writing,
)

from . import messages

LIMITS_FILE = "/etc/security/limits.d/99-npudoctor.conf"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount point, and no temporary file
_LIMITS = {"nofile": "open files", "nproc": "processes and threads", "memlock": "locked memory, in KiB"}
_NETWORK = r"nfs\d?|cifs|smb3?|lustre|ceph|glusterfs|gpfs|beegfs|9p|fuse\..+"
_ROTATED = r".*_\d{14,20}\.log(\.\w+)?|.*\.log\.\d+(\.gz)?"
_MOST_FILES = 20_000


@record(frozen=True)
class WantedLimits(Parameters):
    """`limits` maps nofile, nproc and memlock to a number or unlimited."""

    limits: Mapping[str, str] = field(default_factory=dict)


@fix("system.limits", resolves=("system.limits",), effect=Effect.NEW_LOGIN, root=True)
def raise_limits(asked: WantedLimits, host: Host, container: Container | None) -> Iterator[Step | Note]:
    """Raise the ulimits of logins in /etc/security/limits.d.

    They apply to every user who logs in through PAM; services have their own limits (LimitNOFILE= and so on).
    """
    if container is not None:
        raise Refused(messages.LIMITS_OF_CONTAINER.text())
    if not asked.limits:
        raise Refused(messages.NAME_LIMITS.text(), instead="--set limits.nofile=1048576")
    old = host.read(LIMITS_FILE) if host.exists(LIMITS_FILE) else ""
    wanted = {match[1]: match[2] for match in re.finditer(r"^\* - (\w+) (\S+)$", old, re.M)} | dict(asked.limits)
    for name, value in wanted.items():
        if name not in _LIMITS or not re.fullmatch(r"unlimited|[1-9]\d{0,9}", value):
            raise Refused(messages.BAD_LIMIT.text(name=name, value=value, known=list(_LIMITS)))
    lines = [f"# {_LIMITS[name]}\n* - {name} {value}\nroot - {name} {value}\n" for name, value in wanted.items()]
    head = "# Written by npudoctor (system.limits); undo with `npudoctor undo`.\n"
    yield Note(messages.PAM_AT_LOGIN.text(), messages.VISIBLE_AT_LOGIN.text())
    yield from writing(host, LIMITS_FILE, head + "".join(lines), 0o644)


@record(frozen=True)
class SharedSize(Parameters):
    """`size` is what /dev/shm should have, as in 16g; it uses memory only for what it contains."""

    size: str = "16g"


@fix("system.shm", resolves=("system.shm",), root=True)
def enlarge_shared_memory(
    asked: SharedSize, shared: SharedMemory, container: Container | None
) -> Iterator[Step | Note]:
    """Enlarge /dev/shm until the next boot."""
    size = re.fullmatch(r"([1-9]\d{0,6})([mgt])", asked.size.lower())
    if size is None:
        raise Refused(messages.NOT_A_SIZE.text(size=asked.size))
    if container is not None:
        raise Refused(
            messages.SIZE_OF_CONTAINER.text(), instead=f"{container.engine or 'docker'} run --shm-size={asked.size} …"
        )
    if not shared.mounted:
        command = f"sudo mount -t tmpfs tmpfs {SHARED_MEMORY}"
        raise Refused(messages.NOT_MOUNTED.text(path=SHARED_MEMORY), instead=command)
    wanted = int(size[1]) << {"m": 20, "g": 30, "t": 40}[size[2]]
    if shared.total_bytes >= wanted:
        return
    yield Note(messages.KEEP_IN_FSTAB.text(path=SHARED_MEMORY, size=asked.size))
    yield Remount(SHARED_MEMORY, wanted)


@record(frozen=True)
class OldLogs(Parameters):
    """`folder` is the log folder of jobs, empty for the default; files older than `days` are removed."""

    folder: str = ""
    days: int = 7


@fix("system.clean-logs", resolves=("system.disk",))
def clean_logs(asked: OldLogs, host: Host, logs: LogFolder | None) -> Iterator[Step | Note]:
    """Remove old rotated logs of jobs.

    Only regular files named like a rotated log are removed, never through a link, none that a process has open, and
    none on a network file system, where other nodes may be writing. This cannot be undone.
    """
    if asked.days < 1:
        raise Refused(messages.AT_LEAST_A_DAY.text())
    if logs is None:
        raise Unavailable(messages.LOGS_UNKNOWN.text())
    folder = asked.folder or logs.path
    if folder.rstrip("/") != logs.path.rstrip("/"):
        raise Refused(messages.OTHER_FOLDER.text(path=folder, logs=logs.path))
    folder = real_path(host, folder)
    if kind := _network(host, folder):
        raise Refused(messages.ON_NETWORK.text(path=folder, kind=kind))
    paths, size = _old(host, folder, asked.days * 86400)
    if paths:
        yield RemoveLogs(tuple(paths), size)


def _network(host: Host, folder: str) -> str | None:
    """The kind of the file system of a folder, if it is a network's."""
    best = max(
        (row for row in host.measure("mounts") if f"{folder}/".startswith(f"{row['mount'].rstrip('/')}/")),
        key=lambda row: len(row["mount"]),
        default=None,
    )
    return str(best["fstype"]) if best and re.fullmatch(_NETWORK, best["fstype"]) else None


def _old(host: Host, folder: str, age_s: float) -> tuple[list[str], int]:
    latest = clock.timestamp() - age_s
    opened = _open_files(host)
    found: list[str] = []
    size, waiting = 0, [folder]
    while waiting and len(found) < _MOST_FILES:
        here = waiting.pop()
        for name in host.list_dir(here):
            path = f"{here}/{name}"
            if host.read_link(path) is not None:
                continue
            about = host.stat(path)
            if about.kind == "dir":
                waiting.append(path)
            elif _is_old(about, latest, host.user.uid) and re.fullmatch(_ROTATED, name) and path not in opened:
                found.append(path)
                size += about.size
    return sorted(found), size


def _is_old(about: FileStat, latest: float, uid: int) -> bool:
    return about.kind == "file" and about.uid == uid and about.mtime is not None and about.mtime < latest


def _open_files(host: Host) -> set[str]:
    """The files that visible processes have open."""
    found = set()
    for row in host.measure("processes"):
        folder = f"/proc/{row['pid']}/fd"
        try:
            names = host.list_dir(folder)
        except Unavailable:
            continue
        found |= {target for name in names if (target := host.read_link(f"{folder}/{name}"))}
    return found
