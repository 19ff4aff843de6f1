"""Sentences with parameters: what checks and fixes say, one table per subject, apart from the code that decides.

A `Message` is a finding's texts under an id of its own, a `Sentence` is any other text. Both are templates as
`str.format` has them, with three additions: `{count:port|ports}` picks the singular or the plural, a list is joined by
commas (a long one is folded), and `{used_mb:GB}` rounds a number of MB. The code gives parameters and never builds
grammar, so that a table of translations can take the place of these texts: it has one entry per id.

    UNRESERVED = Message(
        "hccl.ports-reserved/unreserved",
        summary="HCCL ports not reserved: {ports}",
        hint="Reserve {count:it|them} in {key}.",
    )
    yield UNRESERVED.finding(ports=missing, count=len(missing), key=KEY, evidence=(...))
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from enum import Enum
from typing import Any

from npudoctor.findings import Evidence, Finding, FixOffer, Severity
from npudoctor.records import record

LONGEST_LIST = 12
LEFT_OF_LIST = 10
"""A longer list is folded to so many items; the finding's parameters have it whole."""


class _Formatter(string.Formatter):
    """`str.format` without attributes and indices, with a choice by number and with joined lists."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:  # noqa: ARG002 - the base class has it
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if "|" in format_spec:
            singular, _, plural = format_spec.partition("|")
            return singular if value == 1 else plural
        if isinstance(value, (list, tuple)):
            shown = value if len(value) <= LONGEST_LIST else value[:LEFT_OF_LIST]
            more = f" and {len(value) - len(shown)} more" if len(shown) < len(value) else ""
            return ", ".join(self.format_field(item, format_spec) for item in shown) + more
        if format_spec == "GB":
            return gigabytes(value)
        return format(value.value if isinstance(value, Enum) else value, format_spec)


def gigabytes(megabytes: float) -> str:
    """Memory in MB of 2**20 bytes, as tools print it: "512 MB", from 1 GB on "22.7 GB" and "64 GB"."""
    if megabytes < 1024:
        return f"{megabytes:.0f} MB"
    return f"{megabytes / 1024:.1f} GB".replace(".0 ", " ")


_FORMATTER = _Formatter()


def placeholders(*templates: str | None) -> frozenset[str]:
    """The names of the parameters that these templates take."""
    found = (name for text in templates if text for _, name, _, _ in _FORMATTER.parse(text) if name)
    return frozenset(found)


def _plain(value: Any) -> Any:
    """A parameter in the types of JSON."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=str)
    return str(value)


@record(frozen=True)
class Sentence:
    """A text with parameters that is no finding of its own: a reason, a detail or a hint for one case, a note."""

    template: str

    def text(self, **params: Any) -> str:
        """The sentence with these parameters; raises KeyError for one that is missing."""
        return _FORMATTER.vformat(self.template, (), params)


@record(frozen=True)
class Message:
    """The texts of one kind of finding. `code` is the check's id and a name below it: `npu.health/alarm`.

    A code is never reused and never renamed: sites silence it, dashboards and reports of many nodes group by it.
    `severity` and `pitfall` are the usual ones; a finding may have others.
    """

    code: str
    summary: str
    detail: str | None = None
    hint: str | None = None
    severity: Severity = Severity.ERROR
    pitfall: str | None = None

    @property
    def check(self) -> str:
        """The id of the check that finds it."""
        return self.code.partition("/")[0]

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the parameters that its texts take."""
        return placeholders(self.summary, self.detail, self.hint)

    def finding(
        self,
        *,
        subject: str = "host",
        subjects: tuple[str, ...] = (),
        severity: Severity | None = None,
        detail: str | None = None,
        hint: str | None = None,
        commands: tuple[str, ...] = (),
        evidence: tuple[Evidence, ...] = (),
        fix: FixOffer | str | None = None,
        pitfall: str | None = None,
        links: tuple[str, ...] = (),
        of_live_job: bool = False,
        symptom: bool = False,
        **params: Any,
    ) -> Finding:
        """A finding with this message's texts; raises KeyError for a parameter that is missing.

        `detail` and `hint` take the place of the message's own: a `Sentence.text` for one case. `subject` may be
        used in a template like any parameter.
        """
        named = {**params, "subject": subject}

        def text(template: str | None) -> str | None:
            return None if template is None else _FORMATTER.vformat(template, (), named)

        return Finding(
            code=self.code,
            params={name: _plain(value) for name, value in params.items()},
            subject=subject,
            subjects=subjects,
            severity=self.severity if severity is None else severity,
            summary=_FORMATTER.vformat(self.summary, (), named),
            detail=text(self.detail) if detail is None else detail,
            hint=text(self.hint) if hint is None else hint,
            commands=commands,
            evidence=evidence,
            fix=fix,
            pitfall=pitfall or self.pitfall,
            links=links,
            of_live_job=of_live_job,
            symptom=symptom,
        )
