"""Processes that outlive npudoctor, and what the kernel says of processes; always of this machine."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Sequence

from npudoctor.host import Unavailable
from npudoctor.host.live import process_tree

_LAUNCH = '"$@" & exit 0'
LAUNCH_S = 60.0
_EVERYBODY_S = (1, 5, *range(136, 144))
"""Major numbers of devices that every user can open: /dev/null and the like, terminals (devices.txt of Linux)."""


class Apart:
    """The part of `LocalHost` that starts what nothing of npudoctor's may end."""

    def outside(self, path: str) -> str:
        """A path of the node as a process of this machine names it."""
        return self._at(path)

    def _at(self, path: str, *, follow: bool = True) -> str:
        raise NotImplementedError

    def start_apart(self, argv: Sequence[str], variable: str) -> None:
        """Start a command in a session of its own that is no child of npudoctor's; raises Unavailable where it cannot.

        It has `variable` (NAME=value) in its environment. An orphan of npudoctor's is ended with it, so for this moment
        npudoctor adopts none.
        """
        name, _, value = variable.partition("=")
        with process_tree.adopting_none():
            try:
                done = subprocess.run(
                    ["/bin/sh", "-c", _LAUNCH, "sh", *argv] if not argv[0].endswith("systemd-run") else [*argv],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={
                        name: value,
                        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                        "LC_ALL": "C",
                    },
                    start_new_session=True,
                    check=False,
                    timeout=LAUNCH_S,
                )
            except (OSError, subprocess.TimeoutExpired) as problem:
                raise Unavailable(f"{argv[0]} cannot be started: {problem}") from problem
        if done.returncode != 0:
            raise Unavailable(f"{argv[0]} ended with exit code {done.returncode}")

    def start_of(self, pid: int) -> str | None:
        """The start time of a process in clock ticks since boot; None where it has ended."""
        fields = _read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
        return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else None

    def boot_id(self) -> str:
        """The id of this boot."""
        return _read("/proc/sys/kernel/random/boot_id").strip()

    def process_names(self) -> frozenset[str]:
        """The names of root's processes: any user can give a process of his any name."""
        return frozenset(_read(f"/proc/{pid}/comm").strip() for pid in _own_pids())

    def processes_with(self, variable: str) -> tuple[int, ...]:
        """Root's processes that were started with this variable, as NAME=value, and have not ended."""
        needle = os.fsencode(variable)
        return tuple(
            pid for pid in _own_pids() if needle in _bytes(f"/proc/{pid}/environ").split(b"\0") and self.start_of(pid)
        )

    def holding(self, pattern: str) -> tuple[str, ...]:
        """The processes that have a device whose path matches open, by name and pid."""
        return tuple(
            f"{_read(f'/proc/{pid}/comm').strip() or 'process'} pid {pid}"
            for pid in _pids()
            if any(re.fullmatch(pattern, target) and _is_device(file, target) for file, target in _targets(pid))
        )


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())


def _own_pids() -> Iterator[int]:
    """The processes of root and of this user; the owner of /proc/PID would be root for any that has changed its ids."""
    ours = {"0", str(os.geteuid())}
    for pid in _pids():
        found = re.search(r"^Uid:\s(.+)$", _read(f"/proc/{pid}/status"), re.M)
        if found and ours.issuperset(found[1].split()):
            yield pid


def _targets(pid: int) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield f"/proc/{pid}/fd/{name}", os.readlink(f"/proc/{pid}/fd/{name}")


def _is_device(file: str, target: str) -> bool:
    """Whether an open file is the device of that path: in a mount namespace of a user's any file may have it."""
    with contextlib.suppress(OSError):
        found = os.stat(file)
        if not stat.S_ISCHR(found.st_mode):
            return False
        try:
            return os.stat(target).st_rdev == found.st_rdev
        except OSError:  # deleted, or of a container with other numbers
            return os.major(found.st_rdev) not in _EVERYBODY_S
    return False


def _read(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace")


def _bytes(path: str) -> bytes:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(1 << 21)
    return b""
