"""Data of JSON and TOML into records, with one line for what does not fit, and records back into data.

It reads npudoctor's own files: scenarios, bundles, journals, parameters, the answers of a fleet's nodes; and it fits
the values of a new `npudoctor.models.Model`. What others wrote (a report, the configuration) pydantic reads into the
same classes, whose Annotated types (`npudoctor.value_rules`) it understands too.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import datetime
import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from npudoctor.value_rules import After, Before, Between, Written

T = TypeVar("T")

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", datetime.date: "a date"}
_LISTS = (tuple, list, set, frozenset, collections.abc.Sequence)
_MAPPINGS = (dict, collections.abc.Mapping)
_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class DataError(ValueError):
    """Data that does not fit; the text is one line: where, what was expected, what was found."""


class _Rules(NamedTuple):
    """How data is read: whether unknown keys are ignored, whether texts stand for numbers, and what a mapping is
    called. `made` is for a new record: a whole number becomes a float where one is wanted, and whatever can be gone
    through a list."""

    ignore_unknown: bool
    texts: bool
    mapping: str
    made: bool = False


_MADE = _Rules(ignore_unknown=False, texts=False, mapping="a mapping", made=True)
"""How the values of a new record are fitted."""


class _Misfit(Exception):
    """A value that does not fit; `place` is where it is below the value that is read: `: key[0]`."""

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.place = place

    def below(self, place: str) -> _Misfit:
        """The same, seen from what holds the value."""
        self.place = place + self.place
        return self

    def text(self, where: str = "") -> str:
        """One line: the place, then what was expected and found."""
        place = (where + self.place).removeprefix(": ")
        return f"{place}: {self.what}" if place else self.what


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
    try:
        made: T = _reader(cast("Any", kind), _Rules(ignore_unknown, texts, mapping))(data)
    except _Misfit as problem:
        raise DataError(problem.text(where)) from None
    return made


def fit_values(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a new record as their types want them; raises TypeError for an unknown field or a wrong type."""
    readers = _readers(kind, _MADE)
    if (unknown := next((name for name in given if name not in readers), None)) is not None:
        raise TypeError(f"{kind.__name__} has no field {unknown!r}")
    try:
        return _values(readers, given)
    except _Misfit as problem:
        raise TypeError(f"{kind.__name__}.{problem.text()}") from None


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
    if isinstance(value, Mapping):
        return {str(to_data(key)): to_data(one) for key, one in value.items()}
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        return {name: to_data(write(getattr(value, name))) for name, write in _written_fields(kind)}
    if isinstance(value, collections.abc.Set):
        return sorted(map(to_data, value), key=str)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def to_json(value: Any, indent: int | None = None) -> str:
    """A record as JSON, in one line or indented."""
    return json.dumps(to_data(value), ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))


@functools.cache
def _written_fields(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """The fields that are written, each with what changes it."""
    try:
        hints = _hints(kind)
    except NameError:  # a type that only a type checker imports: none of `Written`
        hints = {}
    return tuple(
        (one.name, next((part.change for part in get_args(hints.get(one.name)) if isinstance(part, Written)), _same))
        for one in dataclasses.fields(kind)
        if not one.metadata.get("exclude")
    )


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _same(value: Any) -> Any:
    return value


# What reads a value of a type is made once for each type: a file has thousands of values of few types.

_Reader = Callable[[Any], Any]


@functools.cache
def _reader(hint: Any, rules: _Rules) -> _Reader:
    """What makes a value of this type, or raises _Misfit."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return _same
    if origin is Annotated:
        return _annotated_reader(inner[0], inner[1:], rules)
    if origin in (Union, UnionType):
        return _either(inner, rules)
    if origin in _MAPPINGS:
        return _mapping(inner, rules)
    if origin in _LISTS:
        return _list(origin, inner, rules)
    is_choice = origin is Literal or issubclass(hint, Enum)
    make = _record if dataclasses.is_dataclass(hint) else _choice if is_choice else _plain
    return make(hint, rules)


@functools.cache
def _readers(kind: Any, rules: _Rules) -> dict[str, _Reader]:
    """What reads each field of a record."""
    hints = _hints(kind)
    return {one.name: _reader(hints[one.name], rules) for one in dataclasses.fields(kind)}


def _values(readers: Mapping[str, _Reader], data: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields of a record as their types want them."""
    made, key = {}, ""
    try:
        for key, value in data.items():
            if key in readers:
                made[key] = readers[key](value)
    except _Misfit as problem:
        raise problem.below(f": {key}") from None
    return made


def _record(kind: Any, rules: _Rules) -> _Reader:
    needed = [
        one.name
        for one in dataclasses.fields(kind)
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    ]

    make = getattr(kind, "of_fitted", kind)  # a Model, which would fit its values once more
    rules = rules if make is kind else rules._replace(made=True)

    def read_record(data: Any) -> Any:
        if isinstance(data, kind):
            return data
        if not isinstance(data, dict):
            raise _misfit(rules.mapping, data)
        readers = _readers(kind, rules)
        if (
            not rules.ignore_unknown
            and (unknown := next((key for key in data if key not in readers), None)) is not None
        ):
            raise _Misfit(_unknown_key_text(unknown, readers), f": {unknown}")
        made = _values(readers, data)
        for name in needed:
            if name not in made:
                raise _Misfit("this key is missing", f": {name}")
        return make(**made)

    return read_record


def _unknown_key_text(key: str, fields: Mapping[str, Any]) -> str:
    import difflib  # here, because data that fits never needs it

    near = difflib.get_close_matches(key, fields, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"no such key{meant} (expected {'one of ' + ', '.join(sorted(fields)) if fields else 'none'})"


def _plain(hint: Any, rules: _Rules) -> _Reader:
    accepted = (int, float) if hint is float else hint
    is_of_text = rules.texts and hint in (int, float, bool)

    def read_plain(value: Any) -> Any:
        if type(value) is hint:
            return value
        if is_of_text and isinstance(value, str):
            value = _of_text(value, hint)
        if hint is datetime.date and isinstance(value, str):
            with contextlib.suppress(ValueError):
                return hint.fromisoformat(value)
        if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
            raise _misfit(_words(hint, rules), value)
        return float(value) if rules.made and hint is float else value

    return read_plain


def _choice(hint: Any, rules: _Rules) -> _Reader:
    choices = {one: one for one in get_args(hint)} or {one.value: one for one in hint}

    def read_choice(value: Any) -> Any:
        if isinstance(value, (bool, list, dict)) or value not in choices:
            raise _misfit(_words(hint, rules), value)
        return choices[value]

    return read_choice


def _mapping(inner: tuple[Any, ...], rules: _Rules) -> _Reader:
    of_keys = rules if rules == _MADE else rules._replace(texts=True)  # a key of JSON is a text
    read_key, read_value = _reader(inner[0] if rules.made else Any, of_keys), _reader(inner[1], rules)

    def read_mapping(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _misfit(rules.mapping, value)
        made, key = {}, ""
        try:
            for key, one in value.items():
                made[read_key(key)] = read_value(one)
        except _Misfit as problem:
            raise problem.below(f": {key}") from None
        return made

    return read_mapping


def _list(origin: Any, inner: tuple[Any, ...], rules: _Rules) -> _Reader:
    is_fixed = origin is tuple and inner[-1] is not Ellipsis
    readers = [_reader(one, rules) for one in inner if one is not Ellipsis]
    read_first = readers[0]
    make = origin if origin in (list, set, frozenset) else tuple
    wanted = f"a list of {len(readers)}" if is_fixed else "a list"

    def read_list(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            if not rules.made or isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
                raise _misfit(wanted, value)
            value = tuple(value)
        if is_fixed and len(value) != len(readers):
            raise _misfit(wanted, value)
        try:
            if is_fixed:
                return make([read_one(one) for read_one, one in zip(readers, value, strict=True)])
            return make([read_first(one) for one in value])
        except _Misfit as problem:
            raise problem.below(f"[{_place(readers if is_fixed else itertools.repeat(read_first), value)}]") from None

    return read_list


def _place(readers: Iterable[_Reader], values: Iterable[Any]) -> int:
    """Which of these values does not fit."""
    for number, (read_one, one) in enumerate(zip(readers, values, strict=False)):
        try:
            read_one(one)
        except _Misfit:
            return number
    return 0


def _either(choices: tuple[Any, ...], rules: _Rules) -> _Reader:
    """The one of several types that a value is meant for: lists go to a list, the rest to what takes it."""
    others = [one for one in choices if one is not NoneType]
    readers = [(one, get_origin(one) in _LISTS, _reader(one, rules)) for one in others]

    if len(others) == 1 and len(choices) == 2:
        read_other = readers[0][2]
        return lambda value: None if value is None else read_other(value)

    def read_either(value: Any) -> Any:
        if value is None and len(others) < len(choices):
            return None
        for one, is_list, read_one in readers:
            if is_list and isinstance(value, (list, tuple)):
                return read_one(value)
            if not is_list and not isinstance(value, (list, tuple)):
                try:
                    return read_one(value)
                except _Misfit:
                    if dataclasses.is_dataclass(one) and isinstance(value, dict):
                        raise
        raise _misfit(" or ".join(_words(one, rules) for one in others), value)

    return read_either


def _annotated_reader(hint: Any, notes: tuple[Any, ...], rules: _Rules) -> _Reader:
    read_plain = _reader(hint, rules)
    before = [note.change for note in notes if isinstance(note, Before)]
    after = [note for note in notes if isinstance(note, (Between, After))]

    if len(before) == 1 and not after:
        change_one = before[0]
        return lambda value: read_plain(change_one(value))

    def read_annotated(value: Any) -> Any:
        for change in before:
            value = change(value)
        value = read_plain(value)
        for note in after:
            if isinstance(note, Between):
                if not note.has(value):
                    raise _misfit(f"{_WORDS[hint]} from {note.least:g} to {note.most:g}", value)
                continue
            try:
                value = note.change(value)
            except ValueError as problem:
                raise _Misfit(str(problem)) from problem
        return value

    return read_annotated


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


def _misfit(expected: str, found: Any) -> _Misfit:
    text = json.dumps(found, default=str, ensure_ascii=False)
    text = text if len(text) <= 60 else text[:57] + "..."
    return _Misfit(f"expected {expected}, found {text}")
