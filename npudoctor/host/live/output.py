"""What a process prints, read with a bound and a deadline."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from npudoctor.host.hands_off import WATCH_S, reason

OUTPUT_LIMIT_BYTES = 8 << 20

GRACE_S = 0.15
"""How long a process may take to act on SIGTERM, how long on SIGKILL, and how long a pipe may outlive its command."""


class Process(Protocol):
    """What is asked of a subprocess.Popen."""

    pid: int
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        ...


class Output:
    """Both pipes of a process, read until they close, the process ends, the time is up, or 8 MiB have come.

    Also until the file `hands_off` appears: then `let_go` says why.
    """

    def __init__(self, process: Process, stream: Callable[[str], None] | None, hands_off: str | None = None) -> None:
        self._hands_off = hands_off
        self.let_go: str | None = None
        self._process = process
        self._stream = stream
        self._pieces = (bytearray(), bytearray())
        self.truncated = False
        self.left_open = False

    def text(self, which: int) -> str:
        """What came through stdout (0) or stderr (1)."""
        return bytes(self._pieces[which][:OUTPUT_LIMIT_BYTES]).decode("utf-8", "replace")

    def collect(self, deadline: float) -> bool:
        """Read; True where the time was up before the process had ended."""
        with selectors.PollSelector() as selector, watch(self._process) as ended:
            for which, pipe in enumerate((self._process.stdout, self._process.stderr)):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, which)
            if ended is not None:
                selector.register(ended, selectors.EVENT_READ, None)
            until = deadline
            open_pipes = 2
            watched = time.monotonic()
            exited = False
            while not self.truncated and (open_pipes or not exited):
                if not exited and self._process.poll() is not None:
                    exited = True
                    until = min(until, time.monotonic() + GRACE_S)
                    if ended is not None:
                        selector.unregister(ended)
                    continue
                left = until - time.monotonic()
                if left <= 0:
                    self.left_open = exited
                    return not exited
                if self._hands_off and time.monotonic() >= watched + WATCH_S:
                    watched = time.monotonic()
                    self.let_go = reason(self._hands_off)
                    if self.let_go:
                        return False
                wait = min(left, WATCH_S if self._hands_off else left)
                for key, _ in selector.select(wait if ended is not None or exited else min(left, 0.02)):
                    if key.data is not None and not self._read(key.fileobj, key.data):
                        selector.unregister(key.fileobj)
                        open_pipes -= 1
        return False

    def _read(self, pipe: object, which: int) -> bool:
        try:
            piece = os.read(pipe.fileno(), 1 << 16)  # type: ignore[attr-defined]
        except BlockingIOError:
            return True
        if self._stream and piece:
            self._stream(piece.decode("utf-8", "replace"))
        self._pieces[which].extend(piece)
        self.truncated = len(self._pieces[which]) > OUTPUT_LIMIT_BYTES
        return bool(piece)


@contextlib.contextmanager
def watch(process: Process) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process ends; None where the kernel has no such thing."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)
