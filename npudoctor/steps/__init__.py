"""The reversible steps that a fix is planned from: each can be shown, done, and undone.

A planner yields steps and never acts. `preview` only reads; `inverse` is asked for before `apply`, so that undoing is
possible from the first moment on; inverses are idempotent. The steps are in `files` and `system`; the runner writes
them into its journal, so their fields are plain values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

from npudoctor.host import Completed, Host, MutableHost, Unavailable
from npudoctor.records import record
from npudoctor.steps import messages

LONGEST_OUTPUT = 1 << 16
"""How many characters of a failed command's output are kept for the search of a cause."""
Commands = list[tuple[Sequence[str], int | None]]
"""Commands and their exit codes; None is one that was ended."""

_output: ContextVar[Callable[[str], None] | None] = ContextVar("output", default=None)
_commands: ContextVar[Commands | None] = ContextVar("commands", default=None)


class StepFailed(Exception):
    """A step failed; the text says what and why. `output` is the end of what the command that failed has printed."""

    def __init__(self, reason: str, *, output: str = "") -> None:
        super().__init__(reason)
        self.output = output


@record(frozen=True)
class Obstacle:
    """Why a step would be refused; `root` says that root could do it, `owner` whose file it would change."""

    reason: str
    root: bool = False
    owner: str = ""


@runtime_checkable
class Step(Protocol):
    """One reversible change to a node."""

    def preview(self, host: Host) -> str:
        """What would change, for a person: a unified diff, old → new, or a command."""
        ...

    def inverse(self, host: Host) -> Step | None:
        """The step that restores the current state; None if nothing can."""
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
    """What a person should know before confirming; a planner yields it between its steps, and it changes nothing.

    `unproved` says why no check of this process, or of a new login, could verify these steps.
    """

    text: str
    unproved: str = ""


@contextlib.contextmanager
def output_to(stream: Callable[[str], None] | None, noted: Commands) -> Iterator[None]:
    """Hand what the commands of a step print to `stream` as it comes, and note each command in `noted`."""
    tokens = _output.set(stream), _commands.set(noted)
    try:
        yield
    finally:
        _output.reset(tokens[0])
        _commands.reset(tokens[1])


def run_command(host: MutableHost, argv: tuple[str, ...], timeout_s: float) -> Completed:
    """Run a command that changes the node; how it ended."""
    done = host.run_streaming(argv, timeout=timeout_s, stream=_output.get())
    if (noted := _commands.get()) is not None:
        noted.append((argv, done.returncode))
    return done


def run_changing(host: MutableHost, argv: tuple[str, ...], timeout_s: float) -> str:
    """Run a command that changes the node; what it printed. Raises StepFailed unless it ends with 0 in time."""
    import shlex

    done = run_command(host, argv, timeout_s)
    if done.timed_out:
        raise StepFailed(messages.TIMED_OUT.text(command=shlex.join(argv), seconds=timeout_s))
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        last = lines[-1][:200] if lines else messages.EXIT_STATUS.text(status=done.returncode)
        raise StepFailed(
            messages.FAILED.text(command=shlex.join(argv), problem=last),
            output=f"{done.stdout}\n{done.stderr}"[-LONGEST_OUTPUT:],
        )
    return done.stdout


def access_to(host: Host, path: str) -> str:
    """What this user may do with a path, any of rwx; empty if that is not known."""
    try:
        return host.stat(path).access
    except Unavailable:
        return ""


__all__ = [
    "Commands",
    "Note",
    "Obstacle",
    "Step",
    "StepFailed",
    "access_to",
    "output_to",
    "run_changing",
    "run_command",
]
