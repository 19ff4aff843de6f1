"""The findings about each chip: the one judgement that the NPUs screen, the daemon and smoke runs show."""

from __future__ import annotations

from collections.abc import Iterable

from npudoctor.findings import Result, Severity
from npudoctor.records import record

HEALTH_CHECK = "npu.health"
"""The check that judges what npu-smi reports as the health of a chip."""


@record(frozen=True)
class Problem:
    """A finding about one chip, at warning or above, and the check that found it."""

    severity: Severity
    check: str
    summary: str

    @property
    def text(self) -> str:
        """The finding in one line."""
        return f"{self.summary} ({self.check})"


def problems(results: Iterable[Result], subject: str) -> tuple[Problem, ...]:
    """The findings about a chip or its NPU, the most severe first, without silenced ones."""
    found = [
        Problem(finding.severity, result.check, finding.summary)
        for result in results
        for finding in result.open_findings
        if finding.severity is not Severity.INFO
        and (finding.subject == subject or subject.startswith(f"{finding.subject}/"))
    ]
    return tuple(sorted(found, key=lambda one: one.severity, reverse=True))
