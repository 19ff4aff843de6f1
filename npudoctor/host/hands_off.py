"""The file that makes every reader of npudoctor release the driver: `/run/npudoctor/hands-off`.

Who changes driver or firmware writes it as root before the first step, with one line that says what is under way, and
removes it when the driver may be asked again; its own commands (`MutableHost.run_streaming`) are not refused. While
it is there, nothing of npudoctor's asks a vendor's tool, the driver's library or a target Python, and no smoke run
uses an NPU: what is running is ended within 2 s, what is new is answered with `Maintenance`. The memory file system
forgets the file with a reboot.
"""

from __future__ import annotations

import os
import stat

from npudoctor.host import Because, Unavailable

PATH = "/run/npudoctor/hands-off"
WATCH_S = 0.5
"""How often what is running watches for it."""
LARGEST_BYTES = 200


class Maintenance(Unavailable):
    """Driver or firmware is being changed, and is not asked meanwhile."""


def reason(path: str = PATH) -> str | None:
    """Why the driver is not asked now, as a clause; None where it may be asked. A file of another user says nothing."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or not _is_trusted(found.st_uid):
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            said = file.read(LARGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        said = ""
    about = " ".join(said.split("\n", 1)[0].split()) or "driver or firmware is being changed"
    return f"maintenance: {about} ({path})"


def must_be_absent(path: str = PATH) -> None:
    """Raise Maintenance while it is there."""
    if why := reason(path):
        raise Maintenance(why, because=Because.FAILED)


def _is_trusted(uid: int) -> bool:
    if uid in (0, os.geteuid()):
        return True
    from npudoctor.host.live.trust import is_outside  # root of the host, seen from a container

    return is_outside(uid)


__all__ = ["PATH", "WATCH_S", "Maintenance", "must_be_absent", "reason"]
