"""Which facts a check, a probe or a fix takes: read from the types of its parameters."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin, get_type_hints

from npudoctor.records import record


@record(frozen=True)
class Need:
    """One fact that a check or a probe takes. `fact` is a class, or a generic one with its page: `PerChip[Ecc]`.

    `optional`: None stands for one that is unknown (`Memory | None`); `with_reason`: the Unavailable that says why and
    of which kind it is (`Memory | Unavailable`).
    """

    parameter: str
    fact: type
    optional: bool
    with_reason: bool = False


def is_fact(hint: object) -> bool:
    """Whether an annotation names one fact."""
    return isinstance(get_origin(hint) or hint, type)


def is_of(value: object, fact: type) -> bool:
    """Whether a value is this fact, and not the reason why it is unknown."""
    return isinstance(value, get_origin(fact) or fact)


def needs_of(function: Callable[..., Any]) -> tuple[Need, ...]:
    """What it takes, in order; raises TypeError or NameError for annotations that name no fact."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return tuple(_need(name, hint_of(function, name)) for name in names)


def hint_of(function: Callable[..., Any], name: str) -> Any:
    """The annotation of a parameter (or of `return`) as an object; plain names are looked up, the rest is evaluated."""
    written = function.__annotations__.get(name)
    if isinstance(written, str):
        known = function.__globals__
        fact, _, rest = written.partition(" | ")
        if fact in known and (rest in ("", "None") or rest in known):
            return known[fact] | known.get(rest) if rest else known[fact]
        return get_type_hints(function).get(name)
    return written


def _need(name: str, hint: Any) -> Need:
    if get_origin(hint) in (Union, types.UnionType):
        reasons = [choice for choice in get_args(hint) if isinstance(choice, type) and issubclass(choice, Exception)]
        facts = [choice for choice in get_args(hint) if choice not in (type(None), *reasons)]
        if len(facts) == 1 and is_fact(facts[0]):
            return Need(name, facts[0], True, bool(reasons))
    elif is_fact(hint):
        return Need(name, hint, False)
    raise TypeError(f"parameter {name}: {hint!r} is not the type of a fact")
