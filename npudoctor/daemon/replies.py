"""Messages from the check process to the daemon: models, because they travel through a pipe as JSON."""

from __future__ import annotations

from typing import Protocol

from npudoctor.daemon.answers import Answer, Card, Ecc
from npudoctor.daemon.site import Site
from npudoctor.daemon.timetable import RunKind
from npudoctor.findings import Report
from npudoctor.records import field


class Threshold(Answer):
    """A threshold that a site may set."""

    name: str


class CheckNames(Answer):
    """The configurable names of a check, and the checks that it runs after."""

    id: str
    tags: tuple[str, ...]
    after: tuple[str, ...]
    thresholds: tuple[Threshold, ...]


class Known(Answer):
    """The catalogue by name: checks in the order of a report, codes, fixes, and which fixes are safe.

    `complete` is False where a plug-in could not be loaded.
    """

    checks: tuple[CheckNames, ...] = ()
    codes: tuple[str, ...] = ()
    complete: bool = False
    fixes: tuple[str, ...] = ()
    safe: tuple[str, ...] = ()


class Counted(Answer):
    """The per-chip readings of one chip."""

    link: str | None
    ecc: tuple[Ecc, ...]


class RunResult(Answer):
    """The result of a run. `report` and `cards` are None for the counters, `counted` (by subject) for a quick run.

    `left` maps a vendor tool to its process that cannot be killed. `seconds` is wall time.
    """

    kind: RunKind
    report: Report | None = None
    cards: tuple[Card, ...] | None = None
    counted: dict[str, Counted] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    seconds: float
    timed_out: bool


class Tried(Answer):
    """The outcome of a fix: the kind of entry in the history, and its text. `tried` is False where it was refused."""

    kind: str
    said: str
    tried: bool


class Reply(Answer):
    """One answer: the result, or why there is none."""

    known: Known | None = None
    seen: RunResult | None = None
    tried: Tried | None = None
    refused: str | None = None
    failed: str | None = None


class Lost(Exception):
    """The check process gave no answer; the text is a clause that says why."""


class Paused(Lost):
    """The driver is not asked now; the text is a clause that says why."""


class Refused(Exception):
    """The node cannot be opened, or the configuration cannot be used; the text is one line for the user."""


class CheckRunner(Protocol):
    """Runs checks and fixes, in this process or in another."""

    @property
    def known(self) -> Known:
        """The catalogue used for runs."""

    def run(self, kind: RunKind, site: Site) -> RunResult:
        """Run checks. Raises Lost."""

    def fix(self, id: str, site: Site, journal: str | None) -> Tried | None:
        """Apply a safe fix; None where there was nothing to do. Raises Lost."""

    def end(self) -> None:
        """Cancel the current work, and start nothing more."""
