"""What the process that runs the checks tells the daemon: models, because they travel through a pipe as JSON."""

from __future__ import annotations

from typing import Protocol

from pydantic import Field

from npudoctor.daemon.answers import Answer, Card, Ecc
from npudoctor.daemon.site import Site
from npudoctor.daemon.timetable import Look
from npudoctor.findings import Report


class Threshold(Answer):
    """The name of a number that a site may set."""

    name: str


class CheckNames(Answer):
    """What a configuration may say of a check, and after which checks it stands."""

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
    """What one chip tells only when it is asked by itself."""

    link: str | None
    ecc: tuple[Ecc, ...]


class Seen(Answer):
    """What a look brought. `report` and `cards` are None for the counters, `counted` (by subject) for a quick look.

    `left` maps a vendor's tool to a process of it that cannot be ended. `seconds` is wall time.
    """

    look: Look
    report: Report | None = None
    cards: tuple[Card, ...] | None = None
    counted: dict[str, Counted] | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    left: dict[str, int] = Field(default_factory=dict)
    seconds: float
    timed_out: bool


class Tried(Answer):
    """How a fix went: the kind of entry in the history, and what it says. `tried` is False where it was refused."""

    kind: str
    said: str
    tried: bool


class Reply(Answer):
    """One answer: what was asked for, or why it could not be had."""

    known: Known | None = None
    seen: Seen | None = None
    tried: Tried | None = None
    refused: str | None = None
    failed: str | None = None


class Lost(Exception):
    """The process that runs the checks gave no answer; the text is a clause that says why."""


class Refused(Exception):
    """The node cannot be opened, or the configuration cannot be used; the text is one line for a person."""


class Looker(Protocol):
    """Runs looks and fixes, in this process or in another."""

    @property
    def known(self) -> Known:
        """The catalogue that the looks are made with."""

    def look(self, look: Look, site: Site) -> Seen:
        """Look at the node. Raises Lost."""

    def fix(self, id: str, site: Site, journal: str | None) -> Tried | None:
        """Apply a safe fix; None where there was nothing to do. Raises Lost."""

    def end(self) -> None:
        """Give up what is under way; nothing is begun any more."""
