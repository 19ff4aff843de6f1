"""What the daemon answers over HTTP, as models: their JSON Schemas are published by `npudoctor schema NAME`.

These are contracts like the report: fields may be added in 1.x, never renamed or removed. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from datetime import datetime, timezone
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from npudoctor.daemon import store
from npudoctor.findings import Line, Severity


def iso(at: float) -> str:
    """A time in seconds since 1970, as the answers write it."""
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")


class Fitness(str, Enum):
    """How a card is; `unknown` where nobody could look."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


class Answer(BaseModel):
    """A frozen model that refuses fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Live(Answer):
    """/livez: whether the daemon itself works. `turned_s_ago` is when its scheduler last turned, in seconds."""

    schema_: str = Field(default="npudoctor.live/1", alias="schema")
    alive: bool
    turned_s_ago: float


class Ready(Answer):
    """/readyz: whether the cards of this node are known to be fit; `reason` says what is against it.

    `troubles` are what the daemon has to say of itself: a history that cannot be written, a look that hangs.
    """

    schema_: str = Field(default="npudoctor.ready/1", alias="schema")
    ready: bool
    reason: Line | None = None
    looked_at: Line | None = None
    interval_s: float
    troubles: tuple[Line, ...] = ()


class Issue(Answer):
    """One thing that is, or was, wrong; known by check and subject.

    `count` is in how many looks it was found since it began, `opened` how often it began; `flapping` marks one that
    began three times or more within the last hour.
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
    """/v1/issues: what is wrong now, the gravest first; with `?all=true` also what has resolved.

    `undetermined` says why the cards' health, or what else, could not be judged: an empty list means nothing then.
    """

    schema_: str = Field(default="npudoctor.issues/1", alias="schema")
    looked_at: Line | None
    undetermined: tuple[Line, ...]
    issues: tuple[Issue, ...]


class Change(Answer):
    """One thing that happened; `id` grows."""

    id: int
    at: Line
    kind: Line
    check: Line | None = None
    subject: Line | None = None
    severity: Severity | None = None
    said: Line


class Changes(Answer):
    """/v1/history: the latest changes, newest first. `next_before` goes on as `?before=`, None at the end."""

    schema_: str = Field(default="npudoctor.history/1", alias="schema")
    changes: tuple[Change, ...]
    next_before: int | None = None


class Ecc(Answer):
    """Bit errors of one memory of a chip since its last reset, over its life, and pages taken out of use."""

    memory: Line
    single: int | None = None
    double: int | None = None
    single_aggregate: int | None = None
    double_aggregate: int | None = None
    single_isolated_pages: int | None = None
    double_isolated_pages: int | None = None


class Card(Answer):
    """One chip. None is what is not known; `health` is npudoctor's judgement, `said` what npu-smi says of it.

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
    """/v1/cards: every chip of this node. `seen_at` is when npu-smi was asked, `counted_at` its pages card by card.

    `undetermined` says why the chips could not be asked; what is then listed is known from elsewhere.
    """

    schema_: str = Field(default="npudoctor.cards/1", alias="schema")
    seen_at: Line | None
    counted_at: Line | None
    in_service: bool | None
    undetermined: Line | None = None
    cards: tuple[Card, ...]


class Problem(Answer):
    """What every request gets that cannot be answered: a clause."""

    schema_: str = Field(default="npudoctor.problem/1", alias="schema")
    error: Line


def issue(one: store.Issue) -> Issue:
    """An issue of the history as it is answered."""
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
    """A change of the history as it is answered."""
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
    return {**said, **SCHEMAS[name].model_json_schema(by_alias=True, mode="serialization")}
