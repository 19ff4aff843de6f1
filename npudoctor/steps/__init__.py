"""The reversible steps that a fix is planned from: each can be shown, done, and undone.

A planner yields steps and never acts. `preview` only reads; `inverse` is asked for before `apply`, so that undoing is
possible from the first moment on; inverses are idempotent. The steps stand in `files` and `system`; the runner writes
them into its journal, so their fields are plain values.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from npudoctor.host import Host, MutableHost, Unavailable
from npudoctor.records import record


class StepFailed(Exception):
    """A step could not be done; the text says what failed and why."""


@record(frozen=True)
class Obstacle:
    """Why a step would be refused; `root` says that root could do it."""

    reason: str
    root: bool = False


@runtime_checkable
class Step(Protocol):
    """One reversible change to a node."""

    def preview(self, host: Host) -> str:
        """What would change, for a person: a unified diff, old → new, or a command."""
        ...

    def inverse(self, host: Host) -> Step | None:
        """The step that brings back the present state; None where nothing can."""
        ...

    def holds(self, host: Host) -> bool:
        """Whether the node already is as this step would leave it."""
        ...

    def obstacle(self, host: Host) -> Obstacle | None:
        """What forbids it on this node or to this user; asked before anything is changed."""
        ...

    def apply(self, host: MutableHost) -> None:
        """Make the change; raises StepFailed, OSError or Unavailable."""
        ...


@record(frozen=True)
class Note:
    """What a person should know before saying yes; a planner yields it between its steps, and it changes nothing.

    `unproved` says why no check of this process, or of a new login, could tell whether these steps have helped.
    """

    text: str
    unproved: str = ""


def streamed(host: MutableHost, argv: tuple[str, ...], timeout_s: float) -> str:
    """Run a command that changes the node; what it printed. Raises StepFailed unless it ends with 0 in time."""
    import shlex

    done = host.run_streaming(argv, timeout=timeout_s)
    if done.timed_out:
        raise StepFailed(f"`{shlex.join(argv)}` did not end within {timeout_s:g} s")
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
        raise StepFailed(f"`{shlex.join(argv)}` failed: {said[-1][:200]}")
    return done.stdout


def access_to(host: Host, path: str) -> str:
    """What this user may do with a path, any of rwx; nothing where it cannot be looked at."""
    try:
        return host.stat(path).access
    except Unavailable:
        return ""


__all__ = ["Note", "Obstacle", "Step", "StepFailed", "access_to", "streamed"]
