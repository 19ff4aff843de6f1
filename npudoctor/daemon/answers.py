"""The answers of the HTTP API as models: `npudoctor schema NAME` prints their JSON Schemas.

Contracts like the report: fields may be added in 1.x, never renamed or removed. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from datetime import datetime, timezone
from enum import Enum
from typing import Any, ClassVar

from npudoctor.daemon import store
from npudoctor.findings import Line, Severity
from npudoctor.models import Model, adapter


def iso(at: float) -> str:
    """Format a time in seconds since 1970 for the answers."""
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")


class Fitness(str, Enum):
    """The health of a chip; `unknown` where it could not be determined."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


class Answer(Model):
    """An answer: both ends are of one version, so that a field that it does not know is refused."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


class Live(Answer):
    """/livez: whether the daemon is alive. `turned_s_ago` is the age of the scheduler's last iteration in seconds."""

    schema: str = "npudoctor.live/1"
    alive: bool
    turned_s_ago: float


class Ready(Answer):
    """/readyz: whether the NPUs of this node are known to be healthy; `reason` says why not.

    `troubles` are problems of the daemon itself: a history that cannot be written, a run that hangs.
    """

    schema: str = "npudoctor.ready/1"
    ready: bool
    reason: Line | None = None
    looked_at: Line | None = None
    interval_s: float
    troubles: tuple[Line, ...] = ()


class Issue(Answer):
    """A present or past problem, identified by check and subject.

    `count` is the number of runs that found it since it opened, `opened` how often it opened; `flapping` marks one that
    opened three times or more within the last hour.
    """

    check: Line
    subject: Line
    severity: Severity
    summary: Line
    first_seen: Line
    last_seen: Line
    count: int
    opened: int
    flapping: bool
    resolved_at: Line | None = None


class Issues(Answer):
    """/v1/issues: open issues, most severe first; with `?all=true` also resolved ones.

    `undetermined` says why checks have no result: an empty list does not mean a healthy node then.
    """

    schema: str = "npudoctor.issues/1"
    looked_at: Line | None
    undetermined: tuple[Line, ...]
    issues: tuple[Issue, ...]


class Change(Answer):
    """One event; `id` increases."""

    id: int
    at: Line
    kind: Line
    check: Line | None = None
    subject: Line | None = None
    severity: Severity | None = None
    said: Line


class Changes(Answer):
    """/v1/history: the latest changes, newest first. `next_before` is the next `?before=`, None at the end."""

    schema: str = "npudoctor.history/1"
    changes: tuple[Change, ...]
    next_before: int | None = None


class Ecc(Answer):
    """Bit errors of one memory of a chip since its last reset and over its life, and isolated pages."""

    memory: Line
    single: int | None = None
    double: int | None = None
    single_aggregate: int | None = None
    double_aggregate: int | None = None
    single_isolated_pages: int | None = None
    double_isolated_pages: int | None = None


class Card(Answer):
    """One chip. None means unknown; `health` is npudoctor's verdict, `said` the health printed by npu-smi.

    `device` is the N of /dev/davinciN. Memory is HBM, or DDR where the chip has none.
    """

    subject: Line
    npu_id: int | None = None
    chip_id: int | None = None
    device: int | None = None
    bus_id: Line | None = None
    name: Line | None = None
    health: Fitness
    problem: Line | None = None
    said: Line | None = None
    temperature_celsius: int | None = None
    power_watts: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    ai_core_percent: int | None = None
    link: Line | None = None
    ecc: tuple[Ecc, ...] = ()


class Cards(Answer):
    """/v1/cards: every chip of this node. `seen_at` is the time of npu-smi's table, `counted_at` of its per-chip pages.

    `undetermined` says why npu-smi gave no result; listed chips are then known from other sources.
    """

    schema: str = "npudoctor.cards/1"
    seen_at: Line | None
    counted_at: Line | None
    in_service: bool | None
    undetermined: Line | None = None
    cards: tuple[Card, ...]


class Problem(Answer):
    """The answer to a request that failed: a clause."""

    schema: str = "npudoctor.problem/1"
    error: Line


def issue(one: store.Issue) -> Issue:
    """Convert an issue of the history to an answer."""
    return Issue(
        check=one.check,
        subject=one.subject,
        severity=Severity(one.severity),
        summary=one.summary,
        first_seen=iso(one.first_seen),
        last_seen=iso(one.last_seen),
        count=one.count,
        opened=one.opened,
        flapping=one.flapping,
        resolved_at=None if one.resolved_at is None else iso(one.resolved_at),
    )


def change(one: store.Change) -> Change:
    """Convert a change of the history to an answer."""
    severity = None if one.severity is None else Severity(one.severity)
    return Change(
        id=one.id,
        at=iso(one.at),
        kind=one.kind,
        check=one.check,
        subject=one.subject,
        severity=severity,
        said=one.said,
    )


SCHEMAS: dict[str, type[Answer]] = {
    "live": Live,
    "ready": Ready,
    "issues": Issues,
    "history": Changes,
    "cards": Cards,
    "problem": Problem,
}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one answer."""
    said = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:npudoctor:{name}:1"}
    return {**said, **adapter(SCHEMAS[name]).json_schema(mode="serialization")}
