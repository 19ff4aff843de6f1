"""The processes that npudoctor starts, and what they leave behind.

A tool may leave its process group, its session and its variables (`setsid env -i ... &`), and the process between may
end: then nothing tells any more whose it was. Therefore npudoctor is its descendants' subreaper (prctl(2)): an orphan
becomes npudoctor's own child instead of init's, and a child that npudoctor did not start itself is such an orphan.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from npudoctor.host.live.process_tree import adopt_orphans, children

WAIT_S = 0.3
"""How long to wait for what was killed, and for a start that is under way."""

GRACE_S = 0.15
"""How long a process may take to act on SIGTERM, and how long on SIGKILL."""

TimeoutExpired = subprocess.TimeoutExpired
_ROUNDS = 20
LONGEST_BYTES = 8 << 20
"""What is read of the environment of a process: the kernel starts none with more, but one can show gigabytes of its
memory there (PR_SET_MM_MAP)."""

_MARKS = (b"NPUDOCTOR_CALL=", b"NPUDOCTOR_SMOKE=")
"""Variables by which a call, and a smoke run, know their own processes; they end those themselves."""

_started: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()
_starting: set[object] = set()
_lock = threading.Lock()


class _Child(NamedTuple):
    pid: int
    state: str
    session: int
    began: int


def start(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process of npudoctor's own, as subprocess.Popen does."""
    _adopt_orphans()
    token = object()
    _starting.add(token)
    try:
        process = subprocess.Popen(argv, **options)
        with _lock:
            _started.add(process)
        return process
    finally:
        _starting.discard(token)


def now() -> int:
    """The present time as /proc/PID/stat gives the start of a process."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def end(process: subprocess.Popen[bytes], mark: str, since: int) -> None:
    """End a process, its group, and whatever it started that left the group; waits for a second at most."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal_group(process, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    signal_group(process, signal.SIGKILL)
    end_marked(mark)
    end_orphans(since)


def end_what_is_left(process: subprocess.Popen[bytes], mark: str, since: int) -> None:
    """End what a process has left that ended by itself: the rest of its group, and what was orphaned to us."""
    signal_group(process, signal.SIGKILL)
    end_orphans(since, mark)


def end_marked(mark: str) -> None:
    """End what a call has started, wherever it went, also where an interrupt came before its process was known."""
    needle = f"NPUDOCTOR_CALL={mark}".encode()
    for entry in _processes():
        if int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
            if needle in file.read(LONGEST_BYTES).split(b"\0"):
                os.kill(int(entry), signal.SIGKILL)


def end_orphans(since: int, mark: str | None = None) -> None:
    """End every process that was orphaned to us and began at `since` or later, without a mark or with this one."""
    spared: set[int] = set()
    for _ in range(_ROUNDS):  # a killed process may leave children, which are orphans in turn
        found = [one.pid for one in _orphans() if one.began >= since and one.pid not in spared]
        ended = [pid for pid in found if not _is_marked(pid, mark) and _kill(pid)]
        spared |= {*found} - {*ended}
        if not ended:
            return
        _wait_for(ended)


def reap() -> None:
    """Take leave of orphans that have ended by themselves, so that a process of months does not collect them."""
    with contextlib.suppress(OSError):
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            for one in _orphans():
                if one.state == "Z":
                    os.waitpid(one.pid, os.WNOHANG)


_adopt_orphans = functools.cache(adopt_orphans)


def _orphans() -> Iterator[_Child]:
    """Our children that we did not start; what we start without a session of its own is none either."""
    until = time.monotonic() + WAIT_S
    while _starting and time.monotonic() < until:
        time.sleep(0.002)
    found = list(_children())
    with _lock:  # after the list: its processes were entered by now
        ours = {process.pid for process in _started}
    session = os.getsid(0)
    for one in found:
        if one.pid not in ours and one.session != session and not _is_copy_of_us(one.pid):
            yield one


def _children() -> Iterator[_Child]:
    for pid in children():
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].decode("ascii").split()
            yield _Child(pid, fields[0], int(fields[3]), int(fields[19]))


def _processes() -> list[str]:
    """The numbers of all processes; none where no descriptor is left to look with."""
    with contextlib.suppress(OSError):
        return [entry for entry in os.listdir("/proc") if entry.isdigit()]
    return []


def _is_copy_of_us(pid: int) -> bool:
    """Whether a child has not yet become the program that it was started for."""
    words = _content(pid, "cmdline")
    return bool(words) and words == _content(os.getpid(), "cmdline")


def _is_marked(pid: int, mark: str | None) -> bool:
    """Whether it is of another call."""
    mine = f"NPUDOCTOR_CALL={mark}".encode()
    return any(one.startswith(_MARKS) and one != mine for one in _content(pid, "environ").split(b"\0"))


def _content(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read(LONGEST_BYTES)
    return b""


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return False
    return True


def _wait_for(pids: list[int]) -> None:
    left, until = set(pids), time.monotonic() + WAIT_S
    while left and time.monotonic() < until:
        for pid in tuple(left):
            try:
                gone = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                gone = True
            if gone:
                left.discard(pid)
        time.sleep(0.002)


__all__ = [
    "TimeoutExpired",
    "end",
    "end_marked",
    "end_orphans",
    "end_what_is_left",
    "now",
    "reap",
    "signal_group",
    "start",
]
