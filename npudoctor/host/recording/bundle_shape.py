"""What the JSON files of a bundle must look like, and the comparison that says in one line where one does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from npudoctor.host import BundleError
from npudoctor.records import record


@record(frozen=True)
class Number:
    """A number of JSON from `least` to `most`, and neither infinite nor none at all."""

    whole: bool = False
    least: float = 0
    most: float = 1e20

    def complaint(self, value: Any) -> str | None:
        """What was expected, where a value is no such number; NaN is between no two numbers."""
        kind = "a whole number" if self.whole else "a number"
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return kind
        return None if self.least <= value <= self.most else f"{kind} from {self.least:g} to {self.most:g}"


@record(frozen=True)
class Maybe:
    """What a shape says, or null for what is not known."""

    shape: Any


@record(frozen=True)
class Row:
    """An object that must have some of its keys."""

    shape: Mapping[str, Any]
    required: tuple[str, ...]


_NUMBER = Number()
_COUNT = Number(whole=True)
_FROM_MINUS_ONE = Number(whole=True, least=-1)
_ANY_WHOLE = Number(whole=True, least=-1e18)
_TEXT = Maybe(str)
_ROOM = {"mount": str, "fstype": _TEXT, "total": Maybe(_NUMBER), "free": Maybe(_NUMBER)}
HOST_SHAPE: Mapping[str, Any] = {
    "cpu": {"logical": Maybe(_COUNT), "physical": Maybe(_COUNT), "numa_nodes": Maybe({str: str}), "allowed": _TEXT},
    "memory": Row({"total": _NUMBER, "available": _NUMBER}, ("total", "available")),
    "disks": [Row({**_ROOM, "files_total": Maybe(_NUMBER), "files_free": Maybe(_NUMBER)}, ("mount",))],
    "mounts": [Row({**_ROOM, "options": _TEXT}, ("mount",))],
    "interfaces": [
        Row(
            {
                "name": str,
                "up": bool,
                "addresses": [str],
                "speed_mbps": Maybe(Number(least=-1)),
                "mtu": Maybe(_NUMBER),
            },
            ("name",),
        )
    ],
    "sockets": [Row({"family": _TEXT, "type": _TEXT, "laddr": str, "status": _TEXT, "pid": Maybe(_COUNT)}, ("laddr",))],
    "processes": [
        Row(
            {
                "pid": _COUNT,
                "ppid": Maybe(_COUNT),
                "name": _TEXT,
                "username": _TEXT,
                "status": _TEXT,
                "cmdline": Maybe([str]),
                "create_time": Maybe(Number(most=1e11)),
            },
            ("pid",),
        )
    ],
    "limits": {str: Maybe([_FROM_MINUS_ONE, _FROM_MINUS_ONE])},
    "pci": [
        Row(
            {"slot": str, "vendor": str, "device": str, "numa_node": Maybe(_FROM_MINUS_ONE), "driver": _TEXT},
            ("slot", "vendor", "device"),
        )
    ],
    "container": Maybe({"runtime": _TEXT, "cgroup": _TEXT}),
}
"""What host.json may hold. A list of one shape has any length, one of several has just these."""

USER_SHAPE = {"name": str, "uid": _COUNT, "gid": _COUNT, "gids": [_COUNT], "groups": [str]}
BUNDLE_SHAPE = {
    "hostname": str,
    "recorded_at": str,
    "npudoctor": str,
    "machine": str,
    "user": USER_SHAPE,
    "environment": str,
    "unrecorded": str,
    "cwd": str,
    "umask": str,
    "npudoctor_prefix": str,
    "tools": {str: str},
}
STAT_SHAPE = {
    "type": str,
    "mode": str,
    "uid": _COUNT,
    "gid": _COUNT,
    "access": str,
    "mtime": Number(least=-1e18),
    "rdev": str,
    "size": _COUNT,
    "cut": bool,
}
FAILURE_SHAPE = {"because": str, "reason": str}
RESULT_SHAPE = {
    "returncode": Maybe(_ANY_WHOLE),
    "seconds": Maybe(_NUMBER),
    "timed_out": Maybe(bool),
    "truncated": Maybe(bool),
}
_WORDS = {str: "text", bool: "true or false"}


def check(value: Any, shape: Any, where: str) -> None:
    """Compare JSON with its shape: {key: shape}, {str: shape} for any key, [shape], a type, a Number, a Row, what may
    be null, or None for anything.

    Keys that the shape does not name are left alone: a later 1.x may have written them.
    """
    if shape is None or (isinstance(shape, Maybe) and value is None):
        return
    if isinstance(shape, Maybe):
        check(value, shape.shape, where)
    elif isinstance(shape, Row):
        check(value, shape.shape, where)
        if missing := next((key for key in shape.required if key not in value), None):
            raise BundleError(f"{where}: {missing} is missing")
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise BundleError(f"{where}: expected an object, found {_shown(value)}")
        for key, inner in value.items():
            check(inner, shape.get(str, shape.get(key)), f"{where}: {key}")
    elif isinstance(shape, list):
        _check_list(value, shape, where)
    elif isinstance(shape, Number):
        if expected := shape.complaint(value):
            raise BundleError(f"{where}: expected {expected}, found {_shown(value)}")
    elif not isinstance(value, shape):
        raise BundleError(f"{where}: expected {_WORDS[shape]}, found {_shown(value)}")


def _check_list(value: Any, shape: list[Any], where: str) -> None:
    if not isinstance(value, list):
        raise BundleError(f"{where}: expected a list, found {_shown(value)}")
    if len(shape) > 1 and len(value) != len(shape):
        raise BundleError(f"{where}: expected {len(shape)} values, found {_shown(value)}")
    for number, inner in enumerate(value):
        check(inner, shape[number % len(shape)], f"{where}[{number}]")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
