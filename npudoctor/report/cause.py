"""The primary finding of a report: every format names the same one."""

from __future__ import annotations

import re

from npudoctor.findings import Finding, Report, Result, Severity, Skip, Status, Verdict


def primary(report: Report) -> tuple[Result, str] | None:
    """The most severe finding, first in catalogue order, else the first check without a result."""
    for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO):
        for result in report.results:
            for finding in actionable_findings(result, action_threshold(report)):
                if finding.severity is severity and not (
                    report.verdict is Verdict.UNDETERMINED and severity < report.fail_on
                ):
                    return result, with_subject(finding)
    for result in report.results:
        if result.leaves_undetermined:
            return _reported_elsewhere(result, report) or (result, f"could not determine: {result.reason}")
    if report.verdict is Verdict.UNDETERMINED:
        shown = {result.check for result in report.results}
        skipped = [result for result in report.results if result.status is Status.SKIPPED]
        behind = [result for result in skipped if result.blocked_by and result.blocked_by not in shown]
        one = (behind or skipped)[0]
        if one.skip is Skip.NOT_APPLICABLE:
            return one, f"nothing to check: {one.reason}"
        why = f"{one.blocked_by} has an error" if one.blocked_by else one.reason
        return one, f"could not determine: {why}"
    return None


def _reported_elsewhere(unknown: Result, report: Report) -> tuple[Result, str] | None:
    """The finding of another check about the failure that left this one without a result."""
    for result in report.results:
        if result.check == unknown.reported_by:
            return next(((result, with_subject(finding)) for finding in actionable_findings(result)), None)
    return None


def action_threshold(report: Report) -> Severity:
    """The lowest severity to act on: what fails the run, and always warnings."""
    return min(Severity.WARNING, report.fail_on)


def with_subject(finding: Finding) -> str:
    """The summary, with the NPU or interface that it is about."""
    if not finding.where or _names(finding.summary, finding.where):
        return finding.summary
    return f"{finding.where}: {finding.summary}"


def _names(summary: str, where: str) -> bool:
    """Whether a summary names what the finding is about: "on for npu:5", or at its start "NPU 5 (0000:02:00.0)"."""
    if re.search(rf"(?<![\w/:]){re.escape(where)}(?![\w/:])", summary):
        return True
    number = where.removeprefix("npu:")
    return number.isdigit() and number != where and re.match(rf"NPU {number}\b", summary) is not None


def actionable_findings(result: Result, least: Severity = Severity.WARNING) -> list[Finding]:
    """The findings to act on; none of a silenced check."""
    return [finding for finding in result.open_findings if finding.severity >= least]


def all_clear(report: Report) -> str:
    """The headline of a report without a finding to act on: how many checks it rests on."""
    total = len(report.results)
    left_out = [f"{count} {key}" for key in ("skipped", "silenced") if (count := report.summary.get(key, 0))]
    return f"No problems found ({', '.join([f'{total} check' + 's' * (total != 1), *left_out])})"


def silenced_note(report: Report) -> str:
    """What follows the number of problems where the site has silenced checks: ", 1 silenced"."""
    return f", {number} silenced" if (number := report.summary.get("silenced", 0)) else ""


def one_line(report: Report, *, room: int) -> str:
    """The verdict in one line of at most `room` bytes, without control characters: the cause and how many more."""
    cause = primary(report)
    if cause is None:
        text, rest = all_clear(report), ""
    else:
        more = sum(len(actionable_findings(result, action_threshold(report))) for result in report.results) - 1
        text, rest = f"{cause[1]} ({cause[0].check})", f" and {more} more" if more > 0 else ""
        rest += silenced_note(report)
    return truncate("".join(letter if letter.isprintable() else " " for letter in text), room - len(rest)) + rest


def truncate(text: str, room: int) -> str:
    """The text in at most `room` bytes of UTF-8, with an ellipsis where something is left out."""
    if len(text.encode()) <= room:
        return text
    return text.encode()[: room - 3].decode(errors="ignore").rstrip() + "…"


def counts(report: Report) -> str:
    """How the checks ended: "60 ok, 1 warning, 2 errors, 19 skipped"."""
    numbers = {key: report.summary.get(key, 0) for key in ("warning", "error", "skipped", "silenced", "crashed")}
    plural = {key: "s" if number > 1 and key in ("warning", "error") else "" for key, number in numbers.items()}
    rest = [f"{number} {key}{plural[key]}" for key, number in numbers.items() if number]
    return ", ".join([f"{report.summary.get('ok', 0)} ok", *rest])
