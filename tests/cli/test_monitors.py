"""Reports for Nagios, node-problem-detector and JUnit: each under the contract of the program that reads it."""

import re

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from npudoctor.findings import Evidence, Finding, HostSummary, Report, Result, Severity, Status, Verdict, count, judge
from npudoctor.records import replace
from npudoctor.report import junit, nagios, npd
from npudoctor.sim import scenarios

from .conftest import Command

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
FIGURE = r"'?[^'=\s]+'?=-?\d+(\.\d+)?(s|us|ms|%|B|KB|MB|TB|c)?(;\d*){0,4}"
AS_A_MONITOR = [(name, extra) for name in scenarios() for extra in ([], ["--expect-idle"])]


def report_of(*results: Result) -> Report:
    verdict, code = judge(results)
    return Report(
        tool_version="0",
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=0.5,
        host=HostSummary(hostname="node"),
        profile="quick",
        verdict=verdict,
        exit_code=code,
        role="full",
        in_service=None,
        environment="process",
        summary=count(results),
        results=results,
    )


def result_of(status: Status, *findings: Finding, reason: str | None = None) -> Result:
    return Result(check="npu.health", title="All is well", status=status, findings=findings, reason=reason)


@pytest.mark.parametrize(("scenario", "extra"), AS_A_MONITOR)
def test_nagios_gets_a_state_a_line_and_figures(npudoctor: Command, scenario: str, extra: list[str]) -> None:
    argv = ["check", "--simulate", scenario, *extra]
    verdict = npudoctor(*argv, "--json").json["verdict"]
    said = npudoctor(*argv, "--format", "nagios")
    state, _, rest = said.out.splitlines()[0].partition(" - ")
    assert STATES.index(state) == said.code
    assert state == {"ok": "OK", "warning": "WARNING", "error": "CRITICAL", "undetermined": "UNKNOWN"}[verdict]
    text, _, figures = rest.partition(" | ")
    assert text
    assert all(re.fullmatch(FIGURE, figure) for figure in figures.split()), figures
    assert said.out.count("|") == 1


@pytest.mark.parametrize(("scenario", "extra"), AS_A_MONITOR)
def test_the_problem_detector_gets_one_line_that_fits(npudoctor: Command, scenario: str, extra: list[str]) -> None:
    argv = ["check", "--simulate", scenario, *extra]
    code = npudoctor(*argv, "--json").code
    said = npudoctor(*argv, "--format", "npd")
    assert said.code == {0: 0, 1: 1, 3: 2}[code]
    assert said.out.count("\n") == 1
    assert len(said.out.rstrip("\n").encode()) <= 80


@pytest.mark.parametrize(("scenario", "extra"), AS_A_MONITOR)
def test_junit_counts_what_the_report_counts(npudoctor: Command, scenario: str, extra: list[str]) -> None:
    argv = ["check", "--simulate", scenario, *extra]
    report = npudoctor(*argv, "--json").json
    said = npudoctor(*argv, "--format", "junit")
    assert said.code == report["exit_code"]
    document = JUnitXml.fromstring(said.out.encode())
    cases = {case.name: case for suite in document for case in suite}
    assert set(cases) == {result["check"] for result in report["results"]}
    for result in report["results"]:
        kinds = {type(outcome) for outcome in cases[result["check"]].result}
        worst = {finding["severity"] for finding in result["findings"]}
        expected = {Skipped} if result["status"] == "skipped" else {Error} if result["status"] == "crashed" else set()
        assert kinds == (expected or ({Failure} if "error" in worst else set())), result["check"]
    assert document.tests == len(cases)
    assert document.failures == sum(type(one) is Failure for case in cases.values() for one in case.result)


def test_a_working_node_is_not_sick_for_any_monitor(npudoctor: Command) -> None:
    for shape in ("nagios", "npd", "junit"):
        assert npudoctor("check", "--simulate", "in-service", "--format", shape).code == 0, shape


@pytest.mark.parametrize("wrong", [["--simulate", "nowhere"], ["--bogus"], ["no.such.check"], ["--replay", "/nowhere"]])
@pytest.mark.parametrize("shape", [["--format", "{}"], ["--format={}"]])
def test_what_cannot_be_run_is_unknown_to_a_monitor_and_never_ok(
    npudoctor: Command, wrong: list[str], shape: list[str]
) -> None:
    told = npudoctor("check", *wrong, *(part.format("nagios") for part in shape))
    assert (told.code, told.out.split(" - ")[0]) == (3, "UNKNOWN")
    assert npudoctor("check", *wrong, *(part.format("npd") for part in shape)).code == 2
    assert npudoctor("check", *wrong, *(part.format("junit") for part in shape)).code == 2


def test_a_tool_that_failed_is_unknown() -> None:
    report = report_of(result_of(Status.CRASHED, reason="npu-smi did not answer"))
    assert report.verdict is Verdict.UNDETERMINED
    assert nagios.render(report).startswith("UNKNOWN - could not determine: npu-smi did not answer (npu.health) | ")
    assert (nagios.exit_code(report), npd.exit_code(report)) == (3, 2)


def test_a_warning_is_critical_where_the_run_fails_on_warnings() -> None:
    warned = report_of(result_of(Status.WARNING, Finding(severity=Severity.WARNING, summary="warm")))
    strict = replace(warned, fail_on=Severity.WARNING, exit_code=1)
    assert (nagios.exit_code(warned), nagios.exit_code(strict)) == (1, 2)
    assert (npd.exit_code(warned), npd.exit_code(strict)) == (0, 1)


def test_a_finding_cannot_forge_figures_lines_or_markup() -> None:
    nasty = Finding(summary="a | b=1\nOK - c\x1b[2J\x00 ]]> <x> é" + "界" * 200, evidence=(Evidence(source="<&"),))
    report = report_of(result_of(Status.ERROR, nasty))
    told = nagios.render(report).splitlines()
    assert told[0].count("|") == 1
    assert len(told) == 2
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", told[0])
    line = npd.render(report)
    assert line.count("\n") == 1
    assert len(line.rstrip("\n").encode()) <= 80
    [case] = [case for suite in JUnitXml.fromstring(junit.render(report).encode()) for case in suite]
    assert "]]> <x>" in case.result[0].message
