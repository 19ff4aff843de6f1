"""Work on a graph: what is ready is done on a few threads, side by side, until a deadline."""

from __future__ import annotations

import errno
import graphlib
import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

WORKERS = 4
"""Threads that obtain facts and run checks, at most; the host bounds how many commands run at once."""

RESERVE_S = 0.5
"""How long before the time is up what hangs is given up, so that what does not wait for it can still be done."""

GRACE_S = 0.3
"""How long to wait, once the time is up, for work that was told to stop to hand in what it knows."""

Node = TypeVar("Node", bound=Hashable)


class TimeIsUp(Exception):
    """The deadline passed before all work was done."""


class Schedule(Generic[Node]):
    """Does `work` for every node of a graph (each node with the nodes that come before it) on a few threads.

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
        self._do = work
        self._stop = stop
        self._events: queue.SimpleQueue[tuple[str, Node, Any]] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[Node | _End] = queue.SimpleQueue()
        self._sorter = graphlib.TopologicalSorter(graph)
        self._sorter.prepare()  # raises graphlib.CycleError

    def run(self, deadline: float | None = None) -> Iterator[tuple[str, Node, Any]]:
        """Yield `("begun", node, None)` and `("done", node, outcome)` as it happens.

        `deadline` is a time of `time.monotonic`; raises TimeIsUp, having yielded what came in by then.
        """
        if not self._sorter.is_active():
            return
        started = self._start()
        try:
            yield from self._until(deadline)
        finally:
            for _ in range(started):
                self._ready.put(_END)

    def _until(self, deadline: float | None) -> Iterator[tuple[str, Node, Any]]:
        """The events; shortly before the deadline what is under way is told to stop."""
        now = time.monotonic()
        ends = [] if deadline is None else [deadline - min(RESERVE_S, (deadline - now) / 4), deadline + GRACE_S]
        self._offer()
        while self._sorter.is_active():
            try:
                what, node, outcome = self._events.get(timeout=max(0.0, ends[0] - time.monotonic()) if ends else None)
            except queue.Empty:
                if len(ends) == 1:
                    raise TimeIsUp from None
                ends.pop(0)
                if self._stop:
                    self._stop()
                continue
            if what == "broken":
                raise outcome
            if what == "done":
                self._sorter.done(node)
                self._offer()
            yield what, node, outcome

    def _offer(self) -> None:
        for node in self._sorter.get_ready():
            self._ready.put(node)

    def _start(self) -> int:
        """Start the threads, as many as the system allows."""
        for started in range(self._workers):
            try:
                threading.Thread(target=self._worker, daemon=True).start()
            except RuntimeError:
                if started:
                    return started
                raise OSError(errno.EAGAIN, "no thread can be started") from None
        return self._workers

    def _worker(self) -> None:
        while not isinstance(node := self._ready.get(), _End):
            self._events.put(("begun", node, None))
            try:
                self._events.put(("done", node, self._do(node)))
            except BaseException as problem:
                self._events.put(("broken", node, problem))
                return


class _End:
    """Tells a thread to end."""


_END = _End()
