"""The verdict on a fleet as one page of text: the count, the cause across nodes, what is wrong, groups, next step."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator, Sequence

from rich.text import Text

from npudoctor.findings import Finding, Result, Severity, Status, Verdict
from npudoctor.fleet.targets import brief, fold
from npudoctor.fleet.verdict import FleetReport, NodeRow
from npudoctor.report.look import wrap
from npudoctor.report.text import ASCII_GLYPHS, GLYPHS, STYLES, Look, evidence_line

MOST_FINDINGS = 12
"""So many kinds of findings are printed in full; the others are counted."""
WIDEST_LIST = 60


def listed_findings(report: FleetReport, least: Severity = Severity.WARNING) -> list[tuple[Result, Finding]]:
    """The findings from this severity on, the most severe first, those across nodes and of many nodes first."""
    rows = [(result, one) for result in report.report.results for one in result.open_findings if one.severity >= least]
    return sorted(
        rows,
        key=lambda row: (
            -row[1].severity.rank,
            not row[0].check.startswith("fleet."),
            -len(row[1].params.get("nodes", ())),
        ),
    )


def headline(report: FleetReport) -> str:
    """One line: how many answered, how many have errors, how many differ."""
    unhealthy = [row.name for row in report.nodes if row.verdict is Verdict.ERROR]
    unlike = [row.name for row in report.nodes if row.unlike]
    if not report.expected:
        return "No answers found, and no nodes named"
    parts = [f"{report.answered:,} of {_nodes(report.expected)} answered"]
    if unhealthy:
        parts.append(f"{_nodes(len(unhealthy))} with errors of {'its' if len(unhealthy) == 1 else 'their'} own")
    if unlike:
        parts.append(f"{_nodes(len(unlike))} unlike others")
    if not unhealthy and not unlike:
        parts.append("no differences found" if report.answered else "nothing to compare")
    return ", ".join(parts)


def _nodes(number: int) -> str:
    return f"{number:,} node{'' if number == 1 else 's'}"


def letter(row: NodeRow) -> str:
    """One character for a node: . ok, w warnings, E errors, ~ unlike others, ? not answered, - not asked."""
    if row.verdict is None:
        return "-" if row.outcome == "scheduler" else "?"
    if row.verdict is Verdict.ERROR:
        return "E"
    if row.unlike:
        return "~"
    return {Verdict.WARNING: "w", Verdict.UNDETERMINED: "u"}.get(row.verdict, ".")


def render(report: FleetReport, *, look: Look | None = None, verbose: bool = False) -> str:
    """The page."""
    look = look or Look()
    out = io.StringIO()
    console = look.console(out)
    glyphs = GLYPHS if look.unicode else ASCII_GLYPHS

    def line(lead: str, text: str, style: str = "") -> None:
        for place, piece in enumerate(wrap(Text(text, style=style), max(look.width - len(lead), 20))):
            piece.rstrip()
            console.print(Text(lead if place == 0 else " " * len(lead)) + piece, soft_wrap=True)

    line(f"{glyphs[report.verdict.value]} ", headline(report), "bold")
    for cause in report.causes[:3]:
        line("  cause     ", cause, "bold")
    for new, title in ((True, "new       "), (False, "gone      ")):
        for change in [one for one in report.changes if one.new is new]:
            line(f"  {title}", f"{change.summary}  ({change.check}; {brief(change.nodes)})")
    if report.against and not report.changes:
        line("  ", f"No changes since {report.against}.")
    rows = listed_findings(report)
    for result, one in rows if verbose else rows[:MOST_FINDINGS]:
        console.print()
        head = f"{glyphs[one.severity.value]} "
        line(head, f"{one.summary}  ({result.check})", STYLES[one.severity.value])
        line("  on        ", _list_of(one, verbose))
        if one.hint:
            line("  do        ", one.hint)
        for each in one.evidence[: None if verbose else 3]:
            if result.check.startswith("fleet."):
                line(
                    "  also      ",
                    f"{each.source}: {each.actual}" + (f", not {each.expected}" if each.expected else ""),
                )
            else:
                line("  evidence  ", evidence_line(each))
    if len(rows) > MOST_FINDINGS and not verbose:
        line("", f"… and {len(rows) - MOST_FINDINGS} more (--verbose)")
    for result in report.report.results:
        if result.status is Status.CRASHED:
            line(f"{glyphs['crashed']} ", f"could not determine {result.check}: {result.reason}", STYLES["crashed"])
    if report.groups:
        console.print()
    for text in _groups(report):
        line("  ", text)
    for result, one in [row for row in listed_findings(report, Severity.INFO) if row[1].severity is Severity.INFO]:
        if verbose or result.check != "fleet.other":
            line(f"{glyphs['info']} ", f"{one.summary}  ({result.check}; {_list_of(one, verbose)})", "dim")
    console.print()
    line("", _closing(report, rows))
    if report.run:
        line("", "Node by node, and this page again:")
        console.print(Text(f"  $ npudoctor tui --fleet {shlex.quote(report.run)}"), soft_wrap=True)
        console.print(Text(f"  $ npudoctor fleet merge {shlex.quote(report.run)}"), soft_wrap=True)
    return out.getvalue()


def _list_of(finding: Finding, verbose: bool) -> str:
    text = finding.subject
    nodes = finding.params.get("nodes", ())
    if verbose or len(text) <= WIDEST_LIST:
        return text
    head = text[:WIDEST_LIST]
    return f"{head.rpartition(',')[0] or head},… ({len(nodes)} nodes)"


def _groups(report: FleetReport) -> Iterator[str]:
    for group in report.groups:
        names = {"driver version": "driver", "package torch": "torch", "package torch-npu": "torch_npu"}
        told = ", ".join(f"{names.get(title, title)} {value}" for title, value in group.software.items())
        yield f"{_nodes(group.nodes)} {group.name}: {told}"


def _closing(report: FleetReport, rows: Sequence[tuple[Result, Finding]]) -> str:
    not_asked = fold(row.name for row in report.nodes if row.verdict is None and row.outcome != "scheduler")
    text = f"Not answered: {not_asked if len(not_asked) < 200 else not_asked[:200] + '…'}. " if not_asked else ""
    if not rows:
        return f"{text}Nothing to fix." if report.answered else f"{text}Nothing was compared."
    result, first = rows[0]
    return f"{text}Start with {result.check}: {first.hint or first.summary}"
