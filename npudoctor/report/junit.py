"""The report as JUnit XML for CI systems: one test case per check, one test suite per group.

Findings at `--fail-on` are failures, checks without a result errors; other findings go to system-out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree

from npudoctor.findings import Finding, Report, Result, Status
from npudoctor.report import cause


def render(report: Report) -> str:
    """One `testsuites` document."""
    root = ElementTree.Element("testsuites", name="npudoctor")
    _set_counts(root, report, report.results)
    root.set("time", f"{report.duration_s:.3f}")
    for group, results in groupby(report.results, key=lambda result: result.check.partition(".")[0]):
        _suite(root, group, report, tuple(results))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(root: ElementTree.Element, group: str, report: Report, results: Sequence[Result]) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=f"npudoctor.{group}")
    _set_counts(suite, report, results)
    suite.set("time", f"{sum(result.duration_s for result in results):.3f}")
    suite.set("timestamp", report.started_at)
    suite.set("hostname", _clean(report.host.hostname or "unknown"))
    for result in results:
        _case(suite, report, result)


def _set_counts(element: ElementTree.Element, report: Report, results: Sequence[Result]) -> None:
    element.set("tests", str(len(results)))
    element.set("failures", str(sum(bool(_failures(report, result)) for result in results)))
    element.set("errors", str(sum(result.status is Status.CRASHED for result in results)))
    element.set("skipped", str(sum(result.status is Status.SKIPPED for result in results)))


def _case(suite: ElementTree.Element, report: Report, result: Result) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=suite.get("name", ""), name=result.check, time=f"{result.duration_s:.3f}"
    )
    if result.status is Status.SKIPPED:
        why = f"see {result.blocked_by}" if result.blocked_by else result.reason or ""
        ElementTree.SubElement(case, "skipped", message=_clean(why))
    elif result.status is Status.CRASHED:
        problem = ElementTree.SubElement(case, "error", message=_clean(result.reason or ""), type="crashed")
        problem.text = _clean(result.detail or "")
    elif failures := _failures(report, result):
        said = "; ".join(cause.with_subject(finding) for finding in failures)
        failure = ElementTree.SubElement(case, "failure", message=_clean(said), type=failures[0].severity.value)
        failure.text = _clean("\n\n".join(map(_finding_text, failures)))
    if rest := [finding for finding in result.findings if finding not in _failures(report, result)]:
        ElementTree.SubElement(case, "system-out").text = _clean("\n\n".join(map(_finding_text, rest)))


def _failures(report: Report, result: Result) -> list[Finding]:
    if result.silenced:
        return []
    return [finding for finding in result.findings if finding.severity >= report.fail_on]


def _finding_text(finding: Finding) -> str:
    lines = [f"{finding.severity.value}: {cause.with_subject(finding)}"]
    lines += [text for text in (finding.detail, finding.hint) if text]
    lines += [f"$ {command}" for command in finding.commands]
    lines += [f"{seen.source}: actual {seen.actual}, expected {seen.expected}" for seen in finding.evidence]
    return "\n".join(lines)


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold, escaped or not."""
    return "".join(letter for letter in text if letter in "\t\n" or (letter >= " " and letter not in "\ufffe\uffff"))
