"""The sockets, and the thread that serves them: bound by us, handed to uvicorn, bounded in time, size and number."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from npudoctor.daemon import web
from npudoctor.daemon.state import Untrusted, must_be_ours
from npudoctor.daemon.web import App
from npudoctor.host import Unavailable
from npudoctor.host.live import accounts, unix_sockets

HEAD_S = 2.0
"""How long the head of a request may take, from the beginning of a connection or from its first byte."""

PATIENCE_S = 10.0
"""A connection whose answer has not been read for so long is cut."""

MOST_CONNECTIONS = 200
ACCEPTED_AT_ONCE = 32
"""Few enough that a request is read before as many newer connections as there may be have come in."""

WAITING_TO_BE_ACCEPTED = 512
CLOSING_S = 1
STARTING_S, ENDING_S = 10.0, 10.0
"""Seconds for the thread to listen, and to end: a busy machine takes its time."""
TROUBLE_S = 5.0
"""How long after a failure to accept a connection it counts as not yet over."""


class CannotListen(Exception):
    """An address that cannot be had; the text is one line: what, and what to do."""


def unix_socket(path: str, group: str | None) -> socket.socket:
    """A listening socket that its owner and the group may use; one that a dead daemon has left is replaced.

    Raises CannotListen.
    """
    folder = os.path.dirname(path) or "."
    try:
        gid = -1 if group is None else accounts.group_by_name(group).gr_gid
        must_be_ours(folder, folder=True)
        return unix_sockets.bind(path, mode=0o660, gid=gid)
    except (Untrusted, unix_sockets.Taken) as problem:
        raise CannotListen(str(problem)) from problem
    except Unavailable as problem:
        raise CannotListen(problem.reason) from problem
    except KeyError:
        raise CannotListen(f"there is no group {group!r}: groupadd --system {group}") from None
    except OSError as problem:
        raise CannotListen(f"{path} cannot be bound: {problem.strerror or problem}") from problem


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
    """uvicorn's protocol, which by itself waits for ever for a request that never ends.

    Where there are too many connections, a new one is served and an old one is cut: of the peer that holds most of
    them (a user on the Unix socket, an address over TCP), the oldest that has sent something and is not being answered,
    else the oldest. One that has sent nothing yet may have been accepted a moment ago, with its request on the way.
    """

    _timer: asyncio.TimerHandle | None = None
    _idle = False
    _heard = False
    peer: object = None
    opened = 0.0

    def connection_made(self, transport: Any) -> None:
        """Give it little time for its first request, and make room for it."""
        super().connection_made(transport)
        self.peer, self.opened = _peer(transport), self.loop.time()
        self._allow(HEAD_S)
        if len(self.connections) > MOST_CONNECTIONS:
            self._cut_another()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the time of a head from its first byte, and that of an answer from the end of the head."""
        self._heard = True
        if self._idle:
            self._idle = False
            self._allow(HEAD_S)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._allow(PATIENCE_S)

    def on_response_complete(self) -> None:
        """Wait for the next request; what was written may still have to be read."""
        before = self.cycle
        super().on_response_complete()
        self._idle = self.cycle is before
        self._allow(PATIENCE_S)

    @property
    def is_waiting(self) -> bool:
        """Whether it has sent something and no answer is being made: half a request, or all its answers are written."""
        return self._heard and (self.cycle is None or self.cycle.response_complete)

    def _allow(self, seconds: float) -> None:
        """Cut the connection after so many seconds from now."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _cut_another(self) -> None:
        others: list[Any] = [one for one in self.connections if one is not self]
        held = Counter(one.peer for one in others)
        most = max(held.values())
        crowd = [one for one in others if held[one.peer] == most]
        victim = min(crowd, key=lambda one: (not one.is_waiting, one.opened))
        self.connections.discard(victim)
        victim.transport.abort()


def _peer(transport: Any) -> object:
    """Who is at the other end: the user on a Unix socket (unix(7), SO_PEERCRED), the address otherwise."""
    sock = transport.get_extra_info("socket")
    if sock.family == socket.AF_UNIX:
        return struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    name = transport.get_extra_info("peername")
    return name[0] if name else None


class _Server(uvicorn.Server):
    """One that wakes up only for requests."""

    ended: asyncio.Event | None = None

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
        self._running: list[asyncio.Future[None]] = []
        self._up = threading.Event()
        self._ending = False
        self._lock = threading.Lock()
        self._echo = threading.Event()
        self._echo.set()
        self._asked = time.monotonic()
        self._trouble: str | None = None
        self._failed_at = -TROUBLE_S
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def start(self) -> None:
        """Serve; returns when all sockets listen. Raises CannotListen."""
        self._thread.start()
        if not self._up.wait(STARTING_S) or not self._thread.is_alive():
            self.close()
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

    @property
    def trouble(self) -> str | None:
        """Why connections are not accepted at present, in a clause; None where they are."""
        return self._trouble if time.monotonic() - self._failed_at < TROUBLE_S else None

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what asyncio would write to the log a hundred times a second where there are no descriptors left."""
        problem = context.get("exception")
        if not isinstance(problem, OSError):
            loop.default_exception_handler(context)
            return
        self._trouble = f"connections cannot be accepted: {problem.strerror or problem}"
        self._failed_at = time.monotonic()

    def stop(self) -> None:
        """Begin to end: what is being answered has a moment left, nothing new is."""
        with self._lock:  # after this the sockets are not used any more, but by servers that listen
            self._ending = True
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        """In the loop: end the servers, or the tasks of those that do not serve yet."""
        for server, task in zip(self._servers, self._running, strict=True):
            if server.ended is not None:
                server.ended.set()
            else:
                task.cancel()

    def close(self) -> None:
        """End what is being answered, and close the sockets."""
        self.stop()
        self._thread.join(ENDING_S)  # before its sockets are closed by their owner

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(self._note_failure)
        try:
            self._loop.run_until_complete(self._all())
        finally:
            self._loop.close()

    async def _all(self) -> None:
        for sock, app in self._served:
            server = _Server(_config(app))
            self._servers.append(server)
            self._running.append(asyncio.ensure_future(server.serve(sockets=[sock])))
        while not all(server.started and server.ended is not None for server in self._servers):
            if self._ending or any(task.done() for task in self._running):
                break
            await asyncio.sleep(0.005)
        else:
            with self._lock:
                if not self._ending:
                    for sock, _ in self._served:
                        sock.listen(WAITING_TO_BE_ACCEPTED)  # the server's own number is how many it accepts at once
                    self._up.set()
        if not self._up.is_set():
            self._end()
        await asyncio.gather(*self._running, return_exceptions=True)


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
        h11_max_incomplete_event_size=web.HEAD_BYTES,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=CLOSING_S,
        backlog=ACCEPTED_AT_ONCE,
    )
