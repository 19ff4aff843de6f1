"""Monitors the ranks of a smoke run: stage, messages, exits, and delays."""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from npudoctor.host import Unavailable
from npudoctor.host.live.identity import open_to_read
from npudoctor.records import field, record
from npudoctor.smoke.events import Bandwidth, Collective, Event, Loss, Measured, Outcome, RankStage, RankStarted
from npudoctor.smoke.plan import Plan

LINE_LIMIT = 1 << 20
"""A rank that sends more bytes than this without a newline is rejected."""

SPARE_CONNECTIONS = 16
"""So many more than ranks are accepted: each takes a file descriptor, and the user of the ranks may open any number."""

DRAIN_S = 0.5
"""Seconds after which messages of busy ranks are left for later."""


@record(kw_only=True)
class RankState:
    """The state of one rank. Times are of time.monotonic; `number` counts its operations.

    `terminated_at` is when it reported SIGTERM, `by_launcher` whether that came from its launcher.
    """

    rank: int
    pid: int | None = None
    world: str | None = None
    stage: str | None = None
    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    number: int = 0
    doing: str | None = None
    heard: float | None = None
    failed: dict[str, Any] | None = None
    failed_at: float | None = None
    bye: bool = False
    gone_at: float | None = None
    terminated_at: float | None = None
    by_launcher: bool = False
    holding: bool = False

    @property
    def over(self) -> bool:
        """Whether it will send nothing more."""
        return self.bye or self.failed is not None or self.gone_at is not None


class Watch:
    """The socket that the ranks report to, and the state of each."""

    def __init__(self, plan: Plan, path: str) -> None:
        self.ranks = {rank: RankState(rank=rank) for rank in plan.local_ranks}
        self.began = time.monotonic()
        self._plan = plan
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._connections: dict[socket.socket, _Connection] = {}

    def close(self) -> None:
        """Close the socket; running ranks then end on their own."""
        for connection in (self._listener, *self._connections):
            connection.close()
        self._selector.close()

    def now(self) -> float:
        """Seconds since the start of the run."""
        return round(time.monotonic() - self.began, 4)

    def wait(self, seconds: float) -> Iterator[Event]:
        """The messages of the ranks within so many seconds; returns at the first message.

        The end of a rank is reported before simultaneous messages of others: they may report its loss.
        """
        ready = [key for key, _ in self._selector.select(max(seconds, 0))]
        for key in sorted(ready, key=lambda key: key.data is None or not key.data.is_gone()):
            if key.data is None:
                self._accept()
            else:
                yield from self._receive(key.data)

    def drain(self) -> Iterator[Event]:
        """What has been sent until now, such as the last words of a process that is known to have ended."""
        until = time.monotonic() + DRAIN_S
        while self._selector.select(0) and time.monotonic() < until:
            yield from self.wait(0)

    def release(self) -> None:
        """Release the ranks that hold their memory."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.sendall(b"go\n")

    def pids(self) -> tuple[int, ...]:
        """The processes of the ranks that have reported."""
        return tuple(state.pid for state in self.ranks.values() if state.pid is not None)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            if len(self._connections) >= SPARE_CONNECTIONS + len(self.ranks):  # a rank has one
                connection.close()
                return
            connection.setblocking(False)
            one = _Connection(connection)
            self._connections[connection] = one
            self._selector.register(connection, selectors.EVENT_READ, one)

    def _receive(self, one: _Connection) -> Iterator[Event]:
        try:
            data = one.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(one.rest) > LINE_LIMIT:
            self._selector.unregister(one.socket)
            one.socket.close()
            del self._connections[one.socket]
            state = self.ranks.get(one.rank if one.rank is not None else -1)
            if state is not None and state.gone_at is None:
                state.gone_at = time.monotonic()
            return
        *lines, one.rest = (one.rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
                said = json.loads(line)
                _must_be_message(said, self._plan)
                state = self.ranks.get(said["rank"])
                if state is not None:
                    one.rank = state.rank
                    yield from self._handle(state, said, one)

    def _handle(self, state: RankState, said: dict[str, Any], one: _Connection) -> Iterator[Event]:
        kind, rank, at_s = said["k"], state.rank, self.now()
        state.heard = time.monotonic() if kind != "ended" else state.heard
        if kind == "hello":
            state.pid, state.world = one.pid() or (None if self._plan.user else said["pid"]), said.get("world")
            yield RankStarted(at_s=at_s, rank=rank, pid=state.pid or 0, host=said.get("host"))
        elif kind == "begin":
            state.stage, state.doing = said["stage"], None
            state.number += 1
            state.began[said["stage"]] = time.monotonic()
            yield RankStage(at_s=at_s, rank=rank, stage=said["stage"], outcome=Outcome.RUNNING)
        elif kind == "end":
            stage = said["stage"]
            state.ended[stage] = time.monotonic()
            since = self.began if stage == "launch" else state.began.get(stage, time.monotonic())
            seconds = round(state.ended[stage] - since, 4)
            yield RankStage(at_s=at_s, rank=rank, stage=stage, outcome=Outcome.OK, seconds=seconds)
        elif kind == "at":
            state.number, state.doing = state.number + 1, said["what"]
        elif kind == "failed":
            state.failed, state.failed_at = {"message": said["message"]}, time.monotonic()
            if state.stage:
                yield RankStage(at_s=at_s, rank=rank, stage=state.stage, outcome=Outcome.FAILED)
        elif kind == "bye":
            state.bye = True
        elif kind == "ended":
            state.terminated_at = time.monotonic()
        else:
            if kind == "measured" and said["name"] == "holding":
                state.holding = True
            yield from _measurements(said, rank, at_s, self._plan.planned.world_size)


class _Connection:
    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.rest = b""
        self.rank: int | None = None

    def is_gone(self) -> bool:
        """Whether the other end has closed and everything was read."""
        try:
            return not self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def pid(self) -> int | None:
        """The process at the other end, according to the kernel."""
        with contextlib.suppress(OSError, AttributeError):
            credentials = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", credentials)[0]) or None
        return None


_TEXTS = ("k", "stage", "what", "message", "name", "op", "dtype", "expected", "actual")
_OF_THE_NODE = ("card-memory", "earlier-bus-gb-s")
"""What npudoctor measures itself."""


def _must_be_message(said: Any, plan: Plan) -> None:
    """Raise ValueError for what no rank sends: a rank runs code of the user that it runs as."""
    if not isinstance(said, dict):
        raise ValueError("not a message")
    texts = [said[name] for name in _TEXTS if said.get(name) is not None]
    numbers = [said[name] for name in ("size", "calls", "s", "step", "loss") if said.get(name) is not None]
    if not all(isinstance(text, str) for text in texts) or not all(map(_is_number, numbers)):
        raise ValueError("a value of another kind")
    if said.get("stage") not in (None, *plan.planned.deadlines_s) or said.get("name") in _OF_THE_NODE:
        raise ValueError("an unknown name")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _measurements(said: dict[str, Any], rank: int, at_s: float, world: int) -> Iterator[Event]:
    kind = said["k"]
    if kind == "loss":
        yield Loss(at_s=at_s, rank=rank, step=said["step"], loss=said["loss"], seconds=said["s"])
    elif kind == "collective":
        outcome = {True: Outcome.OK, False: Outcome.FAILED, None: Outcome.SKIPPED}[said["ok"]]
        yield Collective(
            at_s=at_s,
            rank=rank,
            operation=said["op"],
            dtype=said["dtype"],
            outcome=outcome,
            expected=said.get("expected"),
            actual=said.get("actual"),
            slots=tuple(said.get("slots") or ()),
            unchanged=bool(said.get("unchanged")),
        )
    elif kind == "bandwidth":
        algorithm = said["size"] / max(said["s"], 1e-9) / 1e9
        yield Bandwidth(
            at_s=at_s,
            size_bytes=said["size"],
            dtype=said["dtype"],
            calls=said["calls"],
            seconds=said["s"],
            algorithm_gb_s=algorithm,
            bus_gb_s=algorithm * 2 * (world - 1) / world,
        )
    elif kind == "measured":
        yield Measured(at_s=at_s, rank=rank, name=said["name"], value=said["value"])


def log_tail(folder: str, name: str, *, limit: int = 8192) -> str:
    """The end of a log in the folder of the run; empty where there is none."""
    with contextlib.suppress(OSError, Unavailable), open(open_to_read(os.path.join(folder, name)), "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - limit))
        return file.read().decode("utf-8", "replace")
    return ""
