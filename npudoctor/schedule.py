"""Work on a graph: what is ready goes side by side, what the most waits for goes first, and a deadline is kept."""

from __future__ import annotations

import errno
import graphlib
import heapq
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

WORKERS = 4
"""Threads that obtain facts and run checks, at most; the host bounds how many commands run at once."""

STALL_S = 0.005
"""How long one may be busy before another goes on: what takes longer mostly waits for a command.

Python computes on one thread at a time, and several that want to take a fifth more of a run's time between them.
"""

RESERVE_S = 0.5
"""How long before the time is up what hangs is given up, so that what does not wait for it can still be done."""

GRACE_S = 0.3
"""How long to wait, once the time is up, for work that was told to stop to hand in what it knows."""

Node = TypeVar("Node", bound=Hashable)


class Circle(ValueError):
    """The nodes wait for each other; `nodes` is the circle."""

    def __init__(self, nodes: list[Any]) -> None:
        super().__init__(nodes)
        self.nodes = nodes


class TimeIsUp(Exception):
    """The deadline passed before all work was done."""


class Schedule(Generic[Node]):
    """Does `work` for every node of a graph (each node with the nodes that come before it) on a few threads.

    One computes; others come in while it waits.

    What `work` raises ends the run, and is raised by it. `stop`, where given, ends what is under way once the deadline
    has passed.
    """

    def __init__(
        self,
        graph: Mapping[Node, set[Node]],
        work: Callable[[Node], Any],
        *,
        stop: Callable[[], None] | None = None,
        workers: int = WORKERS,
    ) -> None:
        self._workers = workers
        self._graph = graph
        self._do = work
        self._stop = stop
        self._events: queue.SimpleQueue[tuple[str, Node, Any]] = queue.SimpleQueue()
        self._ready: list[tuple[int, int, Node]] = []
        self._order = itertools.count()
        self._turn = threading.Condition()
        self._leader: threading.Thread | None = None
        self._taken_at = 0.0
        self._started = self._watching = self._asleep = 0
        try:
            order = list(graphlib.TopologicalSorter(graph).static_order())
        except graphlib.CycleError as problem:
            raise Circle(problem.args[1]) from None
        self._weight = dict.fromkeys(order, 1)
        for node in reversed(order):
            for before in graph.get(node, ()):
                self._weight[before] += self._weight[node]

    def run(self, deadline: float | None = None) -> Iterator[tuple[str, Node, Any]]:
        """Yield `("begun", node, None)` and `("done", node, outcome)` as it happens.

        `deadline` is a time of `time.monotonic`; raises TimeIsUp, having yielded what came in by then.
        """
        if not self._graph:
            return
        self._sorter = graphlib.TopologicalSorter(self._graph)
        self._sorter.prepare()
        self._left = len(self._weight)
        self._offer()
        with self._turn:
            self._start()
        try:
            yield from self._until(deadline)
        finally:
            with self._turn:
                self._left = 0
                self._ready.clear()
                self._turn.notify_all()

    def _until(self, deadline: float | None) -> Iterator[tuple[str, Node, Any]]:
        """The events; shortly before the deadline what is under way is told to stop."""
        left_s = math.inf if deadline is None else deadline - time.monotonic()
        stop_at = None if deadline is None else deadline - min(RESERVE_S, left_s / 4)
        seen = 0
        while seen < 2 * len(self._weight):
            until = stop_at if stop_at is not None else deadline
            try:
                event = self._events.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except queue.Empty:
                if stop_at is None:
                    yield from self._late()
                    raise TimeIsUp from None
                stop_at = None
                if self._stop:
                    self._stop()
                continue
            seen += 1
            yield _whole(event)

    def _late(self) -> Iterator[tuple[str, Node, Any]]:
        until = time.monotonic() + GRACE_S
        while (left := until - time.monotonic()) > 0:
            try:
                yield _whole(self._events.get(timeout=left))
            except queue.Empty:
                return

    def _worker(self) -> None:
        """Take what is ready, do it, and go on with what that made ready."""
        me = threading.current_thread()
        while True:
            with self._turn:
                while self._left and not self._may_take():
                    self._wait()
                if not self._left:
                    return
                node = self._take(me)
            self._events.put(("begun", node, None))
            try:
                outcome = self._do(node)
            except BaseException as problem:
                self._events.put(("broken", node, problem))
                return  # whoever follows the events hears of it
            self._events.put(("done", node, outcome))
            with self._turn:
                self._finish(node, me)

    def _may_take(self) -> bool:
        """Whether work is ready that the one who computes will not come to soon: it has none, or is waiting itself."""
        return bool(self._ready) and (self._leader is None or time.monotonic() - self._taken_at >= STALL_S)

    def _wait(self) -> None:
        if self._ready:
            self._watching += 1
            self._turn.wait(STALL_S)
            self._watching -= 1
        else:
            self._asleep += 1
            self._turn.wait()
            self._asleep -= 1

    def _take(self, me: threading.Thread) -> Node:
        self._leader, self._taken_at = me, time.monotonic()
        node = heapq.heappop(self._ready)[2]
        if self._ready and not self._watching:
            if self._asleep:
                self._turn.notify()
            elif self._started < self._workers:
                self._start()
        return node

    def _finish(self, node: Node, me: threading.Thread) -> None:
        if self._leader is me:
            self._leader = None
        self._left = max(0, self._left - 1)
        self._sorter.done(node)
        self._offer()
        if not self._left:
            self._turn.notify_all()

    def _start(self) -> None:
        """Start one more thread; where no more are allowed, those that run do all the work."""
        self._started += 1  # before it runs: it may want to start the next one at once
        try:
            threading.Thread(target=self._worker, daemon=True).start()
        except RuntimeError:
            self._started -= 1
            if not self._started:
                raise OSError(errno.EAGAIN, "no thread can be started") from None
            self._workers = self._started

    def _offer(self) -> None:
        """Line up what may begin now."""
        for node in self._sorter.get_ready():
            heapq.heappush(self._ready, (-self._weight[node], next(self._order), node))


def _whole(event: tuple[str, Any, Any]) -> tuple[str, Any, Any]:
    """The event; raises what has broken a thread."""
    if event[0] == "broken":
        raise event[2]
    return event
