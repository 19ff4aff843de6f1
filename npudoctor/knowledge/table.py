"""Reads the data files of tables/ into rows. Nothing else opens them.

A file is one JSON object with `schema` and `as_of` (a date) and its tables. A row is an object whose keys are the
fields of a record, and whose values are of their types: anything else raises DataError.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, TypeVar

from npudoctor.data import read as read_record

Row = TypeVar("Row")


SITE = "/etc/npudoctor/knowledge.d"
"""Where a site's own rows lie; the variable NPUDOCTOR_KNOWLEDGE names another folder."""


def read(name: str) -> dict[str, Any]:
    """The data file `NAME.json` with the rows of this site, which are merged in before any row is built."""
    folder = site_folder()
    if not os.path.isdir(folder):
        return ours(name)
    from npudoctor.knowledge import site

    return site.merge_table(name, folder, ours)


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


def record_of(kind: type[Row], data: dict[str, Any], **fields: Any) -> Row:
    """A file as a record, of which `fields` are those that the file does not have under their name.

    The keys of a file that are no fields, such as sources, are for people, and are the field `more` where there is
    one; a row has no other keys than its record. Raises DataError.
    """
    names = {one.name for one in dataclasses.fields(kind)}  # type: ignore[arg-type]  # mypy: a record is a dataclass
    known = {name: value for name, value in data.items() if name in names}
    more = {name: value for name, value in data.items() if name not in names}
    return read_record(kind, known | fields | ({"more": more} if "more" in names else {}), kind.__name__)


def sources(data: dict[str, Any]) -> dict[str, str]:
    """The sources of whole tables by the table: those of the keys that end with _source."""
    return {name.removesuffix("_source"): text for name, text in data.items() if name.endswith("_source")}
