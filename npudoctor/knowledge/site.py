"""Rows that a site adds to the tables or puts in the place of ours: /etc/npudoctor/knowledge.d/*.json.

A file is one JSON object: `schema` ("npudoctor.knowledge/1"), perhaps `source` (who says so), and tables with lists of
rows: {"compatibility": {"releases": [{"version": "2.7.1.post4", "cann": ["8.5.0"]}]}}. A row whose key is known
changes the fields that it names; another one is added, before ours, and must be whole. Files count in the order of
their names. A file with a mistake counts for nothing and is a problem with a name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from npudoctor.host.live.safe_files import Unreadable, read_trusted, why_untrusted
from npudoctor.records import record

SCHEMA = "npudoctor.knowledge/1"

KEYS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "baselines": {"figures": ("figure", "of"), "idle": ("family", "of"), "all_reduce": ("family", "where")},
    "combinations": {
        "driver_firmware": ("driver", "product"),
        "feature_floors": ("feature",),
        "stacks": ("torch_npu", "cann", "vllm_ascend"),
    },
    "compatibility": {
        "releases": ("version",),
        "windows": ("pta_release",),
        "known_bad": ("id",),
        "lifecycles": ("torch",),
        "hdk": ("cann",),
        "python": ("cann",),
    },
    "environment": {"variables": ("name",), "conflicts": ("names",)},
    "errors": {"codes": ("kind", "code"), "texts": ("text",)},
    "hardware": {"families": ("id",), "pci": ("device",), "link_plans": ("name",)},
    "hccl": {"hccn_queries": ("query",), "launchers": ("name",)},
    "layout": {
        "cann": ("path",),
        "driver": ("path",),
        "device_nodes": ("path",),
        "mounts": ("container",),
        "logs": ("path",),
        "packages": ("name",),
        "compiler_packages": ("distribution",),
        "cuda_packages": ("distribution",),
    },
    "pitfalls": {"pitfalls": ("id",)},
    "services": {"services": ("command",)},
    "stacks": {
        "frameworks": ("name",),
        "releases": ("framework", "release"),
        "chips": ("package", "family"),
    },
}
"""What tells the rows of a list apart. Other parts of the tables are not a site's to change."""

_PARTS = ("torch_npu", "cann", "driver", "python")
"""What a release of a framework may require beside Python distributions, by their normalised names."""

_PUBLISHED = re.compile(r"(?:[<>!=~]=|[<>])? ?\d[\w+-]*(?:\.(?!X\.)[\w+-]+)*(?:\.\*)?")
"""A release, one bound of a range, or a train (`25.0.X`, `2.7.*`)."""

_PATTERNS = ("symptoms", "hints", "name_pattern")
_LIMIT_BYTES = 4 << 20


class SiteError(ValueError):
    """A file of a site that does not count; the text says which, what is wrong, and what was expected."""


@record(frozen=True)
class SiteRows:
    """The rows of all good files, by table and list, each with the file that it comes from; and what is wrong with
    the others."""

    rows: Mapping[tuple[str, str], tuple[tuple[str, Mapping[str, Any]], ...]]
    problems: tuple[str, ...] = ()


def problems(folder: str, ours: Callable[[str], dict[str, Any]]) -> tuple[str, ...]:
    """What is wrong with the files of a site, each with its file."""
    return _site(folder, ours).problems


def merge_table(name: str, folder: str, ours: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """A table with the rows of the site whose files are in `folder`; `ours` reads one of npudoctor's own, anew."""
    data = ours(name)
    for (table, part), rows in _site(folder, ours).rows.items():
        if table == name:
            for source, row in rows:
                _put(data[part], KEYS[table][part], dict(row), source)
    return data


def _put(rows: list[dict[str, Any]], key: tuple[str, ...], row: dict[str, Any], source: str) -> None:
    wanted = _key_of(row, key)
    known = next((old for old in rows if _key_of(old, key) == wanted), None)
    if known is None:
        if any("sources" in old for old in rows):
            row.setdefault("sources", [source])
        rows.insert(0, row)
    else:
        known.update(row)
        if "sources" in known and "sources" not in row:
            known["sources"] = [source, *known["sources"]]


def _key_of(row: Mapping[str, Any], key: tuple[str, ...]) -> str:
    return json.dumps([row.get(name) for name in key])


@cache
def _site(folder: str, ours: Callable[[str], dict[str, Any]]) -> SiteRows:
    rows: dict[tuple[str, str], tuple[tuple[str, Mapping[str, Any]], ...]] = {}
    wrong: list[str] = []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
        if names and (reason := why_untrusted(folder)):
            return SiteRows({}, (f"{folder} is refused: {reason}",))
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as problem:
        return SiteRows({}, (f"{folder}: {problem.strerror}",))
    said: dict[str, dict[str, Any]] = {}
    for name in names:
        path = f"{folder}/{name}"
        try:
            said[path] = _read(path)
        except SiteError as problem:
            wrong.append(str(problem))
    for path, file in said.items():
        try:
            found = dict(_rows_of(path, file, ours))
            _must_have_effect(path, file, said.values(), ours)
        except SiteError as problem:
            wrong.append(str(problem))
            continue
        for place, here in found.items():
            rows[place] = (*rows.get(place, ()), *here)
    return SiteRows(rows, tuple(wrong))


def _read(path: str) -> dict[str, Any]:
    """What a file says; a user who can write a table decides what npudoctor says, so only root and this user may."""
    try:
        said = json.loads(read_trusted(path, _LIMIT_BYTES), parse_constant=_no_number)
    except Unreadable as problem:
        raise SiteError(str(problem)) from None
    except (ValueError, RecursionError) as problem:
        raise SiteError(f"{path}: no valid JSON: {problem}") from None
    if not isinstance(said, dict) or said.get("schema") != SCHEMA:
        raise SiteError(f'{path}: schema: expected "{SCHEMA}"')
    return said


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON knows")


def _rows_of(
    path: str, said: dict[str, Any], ours: Callable[[str], dict[str, Any]]
) -> Iterator[tuple[tuple[str, str], tuple[tuple[str, Mapping[str, Any]], ...]]]:
    """The rows of a file by table and list; raises SiteError for the first thing that is wrong."""
    source = f"{said.get('source') or 'this site'} ({path})"
    for table, lists in said.items():
        if table in ("schema", "source"):
            continue
        if table not in KEYS:
            raise SiteError(f"{path}: {table}: no such table; there are {', '.join(KEYS)}")
        if not isinstance(lists, dict):
            raise SiteError(f"{path}: {table}: expected an object with lists of rows")
        builtin = ours(table)
        for part, rows in lists.items():
            where = f"{path}: {table}.{part}"
            if part not in KEYS[table]:
                raise SiteError(f"{where}: no list that a site can change; there are {', '.join(KEYS[table])}")
            if not isinstance(rows, list):
                raise SiteError(f"{where}: expected a list of rows")
            for number, row in enumerate(rows):
                _validate(row, KEYS[table][part], builtin[part], builtin, f"{where}[{number}]")
            yield (table, part), tuple((source, row) for row in rows)


def _must_have_effect(
    path: str, file: dict[str, Any], said: Iterable[dict[str, Any]], ours: Callable[[str], dict[str, Any]]
) -> None:
    """Raise SiteError for a row of stacks that nothing reads: its framework, package, chip or part is in no table."""
    for number, row in enumerate(file.get("combinations", {}).get("stacks", ())):
        _must_be_sets(f"{path}: combinations.stacks[{number}]", row)
    if "stacks" not in file:
        return
    every = [ours("stacks"), *(each.get("stacks") for each in said)]
    known, released = _objects_in(every, "frameworks"), _objects_in(every, "releases")
    frameworks = {str(row.get("name")) for row in known}
    packages = {str(row.get("package")) for row in known}
    for names in (*(row.get("brings") for row in known), *(row.get("requires") for row in released)):
        packages |= set(map(str, names)) if isinstance(names, (list, dict)) else set()
    families = {row["id"] for row in ours("hardware")["families"]}
    for number, row in enumerate(file["stacks"].get("releases", ())):
        where = f"{path}: stacks.releases[{number}]"
        _must_be_known(f"{where}: framework", row["framework"], frameworks)
        _must_be_releases(f"{where}: requires", row.get("requires", {}))
        _must_be_sets(where, row)
    for number, row in enumerate(file["stacks"].get("chips", ())):
        where = f"{path}: stacks.chips[{number}]"
        _must_be_known(f"{where}: package", row["package"], packages)
        _must_be_known(f"{where}: family", row["family"], families)


def _must_be_sets(where: str, row: Mapping[str, Any]) -> None:
    """Raise SiteError for a further published set that has a part or a release that is none."""
    for place, one in enumerate(row.get("also_requires", ())):
        if not isinstance(one, dict):
            raise SiteError(f"{where}: also_requires[{place}]: expected an object, found {_kind(one)}")
        needed = {part: version for part, version in one.items() if version is not None}
        _must_be_releases(f"{where}: also_requires[{place}]", needed)


def _must_be_releases(where: str, requires: Mapping[str, object]) -> None:
    """Raise SiteError for a part or a release of a published set that is none."""
    for part, version in requires.items():
        normalised = re.sub(r"[-_.]+", "-", part).lower()
        if part not in _PARTS and part != normalised:
            wanted = next((each for each in _PARTS if each.replace("_", "-") == normalised), normalised)
            raise SiteError(f"{where}: {part}: no such part; did you mean {wanted}?")
        if not isinstance(version, str):
            raise SiteError(f"{where}: {part}: expected text, found {_kind(version)}")
        if not all(map(_PUBLISHED.fullmatch, re.split(r", ?| or ", version))):
            example = "2.7.1, `2.7.1 or 2.7.1.post1`, or >=3.10, <3.12"
            raise SiteError(f"{where}: {part}: {version!r} is no release; expected such as {example}")


def _objects_in(tables: list[Any], part: str) -> list[dict[str, Any]]:
    """The rows of a list in some tables, of which those of a site may be anything."""
    lists = [table[part] for table in tables if isinstance(table, dict) and isinstance(table.get(part), list)]
    return [row for rows in lists for row in rows if isinstance(row, dict)]


def _must_be_known(where: str, name: str, known: set[str]) -> None:
    if name not in known:
        raise SiteError(f"{where}: the row has no effect: {name!r} is none of {', '.join(sorted(known))}")


def _validate(
    row: object, key: tuple[str, ...], known: list[dict[str, Any]], table: Mapping[str, Any], where: str
) -> None:
    """Whether a row is one of this list by the example of ours: its fields, and what kind of value each holds."""
    if not isinstance(row, dict):
        raise SiteError(f"{where}: expected an object")
    if missing := [name for name in key if name not in row and all(name in old for old in known)]:
        raise SiteError(f"{where}: {missing[0]} is missing, by which the row is known")
    kinds = _kinds(known)
    for name, value in row.items():
        if name not in kinds:
            raise SiteError(f"{where}: {name}: no such field; there are {', '.join(sorted(kinds))}")
        empty = value == [] and any(kind.startswith("a list") for kind in kinds[name])
        if _kind(value) not in kinds[name] and not empty:
            raise SiteError(f"{where}: {name}: expected {' or '.join(sorted(kinds[name]))}, found {_kind(value)}")
        if name == "confidence" and value not in table.get("confidence_levels", {value: ""}):
            raise SiteError(f"{where}: confidence: expected one of {', '.join(table['confidence_levels'])}")
        if name in _PATTERNS:
            _compile(value if isinstance(value, list) else [value], f"{where}: {name}")
    if not any(_key_of(old, key) == _key_of(row, key) for old in known):
        always = set.intersection(*(set(old) for old in known)) - {"sources"}
        if missing := sorted(always - set(row)):
            raise SiteError(f"{where}: a row that is new must be whole; missing: {', '.join(missing)}")


def _compile(patterns: list[Any], where: str) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as problem:
            raise SiteError(f"{where}: {pattern!r} is no regular expression: {problem}") from None


def _kinds(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            found.setdefault(name, set()).add(_kind(value))
    return found


def _kind(value: object) -> str:
    if isinstance(value, list):
        inside = {_kind(item) for item in value}
        return f"a list of {inside.pop()}" if len(inside) == 1 else "a list"
    names = {bool: "true or false", str: "text", int: "number", float: "number", dict: "an object"}
    return names.get(type(value), "null")
