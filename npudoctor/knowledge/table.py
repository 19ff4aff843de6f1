"""Reads the data files of tables/ into rows. Nothing else opens them.

A file is one JSON object with `schema` and `as_of` (a date) and its tables. A row is an object whose keys are the
fields of a frozen dataclass: an unknown or a missing key raises TypeError.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

Row = TypeVar("Row")


SITE = "/etc/npudoctor/knowledge.d"
"""Where a site's own rows lie; the variable NPUDOCTOR_KNOWLEDGE names another folder."""


def read(name: str) -> dict[str, Any]:
    """The data file `NAME.json` with the rows of this site, which are merged in before any row is built."""
    folder = site_folder()
    if not os.path.isdir(folder):
        return ours(name)
    from npudoctor.knowledge import site

    return site.merged(name, folder, ours)


def ours(name: str) -> dict[str, Any]:
    """The data file `NAME.json`, as it is written."""
    data: dict[str, Any] = json.loads((Path(__file__).parent / "tables" / f"{name}.json").read_text(encoding="utf-8"))
    return data


def site_folder() -> str:
    """Where the files of this site lie, whether or not there are any."""
    return os.environ.get("NPUDOCTOR_KNOWLEDGE") or SITE


def site_problems() -> tuple[str, ...]:
    """What is wrong with the files of this site; a file with a mistake counts for nothing."""
    folder = site_folder()
    if not os.path.isdir(folder):
        return ()
    from npudoctor.knowledge import site

    return site.problems(folder, ours)


def row(of: type[Row], fields: dict[str, Any]) -> Row:
    """One row; lists become tuples, in `fields` itself."""
    for name, value in fields.items():
        if type(value) is list:
            fields[name] = tuple(value)
    return of(**fields)


def rows(of: type[Row], table: Iterable[dict[str, Any]]) -> tuple[Row, ...]:
    """All rows of a table, in the order of the file."""
    return tuple(row(of, fields) for fields in table)
