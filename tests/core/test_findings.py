"""The exit-code contract as a table, and the order and shape of what a report is made of."""

import ast
import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from npudoctor import findings, sim
from npudoctor.data import to_data, to_json
from npudoctor.findings import (
    Because,
    Finding,
    Model,
    Report,
    Result,
    Severity,
    Skip,
    Status,
    Verdict,
    count,
    judge,
    status_of,
)
from npudoctor.models import adapter
from npudoctor.report import json as report_json
from npudoctor.testing import run


def ended(status: str, *severities: str, because: Because | None = None, skip: Skip | None = None) -> Result:
    findings = tuple(Finding(summary="x", severity=Severity(severity)) for severity in severities)
    kind = skip or (Skip.COULD_NOT_LOOK if status == "skipped" else None)
    return Result(check="a.b", title="t", status=Status(status), findings=findings, because=because, skip=kind)


OK = ended("ok")
INFO = ended("ok", "info")
WARNING = ended("warning", "warning", "info")
ERROR = ended("error", "error")
CRASHED = ended("crashed")
NOT_APPLICABLE = ended("skipped", skip=Skip.NOT_APPLICABLE)
BLOCKED = ended("skipped", skip=Skip.BLOCKED)
TIMED_OUT = ended("skipped", because=Because.TIMED_OUT)
FAILED = ended("skipped", because=Because.FAILED)
NO_RIGHT = ended("skipped", because=Because.NO_RIGHT)
NOT_RECORDED = ended("skipped", because=Because.NOT_RECORDED)
ABSENT = ended("skipped", because=Because.ABSENT)

CONTRACT = [
    # results, fail_on, named, verdict, exit code
    ([], "error", False, "ok", 0),
    ([OK, INFO], "error", False, "ok", 0),
    ([OK, INFO], "warning", False, "ok", 0),
    ([INFO], "info", False, "ok", 1),
    ([WARNING], "error", False, "warning", 0),
    ([WARNING], "warning", False, "warning", 1),
    ([ERROR, WARNING], "error", False, "error", 1),
    ([ERROR], "info", False, "error", 1),
    ([NOT_APPLICABLE, BLOCKED, NO_RIGHT, NOT_RECORDED, ABSENT], "error", False, "ok", 0),
    ([NOT_APPLICABLE], "error", True, "undetermined", 3),
    ([BLOCKED], "error", True, "undetermined", 3),
    ([NO_RIGHT], "error", True, "undetermined", 3),
    ([TIMED_OUT], "error", False, "undetermined", 3),
    ([FAILED], "error", False, "undetermined", 3),
    ([CRASHED], "error", False, "undetermined", 3),
    ([CRASHED, WARNING], "error", False, "undetermined", 3),
    ([CRASHED, WARNING], "warning", False, "warning", 1),
    ([CRASHED, ERROR], "error", False, "error", 1),
    ([TIMED_OUT, ERROR], "error", True, "error", 1),
    ([OK], "error", True, "ok", 0),
]


@pytest.mark.parametrize(("results", "fail_on", "named", "verdict", "code"), CONTRACT)
def test_the_exit_code_is_the_contract_s(
    results: list[Result], fail_on: str, named: bool, verdict: str, code: int
) -> None:
    judged = judge(results, fail_on=Severity(fail_on), named=("a.b",) if named else ())
    assert judged == (Verdict(verdict), code)


def test_severities_are_ordered_as_they_matter() -> None:
    assert Severity.INFO < Severity.WARNING < Severity.ERROR
    for one, other in itertools.product(Severity, Severity):
        assert (one >= other) is not (one < other)
        assert (one <= other) is not (one > other)


def test_info_leaves_a_result_ok() -> None:
    assert status_of(INFO.findings) is Status.OK
    assert status_of(WARNING.findings) is Status.WARNING
    assert count([OK, ERROR, ERROR])["error"] == 2


def test_a_fix_is_named_by_its_id_alone() -> None:
    finding = adapter(Finding).validate_python({"summary": "x", "fix": "hccl.reserve-ports"})
    assert finding.fix is not None
    assert to_data(finding)["fix"] == {"id": "hccl.reserve-ports", "params": {}}


def test_what_a_live_job_explains_stays_inside() -> None:
    assert "of_live_job" not in to_data(Finding(summary="x", of_live_job=True))


def one_field_more(value: Any) -> Any:
    """JSON with a field in every object that nobody knows yet."""
    if isinstance(value, dict):
        return {"of_a_later_version": [1, {"a": None}], **{key: one_field_more(inner) for key, inner in value.items()}}
    return [one_field_more(inner) for inner in value] if isinstance(value, list) else value


def test_a_report_of_a_later_version_is_read() -> None:
    report = run(sim.simulate("sick-cards"), "npu")
    text = to_json(report)
    later = one_field_more(json.loads(text))
    later["summary"].pop("of_a_later_version")  # keys of this object are words for statuses, not fields
    for result in later["results"]:
        for finding in result["findings"]:
            finding["params"].pop("of_a_later_version", None)
            if finding["fix"]:
                finding["fix"]["params"].pop("of_a_later_version", None)
    assert report_json.read(json.dumps(later)) == report_json.read(text)


@pytest.mark.parametrize("model", [Finding, Result, Report])
def test_whoever_makes_one_may_not_name_an_unknown_field(model: type[Model]) -> None:
    with pytest.raises(TypeError, match=f"{model.__name__} has no field 'summry'"):
        model(summry="x")  # type: ignore[call-arg]


def test_the_signature_that_a_type_checker_sees_has_the_fields_of_a_finding() -> None:
    """It is written by hand in the class, because a fix may be given by its id."""
    source = Path(findings.__file__).read_text(encoding="utf-8")
    (found,) = (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.ClassDef) and one.name == "Finding")
    (init,) = (one for one in ast.walk(found) if isinstance(one, ast.FunctionDef) and one.name == "__init__")
    assert {one.arg for one in init.args.kwonlyargs} == {one.name for one in dataclasses.fields(Finding)}
