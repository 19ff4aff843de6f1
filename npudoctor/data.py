"""Data of JSON and TOML into records, with one line for what does not fit, and records back into data.

It reads npudoctor's own files: scenarios, bundles, journals, parameters; and it fits the values of a new
`npudoctor.models.Model`. What others wrote (a report, the configuration) pydantic reads into the same classes, whose
Annotated types it understands too: `Before`, `After`, `Between` and `Written`.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Mapping
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
    """The range of a number, in its Annotated type; neither an infinite number nor NaN is in any range.

    With `above`, `least` itself is not in it.
    """

    least: float
    most: float = math.inf
    above: bool = False

    def has(self, number: float) -> bool:
        """Whether a number is in it."""
        return self.least <= number <= self.most and number < math.inf and not (self.above and number == self.least)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        most = {} if self.most == math.inf else {"le": self.most}
        finite = {} if source is int else {"allow_inf_nan": False}
        return {**handler(source), "gt" if self.above else "ge": self.least, **most, **finite}


@record(frozen=True)
class Before:
    """In an Annotated type: what changes a value before it is fitted."""

    change: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.change, handler(source))


@record(frozen=True)
class After:
    """In an Annotated type: what changes a value after it was fitted, or raises ValueError."""

    change: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.change, handler(source))


@record(frozen=True)
class Written:
    """In an Annotated type: what changes a value as it is written to JSON."""

    change: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        schema = handler(source)
        how = core_schema.plain_serializer_function_ser_schema(self.change, return_schema=schema, when_used="json")
        return {**schema, "serialization": how}


@record(frozen=True)
class _Rules:
    """How data is read: whether unknown keys are ignored, whether texts stand for numbers, and what a mapping is
    called. `made` is for a new record: a whole number becomes a float where one is wanted, and whatever can be gone
    through a list."""

    ignore_unknown: bool
    texts: bool
    mapping: str
    made: bool = False


_MADE = _Rules(ignore_unknown=False, texts=False, mapping="a mapping", made=True)
"""How the values of a new record are fitted."""


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


def fitted(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a new record as their types want them; raises TypeError for an unknown field or a wrong type."""
    fields = _fields(kind)
    made = {}
    for name, value in given.items():
        if name not in fields:
            raise TypeError(f"{kind.__name__} has no field {name!r}")
        try:
            made[name] = _fit(value, fields[name][0], name, _MADE)
        except DataError as problem:
            raise TypeError(f"{kind.__name__}.{problem}") from None
    return made


def to_data(value: Any) -> Any:
    """A record, or what it consists of, in the types of JSON: fields by name, enumerations by value, dates as text.

    A field whose metadata say `exclude` is left out, as pydantic does; a number that is not finite becomes None.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [to_data(one) for one in value]
    if isinstance(value, collections.abc.Mapping):
        return {str(to_data(key)): to_data(one) for key, one in value.items()}
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        return {name: to_data(write(getattr(value, name))) for name, write in _written(kind)}
    if isinstance(value, collections.abc.Set):
        return sorted(map(to_data, value), key=str)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def to_json(value: Any, indent: int | None = None) -> str:
    """A record as JSON, in one line or indented."""
    return json.dumps(to_data(value), ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))


@functools.cache
def _written(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """The fields that are written, each with what changes it."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (one.name, next((part.change for part in get_args(hints[one.name]) if isinstance(part, Written)), _same))
        for one in dataclasses.fields(kind)
        if not one.metadata.get("exclude")
    )


def _same(value: Any) -> Any:
    return value


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
        return _annotated(value, inner[0], inner[1:], where, rules)
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
        if not isinstance(value, Mapping):
            raise _wrong(where, rules.mapping, value)
        kinds = inner[0] if rules.made else Any  # a key of JSON is a text
        return {
            _fit(key, kinds, where, rules): _fit(one, inner[1], _below(where, key), rules) for key, one in value.items()
        }
    if origin in _LISTS:
        return _list(value, origin, inner, where, rules)
    if rules.texts and isinstance(value, str) and hint in (int, float, bool):
        value = _of_text(value, hint)
    if not isinstance(value, (int, float) if hint is float else hint) or (isinstance(value, bool) and hint is not bool):
        raise _wrong(where, _words(hint, rules), value)
    return float(value) if rules.made and hint is float else value


def _list(value: Any, origin: Any, inner: tuple[Any, ...], where: str, rules: _Rules) -> Any:
    is_fixed = origin is tuple and inner[-1] is not Ellipsis
    if rules.made and isinstance(value, collections.abc.Iterable) and not isinstance(value, (str, bytes, Mapping)):
        value = tuple(value)
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


def _annotated(value: Any, hint: Any, notes: tuple[Any, ...], where: str, rules: _Rules) -> Any:
    for note in notes:
        if isinstance(note, Before):
            value = note.change(value)
    value = _fit(value, hint, where, rules)
    for note in notes:
        if isinstance(note, Between) and not note.has(value):
            raise _wrong(where, f"{_WORDS[hint]} from {note.least:g} to {note.most:g}", value)
        if isinstance(note, After):
            try:
                value = note.change(value)
            except ValueError as problem:
                raise DataError(f"{where}: {problem}") from problem
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


def _below(where: str, key: object) -> str:
    return f"{where}: {key}" if where else str(key)


def _wrong(where: str, expected: str, found: Any) -> DataError:
    text = json.dumps(found, default=str, ensure_ascii=False)
    text = text if len(text) <= 60 else text[:57] + "..."
    return DataError(f"{where}: expected {expected}, found {text}" if where else f"expected {expected}, found {text}")
