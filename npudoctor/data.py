"""Data of JSON and TOML into records, with one line for what does not fit: scenarios, bundles, journals, parameters.

What others read or write (the report, the configuration, the answers of the daemon, the digest of a node) is a model of
pydantic, which has a JSON Schema.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import json
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from npudoctor.records import record

T = TypeVar("T")

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_LISTS = (tuple, list, set, frozenset, collections.abc.Sequence)
_MAPPINGS = (dict, collections.abc.Mapping)
_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class DataError(ValueError):
    """Data that does not fit; the text is one line: where, what was expected, what was found."""


@record(frozen=True)
class Between:
    """The range of a number, in its Annotated type; neither an infinite number nor NaN is in any range."""

    least: float
    most: float


@record(frozen=True)
class _Rules:
    """How data is read: whether unknown keys are ignored, whether texts stand for numbers, and what a mapping is
    called."""

    ignore_unknown: bool
    texts: bool
    mapping: str


def read(
    kind: type[T],
    data: Any,
    where: str = "",
    *,
    ignore_unknown: bool = False,
    texts: bool = False,
    mapping: str = "an object",
) -> T:
    """A value of a type from the types of JSON: lists become tuples, objects records; raises DataError.

    `ignore_unknown` is for files that a later version may have written. With `texts` a text may stand for a number or
    for true and false, as on a command line. `mapping` is what a mapping is called: a table in TOML.
    """
    made: T = _fit(data, kind, where, _Rules(ignore_unknown, texts, mapping))
    return made


@functools.cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it must be given."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        one.name: (hints[one.name], one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING)
        for one in dataclasses.fields(kind)
    }


def _record(data: Any, kind: Any, where: str, rules: _Rules) -> Any:
    if isinstance(data, kind):
        return data
    if not isinstance(data, dict):
        raise _wrong(where, rules.mapping, data)
    fields = _fields(kind)
    for key in data:
        if key not in fields and not rules.ignore_unknown:
            raise DataError(_unknown(_below(where, key), key, fields))
    known = {key: value for key, value in data.items() if key in fields}
    made = {key: _fit(value, fields[key][0], _below(where, key), rules) for key, value in known.items()}
    if missing := next((name for name, (_, is_needed) in fields.items() if is_needed and name not in made), None):
        raise DataError(f"{_below(where, missing)}: this key is missing")
    return kind(**made)


def _unknown(where: str, key: str, fields: Mapping[str, Any]) -> str:
    import difflib  # here, because data that fits never needs it

    near = difflib.get_close_matches(key, fields, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"{where}: no such key{meant} (expected {'one of ' + ', '.join(sorted(fields)) if fields else 'none'})"


def _fit(value: Any, hint: Any, where: str, rules: _Rules) -> Any:
    """A value as its type wants it."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Annotated:
        return _in_range(_fit(value, inner[0], where, rules), inner[0], inner[1], where)
    if origin in (Union, UnionType):
        return _either(value, inner, where, rules)
    if dataclasses.is_dataclass(hint):
        return _record(value, hint, where, rules)
    if origin is Literal or (isinstance(hint, type) and issubclass(hint, Enum)):
        choices = {one: one for one in inner} if origin is Literal else {one.value: one for one in hint}
        if isinstance(value, (bool, list, dict)) or value not in choices:
            raise _wrong(where, _words(hint, rules), value)
        return choices[value]
    if origin in _MAPPINGS:
        if not isinstance(value, dict):
            raise _wrong(where, rules.mapping, value)
        return {key: _fit(one, inner[1], _below(where, key), rules) for key, one in value.items()}
    if origin in _LISTS:
        return _list(value, origin, inner, where, rules)
    if rules.texts and isinstance(value, str) and hint in (int, float, bool):
        value = _of_text(value, hint)
    if not isinstance(value, (int, float) if hint is float else hint) or (isinstance(value, bool) and hint is not bool):
        raise _wrong(where, _words(hint, rules), value)
    return value


def _list(value: Any, origin: Any, inner: tuple[Any, ...], where: str, rules: _Rules) -> Any:
    is_fixed = origin is tuple and inner[-1] is not Ellipsis
    if not isinstance(value, (list, tuple)) or (is_fixed and len(value) != len(inner)):
        raise _wrong(where, f"a list of {len(inner)}" if is_fixed else "a list", value)
    hints = inner if is_fixed else (inner[0],) * len(value)
    made = [_fit(one, hints[number], f"{where}[{number}]", rules) for number, one in enumerate(value)]
    return made if origin is list else origin(made) if origin in (set, frozenset) else tuple(made)


def _either(value: Any, choices: tuple[Any, ...], where: str, rules: _Rules) -> Any:
    """The one of several types that a value is meant for: lists go to a list, the rest to what takes it."""
    if value is None and NoneType in choices:
        return None
    others = [one for one in choices if one is not NoneType]
    if len(others) == 1:
        return _fit(value, others[0], where, rules)
    for one in others:
        is_list = get_origin(one) in _LISTS
        if is_list and isinstance(value, (list, tuple)):
            return _fit(value, one, where, rules)
        if not is_list and not isinstance(value, (list, tuple)):
            try:
                return _fit(value, one, where, rules)
            except DataError:
                if dataclasses.is_dataclass(one) and isinstance(value, dict):
                    raise
    raise _wrong(where, " or ".join(_words(one, rules) for one in others), value)


def _in_range(value: Any, hint: Any, limits: Between, where: str) -> Any:
    if not limits.least <= value <= limits.most:
        raise _wrong(where, f"{_WORDS[hint]} from {limits.least:g} to {limits.most:g}", value)
    return value


def _of_text(text: str, hint: type) -> Any:
    """The number, or true or false, that a text stands for; the text itself where it stands for none."""
    if hint is bool:
        return _BOOLS.get(text.lower(), text)
    try:
        return hint(text)
    except ValueError:
        return text


def _words(hint: Any, rules: _Rules) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _words(inner[0], rules)
    if origin is Literal:
        return "one of " + ", ".join(json.dumps(one) for one in inner)
    if origin in _LISTS:
        return "a list"
    if origin in _MAPPINGS or dataclasses.is_dataclass(hint):
        return rules.mapping
    if issubclass(hint, Enum):
        return "one of " + ", ".join(json.dumps(one.value) for one in hint)
    return _WORDS[hint] if hint in _WORDS else str(hint.__name__)


def _below(where: str, key: str) -> str:
    return f"{where}: {key}" if where else key


def _wrong(where: str, expected: str, found: Any) -> DataError:
    text = json.dumps(found, default=str, ensure_ascii=False)
    text = text if len(text) <= 60 else text[:57] + "..."
    return DataError(f"{where}: expected {expected}, found {text}" if where else f"expected {expected}, found {text}")
