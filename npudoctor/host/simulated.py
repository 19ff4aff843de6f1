"""A simulated node: it answers like a recorded one, and what is changed on it shows in what it answers afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from npudoctor.host import TOOL_TIMEOUT_S, Completed
from npudoctor.host.recorded import RecordedHost
from npudoctor.host.tree import normal

_SETTINGS = "/proc/sys/"


class Machine(Protocol):
    """What can be done to a simulated node beyond its files."""

    def set_sysctl(self, key: str, value: str) -> None:
        """Write a kernel setting; raises OSError where the kernel would."""
        ...

    def end(self, pid: int, number: int) -> None:
        """Send a signal to a process."""
        ...

    def act(self, argv: Sequence[str]) -> Completed | None:
        """Run a command that changes the node; None for one that changes nothing."""
        ...


class SimulatedHost(RecordedHost):
    """Implements `MutableHost` over a simulated machine."""

    def __init__(self, machine: Machine, **recorded: Any) -> None:
        super().__init__(**recorded)
        self._machine = machine

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """What the command prints now; one that takes longer than its time limit is ended by it."""
        return _within(super().run(argv, timeout=timeout), timeout)

    def write_file(self, path: str, content: bytes, *, mode: int | None = None) -> None:
        """Replace a file as a whole; a kernel setting takes what is written as the kernel would."""
        if normal(path).startswith(_SETTINGS):
            key = normal(path).removeprefix(_SETTINGS).replace("/", ".")
            self._machine.set_sysctl(key, content.decode("utf-8", "replace"))
        else:
            self.tree.write(path, content, mode=mode)

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""
        try:
            self.tree.remove(path)
        except FileNotFoundError:
            return

    def set_sysctl(self, key: str, value: str) -> None:
        """Write a kernel setting; raises OSError where the kernel refuses it."""
        self._machine.set_sysctl(key, f"{value}\n")

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process; what it held is free when it is gone."""
        self._machine.end(pid, number)

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
