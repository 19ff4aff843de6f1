"""Which finding of a report comes first: every format names the same one."""

from __future__ import annotations

from npudoctor.findings import Finding, Report, Result, Severity, Status, Verdict


def first(report: Report) -> tuple[Result, str] | None:
    """The worst finding that comes first in the catalogue, else the first check that could not be judged."""
    for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO):
        for result in report.results:
            for finding in worth(result, floor(report)):
                if finding.severity is severity and not (
                    report.verdict is Verdict.UNDETERMINED and severity < report.fail_on
                ):
                    return result, about(finding)
    for result in report.results:
        if result.leaves_undetermined:
            return _reported_elsewhere(result, report) or (result, f"could not determine: {result.reason}")
    if report.verdict is Verdict.UNDETERMINED:
        shown = {result.check for result in report.results}
        skipped = [result for result in report.results if result.status is Status.SKIPPED]
        behind = [result for result in skipped if result.blocked_by and result.blocked_by not in shown]
        one = (behind or skipped)[0]
        why = f"{one.blocked_by} has an error" if one.blocked_by else one.reason
        return one, f"could not determine: {why}"
    return None


def _reported_elsewhere(unknown: Result, report: Report) -> tuple[Result, str] | None:
    """The finding of another check about the failure that kept this one from a verdict."""
    for result in report.results:
        if result.check == unknown.reported_by:
            return next(((result, about(finding)) for finding in worth(result)), None)
    return None


def floor(report: Report) -> Severity:
    """The least severity of what somebody should act on: what fails the run, and warnings at all events."""
    return min(Severity.WARNING, report.fail_on)


def about(finding: Finding) -> str:
    """The summary, with the card or interface that it is about."""
    plain = finding.subject in ("host", "python", "container")
    return finding.summary if plain else f"{finding.subject}: {finding.summary}"


def worth(result: Result, least: Severity = Severity.WARNING) -> list[Finding]:
    """The findings that somebody should act on; none of a check that the site has silenced."""
    return [finding for finding in result.open_findings if finding.severity >= least]


def line(report: Report, *, room: int) -> str:
    """The verdict in one line of at most `room` bytes, without control characters: the cause and how many more."""
    cause = first(report)
    if cause is None:
        text = "nothing is wrong that these checks can see"
    else:
        more = sum(len(worth(result, floor(report))) for result in report.results) - 1
        text = f"{cause[1]} ({cause[0].check})" + (f" and {more} more" if more > 0 else "")
    return cut("".join(letter if letter.isprintable() else " " for letter in text), room)


def cut(text: str, room: int) -> str:
    """The text in at most `room` bytes of UTF-8, with an ellipsis where something is left out."""
    if len(text.encode()) <= room:
        return text
    return text.encode()[: room - 3].decode(errors="ignore").rstrip() + "…"
