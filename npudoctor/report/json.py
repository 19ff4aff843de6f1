"""The report as JSON, whole or line by line: the contract `npudoctor.report/1`."""

from __future__ import annotations

import json

from npudoctor.control_characters import visible_json
from npudoctor.findings import Report, Result

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID = "urn:npudoctor:report:1"


def render(report: Report) -> str:
    """The whole report, indented."""
    return visible_json(report.model_dump_json(by_alias=True, indent=2)) + "\n"


def line(result: Result) -> str:
    """One result in one line, as soon as it is known."""
    return json.dumps({"type": "result", **result.model_dump(mode="json")}) + "\n"


def last_line(report: Report) -> str:
    """The whole run in one line: the report without its results."""
    return json.dumps({"type": "report", **report.model_dump(mode="json", by_alias=True, exclude={"results"})}) + "\n"


def schema() -> str:
    """The JSON Schema of the report."""
    said = {"$schema": DIALECT, "$id": ID, **Report.model_json_schema(by_alias=True, mode="serialization")}
    return json.dumps(said, indent=2) + "\n"
