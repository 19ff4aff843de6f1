"""The reversible steps that a fix is planned from: each can be shown, done, and undone.

A planner yields steps and never acts. `preview` only reads; `inverse` is asked for before `apply`, so that undoing is
possible from the first moment on; inverses are idempotent.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from npudoctor.host import Host, MutableHost, Unavailable
from npudoctor.records import dataclass


class StepFailed(Exception):
    """A step could not be done; the text says what failed and why."""


@runtime_checkable
class Step(Protocol):
    """One reversible change to a node."""

    def preview(self, host: Host) -> str:
        """What would change, for a person: a unified diff, old → new, or a command."""
        ...

    def inverse(self, host: Host) -> Step | None:
        """The step that brings back the present state; None where nothing can."""
        ...

    def apply(self, host: MutableHost) -> None:
        """Make the change; raises StepFailed, OSError or Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a file as a whole; `mode` holds its permission bits, None keeps those that it has (0644 for a new one)."""

    path: str
    content: str
    mode: int | None = None

    def preview(self, host: Host) -> str:
        """A unified diff; empty where the file already reads like this."""
        return _diff(self.path, _text(host, self.path) or "", self.content)

    def inverse(self, host: Host) -> Step:
        """The old content with its mode, or the file's removal where there was none."""
        old = _text(host, self.path)
        return RemoveFile(self.path) if old is None else WriteFile(self.path, old, host.stat(self.path).mode)

    def apply(self, host: MutableHost) -> None:
        """Write it."""
        host.write_file(self.path, self.content.encode(), mode=self.mode)


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Remove a file; one that is not there is no error."""

    path: str

    def preview(self, host: Host) -> str:
        """A unified diff to nothing."""
        return _diff(self.path, _text(host, self.path) or "", "")

    def inverse(self, host: Host) -> Step:
        """The file as it is; where there is none, its absence."""
        old = _text(host, self.path)
        return self if old is None else WriteFile(self.path, old, host.stat(self.path).mode)

    def apply(self, host: MutableHost) -> None:
        """Remove it."""
        host.remove(self.path)


@dataclass(frozen=True, slots=True)
class SetSysctl:
    """Set a kernel setting for now; a file in /etc/sysctl.d keeps it over a reboot."""

    key: str
    value: str

    def preview(self, host: Host) -> str:
        """Old → new."""
        return f"{self.key}: {self._now(host) or 'nothing'} → {self.value or 'nothing'}"

    def inverse(self, host: Host) -> Step:
        """The value that it has."""
        return SetSysctl(self.key, self._now(host))

    def apply(self, host: MutableHost) -> None:
        """Write it; the kernel refuses what it does not understand."""
        host.set_sysctl(self.key, self.value)

    def _now(self, host: Host) -> str:
        return host.read("/proc/sys/" + self.key.replace(".", "/")).strip()


@dataclass(frozen=True, slots=True)
class Run:
    """Run a command without a shell; `undo` is the command that takes it back. `timeout_s` is in seconds."""

    argv: tuple[str, ...]
    undo: tuple[str, ...] | None = None
    timeout_s: float = 60.0

    def preview(self, _: Host) -> str:
        """The command as it could be typed."""
        return f"$ {shlex.join(self.argv)}"

    def inverse(self, _: Host) -> Step | None:
        """The command that takes it back, if there is one."""
        return Run(self.undo, self.argv, self.timeout_s) if self.undo else None

    def apply(self, host: MutableHost) -> None:
        """Run it; anything but exit status 0 in time is a failure."""
        done = host.run_streaming(self.argv, timeout=self.timeout_s)
        if done.timed_out:
            raise StepFailed(f"`{shlex.join(self.argv)}` did not end within {self.timeout_s:g} s")
        if done.returncode != 0:
            said: Sequence[str] = (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
            raise StepFailed(f"`{shlex.join(self.argv)}` failed: {said[-1][:200]}")


def _text(host: Host, path: str) -> str | None:
    try:
        return host.read(path) if host.exists(path) else None
    except Unavailable as why:
        raise StepFailed(why.reason) from why


def _diff(path: str, old: str, new: str) -> str:
    import difflib  # here, because a check never needs it

    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"{path} (now)", f"{path} (then)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)
