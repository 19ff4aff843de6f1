"""The findings about each chip: the one judgement that the NPUs screen, the daemon and smoke runs show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npudoctor.findings import Finding, Result, Severity
from npudoctor.records import field, record

HEALTH_CHECK = "npu.health"
"""The check that judges what npu-smi reports as the health of a chip."""

COUNT_CHECK = "npu.count"
"""The check that finds NPUs which one source lists and another does not."""

CHIP_CHECKS = (
    *(COUNT_CHECK, HEALTH_CHECK, "npu.temperature", "npu.ecc", "npu.pcie", "npu.memory-free", "driver.kernel-log"),
)
"""The checks that judge the chips themselves, and not their network or their jobs."""

_BRIEF = {
    "npu.health/alarm": "{health}",
    "npu.health/critical": "{health}",
    "npu.health/warning": "{health}",
    "npu.health/other": "{health}",
    "npu.health/not-reported": "no health reported",
    "npu.health/no-answer": "does not answer",
    "npu.count/off-the-bus": "dropped off the PCI bus",
    "npu.count/not-in-npu-smi": "missing from {source}",
    "npu.count/missing-npu": "missing",
    "npu.count/fewer-chips": "missing",
    "npu.count/no-device-node": "no device node",
    "npu.count/node-without-chip": "missing from {source}",
    "npu.temperature/hot": "{celsius} °C",
    "npu.temperature/hot-memory": "HBM at {celsius} °C",
}
"""Findings in a few words; others by their summary."""


@record(frozen=True)
class Problem:
    """A finding about one chip, at warning or above, and the check that found it."""

    severity: Severity
    check: str
    summary: str
    code: str | None = None
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The finding in one line."""
        return f"{self.summary} ({self.check})"

    @property
    def brief(self) -> str:
        """The finding in a few words."""
        return brief(self.code, self.params) or self.summary


def brief(code: str | None, params: dict[str, Any]) -> str | None:
    """A finding in a few words; None for a code that has none, or without its parameters."""
    try:
        return _BRIEF[code or ""].format_map({"source": "npu-smi"} | params)
    except KeyError:
        return None


def problems(results: Iterable[Result], subject: str) -> tuple[Problem, ...]:
    """The findings about a chip or its NPU, the most severe first, without silenced ones."""
    found = [
        Problem(finding.severity, result.check, finding.summary, finding.code, finding.params)
        for result in results
        for finding in result.open_findings
        if finding.severity is not Severity.INFO and is_about(finding, subject)
    ]
    return tuple(sorted(found, key=lambda one: one.severity, reverse=True))


def is_about(finding: Finding, subject: str) -> bool:
    """Whether a finding is about this chip, or about the NPU that it is part of."""
    return finding.is_about(subject)
