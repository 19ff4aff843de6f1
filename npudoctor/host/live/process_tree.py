"""The processes below this one: which they are, and how all of them are ended, whatever they do."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_PAUSE_S = 0.01


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends (PR_SET_CHILD_SUBREAPER, prctl(2))."""
    import ctypes  # costs three milliseconds that few commands need

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextlib.contextmanager
def adopting_none() -> Iterator[None]:
    """Meanwhile a process whose parent ends does not become a child of this one."""
    import ctypes

    was = ctypes.c_int(0)
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)


def children(pid: int | str = "self") -> list[int]:
    """The processes that a process, this one by default, is the parent of."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def find_programs(names: Collection[str], pids: Iterable[int]) -> dict[str, int]:
    """Those of these processes that run one of these programs: name and process."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            if (name := file.read().strip()) in names:
                found[name] = pid
    return found


def end_children(*, but: Collection[int] = (), within_s: float = 1.0) -> list[int]:
    """Kill the children of this process, and those that it adopts meanwhile; those that cannot be ended in time."""
    until = time.monotonic() + within_s
    while True:
        left = [pid for pid in children() if pid not in but]
        _kill(left)
        if not left or time.monotonic() > until:
            return left
        time.sleep(_PAUSE_S)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
