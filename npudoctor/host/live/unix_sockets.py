"""A Unix socket to listen on: never another user's, and in place of one without a listener."""

from __future__ import annotations

import errno
import os
import socket
import stat

_ASKING_S = 2.0


class Taken(Exception):
    """Something else has this path; the text is one line: what, and what to do."""


def bind(path: str, *, mode: int, gid: int = -1) -> socket.socket:
    """A socket that listens on nothing yet, of this mode, and of this group unless it is -1.

    Raises Taken, and OSError where it cannot be made. It is bound under a mask; chmod removes what an access list
    grants.
    """
    _clear(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    mask = os.umask(0o177)
    try:
        made.bind(path)
        os.chown(path, -1, gid)
        os.chmod(path, mode)
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(mask)
    return made


def _clear(path: str) -> None:
    """Remove what a process has left that has ended; raises Taken."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise Taken(f"{path} exists and is not a socket; remove it, or name another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_ASKING_S)
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as problem:
            if problem.errno not in (errno.EAGAIN, errno.ETIMEDOUT, None):
                raise
    raise Taken(f"{path} is in use: another process listens on it; end that, or name another path")
