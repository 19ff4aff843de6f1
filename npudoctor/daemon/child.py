"""The child process that runs the daemon's checks and fixes: started, called, and killed after its time limit.

A check that blocks the interpreter, hangs in C, or crashes ends only that process. It is kept between runs, because
loading everything anew costs more than a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from npudoctor.config import Config
from npudoctor.daemon.replies import Known, Lost, Refused, Reply, RunResult, Tried
from npudoctor.daemon.site import Site
from npudoctor.daemon.timetable import RunKind
from npudoctor.data import to_data
from npudoctor.host import STANDARD_PLACES
from npudoctor.host.live import process_tree
from npudoctor.models import adapter

LOADING_S = 30.0
"""Seconds for the process to load all plug-ins and to open the node."""

GRACE_S = 5.0
"""Seconds that a run may exceed its deadline, which the engine normally keeps."""

FIXING_S = 900.0
"""Seconds for a fix. A killed fix is rolled back by the next one, as after a power loss."""

ENDING_S = 2.0
"""Seconds for a running fix to roll back when the daemon stops."""

LARGEST_MIB = 200
"""Bytes above which the process is replaced after a run."""

LONGEST_REPLY_BYTES = 64 << 20


class Child:
    """Runs checks in a child process. `argv` starts it, given two descriptors and this process's number more."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.known = Known()
        self._argv = tuple(argv)
        self._config: Config | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: tuple[int, int] = (-1, -1)
        self._others = frozenset(process_tree.children())  # started by a shell before it became this process
        self._stuck = -1
        self._lock = threading.Lock()
        self._fixing = False
        self._ending = False
        process_tree.adopt_orphans()

    def prepare(self, config: Config) -> Known:
        """Load everything, and test whether the node can be opened. Raises Refused and Lost."""
        if self._process is None:
            self._start()
        self._config = None
        known = self._ask({"prepare": to_data(config)}, LOADING_S).known
        assert known is not None
        self.known, self._config = known, config
        return known

    def run(self, kind: RunKind, site: Site) -> RunResult:
        """Run checks. Raises Lost."""
        own = self._others if self._process is None else {*self._others, self._process.pid}
        left = process_tree.find_programs(STANDARD_PLACES, process_tree.end_children(but=own, within_s=0.1))
        self._prepare(site)
        seen = self._ask({"run": kind.value, "left": left}, site.settings.timeout_s + GRACE_S).seen
        assert seen is not None
        if self._process is not None and _size_mib(self._process.pid) > LARGEST_MIB:
            self._kill()
        return seen

    def fix(self, id: str, site: Site, journal: str | None) -> Tried | None:
        """Apply a safe fix. Raises Lost."""
        self._prepare(site)
        self._fixing = True
        try:
            return self._ask({"fix": id, "journal": journal}, FIXING_S).tried
        finally:
            self._fixing = False

    def end(self) -> None:
        """Kill the process; a running fix may roll back first."""
        self._ending = True
        if self._fixing and (process := self._process):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
        self._kill()

    def _prepare(self, site: Site) -> None:
        if self._process is None or self._config is not site.config:
            try:
                self.prepare(site.config)
            except Refused as problem:
                raise Lost(str(problem)) from problem

    # The process

    def _start(self) -> None:
        if self._ending:
            raise Lost("the daemon is stopping")
        if self._stuck in process_tree.children():
            raise Lost(f"process {self._stuck} of an earlier run hangs and cannot be killed")
        (answers, answering), (asked, asking) = os.pipe(), os.pipe()
        try:
            argv = [*self._argv, str(asked), str(answering), str(os.getpid())]
            self._process = subprocess.Popen(argv, pass_fds=(asked, answering), start_new_session=True)
        except OSError as problem:
            os.close(answers)
            os.close(asking)
            raise Lost(f"cannot start {self._argv[0]}: {problem.strerror}") from problem
        finally:
            os.close(asked)
            os.close(answering)
        self._pipes = (answers, asking)

    def _ask(self, request: Mapping[str, Any], within_s: float) -> Reply:
        """One request and its answer. Raises Lost and Refused."""
        process, (answers, asking) = self._process, self._pipes
        assert process is not None
        until = time.monotonic() + within_s
        text = bytearray()
        try:
            os.write(asking, json.dumps(request).encode() + b"\n")
            while not text.endswith(b"\n") and len(text) < LONGEST_REPLY_BYTES:
                if not select.select([answers], [], [], max(0.0, until - time.monotonic()))[0]:
                    raise Lost(f"the check process timed out after {within_s:g} s and was killed")
                piece = os.read(answers, 1 << 20)
                if not piece:
                    raise Lost(f"the check process {_how_it_ended(process)}")
                text += piece
            reply = adapter(Reply).validate_json(text)
        except (OSError, ValueError) as problem:
            self._kill()
            raise Lost(f"the check process sent an invalid answer: {problem}") from problem
        except Lost:
            self._kill()
            raise
        if reply.refused is not None:
            raise Refused(reply.refused)
        if reply.failed is not None:
            raise Lost(reply.failed)
        return reply

    def _kill(self) -> None:
        """Kill the process and its children; wait only briefly."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
            for handle in self._pipes:
                os.close(handle)
            process_tree.end_children(but=self._others)
            self._stuck = process.pid
            process.poll()


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    """How a process that closed its pipes ended."""
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return "closed its pipes"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def _size_mib(pid: int) -> float:
    """Resident memory of a process in bytes; 0 where it has ended."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    return 0.0
