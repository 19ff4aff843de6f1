"""`dataclass` as the standard library has it, made without generating code, because a check starts fast.

Python compiles half a dozen functions for every frozen dataclass, half a millisecond each time a process starts; with
some two hundred kinds of facts and rows that was a third of a run. Here all records share one `__init__`, `__eq__`,
`__hash__` and `__repr__`. `dataclasses.fields`, `asdict`, `replace` and `is_dataclass` work as ever; type checkers see
the original.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    from dataclasses import field as field
    from dataclasses import replace as replace

    def dataclass(cls=None, *, frozen=False, slots=False, kw_only=False, eq=True, order=False, repr=True):
        """Make a record of a class; the arguments mean what they mean in dataclasses.dataclass."""
        if cls is None:
            return lambda cls: dataclass(
                cls, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq, order=order, repr=repr
            )
        shared = _ALWAYS | (_REPR if repr else {}) | (_ORDER if order else {}) | (_FROZEN if frozen else {})
        if eq:
            shared |= _EQUAL | (_HASH if frozen else {"__hash__": None})
        own = _own_fields(cls, kw_only)
        fields = {**_inherited(cls), **own}
        contents = {name: value for name, value in cls.__dict__.items() if name not in own}
        contents = {**shared, **contents, "__dataclass_fields__": fields, "__match_args__": _positional(fields)}
        contents["__positional__"] = contents["__match_args__"]
        contents["__names__"] = frozenset(fields)
        contents["__record__"] = tuple((one.name, one.default, one.default_factory) for one in fields.values())
        contents["__constants__"] = {one.name: one.default for one in fields.values() if one.default is not MISSING}
        contents["__compared__"] = tuple(one.name for one in fields.values() if one.compare)
        contents["__slotted__"] = slots or any(getattr(base, "__slotted__", False) for base in cls.__mro__[1:])
        if slots:
            contents["__slots__"] = tuple(own)
        for name in ("__dict__", "__weakref__"):
            contents.pop(name, None)
        made = type(cls)(cls.__name__, cls.__bases__, contents)
        made.__qualname__ = cls.__qualname__
        return made


_put = object.__setattr__


def _own_fields(cls: Any, kw_only: bool) -> dict[str, Any]:
    found = {}
    for name, hint in vars(cls).get("__annotations__", {}).items():
        if "ClassVar" in str(hint):
            continue
        default = cls.__dict__.get(name, MISSING)
        one: Any = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        one.name, one.type, one._field_type = name, hint, dataclasses._FIELD  # type: ignore[attr-defined]
        one.kw_only = kw_only if one.kw_only is MISSING else one.kw_only
        found[name] = one
    return found


def _inherited(cls: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= getattr(base, "__dataclass_fields__", {})
    return found


def _positional(fields: dict[str, Any]) -> tuple[str, ...]:
    return tuple(one.name for one in fields.values() if not one.kw_only)


def _init(self: Any, *args: Any, **named: Any) -> None:
    if args:
        positional = self.__positional__
        if len(args) > len(positional):
            raise TypeError(f"{type(self).__name__} takes {len(positional)} positional arguments, {len(args)} given")
        for name, value in zip(positional, args, strict=False):
            if name in named:
                raise TypeError(f"{type(self).__name__} got {name!r} twice")
            named[name] = value
    if len(named) < len(self.__record__):
        named = {**self.__constants__, **named}
    if named.keys() != self.__names__:
        _complete(self, named)
    if self.__slotted__:
        for name, value in named.items():
            _put(self, name, value)
    else:
        self.__dict__.update(named)


def _complete(self: Any, named: dict[str, Any]) -> None:
    """Add what a factory makes, and raise TypeError for what is missing or unknown."""
    for name, _, factory in self.__record__:
        if name not in named:
            if factory is MISSING:
                raise TypeError(f"{type(self).__name__} lacks {name!r}")
            named[name] = factory()
    for name in named:
        if name not in self.__names__:
            raise TypeError(f"{type(self).__name__} has no {name!r}")


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__compared__])


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, object], Any]:
    def method(self: Any, other: object) -> Any:
        return compare(_compared(self), _compared(other)) if other.__class__ is self.__class__ else NotImplemented

    return method


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, _, _ in self.__record__)
    return f"{type(self).__qualname__}({shown})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return _remade, (type(self), *(getattr(self, name) for name, _, _ in self.__record__))


def _remade(cls: Any, *values: Any) -> Any:
    made = object.__new__(cls)
    for (name, _, _), value in zip(cls.__record__, values, strict=True):
        object.__setattr__(made, name, value)
    return made


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {type(self).__name__}.{name}")


_ALWAYS = {"__init__": _init, "__reduce__": _reduce}
_FROZEN = {"__setattr__": _refuse, "__delattr__": _refuse}
_REPR = {"__repr__": _repr}
_EQUAL = {"__eq__": _comparison(operator.eq)}
_HASH = {"__hash__": _hash}
_ORDER = {f"__{name}__": _comparison(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")}
