"""What happens while a fix is applied or undone, as typed events."""

from __future__ import annotations

import itertools
from enum import Enum

from npudoctor.findings import Finding
from npudoctor.fixer import messages
from npudoctor.records import record
from npudoctor.sdk import Effect


class Outcome(str, Enum):
    """How a run ended. STUCK: it could not be undone completely; `npudoctor fix --recover` goes on."""

    NOTHING = "nothing"
    APPLIED = "applied"
    UNDONE = "undone"
    ROLLED_BACK = "rolled-back"
    REFUSED = "refused"
    STUCK = "stuck"


@record(frozen=True)
class Begun:
    """A run has been opened in the journal under the lock; `steps` is how many it has."""

    run: str
    fix: str
    steps: int


@record(frozen=True)
class StepBegun:
    """A step is journalled and being taken; `number` counts from 1."""

    number: int
    preview: str


@record(frozen=True)
class StepDone:
    """A step has been taken."""

    number: int


@record(frozen=True)
class Proving:
    """The checks that verify it are being run, in this process's environment or that of a new login."""

    checks: tuple[str, ...]
    effect: Effect


@record(frozen=True)
class Undoing:
    """A step is being undone; `number` counts from 1, newest first."""

    number: int
    preview: str


@record(frozen=True, kw_only=True)
class Verification:
    """The checks that were run again: which failed before and passed after, how many, and how long they took."""

    turned: tuple[str, ...] = ()
    rechecked: int = 0
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """What a person is told; empty where nothing was run again."""
        if not self.rechecked:
            return ""
        if not self.turned:
            return messages.CHECKS_RAN.text(count=self.rechecked, seconds=self.seconds)
        return messages.CHECKS_TURNED.text(checks=self.turned, count=self.rechecked, seconds=self.seconds)


@record(frozen=True, kw_only=True)
class Ended:
    """The last event. `reason` is a full clause, `remaining` what is not resolved, `reversible` whether `undo` works.

    `instead` is what would work: `sudo` where root could do it, a flag that is missing, or a whole command.
    `verification` names the checks that were run again after an applied fix. `output` is the end of what the command
    that failed has printed.
    """

    outcome: Outcome
    fix: str
    run: str | None = None
    reason: str = ""
    instead: str | None = None
    remaining: tuple[Finding, ...] = ()
    reversible: bool = True
    verification: Verification = Verification()
    output: str = ""


Event = Begun | StepBegun | StepDone | Proving | Undoing | Ended


def in_one_line(preview: str) -> str:
    """What a step changes: the file that it writes or removes, each value from → to, or its command."""
    lines = [line for line in preview.splitlines() if line] or ["nothing"]
    if lines[1:] and lines[1] == "+++ /dev/null":
        return lines[0][4:].removesuffix(" (now)") + " is removed"
    if lines[0].startswith("--- ") and len(lines) > 1:
        return lines[1][4:].removesuffix(" (then)") + " is written"
    values = list(itertools.takewhile(lambda line: not line.startswith("$ "), lines))
    return "; ".join(values) or lines[0]
