"""The sockets, and the thread that serves them: bound by us, handed to uvicorn, bounded in time, size and number."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import grp
import os
import socket
import stat
import threading
import time
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from npudoctor.daemon.state import Untrusted, must_be_ours
from npudoctor.daemon.web import App

PATIENCE_S = 10.0
"""A connection that has not completed an answer for so long is cut: slow senders, slow readers, and silent ones."""

MOST_CONNECTIONS = 200
HEAD_BYTES = 16 << 10
CLOSING_S = 2


class CannotListen(Exception):
    """An address that cannot be had; the text is one line: what, and what to do."""


def unix_socket(path: str, group: str | None) -> socket.socket:
    """A listening socket that its owner and the group may use; one that a dead daemon has left is replaced.

    Raises CannotListen.
    """
    folder = os.path.dirname(path) or "."
    try:
        gid = -1 if group is None else grp.getgrnam(group).gr_gid
        must_be_ours(os.stat(folder), folder=True)
        _make_room(path)
        return _bound(path, gid)
    except Untrusted as problem:
        raise CannotListen(f"{path} {problem}") from problem
    except KeyError:
        raise CannotListen(f"there is no group {group!r}: groupadd --system {group}") from None
    except OSError as problem:
        raise CannotListen(f"{path} cannot be bound: {problem.strerror or problem}") from problem


def _bound(path: str, gid: int) -> socket.socket:
    """A socket that nobody else could use for an instant: it is opened to the group when it is the group's."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    mask = os.umask(0o177)
    try:
        made.bind(path)
        os.chown(path, -1, gid)
        os.chmod(path, 0o660)
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(mask)
    return made


def _make_room(path: str) -> None:
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise CannotListen(f"{path} is there and is no socket; remove it, or give another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as problem:
            if problem.errno not in (errno.EAGAIN, errno.ETIMEDOUT):
                raise
    raise CannotListen(f"another daemon answers on {path}")


def tcp_socket(host: str, port: int) -> socket.socket:
    """A listening socket on one address. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as problem:
        made.close()
        raise CannotListen(f"{host}:{port} cannot be bound: {problem.strerror or problem}") from problem
    return made


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits for ever for a request that never ends."""

    _answered = 0
    _seen = -1
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Count it, and cut it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Note that it moves on."""
        self._answered += 1
        super().on_response_complete()

    def _look(self) -> None:
        if self._seen == self._answered:
            self.transport.abort()
            return
        self._seen = self._answered
        self._timer = self.loop.call_later(PATIENCE_S, self._look)


class _Server(uvicorn.Server):
    """One that wakes up only for requests."""

    async def main_loop(self) -> None:
        """Wait until it is told to end."""
        self.ended = asyncio.Event()
        await self.ended.wait()


class Listening:
    """A thread that serves apps on sockets until it is closed."""

    def __init__(self, served: Sequence[tuple[socket.socket, App]]) -> None:
        self._served = served
        self._loop = asyncio.new_event_loop()
        self._servers: list[_Server] = []
        self._up = threading.Event()
        self._echo = threading.Event()
        self._echo.set()
        self._asked = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def start(self) -> None:
        """Serve; returns when all sockets listen. Raises CannotListen."""
        self._thread.start()
        if not self._up.wait(10.0) or not self._thread.is_alive():
            raise CannotListen("the HTTP server does not start")

    def answers(self) -> bool:
        """Whether its loop turns: it is asked each time, and may take a while to say so."""
        if not self._thread.is_alive():
            return False
        if self._echo.is_set():
            self._echo.clear()
            self._asked = time.monotonic()
            self._loop.call_soon_threadsafe(self._echo.set)
        return time.monotonic() - self._asked < PATIENCE_S

    def close(self) -> None:
        """End what is being answered, and close the sockets."""
        for server in self._servers:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(server.ended.set)
        self._thread.join(2 * CLOSING_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._all())
        finally:
            self._loop.close()

    async def _all(self) -> None:
        running = []
        for sock, app in self._served:
            server = _Server(_config(app))
            self._servers.append(server)
            running.append(asyncio.ensure_future(server.serve(sockets=[sock])))
        while not all(server.started and hasattr(server, "ended") for server in self._servers):
            if any(task.done() for task in running):
                break
            await asyncio.sleep(0.005)
        self._up.set()
        await asyncio.gather(*running)


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=CLOSING_S,
        backlog=128,
    )
