"""A simulated node: it answers like a recorded one, and what is changed on it shows in what it answers afterwards."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from npudoctor.host import TOOL_TIMEOUT_S, Completed, FileStat
from npudoctor.host.recording.canned import RecordedHost
from npudoctor.host.simulated.redo import note_change
from npudoctor.host.simulated.tree import normalise
from npudoctor.host.simulated.tree_changes import ChangingTree

_SETTINGS = "/proc/sys/"


class Machine(Protocol):
    """What can be done to a simulated node beyond its files."""

    def set_sysctl(self, key: str, value: str) -> None:
        """Write a kernel setting; raises OSError where the kernel would."""
        ...

    def end(self, pid: int, number: int) -> None:
        """Send a signal to a process."""
        ...

    def answer(self, argv: Sequence[str]) -> Completed | None:
        """What a command prints that only looks, and is no recorded one; None for all others."""
        ...

    def in_target(self, probe: str, python: str) -> Completed | None:
        """What a probe prints inside a Python that came later; None for the one that the node began with."""
        ...

    def act(self, argv: Sequence[str]) -> Completed | None:
        """Run a command that changes the node; None for one that changes nothing."""
        ...

    def after_login(self, host: SimulatedHost) -> SimulatedHost:
        """The node as a new login of its user sees it."""
        ...


class SimulatedHost(RecordedHost):
    """Implements `MutableHost` over a simulated machine."""

    tree: ChangingTree

    def __init__(self, machine: Machine, **recorded: Any) -> None:
        super().__init__(**recorded)
        self._machine = machine
        self.done: list[dict[str, Any]] = []

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """What the command prints now; one that takes longer than its time limit is ended by it."""
        found = self._machine.answer(argv)
        return _within(super().run(argv, timeout=timeout) if found is None else found, timeout)

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """What a probe prints inside this Python."""
        found = self._machine.in_target(name, python)
        if found is None:
            return super().run_in_target(name, python, timeout=timeout, environ=environ)
        return _within(found, timeout)

    @note_change
    def write_file(
        self,
        path: str,
        content: bytes,
        *,
        mode: int | None = None,
        owner: tuple[int, int] | None = None,
        attributes: Mapping[str, bytes] | None = None,  # noqa: ARG002 - files have none here
    ) -> None:
        """Replace a file as a whole; a kernel setting takes what is written as the kernel would."""
        if normalise(path).startswith(_SETTINGS):
            key = normalise(path).removeprefix(_SETTINGS).replace("/", ".")
            self._machine.set_sysctl(key, content.decode("utf-8", "replace"))
            return
        path = self.real_path(path)
        old = self.link_stat(path)
        if owner is None and old is not None and old.kind == "file" and self.user.uid == 0:
            owner = (old.uid, old.gid)
        self.tree.write(path, content, mode=mode, owner=owner)

    @note_change
    def remove(self, path: str, *, follow: bool = False) -> None:
        """Remove a file or a link, or what the link leads to; one that is not there is no error."""
        with contextlib.suppress(FileNotFoundError):
            self.tree.remove(self.real_path(path) if follow else path)

    @note_change
    def write_link(self, path: str, target: str) -> None:
        """Put a symbolic link in the place of a link, a file or nothing."""
        self.tree.write_link(path, target)

    @note_change
    def make_folder(self, path: str, *, mode: int = 0o755) -> None:
        """Make one folder in a folder that is there; one that exists is no error."""
        with contextlib.suppress(FileExistsError):
            self.tree.make_folder(path, mode)

    @note_change
    def remove_folder(self, path: str) -> None:
        """Remove an empty folder; one that is not there or not empty is no error."""
        try:
            self.tree.remove_folder(path)
        except OSError as problem:
            if problem.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise

    def link_stat(self, path: str) -> FileStat | None:
        """Kind, mode and owner of a path itself, its last link not followed; None where nothing is."""
        try:
            if self.tree.read_link(path) is not None:
                return FileStat(kind="link", mode=0o777, uid=0, gid=0, access="")
            return self.tree.stat(path)
        except FileNotFoundError:
            return None

    def attributes(self, path: str) -> Mapping[str, bytes]:  # noqa: ARG002 - the protocol
        """Files have no extended attributes here."""
        return {}

    def sweep(self, path: str, *, follow: bool = True) -> None:
        """Nothing is ever left half written here."""

    def lock(self, path: str) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002 - the protocol
        """No other process can change this node."""
        return contextlib.nullcontext()

    def own_script(self, name: str) -> str:
        """A name that the simulated Python knows."""
        return f"npudoctor-{name}.py"

    def fresh(self) -> SimulatedHost:
        """The same node: it remembers no answers."""
        return self

    def after_login(self) -> SimulatedHost:
        """The same node with the variables that a new login of its user has."""
        there = self._machine.after_login(self)
        there.done = self.done
        return there

    @note_change
    def set_sysctl(self, key: str, value: str) -> None:
        """Write a kernel setting; raises OSError where the kernel refuses it."""
        self._machine.set_sysctl(key, f"{value}\n")

    @note_change
    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process; what it held is free when it is gone."""
        self._machine.end(pid, number)

    @note_change
    def run_streaming(
        self, argv: Sequence[str], *, timeout: float, stream: Callable[[str], None] | None = None
    ) -> Completed:
        """Run a command that may change the node, handing its output to `stream`."""
        done = self._machine.act(argv)
        done = self.run(argv, timeout=timeout) if done is None else _within(done, timeout)
        if stream is not None and (text := done.stdout + done.stderr):
            stream(text)
        return done


def _within(done: Completed, timeout: float) -> Completed:
    if not done.timed_out and done.seconds <= timeout:
        return done
    return replace(done, returncode=None, stdout="", stderr="", seconds=timeout, timed_out=True)
