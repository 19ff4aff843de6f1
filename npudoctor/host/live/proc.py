"""The processes of this machine, from /proc (proc(5)). psutil takes five times as long, and a node has thousands."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from npudoctor.host.live import accounts

_STATES = {
    "R": "running", "S": "sleeping", "D": "disk-sleep", "T": "stopped", "t": "tracing-stop", "Z": "zombie",
    "X": "dead", "x": "dead", "K": "wake-kill", "W": "waking", "I": "idle", "P": "parked",
}  # fmt: skip

_NAME_LENGTH = 15
"""Bytes of its name that the kernel keeps (TASK_COMM_LEN)."""

_STATUS_LENGTH = 64 << 10
"""Bytes of a status at most."""

_INTERRUPTS_LENGTH = 4 << 20
"""Bytes of /proc/stat: the boot time follows the counts of all interrupts, thousands on a large machine."""

_COMMAND_LENGTH = 128 << 10
"""Bytes of a command line that are read: a process can show gigabytes of its memory there (PR_SET_MM_MAP)."""


def processes() -> Iterator[dict[str, Any]]:
    """All processes but this one, as rows of a recording; a process that ends meanwhile is left out."""
    boot, ticks = _boot_time(), os.sysconf("SC_CLK_TCK")
    users: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if entry.isdecimal() and (pid := int(entry)) != os.getpid():
                yield _process(pid, boot, ticks, users)


def _process(pid: int, boot: int, ticks: int, users: dict[int, str]) -> dict[str, Any]:
    name, _, rest = _content(f"/proc/{pid}/stat").partition("(")[2].rpartition(")")
    fields = rest.split()
    words = _command_line(_content(f"/proc/{pid}/cmdline", _COMMAND_LENGTH))
    if len(name) >= _NAME_LENGTH and words and (whole := words[0].rpartition("/")[2]).startswith(name):
        name = whole
    status = _content(f"/proc/{pid}/status")
    uid = int(status.partition("\nUid:")[2].split(None, 1)[0])
    if uid not in users:
        users[uid] = accounts.user_name(uid)
    return {
        "pid": pid,
        "ppid": int(fields[1]),
        "name": name,
        "status": _STATES.get(fields[0], "?"),
        "cmdline": words,
        "create_time": boot + int(fields[19]) / ticks,
        "username": users[uid],
    }


def _command_line(text: str) -> list[str]:
    """The words of /proc/PID/cmdline. A program that sets its title (setproctitle) may leave blanks between them."""
    if not text:
        return []
    words = text.removesuffix("\0").split("\0")
    return words if len(words) > 1 or " " not in text else words[0].strip().split(" ")


def _boot_time() -> int:
    """When the kernel started, in seconds since 1970."""
    return int(_content("/proc/stat", _INTERRUPTS_LENGTH).partition("\nbtime ")[2].split(None, 1)[0])


def _content(path: str, length: int = _STATUS_LENGTH) -> str:
    """At most `length` bytes of a file, as text; open() would make six system calls of three."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = piece = os.read(handle, length)
        while piece and len(content) < length and length > _STATUS_LENGTH:  # the kernel writes the others at once
            content += (piece := os.read(handle, length - len(content)))
    finally:
        os.close(handle)
    return content.decode("utf-8", "surrogateescape")
