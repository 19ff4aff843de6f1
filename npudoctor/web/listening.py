"""The socket that is listened on: a Unix socket that its owner alone can use, or an address of this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator

from npudoctor.host.live import trust, unix_sockets


class CannotListen(Exception):
    """The socket cannot be made; the text is one line: what, and what to do."""


@contextlib.contextmanager
def on_path(path: str) -> Iterator[socket.socket]:
    """A Unix socket of mode 0600, removed on leaving; one without a listener is replaced."""
    folder = os.path.dirname(path)
    try:
        mode = os.stat(folder).st_mode
        writer = trust.foreign_writer(folder)
        if writer or (mode & stat.S_ISVTX and mode & 0o022):
            reason = writer.reason if writer else f"other users can write {folder}"
            raise CannotListen(f"--socket {path} needs a folder that no other user can write: {reason}")
        made = unix_sockets.bind(path, mode=0o600)
        made.listen()
    except unix_sockets.Taken as problem:
        raise CannotListen(f"--socket {problem}") from problem
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
