"""The report as Markdown, to paste into an issue."""

from __future__ import annotations

from npudoctor.findings import Finding, Report, Severity
from npudoctor.report import inventory


def render(report: Report) -> str:
    """A heading, the node, the findings in full, and a table of all checks."""
    host = report.host
    lines = [f"# npudoctor: {report.verdict.value}", ""]
    facts = (host.hostname, host.os, host.kernel, host.machine, host.python_line)
    lines += [" · ".join(fact for fact in facts if fact), ""]
    for result in report.results:
        for finding in result.findings:
            if finding.severity > Severity.INFO and not result.silenced:
                lines += _finding(result.check, finding)
    lines += ["## Checks", "", "| check | status | remark |", "| --- | --- | --- |"]
    for result in report.results:
        remark = (
            str(result.silenced or "")
            or result.reason
            or "; ".join(finding.summary for finding in result.findings)
            or result.title
        )
        lines.append(f"| `{result.check}` | {result.status.value} | {_cell(remark)} |")
    lines += inventory.markdown(report.inventory)
    counts = ", ".join(f"{number} {status}" for status, number in report.summary.items())
    lines += ["", f"{counts}. npudoctor {report.tool_version}, profile {report.profile}, {report.started_at}."]
    return "\n".join(lines) + "\n"


def _finding(check: str, finding: Finding) -> list[str]:
    lines = [
        f"## {finding.severity.value}: {finding.summary}",
        "",
        f"`{check}` on {finding.where or finding.subject}",
        "",
    ]
    if finding.detail:
        lines += [finding.detail, ""]
    if finding.hint:
        lines += [finding.hint, ""]
    if finding.commands:
        lines += ["```sh", *finding.commands, "```", ""]
    for evidence in finding.evidence:
        words = [_code(evidence.source)]
        words += [f"expected {_code(evidence.expected)}"] if evidence.expected is not None else []
        words += [f"actual {_code(evidence.actual)}"] if evidence.actual is not None else []
        lines.append(f"- {', '.join(words)}")
    return [*lines, ""]


def _code(text: str) -> str:
    """A text as code; nothing where it is empty, because two backticks alone mean something else."""
    text = " ".join(text.split())
    if not text:
        return "nothing"
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
