"""Many processes of this machine at once, each with bounded output and a time limit; none is left behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from npudoctor import clock
from npudoctor.fleet.engines import Answer
from npudoctor.fleet.line import MOST_BYTES

MOST_OUTPUT = 2 * MOST_BYTES
"""Bytes of one stream of one process; the line of a node needs a third more than its content."""
LINGERING_S = 2.0
"""Seconds for the streams to close after the process has ended, where another process keeps them open."""


class Child:
    """One process and what it has printed."""

    def __init__(self, node: str, argv: Sequence[str], until: float, most: int, feed: str | None) -> None:
        self.node, self.until, self.most = node, until, most
        self.started = clock.timestamp()
        self.output = {"out": bytearray(), "err": bytearray()}
        self.overflow = False
        with open(feed or os.devnull, "rb") as said:
            self.process = subprocess.Popen(
                argv, stdin=said, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        self.open = {self.process.stdout: "out", self.process.stderr: "err"}

    def read(self, stream: object) -> bool:
        """Take what is there; whether the stream has ended."""
        name = self.open[stream]  # type: ignore[index]
        piece = os.read(stream.fileno(), 1 << 16)  # type: ignore[attr-defined]
        self.output[name] += piece
        self.overflow = self.overflow or len(self.output[name]) > self.most
        return not piece

    def kill(self) -> None:
        """End it with all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def answer(self, *, timed_out: bool) -> Answer:
        """What it has said."""
        out, err = (self.output[name][: self.most].decode("utf-8", "replace") for name in ("out", "err"))
        return Answer(
            node=self.node,
            code=None if timed_out else self.process.returncode,
            stdout=out,
            stderr=err,
            started=self.started,
            received=clock.timestamp(),
            timed_out=timed_out,
            overflow=self.overflow,
        )


def run_all(
    jobs: Iterable[tuple[str, Sequence[str]]],
    *,
    timeout_s: float,
    fanout: int,
    most: int = MOST_OUTPUT,
    feed: str | None = None,
) -> Iterator[Answer]:
    """Run (node, command) pairs, `fanout` at once; answers as they come. A command that is missing is an answer.

    `feed` is a file that each command has as its standard input.
    """
    waiting = deque(jobs)
    running: list[Child] = []
    ended: dict[Child, float] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < fanout:
                    node, argv = waiting.popleft()
                    try:
                        child = Child(node, argv, time.monotonic() + timeout_s, most, feed)
                    except OSError as problem:
                        yield Answer(node=node, code=127, stderr=f"{argv[0]}: {problem.strerror}")
                        continue
                    running.append(child)
                    for stream in child.open:
                        assert stream is not None
                        selector.register(stream, selectors.EVENT_READ, child)
                for key, _ in selector.select(0.2):
                    if key.data.read(key.fileobj):
                        selector.unregister(key.fileobj)
                        del key.data.open[key.fileobj]
                now = time.monotonic()
                for child in tuple(running):
                    if child.process.poll() is not None:
                        ended.setdefault(child, now)
                    over = child.overflow or now > child.until
                    if not over and (child not in ended or (child.open and now < ended[child] + LINGERING_S)):
                        continue
                    child.kill()
                    for stream in child.open:
                        selector.unregister(stream)  # type: ignore[arg-type]
                    _close(child)
                    running.remove(child)
                    yield child.answer(timed_out=over and not child.overflow and child not in ended)
        finally:
            for child in running:
                child.kill()
                _close(child)


def _close(child: Child) -> None:
    for stream in (child.process.stdout, child.process.stderr):
        if stream is not None:
            stream.close()
