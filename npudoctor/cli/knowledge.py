"""Print a knowledge table with its sources, or find matching releases.

examples:
  npudoctor knowledge                                       list all tables
  npudoctor knowledge compatibility --json                  print one table
  npudoctor knowledge compatibility releases 2.7.1          rows that contain a word
  npudoctor knowledge pair --cann 8.3.RC1 --python 3.11     which torch and torch_npu to install
  npudoctor knowledge pair --torch-npu 2.7.1                which CANN, Python and driver match it
  npudoctor knowledge pair --vllm-ascend 0.11.0             what a release of vLLM Ascend requires
  npudoctor knowledge pair --for verl --cann 8.5.0          which release of a framework matches
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from npudoctor.cli.output import UsageError, write
from npudoctor.knowledge import table

PAIR = "pair"
_OPTIONS = {"framework": "for"}
_SAY = ("cann", "python", "torch", "torch_npu", "driver", "framework", "vllm_ascend")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the table, and the given versions of a pair."""
    parser.add_argument("table", nargs="?", metavar="TABLE|pair", help="a table, or `pair` to find matching releases")
    parser.add_argument("list", nargs="?", metavar="LIST", help="a list of the table")
    parser.add_argument("word", nargs="?", metavar="WORD", help="print only rows that contain it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.add_argument_group("given versions (for pair)")
    asked.add_argument("--cann", metavar="VERSION", help="CANN version, such as 8.3.RC1")
    asked.add_argument("--python", metavar="VERSION", help="Python version, such as 3.11")
    asked.add_argument("--torch", metavar="VERSION", help="torch version to keep")
    asked.add_argument("--torch-npu", metavar="VERSION", help="torch_npu version to keep")
    asked.add_argument("--driver", metavar="VERSION", help="driver (HDK) version to keep")
    asked.add_argument(
        "--for", dest="framework", metavar="NAME[=VERSION]", help="a framework, such as vllm-ascend or verl=0.8.0"
    )
    asked.add_argument("--vllm-ascend", metavar="VERSION", help="the same as --for vllm-ascend=VERSION")


def run(args: argparse.Namespace) -> int:
    """Print the answer; 1 where the tables have none."""
    if problems := table.site_problems():
        raise UsageError("; ".join(problems))
    if args.table == PAIR:
        from npudoctor.cli import knowledge_pair

        return knowledge_pair.run(args)
    if said := [name for name in _SAY if getattr(args, name)]:
        raise UsageError(
            f"--{_OPTIONS.get(said[0], said[0].replace('_', '-'))} is an option of `npudoctor knowledge pair` only"
        )
    from npudoctor.knowledge.site import KEYS

    if args.table is None:
        _overview(list(KEYS), as_json=args.json)
        return 0
    if args.table not in KEYS:
        raise UsageError(f"unknown table {args.table!r}; known are {', '.join(KEYS)}, and `{PAIR}`")
    data = table.read(args.table)
    if args.list is None:
        write(_json(data) if args.json else _page(data, KEYS[args.table]))
        return 0
    if args.list not in data:
        raise UsageError(f"unknown list {args.list!r} of {args.table}; known are {', '.join(_lists(data))}")
    found = _with(data[args.list], args.word)
    write(_json(found) if args.json else _part(args.list, found, KEYS[args.table].get(args.list, ())))
    return 0 if found else 1


def _overview(names: list[str], *, as_json: bool) -> None:
    tables = {name: table.read(name) for name in names}
    if as_json:
        write(_json({name: {"as_of": data["as_of"], "lists": _lists(data)} for name, data in tables.items()}))
        return
    for name, data in tables.items():
        counts = ", ".join(f"{part} {count}" for part, count in _lists(data).items())
        write(f"{name:<14} as of {data['as_of']}  {counts}\n")
    write(f"Site rows are read from {table.site_folder()} (docs/knowledge.md).\n")


def _lists(data: dict[str, Any]) -> dict[str, int]:
    """The lists of rows in a table, with how many rows each has."""
    return {
        part: len(rows)
        for part, rows in data.items()
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _with(rows: Any, word: str | None) -> Any:
    if word is None or not isinstance(rows, list):
        return rows
    return [row for row in rows if word.lower() in json.dumps(row, ensure_ascii=False).lower()]


def _page(data: dict[str, Any], keys: Any) -> str:
    return f"as of {data['as_of']}\n" + "".join(
        _part(part, rows, keys.get(part, ())) for part, rows in data.items() if part not in ("schema", "as_of")
    )


def _part(name: str, rows: Any, key: tuple[str, ...]) -> str:
    """A list: each row by its key, its other fields below; anything else as it is."""
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        return f"\n{name}: {_words(rows)}\n"
    said = [f"\n{name} ({len(rows)})"]
    for row in rows:
        said.append("  " + " ".join(_words(row[part]) for part in key if row.get(part) is not None))
        width = max((len(field) for field in row if field not in key), default=0)
        said += [f"    {field:<{width}}  {_words(value)}" for field, value in row.items() if field not in key]
    return "\n".join(said) + "\n"


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_words(each)}" for key, each in value.items())
    return {True: "yes", False: "no", None: "unknown"}.get(value, str(value)) if not isinstance(value, str) else value
