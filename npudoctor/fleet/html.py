"""The verdict on a fleet as one HTML file that loads nothing: counts, causes, a grid of nodes, findings, groups."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from npudoctor.fleet.page import headline, letter, listed_findings
from npudoctor.fleet.verdict import FleetReport, NodeRow
from npudoctor.report import html

_STYLE = """
.grid { display: flex; flex-wrap: wrap; gap: 2px; font: 12px/1.6 ui-monospace, monospace; }
.grid span { min-width: 1.4em; text-align: center; border: 1px solid var(--line); border-radius: 2px; }
.E { background: #c0272d; color: #fff; } .w, .u { background: #e6b455; color: #000; }
.t { background: #4a7fb5; color: #fff; } .q { background: #8b98a8; color: #000; }
"""
_KEY = ". ok, w warnings, E errors, u undetermined, ~ unlike others, ? not answered, - not asked"
_CLASSES = {".": "ok", "~": "t", "?": "q", "-": "muted"}


def render(report: FleetReport) -> str:
    """The whole page; nodes without findings are cells of the grid only."""
    verdict = report.verdict.value
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>npudoctor fleet: {verdict}</title><style>{html.STYLE}{_STYLE}</style></head><body>",
        f'<h1><span class="{verdict}">{verdict}</span>: {escape(headline(report))}</h1>',
        *(f"<p><b>Cause across nodes:</b> {escape(cause)}</p>" for cause in report.causes),
        '<div class="grid">',
        *map(_cell, report.nodes),
        f'</div><p class="muted">{_KEY}</p>',
    ]
    for result, finding in listed_findings(report):
        lines += html.finding_lines(result, finding)
    lines.append("<h2>Groups</h2><table><tr><th>group<th>nodes<th>names<th>software</tr>")
    for group in report.groups:
        software = ", ".join(f"{title} {value}" for title, value in group.software.items())
        cells = (group.name, str(group.nodes), group.names, software)
        lines.append(f"<tr>{''.join(f'<td>{escape(text)}' for text in cells)}</tr>")
    lines.append("</table><h2>Nodes to act on</h2>")
    lines += _nodes(report)
    lines.append("<h2>Checks across nodes</h2><table><tr><th>check<th>status<th>remark</tr>")
    lines += map(html.row, report.report.results)
    about = f"npudoctor {report.report.tool_version}, {report.report.started_at}"
    lines.append(f'</table><p class="muted">{escape(about)}</p></body></html>')
    return "\n".join(lines) + "\n"


def _cell(row: NodeRow) -> str:
    mark = letter(row)
    return f'<span class="{_CLASSES.get(mark, mark)}" title="{escape(row.name, quote=True)}">{mark}</span>'


def _nodes(report: FleetReport) -> Iterator[str]:
    by_node: dict[str, list[str]] = {}
    for result, finding in listed_findings(report):
        for name in finding.params.get("nodes", ()):
            by_node.setdefault(str(name), []).append(f"{finding.severity.value}: {finding.summary} ({result.check})")
    for row in report.nodes:
        if row.verdict is not None and row.name not in by_node:
            continue
        about = f"{row.outcome}{f': {row.detail}' if row.detail else ''}"
        yield f"<details><summary>{escape(row.name)} <span class=muted>{escape(about)}</span></summary><ul>"
        yield from (f"<li>{escape(text)}" for text in by_node.get(row.name, ()))
        yield "</ul></details>"
