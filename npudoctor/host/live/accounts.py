"""Names of users and groups, looked up with a deadline: behind the name service (nsswitch.conf(5)) may be a server.

A dead LDAP keeps the C library's calls waiting for minutes, and nothing can end them. Each call therefore has a thread
of its own; after one that takes too long, the service is not asked again for some minutes, longer than a run takes, and
only /etc/passwd and /etc/group answer.
"""

from __future__ import annotations

import grp
import os
import pwd
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from npudoctor.host import Unavailable
from npudoctor.reasons import Because

DEADLINE_S = 5.0
PAUSE_S = 300.0
"""How long the service is not asked again; the daemon asks anew after it."""

PASSWD, GROUP = "/etc/passwd", "/etc/group"

Account = pwd.struct_passwd

Answer = TypeVar("Answer")
_pause_ends_s: list[float] = []
"""When the service may be asked again, on the monotonic clock; empty while it answers."""


def user_by_name(name: str) -> pwd.struct_passwd:
    """The account of a name; raises KeyError where there is none, Unavailable where it could not be determined."""
    return _ask(lambda: pwd.getpwnam(name), lambda: _passwd(0, name), f"user {name}")


def user_by_id(uid: int) -> pwd.struct_passwd:
    """The account of a number; raises KeyError where there is none, Unavailable where it could not be determined."""
    return _ask(lambda: pwd.getpwuid(uid), lambda: _passwd(2, str(uid)), f"user {uid}")


def group_by_name(name: str) -> grp.struct_group:
    """The group of a name; raises KeyError where there is none, Unavailable where it could not be determined."""
    return _ask(lambda: grp.getgrnam(name), lambda: _group(0, name), f"group {name}")


def group_by_id(gid: int) -> grp.struct_group:
    """The group of a number; raises KeyError where there is none, Unavailable where it could not be determined."""
    return _ask(lambda: grp.getgrgid(gid), lambda: _group(2, str(gid)), f"group {gid}")


def groups_of(name: str, gid: int) -> list[int]:
    """The groups of a user, `gid` of the account among them; raises Unavailable where they could not be determined."""
    return _ask(lambda: _asked_groups(name, gid), lambda: _groups(name, gid), f"groups of user {name}")


def _asked_groups(name: str, gid: int) -> list[int]:
    """getgrouplist(3) through ctypes: os.getgrouplist keeps the interpreter waiting as long as it waits itself."""
    import ctypes

    room = 64
    while True:
        gids, count = (ctypes.c_uint32 * room)(), ctypes.c_int(room)
        if ctypes.CDLL(None).getgrouplist(os.fsencode(name), ctypes.c_uint32(gid), gids, ctypes.byref(count)) >= 0:
            return list(gids[: count.value])
        room = max(count.value, 2 * room)


def user_name(uid: int) -> str:
    """The name of a user, or the number where it has none or no answer comes in time."""
    try:
        return user_by_id(uid).pw_name
    except (KeyError, Unavailable):
        return str(uid)


def group_name(gid: int) -> str:
    """The name of a group, or the number where it has none or no answer comes in time."""
    try:
        return group_by_id(gid).gr_name
    except (KeyError, Unavailable):
        return str(gid)


def home() -> str | None:
    """The home folder of this process: HOME, else its user's; None where it is unknown."""
    if named := os.environ.get("HOME"):
        return named
    try:
        return user_by_id(os.geteuid()).pw_dir or None
    except (KeyError, Unavailable):
        return None


def problem() -> str | None:
    """What a person should know of the name service after this run; None while it answers."""
    if not _pause_ends_s:
        return None
    return f"user and group names could not be looked up within {DEADLINE_S:g} s (name service); numbers are shown"


def _ask(ask: Callable[[], Answer], local: Callable[[], Answer], what: str) -> Answer:
    """The answer of the C library in time, else that of the local files."""
    reason, because = f"within {DEADLINE_S:g} s (name service)", Because.TIMED_OUT
    if not _pause_ends_s or time.monotonic() > _pause_ends_s[-1]:
        outcome: list[Answer | Exception] = []
        thread = threading.Thread(target=_work, args=(ask, outcome), daemon=True)
        try:
            thread.start()
            thread.join(DEADLINE_S)
        except RuntimeError as refused:
            reason, because = f"({refused})", Because.FAILED
        else:
            _pause_ends_s[:] = [] if outcome else [time.monotonic() + PAUSE_S]
        if outcome:
            if isinstance(outcome[0], Exception):
                raise outcome[0]
            return outcome[0]
    try:
        return local()
    except (KeyError, OSError):
        raise Unavailable(f"{what} could not be looked up {reason}", because=because) from None


def _work(ask: Callable[[], Answer], outcome: list[Answer | Exception]) -> None:
    try:
        outcome.append(ask())
    except Exception as problem:
        outcome.append(problem)


def _passwd(field: int, value: str) -> pwd.struct_passwd:
    name, word, uid, gid, about, folder, shell = _row(PASSWD, field, value, 7)
    return pwd.struct_passwd((name, word, int(uid), int(gid), about, folder, shell))


def _group(field: int, value: str) -> grp.struct_group:
    name, word, gid, members = _row(GROUP, field, value, 4)
    return grp.struct_group((name, word, int(gid), [one for one in members.split(",") if one]))


def _groups(name: str, gid: int) -> list[int]:
    return [gid, *(int(row[2]) for row in _rows(GROUP, 4) if name in row[3].split(","))]


def _row(path: str, field: int, value: str, fields: int) -> list[str]:
    for row in _rows(path, fields):
        if row[field] == value:
            return row
    raise KeyError(value)


def _rows(path: str, fields: int) -> Iterator[list[str]]:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            row = line.rstrip("\n").split(":")
            if len(row) == fields:
                yield row
