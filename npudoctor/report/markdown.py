"""The report as Markdown, to paste into an issue."""

from __future__ import annotations

from npudoctor.findings import Finding, Report, Severity
from npudoctor.report import cause, inventory
from npudoctor.report.markup import cell, code, link_to, prose


def render(report: Report) -> str:
    """A heading, the node, the findings in full, and a table of all checks."""
    host = report.host
    lines = [f"# npudoctor: {report.verdict.value}", ""]
    facts = (host.hostname, host.os, host.kernel, host.machine, host.python_line)
    lines += [" · ".join(prose(fact) for fact in facts if fact), ""]
    for result in report.results:
        for finding in result.findings:
            if finding.severity > Severity.INFO and not result.silenced:
                lines += _finding(result.check, finding)
                lines += [f"State: {result.progress.text}", ""] if result.progress else []
                lines += [f"Explained: {link_to(result.check, result.page)}", ""] if result.page else []
    lines += ["## Checks", "", "| check | status | remark |", "| --- | --- | --- |"]
    for result in report.results:
        remark = (
            str(result.silenced or "")
            or result.reason
            or "; ".join(finding.summary for finding in result.findings)
            or result.title
        )
        lines.append(f"| `{result.check}` | {result.status.value} | {cell(remark)} |")
    lines += inventory.markdown(report.inventory)
    by = f"npudoctor {report.tool_version}, profile {report.profile}, {report.started_at}"
    lines += ["", f"{cause.counts(report)}. {by}."]
    return "\n".join(lines) + "\n"


def _finding(check: str, finding: Finding) -> list[str]:
    lines = [
        f"## {finding.severity.value}: {prose(finding.summary)}",
        "",
        f"`{check}` on {finding.where or finding.subject}",
        "",
    ]
    if finding.detail:
        lines += [prose(finding.detail), ""]
    if finding.hint:
        lines += [prose(finding.hint), ""]
    if finding.commands:
        lines += ["```sh", *finding.commands, "```", ""]
    for evidence in finding.evidence:
        words = [code(evidence.source)]
        words += [f"expected {code(evidence.expected)}"] if evidence.expected is not None else []
        words += [f"actual {code(evidence.actual)}"] if evidence.actual is not None else []
        lines.append(f"- {', '.join(words)}")
    return [*lines, ""]
