"""The process that asks the driver's library (read_dcmi.py): started, kept between two readings, and ended.

A process of npudoctor has at most one. It is kept where `keep` was called, which the terminal interface and the daemon
do; it ends by itself with npudoctor, without a request for a minute, and when the driver is to be left alone.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from npudoctor.host.live import processes

PROGRAM = posixpath.join(posixpath.dirname(__file__), "read_dcmi.py")
RENEWED_S = 60.0
"""How old a kept reader becomes: the library does not see a chip that comes back after it was initialised."""
MARK = "dcmi"


class Reader:
    """One such process. `key` says of which library; a kept one answers for no other."""

    def __init__(self, key: tuple[Any, ...], hands_off: str, environment: Mapping[str, str]) -> None:
        self.key = key
        self.began_s = time.monotonic()
        self.is_new = True
        self._mark = f"{os.getpid()}.{MARK}"
        self._since = processes.now()
        self._closed = False
        self.answers, theirs = os.pipe()
        words, self._requests = os.pipe()
        try:
            with open(os.devnull, "wb") as nothing:
                self.process = processes.start(
                    [sys.executable, "-I", "-S", PROGRAM, str(theirs), hands_off],
                    stdin=words,
                    stdout=nothing,
                    stderr=nothing,
                    pass_fds=(theirs,),
                    env={**environment, "NPUDOCTOR_CALL": self._mark},
                    cwd="/",
                    start_new_session=True,
                )
        except BaseException:
            self._close()
            raise
        finally:
            os.close(theirs)
            os.close(words)

    def ask(self, request: bytes) -> None:
        """Send a request; what has ended is found out by its answer."""
        with contextlib.suppress(BrokenPipeError):
            while request:
                request = request[os.write(self._requests, request) :]

    def end(self, *, at_once: bool = True) -> None:
        """End it with all that it has started; one that has nothing more to do may end by itself."""
        self._close()
        if not at_once:
            with contextlib.suppress(processes.TimeoutExpired):
                self.process.wait(0.2)
        if at_once or self.process.poll() is None:
            processes.end(self.process, self._mark, self._since)
        else:
            processes.end_what_is_left(self.process, self._mark, self._since)

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self.answers)
            os.close(self._requests)


class Kept:
    """The reader that waits for the next request, where this process reads again and again."""

    def __init__(self) -> None:
        self.wanted = False
        self.turn = threading.Lock()
        """Held during a reading: there is one reader at a time."""
        self._lock = threading.Lock()
        self._reader: Reader | None = None

    def take(self, key: tuple[Any, ...]) -> Reader | None:
        """The reader that waits; None where there is none, or where it is too old, dead, or of another library."""
        with self._lock:
            reader, self._reader = self._reader, None
        if reader is None:
            return None
        if reader.key == key and reader.process.poll() is None and time.monotonic() - reader.began_s < RENEWED_S:
            return reader
        reader.end()
        return None

    def put(self, reader: Reader) -> None:
        """Let it wait for the next request."""
        reader.is_new = False
        with self._lock:
            before, self._reader = self._reader, reader
        if before is not None:
            before.end()

    def end(self) -> None:
        """End the reader that waits."""
        with self._lock:
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.end()


KEPT = Kept()


def keep() -> None:
    """From now on a reader of this process stays for the next reading."""
    KEPT.wanted = True


def let_go() -> None:
    """Close what waits: the driver is about to be changed, or no screen shows it any more."""
    KEPT.end()


__all__ = ["KEPT", "PROGRAM", "Kept", "Reader", "keep", "let_go"]
