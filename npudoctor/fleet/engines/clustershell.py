"""Nodes over the user's own ssh and ssh_config, many at once, by ClusterShell.

Every node is a worker of its own, so that names are never folded by ClusterShell: folding a thousand irregular names
takes it eight seconds. Output is bounded as it is read. The remote side ends the command itself, by timeout(1).
"""

from __future__ import annotations

import queue
import shlex
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ClusterShell.Event import EventHandler
from ClusterShell.Task import Task, task_self, task_terminate
from ClusterShell.Worker.EngineClient import EngineClientEOF
from ClusterShell.Worker.Ssh import SshClient, WorkerSsh

from npudoctor import clock
from npudoctor.fleet import outcomes
from npudoctor.fleet.engines import Answer, Plan
from npudoctor.fleet.engines.processes import MOST_OUTPUT
from npudoctor.records import replace

CONNECTING_S = 15.0
"""Seconds for a connection, its login and its end, besides those of the command."""
AGAIN_FANOUT = 8
"""Connections that sshd drops before login (MaxStartups) are tried once more, so many at once."""


class _Client(SshClient):  # type: ignore[misc]
    """An ssh whose output ends at a bound. ClusterShell has none, and gives no line before it has ended.

    It is read in small pieces: ClusterShell's take 64 KiB for each of many nodes.
    """

    taken = 0

    def _read(self, sname: str, size: int = 65536) -> Any:
        piece = super()._read(sname, min(size, 1 << 13))
        self.taken += len(piece)
        if self.taken > MOST_OUTPUT:
            self.worker.eh.overflow = True
            self.popen.kill()
            raise EngineClientEOF(sname)
        return piece


class _Worker(WorkerSsh):  # type: ignore[misc]
    SHELL_CLASS = _Client


class _Listener(EventHandler):  # type: ignore[misc]
    """Collects what one node prints, and hands it on when the node has ended."""

    def __init__(self, node: str, answers: queue.Queue[Answer | None]) -> None:
        self.node, self.answers = node, answers
        self.started = 0.0
        self.code: int | None = None
        self.overflow = False
        self.lines: dict[str, list[bytes]] = {"stdout": [], "stderr": []}

    def ev_pickup(self, _worker: object, _node: str) -> None:
        """Its ssh has been started."""
        self.started = clock.timestamp()

    def ev_read(self, _worker: object, _node: str, sname: str, msg: bytes) -> None:
        """It has printed a line."""
        self.lines[sname].append(msg)

    def ev_hup(self, _worker: object, _node: str, rc: int | None) -> None:
        """It has ended."""
        self.code = rc

    def ev_close(self, worker: Any, timedout: bool) -> None:
        """Nothing more comes. ClusterShell keeps the worker to the end, and its last line with it."""
        out, err = (b"\n".join(self.lines[name]).decode("utf-8", "replace") for name in ("stdout", "stderr"))
        answer = Answer(
            node=self.node,
            code=self.code,
            stdout=out,
            stderr=err,
            started=self.started,
            received=clock.timestamp(),
            timed_out=timedout,
            overflow=self.overflow,
        )
        worker.current_msg = None
        self.lines.clear()
        self.answers.put(answer)


def ask(plan: Plan) -> Iterator[Answer]:
    """Ask every node; those that sshd refused for being too many at once are asked again, slowly."""
    again = []
    for answer in _pass(plan, plan.names):
        if outcomes.without_digest(answer.code, answer.stderr)[0] == "banner" and answer.code == 255:
            again.append(answer.node)
        else:
            yield answer
    if again:
        yield from _pass(replace(plan, fanout=min(plan.fanout, AGAIN_FANOUT)), again)


def _pass(plan: Plan, names: Sequence[str]) -> Iterator[Answer]:
    answers: queue.Queue[Answer | None] = queue.Queue()
    tasks: list[Task] = []

    def work() -> None:
        try:
            task = task_self()
            tasks.append(task)
            task.set_info("fanout", plan.fanout)
            if plan.ssh_config:
                task.set_info("ssh_options", shlex.join(["-F", plan.ssh_config]))
            if plan.feed:
                task.set_info("ssh_path", shlex.join(["sh", "-c", 'exec "$@" <"$0"', plan.feed, "ssh"]))
            for stream in ("stdout_msgtree", "stderr_msgtree"):
                task.set_default(stream, False)
            for name in names:
                listener = _Listener(name, answers)
                limit = plan.timeout_s + CONNECTING_S
                worker = _Worker(name, handler=listener, timeout=limit, command=plan.line, stderr=True, stdin=False)
                task.schedule(worker)
            task.resume()
        finally:
            task_terminate()  # it would be kept, with the buffers of all its workers
            answers.put(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (answer := answers.get()) is not None:
            yield answer
    finally:
        if thread.is_alive():
            for task in tasks:
                task.abort(kill=True)
        thread.join(5)
