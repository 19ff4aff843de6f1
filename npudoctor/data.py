"""Values of JSON or TOML into records by their annotations, and records into JSON: the one way for both.

    settings = data.read(Settings, tomllib.loads(text))   # raises InvalidData: "limit_s: expected a number, found 'x'"
    data.plain(settings)                                  # what json.dumps takes

A field may be of any of these types, and of unions of them: str, int, float, bool, None, Any, Literal, an Enum, a date,
a tuple, a list, a mapping, and another record or standard dataclass. A `Rule` beside a type (`Annotated[float,
at_least(0)]`) judges or changes a value. A list becomes a tuple where a tuple is expected, a whole number does for a
number. In data, a field has its name without a trailing underscore: `schema_` is `schema`.

A `Model` is a record whose values are judged in the same way when it is made in code. An unknown field is refused; only
a model that is read ignores it, because a later version may have written it, unless it is made with `strict=True`.
pydantic did this before: its import alone took as long as a third of a check.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from npudoctor.records import field as field
from npudoctor.records import record

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:
    dataclass_transform = lambda **_: lambda of: of  # noqa: E731 - a part of typing since Python 3.11


T = TypeVar("T")
Read = Callable[[Any], Any]

_WORDS: Mapping[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class InvalidData(ValueError):
    """Data that is not what a record requires; the text is one line: where, what was expected, what was found.

    `path` holds the keys and places that lead to the mistake, `reason` what is wrong there.
    """

    def __init__(self, reason: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.path = reason, path

    @property
    def where(self) -> str:
        """The path as text: `silence[0]: until`."""
        return "".join(f"[{one}]" if isinstance(one, int) else f": {one}" for one in self.path).removeprefix(": ")

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.path else self.reason


def expected(what: str, found: Any) -> InvalidData:
    """The mistake of a value that is not what was expected."""
    try:
        text = repr(found)
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists in lists in lists
        text = "a value that is too long"
    return InvalidData(f"expected {what}, found {text if len(text) <= 60 else text[:57] + '...'}")


# Rules


@record(frozen=True)
class Rule:
    """`before` changes a value before its type is judged; `after` judges it then, may change it, and raises ValueError
    with what was expected; `written` changes what is written as JSON."""

    before: Callable[[Any], Any] | None = None
    after: Callable[[Any], Any] | None = None
    written: Callable[[Any], Any] | None = None


UNWRITTEN = Rule()
"""A field that is not part of the data."""


def at_least(least: float, most: float = math.inf) -> Rule:
    """A finite number that is not smaller, and not greater than `most`."""
    return Rule(after=functools.partial(_between, least, most, f"of at least {least:g}"))


def above(least: float, most: float = math.inf) -> Rule:
    """A finite number that is greater, but not greater than `most`."""
    return Rule(after=functools.partial(_between, math.nextafter(least, math.inf), most, f"above {least:g}"))


def _between(least: float, most: float, words: str, value: float) -> float:
    if least <= value <= most and value != math.inf:
        return value
    raise expected(f"a number {words}" + ("" if most == math.inf else f" and at most {most:g}"), value)


# Reading


def read(kind: type[T], value: Any) -> T:
    """A record from data; raises InvalidData with the first mistake."""
    hint: Any = kind
    made: T = _reader(hint)(value)
    return made


def read_json(kind: type[T], text: str | bytes | bytearray) -> T:
    """A record from JSON; raises InvalidData."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidData(f"not valid JSON: {problem}") from problem
    return read(kind, value)


@functools.cache
def _hints_of(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in dataclasses.fields(kind)}


def hints_of(kind: Any) -> dict[str, Any]:
    """The types of the fields of a record."""
    return _hints_of(kind)


@functools.cache
def _reader(hint: Any) -> Read:
    """What makes a value of this type; it raises InvalidData."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return functools.partial(_by_rules, _reader(inner[0]), [one for one in inner[1:] if isinstance(one, Rule)])
    if origin in (Union, UnionType):
        return functools.partial(_one_of, hint, [(one, _reader(one)) for one in inner])
    if origin in (tuple, list):
        return functools.partial(_listed, hint, origin, [_reader(one) for one in inner if one is not Ellipsis])
    if hint is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        key, one = map(_reader, inner or (Any, Any))
        return functools.partial(_mapped, key, one)
    if dataclasses.is_dataclass(hint):
        return functools.partial(_record_of, hint)
    return functools.partial(_single, hint)


def _single(hint: Any, value: Any) -> Any:
    """A value without parts."""
    if hint is Any or hint is object:
        return value
    if get_origin(hint) is Literal:
        fits = any(value == one and type(value) is type(one) for one in get_args(hint))
    elif hint is float:
        fits = isinstance(value, float) or (type(value) is int and abs(value) <= sys.float_info.max)
    elif hint is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif issubclass(hint, Enum) and not isinstance(value, hint):
        try:
            return hint(value)
        except ValueError:
            fits = False
    elif hint is datetime.date and isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            fits = False
    else:
        fits = isinstance(value, hint)
    if not fits:
        raise expected(_words(hint), value)
    return value


def _by_rules(inner: Read, rules: list[Rule], value: Any) -> Any:
    for rule in rules:
        value = rule.before(value) if rule.before else value
    value = inner(value)
    for rule in rules:
        try:
            value = rule.after(value) if rule.after else value
        except InvalidData:
            raise
        except ValueError as problem:
            raise InvalidData(f"{problem}, found {value!r}") from problem
    return value


def _one_of(hint: Any, choices: list[tuple[Any, Read]], value: Any) -> Any:
    """The first type that takes a value; where none does, the mistake of the one that was meant, else all of them."""
    deepest = InvalidData("")
    for _, one in choices:
        try:
            return one(value)
        except InvalidData as problem:
            deepest = max(deepest, problem, key=lambda one: len(one.path))
    others = [one for kind, one in choices if kind is not type(None)]
    if not deepest.path and len(others) == 1:
        others[0](value)
    raise deepest if deepest.path else expected(_words(hint), value)


def _listed(hint: Any, kind: type, readers: list[Read], value: Any) -> Any:
    variable = kind is list or get_args(hint)[-1] is Ellipsis
    if not isinstance(value, (list, tuple)) or not (variable or len(value) == len(readers)):
        raise expected(_words(hint), value)
    return kind([_at(number, readers[0 if variable else number], one) for number, one in enumerate(value)])


def _mapped(key: Read, one: Read, value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise expected("a table", value)
    return {_at(str(name), key, name): _at(str(name), one, inner) for name, inner in value.items()}


def _at(place: str | int, reader: Read, value: Any) -> Any:
    try:
        return reader(value)
    except InvalidData as problem:
        raise InvalidData(problem.reason, (place, *problem.path)) from None


def _record_of(kind: Any, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise expected("a table", value)
    names = {key_of(name): name for name in hints_of(kind)}
    for key in value:
        if key not in names and not getattr(kind, "ignores_unknown", False):
            raise InvalidData(f"no such key{_meant(str(key), names)}", (str(key),))
    values = _completed(kind, {name: value[key] for key, name in names.items() if key in value}, data=True)
    if not issubclass(kind, Model):
        return kind(**values)
    made = object.__new__(kind)
    vars(made).update(values)
    return made


class _Field(NamedTuple):
    name: str
    key: str
    read: Read
    default: Any
    factory: Any


@functools.cache
def _fields(kind: Any) -> list[_Field]:
    hints = hints_of(kind)
    return [
        _Field(one.name, key_of(one.name), _reader(hints[one.name]), one.default, one.default_factory)
        for one in dataclasses.fields(kind)
    ]


def _completed(kind: Any, given: Mapping[str, Any], *, data: bool) -> dict[str, Any]:
    """The values of all fields, read from these; raises InvalidData for one that is missing."""
    values = {}
    for name, key, reader, default, factory in _fields(kind):
        if name in given:
            try:
                values[name] = reader(given[name])
            except InvalidData as problem:
                place = key if data else f"{kind.__name__}.{name}"
                raise InvalidData(problem.reason, (place, *problem.path)) from None
        elif factory is not dataclasses.MISSING:
            values[name] = factory()
        elif default is not dataclasses.MISSING:
            values[name] = default
        elif data:
            raise InvalidData("required key missing", (key,))
        else:
            raise TypeError(f"{kind.__name__} requires {name!r}")
    return values


def key_of(name: str) -> str:
    """What a field is called in data."""
    return name.removesuffix("_")


def _meant(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return (f"; did you mean {near[0]}?" if near else "") + f" (expected one of {', '.join(sorted(known)) or 'none'})"


def _words(hint: Any) -> str:
    """What a type takes."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _words(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(one) for one in inner if one is not type(None)))
    if origin is Literal:
        return _choice(inner)
    if origin in (tuple, list):
        return "a list" if origin is list or inner[-1] is Ellipsis else f"a list of {len(inner)}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice([one.value for one in hint])
    if hint is datetime.date:
        return "a date such as 2026-12-31"
    return _WORDS.get(hint, "nothing" if hint in (None, type(None)) else "a table")


def _choice(values: Sequence[Any]) -> str:
    return "one of " + ", ".join(map(repr, values))


# Records that judge their values


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Model:
    """A frozen record with named fields whose values are judged, also in code: a mistake in a check is found."""

    ignores_unknown: ClassVar[bool] = True

    def __init_subclass__(cls, *, strict: bool | None = None) -> None:
        record(frozen=True, kw_only=True)(cls)
        cls.__init__ = _init  # type: ignore[assignment]
        if strict is not None:
            cls.ignores_unknown = not strict


def _init(self: Model, **given: Any) -> None:
    known = hints_of(type(self))
    for name in given:
        if name not in known:
            raise TypeError(f"{type(self).__name__} has no field {name!r}")
    vars(self).update(_completed(type(self), given, data=False))


# Writing


def plain(value: Any, *, nulls: bool = True) -> Any:
    """A value as JSON has it: records become dictionaries; a number that JSON lacks (NaN, infinity) becomes None.

    Without `nulls`, fields that are None are left out.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (str, int, float)):
        return None if isinstance(value, float) and not math.isfinite(value) else value
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(one, nulls=nulls) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, nulls=nulls) for one in value]
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        return {
            key: plain(written(one) if written else one, nulls=nulls)
            for name, key, written in written_fields(kind)
            if (one := getattr(value, name)) is not None or nulls
        }
    return str(value)


def to_json(value: Any, *, indent: int | None = None, nulls: bool = True) -> str:
    """A value as JSON, compact without an indent."""
    separators = (",", ":") if indent is None else None
    return json.dumps(plain(value, nulls=nulls), ensure_ascii=False, indent=indent, separators=separators)


@functools.cache
def written_fields(kind: Any) -> list[tuple[str, str, Callable[[Any], Any] | None]]:
    """The fields that are data: name, key, and what changes the value."""
    found = []
    for one in dataclasses.fields(kind):
        rules = _rules(hints_of(kind)[one.name]) if issubclass(kind, Model) else []
        if UNWRITTEN not in rules:
            found.append((one.name, key_of(one.name), next((rule.written for rule in rules if rule.written), None)))
    return found


def _rules(hint: Any) -> list[Rule]:
    return [one for one in get_args(hint)[1:] if isinstance(one, Rule)] if get_origin(hint) is Annotated else []
