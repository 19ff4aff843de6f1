"""The report for the custom plug-in monitor of Kubernetes' node-problem-detector.

Its contract: exit code 0 is OK, 1 a problem, anything else unknown; the message is read from stdout, of which it
keeps 80 bytes by default.
"""

from __future__ import annotations

from npudoctor.findings import Report
from npudoctor.report import cause

MESSAGE_BYTES = 80
OK, PROBLEM, UNKNOWN = 0, 1, 2


def exit_code(report: Report) -> int:
    """The monitor's code for the exit code of a check."""
    return {0: OK, 1: PROBLEM}.get(report.exit_code, UNKNOWN)


def render(report: Report) -> str:
    """One line that fits the node's condition."""
    return cause.one_line(report, room=MESSAGE_BYTES) + "\n"


def render_unknown(problem: str) -> str:
    """The output where the checks could not run at all."""
    return cause.truncate(" ".join(problem.split()), MESSAGE_BYTES) + "\n"
