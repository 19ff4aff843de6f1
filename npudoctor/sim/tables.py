"""Tables of a TOML file into dataclasses, with one clear line for what does not fit.

The models of the report would do this too, but take longer to build than a simulated node takes to answer.
"""

from __future__ import annotations

import dataclasses
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Table = TypeVar("Table")

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class ScenarioError(ValueError):
    """A scenario that cannot be used; the text is one line: which file, which key, what is expected."""


def table(said: Any, kind: type[Table], where: str) -> Table:
    """A dataclass of a TOML table; raises ScenarioError for an unknown key, a missing one, a value of a wrong type."""
    if not isinstance(said, dict):
        raise _wrong(where, "a table", said)
    hints = get_type_hints(kind)
    for key in said:
        if key not in hints:
            import difflib  # here, because a scenario that fits never needs it

            near = difflib.get_close_matches(key, hints, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ScenarioError(f"{where}: {key}: no such key{meant} (expected one of {', '.join(sorted(hints))})")
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and field.name not in said:
            raise ScenarioError(f"{where}: {field.name}: this key is needed")
    return kind(**{key: _fit(value, hints[key], f"{where}: {key}") for key, value in said.items()})


def _fit(value: Any, hint: Any, where: str) -> Any:
    """A value as its type wants it: lists become tuples, tables dataclasses, whole numbers do for numbers."""
    if dataclasses.is_dataclass(hint):
        return table(value, hint, where)  # type: ignore[arg-type]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _fit(value, _alternative(value, inner, hint, where), where)
    if origin is Literal:
        if value not in inner or isinstance(value, bool):
            raise _wrong(where, _words(hint), value)
    elif origin is dict:
        if not isinstance(value, dict):
            raise _wrong(where, _words(hint), value)
        return {key: _fit(one, inner[1], f"{where}: {key}") for key, one in value.items()}
    elif origin is tuple:
        if not isinstance(value, list) or (inner[-1] is not Ellipsis and len(value) != len(inner)):
            raise _wrong(where, _words(hint), value)
        return tuple(_fit(one, inner[0], f"{where}[{number}]") for number, one in enumerate(value))
    elif not isinstance(value, (int, float) if hint is float else hint) or (
        hint is not bool and value in (True, False) and isinstance(value, bool)
    ):
        raise _wrong(where, _words(hint), value)
    return value


def _alternative(value: Any, choices: tuple[Any, ...], hint: Any, where: str) -> Any:
    """The one of several types that a value is meant for: lists go to a list, the rest to what takes it."""
    for choice in choices:
        is_list = get_origin(choice) is tuple
        if is_list and isinstance(value, list):
            return choice
        if not is_list and choice is not type(None) and not isinstance(value, list):
            try:
                _fit(value, choice, where)
            except ScenarioError:
                if dataclasses.is_dataclass(choice):
                    raise
            else:
                return choice
    raise _wrong(where, _words(hint), value)


def _words(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_words(choice) for choice in inner if choice is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in inner)
    if origin is tuple:
        return "a list" if inner[-1] is Ellipsis else f"a list of {len(inner)}"
    return "a table" if origin is dict or dataclasses.is_dataclass(hint) else _WORDS[hint]


def _wrong(where: str, expected: str, found: Any) -> ScenarioError:
    text = repr(found)
    return ScenarioError(f"{where}: expected {expected}, found {text if len(text) <= 60 else text[:57] + '...'}")
