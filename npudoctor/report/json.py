"""The report as JSON, whole or line by line: the contract `npudoctor.report/1`."""

from __future__ import annotations

import json

from npudoctor.control_characters import visible_json
from npudoctor.data import to_data, to_json
from npudoctor.findings import Report, Result
from npudoctor.models import adapter
from npudoctor.records import replace

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID = "urn:npudoctor:report:1"


def render(report: Report) -> str:
    """The whole report, indented."""
    return visible_json(to_json(report, indent=2)) + "\n"


def line(result: Result) -> str:
    """One result in one line, as soon as it is known."""
    return json.dumps({"type": "result", **to_data(result)}) + "\n"


def last_line(report: Report) -> str:
    """The whole run in one line: the report without its results."""
    said = to_data(replace(report, results=()))
    del said["results"]
    return json.dumps({"type": "report", **said}) + "\n"


def read(text: str | bytes) -> Report:
    """The report that somebody wrote; raises pydantic's ValidationError."""
    return adapter(Report).validate_json(text)


def schema() -> str:
    """The JSON Schema of the report."""
    said = {"$schema": DIALECT, "$id": ID, **adapter(Report).json_schema(mode="serialization")}
    return json.dumps(said, indent=2) + "\n"
