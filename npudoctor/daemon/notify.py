"""Notifications to systemd on its socket. Without one (NOTIFY_SOCKET is not set) nothing happens."""

from __future__ import annotations

import contextlib
import os
import socket


def tell(*lines: str) -> None:
    """Send lines such as READY=1; a missing or blocked service manager is no error."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        out.settimeout(0.5)
        out.sendto("\n".join(lines).encode(), "\0" + path[1:] if path[0] == "@" else path)


def watchdog_s() -> float | None:
    """The watchdog interval of systemd in seconds; None without a watchdog."""
    wanted = os.environ.get("WATCHDOG_USEC", "")
    meant = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    return int(wanted) / 1e6 if wanted.isdigit() and int(wanted) > 0 and meant == str(os.getpid()) else None
