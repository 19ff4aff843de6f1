"""Work on a graph: what is ready goes side by side, what the most waits for goes first, and a deadline is kept."""

from __future__ import annotations

import graphlib
import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

WORKERS = 4
"""Threads that obtain facts and run checks; they mostly wait for commands, of which the host bounds the number."""

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

    `work` must not raise. `stop`, where given, ends what is under way once the deadline has passed.
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
        self._todo: queue.SimpleQueue[Node | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Node, Any]] = queue.SimpleQueue()
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
        sorter = graphlib.TopologicalSorter(self._graph)
        sorter.prepare()
        for _ in range(self._workers):
            threading.Thread(target=self._worker, daemon=True).start()
        try:
            while sorter.is_active():
                for node in sorted(sorter.get_ready(), key=lambda node: -self._weight[node]):
                    yield "begun", node, None
                    self._todo.put(node)
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                try:
                    node, outcome = self._done.get(timeout=left)
                except queue.Empty:
                    yield from self._late()
                    raise TimeIsUp from None
                sorter.done(node)
                yield "done", node, outcome
        finally:
            for _ in range(self._workers):
                self._todo.put(None)

    def _late(self) -> Iterator[tuple[str, Node, Any]]:
        if self._stop:
            self._stop()
        until = time.monotonic() + GRACE_S
        while (left := until - time.monotonic()) > 0:
            try:
                yield "done", *self._done.get(timeout=left)
            except queue.Empty:
                return

    def _worker(self) -> None:
        while (node := self._todo.get()) is not None:
            self._done.put((node, self._do(node)))
