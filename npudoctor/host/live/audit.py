"""Who asks for a change, and the system's log about it."""

from __future__ import annotations

import contextlib
import ipaddress
import os

from npudoctor.control_characters import escape
from npudoctor.host.live import accounts
from npudoctor.records import record

_UNSET = 0xFFFFFFFF
"""The login uid of a process that no login has started."""

_GENERATIONS = 12
_MOST_BYTES = 1 << 16


@record(frozen=True, kw_only=True)
class Asker:
    """Who has logged in, who has called sudo, and the address that they came from; empty where it is not known.

    The last two are what the environment says: evidence, not proof.
    """

    login: str = ""
    sudo_user: str = ""
    origin: str = ""


NOBODY = Asker()


def asker() -> Asker:
    """Who asks, from the kernel's login uid, and from the variables of sudo and of ssh."""
    return Asker(login=_login(), sudo_user=escape(os.environ.get("SUDO_USER", ""))[:64], origin=_origin())


def log(text: str) -> None:
    """Write one line into the system's log; a system without one is no error."""
    import syslog

    with contextlib.suppress(OSError, ValueError):
        syslog.openlog("npudoctor", 0, syslog.LOG_AUTHPRIV)
        syslog.syslog(syslog.LOG_NOTICE, escape(text)[:2000])


def _login() -> str:
    try:
        with open("/proc/self/loginuid", encoding="ascii") as file:
            uid = int(file.read(32))
    except (OSError, ValueError):
        return ""
    return "" if uid == _UNSET else accounts.user_name(uid)


def _origin() -> str:
    """The address of SSH_CONNECTION, which sudo takes from the environment: then that of a process above."""
    found = _address(os.environ.get("SSH_CONNECTION", ""))
    pid = os.getppid()
    for _ in range(_GENERATIONS):
        if found or pid < 2:
            break
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read(_MOST_BYTES).split(b"\0")
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read(4096).rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        line = next((one for one in variables if one.startswith(b"SSH_CONNECTION=")), b"")
        found = _address(line.partition(b"=")[2].decode("ascii", "replace"))
    return found


def _address(connection: str) -> str:
    try:
        return str(ipaddress.ip_address(connection.split(" ")[0]))
    except ValueError:
        return ""
