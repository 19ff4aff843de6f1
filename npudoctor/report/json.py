"""The report as JSON, whole or line by line: the contract `npudoctor.report/1`."""

from __future__ import annotations

import json

from npudoctor import data, json_schema
from npudoctor.control_characters import visible_json
from npudoctor.findings import Report, Result

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID = "urn:npudoctor:report:1"


def render(report: Report) -> str:
    """The whole report, indented."""
    return visible_json(data.to_json(report, indent=2)) + "\n"


def line(result: Result) -> str:
    """One result in one line, as soon as it is known."""
    return json.dumps({"type": "result", **data.plain(result)}) + "\n"


def last_line(report: Report) -> str:
    """The whole run in one line: the report without its results."""
    whole = {key: value for key, value in data.plain(report).items() if key != "results"}
    return json.dumps({"type": "report", **whole}) + "\n"


def schema() -> str:
    """The JSON Schema of the report."""
    said = {"$schema": DIALECT, "$id": ID, **json_schema.of(Report)}
    return json.dumps(said, indent=2) + "\n"
