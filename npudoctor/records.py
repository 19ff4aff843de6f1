"""`record`: a small class of named fields, made without generating code, because a check starts fast.

Python compiles half a dozen functions for every frozen dataclass, half a millisecond each time a process starts; with
some three hundred kinds of facts and rows that was a third of a run. All records share one `__init__`, `__eq__`,
`__hash__` and `__repr__`. `dataclasses.fields`, `asdict`, `replace` and `is_dataclass` take records too, and a type
checker sees a dataclass.

A record is less than a dataclass, and says so: `__post_init__`, slots, InitVar, KW_ONLY, a mutable default, a field
without a default behind one with it, and fields with `init=False`, `repr=False` or `hash=` are refused with a
TypeError when the class is made. A plug-in may use the standard library's dataclass wherever npudoctor uses a record.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, NamedTuple

__all__ = ["field", "record", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    from dataclasses import field as field
    from dataclasses import replace as replace

    def record(cls=None, *, frozen=False, kw_only=False, eq=True, order=False, repr=True):
        """Make a record of a class; the arguments mean what they mean in dataclasses.dataclass."""
        if cls is None:
            return lambda cls: record(cls, frozen=frozen, kw_only=kw_only, eq=eq, order=order, repr=repr)
        if hasattr(cls, "__post_init__"):
            raise TypeError(f"{cls.__name__}: a record has no __post_init__")
        shape = _Shape(_kinds_of(cls, kw_only))
        shared = _ALWAYS | (_REPR if repr else {}) | (_ORDER if order else {}) | (_FROZEN if frozen else {})
        if eq:
            shared |= _EQUAL | (_HASH if frozen else {"__hash__": None})
        for name, what in shared.items():
            if name not in cls.__dict__:
                setattr(cls, name, what)
        for name, kind in shape.kinds.items():
            if kind.field is not None and name in cls.__dict__:
                delattr(cls, name)  # it describes the field and is no value
        cls.__shape__ = shape
        cls.__dataclass_fields__ = _Fields(shape)
        cls.__match_args__ = shape.positional()
        return cls


@dataclasses.dataclass(init=False, repr=False, eq=False)  # generates nothing
class _One:
    """Has one field. Without a docstring, dataclasses would write one: 3 ms."""

    field: Any


(_FIELD,) = dataclasses.fields(_One)
_REDUCED: Any = _FIELD.__reduce_ex__(4)  # what pickle keeps of a field: the only public way to all of it


class _Kind(NamedTuple):
    """What a field is. `field` is the object that its class names instead of a default, if it does."""

    hint: Any
    default: Any
    factory: Any
    compare: bool
    kw_only: bool
    field: Any


class _Shape:
    """The fields of a record. What only its instances need is worked out when the first is made."""

    __slots__ = ("compared", "constants", "kinds", "names", "order", "record")

    def __init__(self, kinds: dict[str, _Kind]) -> None:
        self.kinds = kinds
        self.names: frozenset[str] | None = None

    def positional(self) -> tuple[str, ...]:
        """The names of the fields that may be given by their place."""
        return tuple([name for name, kind in self.kinds.items() if not kind.kw_only])

    def get_ready(self) -> None:
        """Work out what instances need."""
        kinds = self.kinds
        self.order = self.positional()
        self.record = tuple([(name, kind.factory) for name, kind in kinds.items()])
        self.constants = {name: kind.default for name, kind in kinds.items() if kind.default is not MISSING}
        self.compared = tuple([name for name, kind in kinds.items() if kind.compare])
        self.names = frozenset(kinds)  # last: another thread looks whether it is there


class _Fields:
    """What `dataclasses.fields` and its kin look for, made when one of them asks."""

    __slots__ = ("made", "shape")

    def __init__(self, shape: _Shape) -> None:
        self.shape = shape
        self.made: dict[str, Any] | None = None

    def __get__(self, instance: object, owner: Any = None) -> dict[str, Any]:
        if self.made is None:
            self.made = {name: _as_field(name, kind) for name, kind in self.shape.kinds.items()}
        return self.made


def _kinds_of(cls: Any, kw_only: bool) -> dict[str, _Kind]:
    """The fields of a class and of those that it inherits from."""
    found: dict[str, _Kind] = {}
    for base in reversed(cls.__mro__[1:]):
        if shape := base.__dict__.get("__shape__"):
            found |= shape.kinds
    own = cls.__dict__
    for name, hint in own.get("__annotations__", {}).items():
        if "ClassVar" in str(hint):
            continue
        said = own.get(name, MISSING)
        if "InitVar" in str(hint) or "KW_ONLY" in str(hint):
            raise TypeError(f"{cls.__name__}.{name}: a record has no InitVar and no KW_ONLY")
        if isinstance(said, dataclasses.Field):
            if not (said.init and said.repr) or said.hash is not None:
                raise TypeError(
                    f"{cls.__name__}.{name}: a record's field has a default, a default_factory, compare or metadata"
                )
            by_name = kw_only if said.kw_only is MISSING else said.kw_only
            found[name] = _Kind(hint, said.default, said.default_factory, said.compare, by_name, said)
        else:
            if said.__class__.__hash__ is None:
                raise TypeError(f"{cls.__name__}.{name}: a mutable default needs field(default_factory=...)")
            found[name] = _Kind(hint, said, MISSING, True, kw_only, None)
    optional = ""
    for name, kind in found.items():
        if kind.default is not MISSING or kind.factory is not MISSING:
            optional = optional or ("" if kind.kw_only else name)
        elif optional and not kind.kw_only:
            raise TypeError(f"{cls.__name__}.{name} has no default and is behind {optional}, which has one")
    return found


def _as_field(name: str, kind: _Kind) -> Any:
    one: Any = object.__new__(dataclasses.Field)  # a copy of one that dataclasses has prepared
    for key, value in _REDUCED[2][1].items():
        setattr(one, key, value)
    one.name, one.type, one.compare, one.kw_only = name, kind.hint, kind.compare, kind.kw_only
    one.default, one.default_factory = kind.default, kind.factory
    one.metadata = kind.field.metadata if kind.field else one.metadata
    return one


def _init(self: Any, *args: Any, **named: Any) -> None:
    shape = self.__shape__
    if shape.names is None:
        shape.get_ready()
    if args:
        positional = shape.order
        if len(args) > len(positional):
            raise TypeError(f"{type(self).__name__} takes {len(positional)} positional arguments, {len(args)} given")
        for name, value in zip(positional, args, strict=False):
            if name in named:
                raise TypeError(f"{type(self).__name__} got {name!r} twice")
            named[name] = value
    if len(named) < len(shape.record):
        named = {**shape.constants, **named}
    if named.keys() != shape.names:
        _complete(self, shape, named)
    self.__dict__.update(named)


def _complete(self: Any, shape: _Shape, named: dict[str, Any]) -> None:
    """Add what a factory makes, and raise TypeError for what is missing or unknown."""
    for name, factory in shape.record:
        if name not in named:
            if factory is MISSING:
                raise TypeError(f"{type(self).__name__} lacks {name!r}")
            named[name] = factory()
    for name in named:
        if name not in shape.kinds:
            raise TypeError(f"{type(self).__name__} has no {name!r}")


def _compared_values(self: Any) -> tuple[Any, ...]:
    if self.__shape__.names is None:  # the first of its kind was made by pydantic, without __init__
        self.__shape__.get_ready()
    return tuple([getattr(self, name) for name in self.__shape__.compared])


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, object], Any]:
    def method(self: Any, other: object) -> Any:
        return (
            compare(_compared_values(self), _compared_values(other))
            if other.__class__ is self.__class__
            else NotImplemented
        )

    return method


def _hash(self: Any) -> int:
    return hash(_compared_values(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__shape__.kinds)
    return f"{type(self).__qualname__}({shown})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return _remake, (type(self), *(getattr(self, name) for name in self.__shape__.kinds))


def _remake(cls: Any, *values: Any) -> Any:
    made = object.__new__(cls)
    cls.__shape__.get_ready()
    made.__dict__.update(zip(cls.__shape__.kinds, values, strict=True))
    return made


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {type(self).__name__}.{name}")


_ALWAYS = {"__init__": _init, "__reduce__": _reduce}
_FROZEN = {"__setattr__": _refuse, "__delattr__": _refuse}
_REPR = {"__repr__": _repr}
_EQUAL = {"__eq__": _comparison(operator.eq)}
_HASH = {"__hash__": _hash}
_ORDER = {f"__{name}__": _comparison(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")}
