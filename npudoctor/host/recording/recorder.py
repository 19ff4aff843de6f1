"""Recording a node: a host that hands every question on to another one and notes what came back.

What is noted is all that a replay needs to give the same answers: what was there, what was not, what failed and why.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from npudoctor.host import (
    DRIVER,
    LIBRARY,
    TOOL_TIMEOUT_S,
    About,
    Because,
    Completed,
    FileStat,
    Host,
    Unavailable,
    User,
    command_key,
)
from npudoctor.host.forwarding import ForwardingHost
from npudoctor.host.recording.bundle_reader import NO_ENVIRONMENT
from npudoctor.host.recording.canned import OUTPUT_LIMIT_BYTES, failure_key
from npudoctor.host.simulated.tree import MAX_LINKS, normalise
from npudoctor.records import field, record, replace

Answer = TypeVar("Answer")
UNEVENTFUL_S = 2.0
"""A command that took less is recorded without its time: it describes this moment, not the node."""


@record(kw_only=True)
class Notes:
    """What a node answered. Paths have their links followed, but for those of `links` itself and in `failures`.

    `commands`, `measures` and `tools` are by command key, name, and command; `cut` names the files of which only the
    beginning was read; `parts` holds those that were read in pieces, by their offsets; `missing` the paths and command
    keys that are not there. `environ` is None where it was not asked for; `asked` holds the paths by which a file was
    read.
    """

    about: About
    user: User
    environ: Mapping[str, str] | None = None
    commands: dict[str, Completed] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    stats: dict[str, FileStat] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    listings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    failures: dict[str, Unavailable] = field(default_factory=dict)
    asked: dict[str, set[str]] = field(default_factory=dict)


class RecordingHost(ForwardingHost):
    """Implements `Host` over another host; `notes` holds what that one has answered so far."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._targets: dict[str, str | None] = {}
        self.notes = Notes(about=host.about, user=host.user)

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of a job."""
        self.notes.environ = self._noting(NO_ENVIRONMENT, None, lambda: self._host.environ)
        return self.notes.environ

    def _noting(self, failure: str, missing: str | None, ask: Callable[[], Answer]) -> Answer:
        """Ask, and note why there is no answer; what a recording does not hold is no answer to be noted."""
        try:
            return ask()
        except Unavailable as why:
            if why.because is Because.ABSENT and missing is not None:
                self.notes.missing.add(missing)
            elif why.because is not Because.NOT_RECORDED:
                self.notes.failures[failure] = why
            raise

    # Commands

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run a command, and note how it ended."""
        return self._run(command_key(argv), timeout, lambda: self._host.run(argv, timeout=timeout))

    def ask_library(self, driver: str = DRIVER, *, pages: bool = True, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Ask the driver's library, and note its answer."""
        return self._run(LIBRARY, timeout, lambda: self._host.ask_library(driver, pages=pages, timeout=timeout))

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a script inside the target Python, and note how it ended."""
        ask = self._host.run_in_target
        return self._run(f"python {name}", timeout, lambda: ask(name, python, timeout=timeout, environ=environ))

    def _run(self, key: str, timeout: float, ask: Callable[[], Completed]) -> Completed:
        done = self._noting(failure_key("run", key), key, ask)
        limit = timeout if self.about.source == "live" else done.seconds  # another recording says how long it waited
        seconds = min(done.seconds, limit) if done.timed_out else _in_steps(done.seconds)
        self.notes.commands[key] = replace(done, seconds=seconds)
        return done

    def which(self, name: str) -> str | None:
        """Where a command lies, and note it."""
        found = self._host.which(name)
        if found is not None:
            self.notes.tools[name] = found
        elif "/" not in name:
            self.notes.missing.add(name)
        return found

    # Files

    def read(self, path: str) -> str:
        """The text of a file; bytes that are not UTF-8 read U+FFFD."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str, *, limit: int = OUTPUT_LIMIT_BYTES) -> bytes:
        """The first `limit` bytes of a file, noted; with its size, where there may be more."""
        place = self._place(path)
        content = self._noting(failure_key("read", path), place, lambda: self._host.read_bytes(path, limit=limit))
        self.notes.asked.setdefault(place, set()).add(path)
        if len(content) >= len(self.notes.files.get(place, b"")):
            self.notes.files[place] = content
            self.notes.cut.discard(place)
            if len(content) == limit:
                self.notes.cut.add(place)
            if len(content) == limit or place not in self.notes.stats:
                self._describe(path)
        return content

    def read_part(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes out of the middle of a file, noted as such."""
        place = self._place(path)
        ask = lambda: self._host.read_part(path, offset, length)  # noqa: E731
        content = self._noting(failure_key("read", path), place, ask)
        self.notes.asked.setdefault(place, set()).add(path)
        self.notes.parts.setdefault(place, {})[offset] = content
        self._describe(path)
        return content

    def exists(self, path: str) -> bool:
        """Whether a path is there; what it is, is noted with it."""
        place = self._place(path)
        found = self._noting(failure_key("exists", path), place, lambda: self._host.exists(path))
        if found:
            self._describe(path)
        else:
            self.notes.missing.add(place)
        return found

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The names in a folder, noted."""
        place = self._place(path)
        names = self._noting(failure_key("list", path), place, lambda: self._host.list_dir(path))
        self.notes.listings[place] = names
        return names

    def stat(self, path: str) -> FileStat:
        """Kind, mode, owner and access of a path, noted."""
        place = self._place(path)
        found = self._noting(failure_key("stat", path), place, lambda: self._host.stat(path))
        self.notes.stats[place] = found
        return found

    def _describe(self, path: str) -> None:
        """Note what is at a path, where this user may know."""
        with contextlib.suppress(Unavailable):
            self.stat(path)

    def read_link(self, path: str) -> str | None:
        """The target of a symbolic link; it and the links on the way to it are noted."""
        folder, name = posixpath.split(path.rstrip("/"))
        return self._target(posixpath.join(self._place(folder), name)) if name else None

    def real_path(self, path: str) -> str:
        """The path with its links followed, each of them noted."""
        return self._place(path)

    def _place(self, path: str) -> str:
        """The path with every link in it followed as the node would, and noted; at most 40 links."""
        followed = 0
        done, rest = "/", path.split("/")[::-1]
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, part)
            target = self._target(here) if followed < MAX_LINKS else None
            if target is None:
                done = here
                continue
            followed += 1
            done = "/" if target.startswith("/") else done
            rest += target.split("/")[::-1]
        return done

    def _target(self, place: str) -> str | None:
        """Where the link at a place leads; each place is asked about once."""
        if place not in self._targets:
            target = self._targets[place] = self._host.read_link(place)
            if target is not None:
                self.notes.links[normalise(place)] = target
        return self._targets[place]

    # Measurements

    def measure(self, key: str) -> Any:
        """One of the facts of host.json, noted without the processes that npudoctor itself has started."""
        found = self._noting(failure_key("measure", key), None, lambda: self._host.measure(key))
        if key == "processes" and found and self.about.source == "live":
            found = _not_of(os.getpid(), found)
        self.notes.measures[key] = found
        return found


def _in_steps(seconds: float) -> float:
    """A time so coarse that the same node gives the same one again: none below 2 s, then tenths of a second.

    A full second that was passed stays passed, because limits are full seconds.
    """
    if seconds < UNEVENTFUL_S:
        return 0.0
    coarse = round(seconds, 1)
    return coarse + 0.01 if seconds > coarse == int(coarse) else coarse


def _not_of(pid: int, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of processes that do not descend from this one."""
    own = {pid}
    left = list(rows)
    while any(row.get("ppid") in own for row in left):
        own |= {row["pid"] for row in left if row.get("ppid") in own}
        left = [row for row in left if row["pid"] not in own]
    return left


__all__ = ["Notes", "RecordingHost"]
