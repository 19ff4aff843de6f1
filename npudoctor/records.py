"""`dataclass` as the standard library has it, made without generating code, because a check starts fast.

Python compiles six functions for every frozen dataclass, half a millisecond each time a process starts; with some two
hundred kinds of facts and rows that was a third of a run. Here all records share one `__init__`, `__eq__`, `__hash__`
and `__repr__`. `dataclasses.fields`, `asdict`, `replace` and `is_dataclass` work as ever; type checkers see the
original. Records are always frozen.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    from dataclasses import field, replace

    def dataclass(cls=None, *, frozen=True, slots=False, kw_only=False, eq=True):
        """Make a record of a class; the arguments are those of dataclasses.dataclass, frozen or not."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)
        shared = {"__init__": _init, "__repr__": _repr, "__setattr__": _refuse, "__delattr__": _refuse}
        shared["__reduce__"] = _reduce
        if eq:
            shared |= {"__eq__": _eq, "__hash__": _hash}
        for name, function in shared.items():
            if name not in cls.__dict__:
                setattr(cls, name, function)
        cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
        fields = dataclasses.fields(cls)
        cls.__record__ = tuple(
            (one.name, one.default if one.default is not dataclasses.MISSING else one.default_factory, one.default)
            for one in fields
        )
        cls.__positional__ = tuple(one.name for one in fields if not one.kw_only)
        return cls


def _init(self: Any, *args: Any, **named: Any) -> None:
    put = object.__setattr__
    if args:
        positional = self.__positional__
        if len(args) > len(positional):
            raise TypeError(f"{type(self).__name__} takes {len(positional)} positional arguments, {len(args)} given")
        for name, value in zip(positional, args, strict=False):
            if name in named:
                raise TypeError(f"{type(self).__name__} got {name!r} twice")
            named[name] = value
    for name, otherwise, default in self.__record__:
        if name in named:
            put(self, name, named.pop(name))
        elif otherwise is dataclasses.MISSING:
            raise TypeError(f"{type(self).__name__} lacks {name!r}")
        else:
            put(self, name, otherwise if default is not dataclasses.MISSING else otherwise())
    if named:
        raise TypeError(f"{type(self).__name__} has no {next(iter(named))!r}")


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name, _, _ in self.__record__])


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, _, _ in self.__record__)
    return f"{type(self).__qualname__}({shown})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return _remade, (type(self), *_values(self))


def _remade(cls: Any, *values: Any) -> Any:
    made = object.__new__(cls)
    for (name, _, _), value in zip(cls.__record__, values, strict=True):
        object.__setattr__(made, name, value)
    return made


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {type(self).__name__}.{name}")
