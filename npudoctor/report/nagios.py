"""The report for Nagios, Icinga and compatible monitors: a state, one line, performance data.

The contract is that of the Monitoring Plugins' development guidelines: exit code 0 OK, 1 WARNING, 2 CRITICAL,
3 UNKNOWN; the first line is `STATE - text | performance data`, further lines are shown on request.
"""

from __future__ import annotations

from npudoctor.findings import Report, Severity, Verdict
from npudoctor.report import cause

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
UNKNOWN = STATES.index("UNKNOWN")
FIRST_LINE_BYTES = 400
_CODES = {Verdict.OK: 0, Verdict.WARNING: 1, Verdict.ERROR: 2, Verdict.UNDETERMINED: 3}


def exit_code(report: Report) -> int:
    """The plug-in's state; a warning counts as critical where the run fails on warnings."""
    critical = report.exit_code == 1 and report.verdict is Verdict.WARNING and report.fail_on is Severity.WARNING
    return 2 if critical else _CODES[report.verdict]


def render(report: Report) -> str:
    """The state and the cause, then every finding at warning or above in a line of its own."""
    counts = " ".join(f"{status}={number};;;0" for status, number in report.summary.items())
    figures = f"{counts} duration={report.duration_s:.3f}s;;;0"
    lines = [f"{STATES[exit_code(report)]} - {_plain(cause.one_line(report, room=FIRST_LINE_BYTES))} | {figures}"]
    for result in report.results:
        lines += [
            f"{one.severity.value}: {_plain(cause.with_subject(one))} ({result.check})"
            for one in cause.actionable_findings(result)
        ]
        if result.leaves_undetermined:
            lines.append(f"unknown: {_plain(result.reason or result.title)} ({result.check})")
    return "\n".join(lines) + "\n"


def render_unknown(problem: str) -> str:
    """The output where the checks could not run at all."""
    return f"UNKNOWN - {_plain(problem)}\n"


def _plain(text: str) -> str:
    """Replace `|`, which would begin the performance data."""
    return " ".join(text.replace("|", "/").split())
