"""Reads the data files beside this module into rows. Nothing else opens them.

A file is one JSON object with `schema` and `as_of` (a date) and its tables. A row is an object whose keys are the
fields of a frozen dataclass: an unknown or a missing key raises TypeError.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

Row = TypeVar("Row")


def read(name: str) -> dict[str, Any]:
    """The data file `NAME.json`, as it is written."""
    data: dict[str, Any] = json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))
    # A site's own rows (/etc/npudoctor/knowledge.d/NAME.json) belong here: merged over these by key, before any row
    # is built, so that nobody else need know of them.
    return data


def row(of: type[Row], fields: dict[str, Any]) -> Row:
    """One row; lists become tuples, in `fields` itself."""
    for name, value in fields.items():
        if type(value) is list:
            fields[name] = tuple(value)
    return of(**fields)


def rows(of: type[Row], table: Iterable[dict[str, Any]]) -> tuple[Row, ...]:
    """All rows of a table, in the order of the file."""
    return tuple(row(of, fields) for fields in table)
