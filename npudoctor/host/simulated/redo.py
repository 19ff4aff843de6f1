"""What was done to a simulated node, kept in a file so that the next command finds it done."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

SCHEMA = "npudoctor.simulated/1"

Rest = ParamSpec("Rest")
Answer = TypeVar("Answer")


class Kept(Protocol):
    """A host that keeps what was done to it."""

    done: list[dict[str, Any]]


Node = TypeVar("Node", bound=Kept)


class NotRedone(ValueError):
    """A file that is not what `written` made; the text is a clause."""


def note_change(change: Callable[Concatenate[Node, Rest], Answer]) -> Callable[Concatenate[Node, Rest], Answer]:
    """A method that changes a node, and notes that it has done so."""

    @functools.wraps(change)
    def noting(host: Node, /, *given: Rest.args, **named: Rest.kwargs) -> Answer:
        answer = change(host, *given, **named)
        kept = {name: value for name, value in named.items() if name != "stream"}
        host.done.append({"do": change.__name__, "given": [_out(one) for one in given], "named": _all_out(kept)})
        return answer

    return noting


def write_changes(host: Kept) -> bytes:
    """What was done to a node, as a file."""
    return json.dumps({"schema": SCHEMA, "done": host.done}).encode()


def redo(node: Kept, data: bytes) -> None:
    """Do it again to the same node in its first state. Raises NotRedone."""
    try:
        said = json.loads(data)
        rows = said["done"] if said["schema"] == SCHEMA else None
        if rows is None:
            raise NotRedone("it has another format")
        for row in rows:
            if row["do"] not in CHANGES:
                raise NotRedone(f"{row['do']!r} is no change of a simulated node")
            with contextlib.suppress(OSError):
                getattr(node, row["do"])(
                    *map(_in, row["given"]), **{name: _in(one) for name, one in row["named"].items()}
                )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        if isinstance(problem, NotRedone):
            raise
        raise NotRedone("it is not what npudoctor wrote") from problem


CHANGES = frozenset(
    {"write_file", "write_link", "remove", "make_folder", "remove_folder", "set_sysctl", "signal", "run_streaming"}
)


def _all_out(named: dict[str, Any]) -> dict[str, Any]:
    return {name: _out(value) for name, value in named.items()}


def _out(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return list(value) if isinstance(value, tuple) else dict(value) if hasattr(value, "keys") else value


def _in(value: Any) -> Any:
    if isinstance(value, dict) and "base64" in value:
        return base64.b64decode(value["base64"])
    return tuple(value) if isinstance(value, list) else value
