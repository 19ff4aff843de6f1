"""The socket that is listened on: a Unix socket that its owner alone can use, or an address of this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator

from npudoctor.host.live import trust


class CannotListen(Exception):
    """The socket cannot be made; the text is one line: what, and what to do."""


@contextlib.contextmanager
def on_path(path: str) -> Iterator[socket.socket]:
    """A Unix socket of mode 0600, removed on leaving; one that nobody listens on any more is replaced."""
    folder = os.path.dirname(path)
    try:
        mode = os.stat(folder).st_mode
        writer = trust.foreign_writer(folder)
        if writer or (mode & stat.S_ISVTX and mode & 0o022):
            reason = writer.reason if writer else f"other users can write {folder}"
            raise CannotListen(f"--socket {path} needs a folder that nobody else can write: {reason}")
        _remove_stale(path)
        made = _bound(path)
    except OSError as problem:
        raise CannotListen(f"--socket {path} cannot be made: {problem.strerror or problem}") from problem
    own = os.lstat(path)
    try:
        yield made
    finally:
        made.close()
        with contextlib.suppress(OSError):
            if os.path.samestat(own, os.lstat(path)):  # not the one of a successor
                os.unlink(path)


def _bound(path: str) -> socket.socket:
    """Bound under a mask, so that it is nobody else's for an instant; chmod takes back what an access list grants."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        made.bind(path)
        os.chmod(path, 0o600)
        made.listen()
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(mask)
    return made


def _remove_stale(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise CannotListen(f"--socket {path} exists and is not a socket; remove it, or name another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(2.0)
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise CannotListen(f"--socket {path} is in use: another process listens on it; end that, or name another path")


@contextlib.contextmanager
def on_port(host: str, port: int) -> Iterator[socket.socket]:
    """A TCP socket on an address of this machine alone."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family)
    except OSError as problem:
        said = os.strerror(problem.errno) if problem.errno else str(problem)
        raise CannotListen(f"port {port} of {host} is not available: {said}; name another one with --port") from problem
    with made:
        yield made
