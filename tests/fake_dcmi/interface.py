"""The part of the DCMI interface that the stub has, from dcmi-abi.json: `python -m tests.fake_dcmi.interface FILE`.

It is data of the tests' own, and not the table of the product, so that a mistake in that one shows.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

PLACE = Path(__file__).with_name("interface.json")
_AGGREGATE = re.compile(r"(?:struct|union) (\w+)")


def extract(table: dict[str, Any]) -> dict[str, Any]:
    """What facts could need of the table: functions, the structures that they name, and the names of what changes."""
    functions = {
        one["name"]: [[p["type"], p["name"], p["direction"]] for p in one["parameters"]]
        for one in table["functions"]
        if one["use"] != "other"
    }
    wanted = [name for parameters in functions.values() for p in parameters for name in _AGGREGATE.findall(p[0])]
    wanted += [one["buffer"] for one in table["device_info_commands"]]
    structs: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name in structs:
            continue
        said = table["structs"][name]
        fields = [[f["name"], f["type"], f.get("length") or 1, f["offset"]] for f in said["fields"]]
        structs[name] = {"kind": said["kind"], "size": said["size"], "packed": "packed" in (said.get("notes") or "")}
        structs[name]["fields"] = fields
        wanted += [inner for field in fields for inner in _AGGREGATE.findall(field[1])]
    return {
        "functions": functions,
        "structs": dict(sorted(structs.items())),
        "never_call": [one["name"] for one in table["never_call"]],
    }


def load() -> dict[str, Any]:
    """The part that was written down."""
    loaded: dict[str, Any] = json.loads(PLACE.read_text(encoding="utf-8"))
    return loaded


def _compact(value: Any, depth: int = 0) -> str:
    """JSON with one entry a line, so that a change shows as one."""
    if isinstance(value, dict) and depth < 2:
        rows = [f"{' ' * (depth + 1)}{json.dumps(key)}: {_compact(one, depth + 1)}" for key, one in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * depth + "}"
    if isinstance(value, list) and depth < 2:
        return "[\n" + ",\n".join(f"{' ' * (depth + 1)}{json.dumps(one)}" for one in value) + "\n" + " " * depth + "]"
    return json.dumps(value)


if __name__ == "__main__":
    PLACE.write_text(
        _compact(extract(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))) + "\n", encoding="utf-8"
    )
