"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from npudoctor.findings import Finding, Report, Result, Severity
from npudoctor.report import cause, inventory

STYLE = """
:root { color-scheme: light dark; --text: #1d242c; --muted: #5a656f; --line: #d5dad6; --paper: #fbfbf9; --box: #f1f2ef;
  --error: #c0272d; --warning: #8f5f00; --ok: #2f7d4f; }
@media (prefers-color-scheme: dark) { :root { --text: #d8dee6; --muted: #8b98a8; --line: #2c3744; --paper: #11151b;
  --box: #171d25; --error: #f2777a; --warning: #e6b455; --ok: #7fb685; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--paper); max-width: 60em;
  margin: 2em auto; padding: 0 1em; overflow-wrap: anywhere; }
h1, h2 { line-height: 1.25; } h2 { border-top: 1px solid var(--line); padding-top: 1em; }
code, pre { font: 14px/1.5 ui-monospace, monospace; }
pre { background: var(--box); padding: .6em 1em; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .2em 1em .2em 0; }
tr + tr td { border-top: 1px solid var(--line); } .muted { color: var(--muted); }
.error, .crashed { color: var(--error); } .warning, .undetermined { color: var(--warning); } .ok { color: var(--ok); }
@media (max-width: 40em) { .evidence tr:first-child { display: none; } .evidence td { display: block; }
  .evidence td + td { padding-left: 1em; border-top: 0; }
  .evidence td[data-is]:not(:empty)::before { content: attr(data-is) " "; color: var(--muted); }
  .checks tr { display: block; border-top: 1px solid var(--line); padding: .3em 0; }
  .checks td { display: inline; border: 0; } .checks tr:first-child { display: none; } }
.inventory td:first-child { white-space: nowrap; }
"""


def render(report: Report) -> str:
    """The node, the findings in full, and a table of all checks."""
    host, verdict = report.host, report.verdict.value
    facts = (host.hostname, host.os, host.kernel, host.machine, host.python_line)
    name = escape(host.hostname or "this node")
    about = f"{cause.counts(report)}. npudoctor {report.tool_version}, profile {report.profile}, {report.started_at}."
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>npudoctor: {name}: {verdict}</title><style>{STYLE}</style></head><body>",
        f'<h1>{name}: <span class="{verdict}">{verdict}</span></h1>',
        f'<p class="muted">{escape(" · ".join(fact for fact in facts if fact))}</p>',
    ]
    for result in report.results:
        for finding in result.findings:
            if finding.severity > Severity.INFO and not result.silenced:
                lines += finding_lines(result, finding)
    lines.append('<h2>Checks</h2><table class="checks"><tr><th>check<th>status<th>remark</tr>')
    lines += map(row, report.results)
    lines.append("</table>")
    lines += inventory.html(report.inventory)
    lines.append(f'<p class="muted">{escape(about)}</p></body></html>')
    return "\n".join(lines) + "\n"


def finding_lines(result: Result, finding: Finding) -> Iterator[str]:
    """One finding in full."""
    severity = finding.severity.value
    yield f'<h2><span class="{severity}">{severity}</span> {escape(finding.summary)}</h2>'
    yield f'<p class="muted"><code>{escape(result.check)}</code> on {escape(finding.where or finding.subject)}</p>'
    yield from (f"<p>{escape(text)}</p>" for text in (finding.detail, finding.hint) if text)
    if finding.commands:
        yield f"<pre>{escape(chr(10).join(finding.commands))}</pre>"
    if finding.fix:
        yield f"<p>Fix: <code>npudoctor fix {escape(finding.fix.id)}</code></p>"
    if result.progress:
        yield f"<p>State: {escape(result.progress.text)}</p>"
    if result.page:
        page = escape(result.page)
        command = f"<code>npudoctor explain {escape(result.check)}</code>"
        page = f'<a href="{page}">{page}</a>' if page.startswith("https://") else command
        yield f"<p>Explained: {page}</p>"
    if finding.evidence:
        yield '<table class="evidence"><tr><th>evidence<th>actual<th>expected</tr>'
        for one in finding.evidence:
            yield f"<tr><td>{_code(one.source)}"
            yield f'<td data-is="actual">{_code(one.actual)}<td data-is="expected">{_code(one.expected)}</tr>'
        yield "</table>"


def _code(text: str | None) -> str:
    return "" if text is None else f"<code>{escape(text or 'nothing')}</code>"


def row(result: Result) -> str:
    """One check as a row of a table."""
    said = "; ".join(finding.summary for finding in result.findings)
    remark = str(result.silenced or "") or result.reason or said or result.title
    status = result.status.value
    return f'<tr><td><code>{escape(result.check)}</code><td class="{status}">{status}<td>{escape(remark)}</tr>'
