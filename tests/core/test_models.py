"""A model is checked as it is made, written by npudoctor itself, and read by pydantic: one class for all three."""

import dataclasses
import datetime
import json
from typing import Any

import pytest

from npudoctor.config import Config
from npudoctor.data import to_data, to_json
from npudoctor.findings import (
    Evidence,
    Finding,
    FixOffer,
    HostSummary,
    Inventory,
    InventoryNpu,
    Report,
    Result,
    Severity,
    Silenced,
    Status,
    Verdict,
)
from npudoctor.models import Model, adapter

SILENCED = Silenced(reason="known", until=datetime.date(2031, 12, 31))
FINDING = Finding(
    code="a.b/c",
    params={"names": ("eth0", "e\x1b"), "severity": Severity.INFO, "share": 0.5, "lost": float("nan"), "day": SILENCED},
    subject="npu:3",
    severity=Severity.WARNING,
    summary="é \x1b[31m red\nline",
    detail="two\nlines\t\x07",
    evidence=(Evidence(source="s", actual="ß"),),
    fix=FixOffer(id="x.y", params={"path": "/a\n/b"}),
    silenced=SILENCED,
    of_live_job=True,
)
REPORT = Report(
    tool_version="1",
    started_at="2026-11-22T12:00:00Z",
    duration_s=1,
    host=HostSummary(hostname="n1"),
    profile="quick",
    verdict=Verdict.WARNING,
    exit_code=0,
    role="full",
    in_service=None,
    environment="host",
    summary={"ok": 1},
    results=(Result(check="a.b", title="t", status=Status.WARNING, findings=(FINDING,)),),
    inventory=Inventory(vendor="v", npus=(InventoryNpu(subject="npu:0"),)),
)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_report_is_written_as_pydantic_writes_it(indent: int | None) -> None:
    assert to_json(REPORT, indent) == adapter(Report).dump_json(REPORT, indent=indent).decode()


def test_a_report_is_read_as_it_was_written() -> None:
    told = adapter(Report).validate_json(to_json(REPORT))
    assert to_json(told) == to_json(REPORT)
    assert told.results[0].findings[0].severity is Severity.WARNING
    assert adapter(Report).validate_python(to_data(REPORT)) == told


def test_what_pydantic_made_can_be_compared_before_anything_else_was_made() -> None:
    class Fresh(Model):
        number: int

    one, other = (adapter(Fresh).validate_json('{"number": 1}') for _ in range(2))
    assert one == other and hash(one) == hash(other)


def test_a_report_that_somebody_wrote_has_no_control_characters() -> None:
    said = to_data(REPORT)
    said["host"]["hostname"] = "n\x1b1"
    said["results"][0]["findings"][0]["params"] = {"name": "a\x1b"}
    told = adapter(Report).validate_json(json.dumps(said))
    assert (told.host.hostname, told.results[0].findings[0].params) == ("n\\x1b1", {"name": "a\\x1b"})


def test_texts_are_made_visible_as_a_finding_is_made() -> None:
    assert FINDING.summary == "é \\x1b[31m red\\nline"
    assert FINDING.detail == "two\nlines\t\\x07"
    assert FINDING.params["names"] == ("eth0", "e\\x1b")
    assert dataclasses.replace(FINDING, hint="\x1b").hint == "\\x1b"
    assert dataclasses.replace(REPORT, summary={"o\x1bk": 1}).summary == {"o\\x1bk": 1}
    assert FINDING.fix is not None and FINDING.fix.params == {"path": "/a\n/b"}


def test_what_a_plug_in_gives_takes_the_type_of_its_field() -> None:
    given: dict[str, Any] = {
        "severity": "info",
        "fix": "x.y",
        "links": iter("a"),
        "evidence": [{"source": "s"}],
    }
    made = Finding(summary="x", **given)
    assert made.severity is Severity.INFO
    assert made.fix == FixOffer(id="x.y")
    assert (made.links, made.evidence) == (("a",), (Evidence(source="s"),))
    assert to_json(Result(check="a", title="t", status=Status.OK, duration_s=2)).count('"duration_s":2.0') == 1


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"summry": "x"}, "Finding has no field 'summry'"),
        ({}, "Finding lacks 'summary'"),
        ({"summary": 1}, "Finding.summary: expected text, found 1"),
        ({"summary": "x", "severity": "bad"}, 'Finding.severity: expected one of "info", "warning", "error"'),
        ({"summary": "x", "links": "a"}, "Finding.links: expected a list"),
        ({"summary": "x", "links": (1,)}, r"Finding.links\[0\]: expected text, found 1"),
        ({"summary": "x", "evidence": ({"sourc": "s"},)}, r"Finding.evidence\[0\]: sourc: no such key"),
        ({"summary": "x", "fix": 1}, "Finding.fix: expected a mapping, found 1"),
        ({"summary": "x", "of_live_job": "yes"}, "Finding.of_live_job: expected true or false"),
    ],
)
def test_a_mistake_of_a_plug_in_is_a_type_error_in_one_line(given: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Finding(**given)


def test_a_limit_of_the_configuration_is_the_same_for_all_who_make_one() -> None:
    assert Config(timeout_s=1).timeout_s == 1.0
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(TypeError, match="timeout_s"):
            Config(timeout_s=wrong)
        with pytest.raises(ValueError, match="timeout_s"):
            adapter(Config).validate_python({"timeout_s": wrong})


def test_what_pydantic_gave_the_models_of_0_1_still_works_and_warns() -> None:
    with pytest.deprecated_call():
        assert FINDING.model_copy(update={"hint": "h"}).hint == "h"
    with pytest.deprecated_call():
        assert FINDING.model_dump(mode="json") == to_data(FINDING)
    with pytest.deprecated_call():
        assert REPORT.model_dump_json() == to_json(REPORT)
    with pytest.deprecated_call():
        assert Evidence.model_validate({"source": "s"}) == Evidence(source="s")
    with pytest.deprecated_call():
        assert Evidence.model_validate_json('{"source": "s"}') == Evidence(source="s")
