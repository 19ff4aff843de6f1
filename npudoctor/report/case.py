"""A report to send: findings, inventory, changes, timeline, npu-smi and the explained log, as Markdown or HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from npudoctor.findings import Finding, Report, Result, Severity, Status
from npudoctor.report import cause, inventory
from npudoctor.report.markup import cell, code, link_to, prose
from npudoctor.report.text import evidence_line

MOST_FINDINGS = 12
MOST_EVIDENCE = 4
MOST_LINES = 160
"""Lines of a program's output; an issue tracker takes 65,536 characters in all."""

LONGEST_LINE = 240
_SERIES = "Last 24 hours, least and most"


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is known of a node. `changes` and `timeline` are lines, the newest last; texts are as programs print them.

    `series` are rows of a table, its heading first: the least and the most of the last day.
    `notes` say what the page leaves out, such as names that were replaced.
    """

    report: Report
    changes: Sequence[str] = ()
    timeline: Sequence[str] = ()
    series: Sequence[Sequence[str]] = ()
    npu_smi: str | None = None
    log: str | None = None
    notes: Sequence[str] = ()


def markdown(case: Case) -> str:
    """The case as Markdown, short enough for a comment in an issue."""
    report = case.report
    lines = [f"# npudoctor: {_headline(report)}", "", _about(report), ""]
    findings = _findings(report)
    for result, finding in findings[:MOST_FINDINGS]:
        lines += _markdown_finding(result, finding)
    lines += [f"- {line}" for line in _others(report, findings)]
    lines += inventory.markdown(report.inventory)
    for title, items in (("Changes by npudoctor", case.changes), ("Timeline", case.timeline)):
        if items:
            lines += ["", f"## {title}", "", *(f"- {prose(one)}" for one in items)]
    if case.series:
        heading, *rows = case.series
        lines += ["", f"## {_SERIES}", "", f"| {' | '.join(heading)} |", f"|{' --- |' * len(heading)}"]
        lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    for title, text in (("Log", case.log), ("npu-smi info", case.npu_smi)):
        if text:
            lines += ["", f"<details><summary>{title}</summary>", "", *_fence(text), "", "</details>"]
    return "\n".join([*lines, "", *case.notes]).rstrip() + "\n"


def html(case: Case) -> str:
    """The case as one self-contained HTML page."""
    from npudoctor.report import html as page

    whole = page.render(case.report).removesuffix("</body></html>\n")
    return whole + "".join(f"{line}\n" for line in _html_sections(case)) + "</body></html>\n"


def _headline(report: Report) -> str:
    first = cause.primary(report)
    if first is None:
        return cause.all_clear(report)
    more = sum(len(cause.actionable_findings(one, cause.action_threshold(report))) for one in report.results) - 1
    return f"{prose(first[1])} (`{first[0].check}`)" + (f" and {more} more" if more > 0 else "")


def _about(report: Report) -> str:
    host = report.host
    parts = (host.hostname, host.container and f"{host.container} container", host.python_line)
    told = " · ".join(prose(part) for part in parts if part)
    by = f"npudoctor {report.tool_version}, profile {report.profile}, {report.started_at}"
    return f"{told}\n\n{cause.counts(report)}; {by}"


def _findings(report: Report) -> list[tuple[Result, Finding]]:
    least = cause.action_threshold(report)
    found = [(result, one) for result in report.results for one in cause.actionable_findings(result, least)]
    return sorted(found, key=lambda pair: -pair[1].severity.rank)


def _others(report: Report, findings: Sequence[tuple[Result, Finding]]) -> Iterator[str]:
    """What is not shown in full: further findings, notes, and checks without a result."""
    for result, finding in findings[MOST_FINDINGS:]:
        yield f"{finding.severity.value}: {prose(cause.with_subject(finding))} (`{result.check}`)"
    for result in report.results:
        for finding in result.open_findings:
            if finding.severity is Severity.INFO and cause.action_threshold(report) > Severity.INFO:
                yield f"note: {prose(cause.with_subject(finding))} (`{result.check}`)"
        if result.leaves_undetermined or result.status is Status.CRASHED:
            yield f"could not determine: {prose(result.reason or '')} (`{result.check}`)"


def _markdown_finding(result: Result, finding: Finding) -> list[str]:
    lines = [f"**{finding.severity.value}: {prose(cause.with_subject(finding))}** (`{result.check}`)", ""]
    lines += [f"- {code(evidence_line(one))}" for one in finding.evidence[:MOST_EVIDENCE]]
    if len(finding.evidence) > MOST_EVIDENCE:
        lines.append(f"- and {len(finding.evidence) - MOST_EVIDENCE} more")
    if finding.hint:
        lines += ["", prose(finding.hint)]
    if result.progress is not None and result.progress.fix:
        lines += ["", f"State: {result.progress.text}"]
    if finding.fix:
        lines += ["", f"Fix: `npudoctor fix {finding.fix.id}`"]
    if result.page:
        lines += ["", f"Explained: {link_to(result.check, result.page)}"]
    return [*lines, ""]


def _fence(text: str) -> list[str]:
    """A program's output between fences that it cannot close; long ones are cut, and it is said."""
    lines = text.rstrip().splitlines()
    left = len(lines) - MOST_LINES
    shown = [line[:LONGEST_LINE].replace("```", "'''") for line in lines[:MOST_LINES]]
    return ["```", *shown, *([f"... {left} more lines"] if left > 0 else []), "```"]


def _html_sections(case: Case) -> Iterator[str]:
    for title, items in (("Changes by npudoctor", case.changes), ("Timeline", case.timeline)):
        if items:
            yield f"<h2>{title}</h2><ul>{''.join(f'<li>{escape(one)}' for one in items)}</ul>"
    if case.series:
        heading, *rows = case.series
        cells = "".join(f"<tr>{''.join(f'<td>{escape(one)}' for one in row)}</tr>" for row in rows)
        yield f"<h2>{_SERIES}</h2><table><tr>{''.join(f'<th>{escape(one)}' for one in heading)}</tr>{cells}</table>"
    for title, text in (("Log", case.log), ("npu-smi info", case.npu_smi)):
        if text:
            yield f"<h2>{title}</h2><pre>{escape(text)}</pre>"
    for note in case.notes:
        yield f'<p class="muted">{escape(note)}</p>'
