"""Probes: what `@probe` makes, each of which obtains one fact."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, overload

from npudoctor import injection
from npudoctor.injection import Need, hint_of, is_fact
from npudoctor.records import record, replace
from npudoctor.sdk.checks import Check


@record(frozen=True, eq=False)
class Probe:
    """Obtains one fact. Made by `@probe`; `provides` is the return type of the function.

    `on_cards`: it opens devices, made by `@probe_on_cards`. `of_the_moment`: it describes this moment or this node
    only, or repeats other facts, so that nodes are not compared by it.
    """

    function: Callable[..., Any]
    provides: type
    on_cards: bool = False
    of_the_moment: bool = False

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The facts that it takes, the host among them."""
        return injection.needs_of(self.function)

    @property
    def name(self) -> str:
        """The name that `npudoctor facts` shows: `npu_smi.info`."""
        module = self.function.__module__
        ours, _, rest = module.partition("npudoctor.facts.")
        room = rest.partition(".")[0] if not ours and rest else module.rpartition(".")[2]
        return f"{room}.{self.function.__name__}"

    def __call__(self, *facts: Any, **named: Any) -> Any:
        """Obtain the fact from a host and other facts."""
        return self.function(*facts, **named)


def needs_of(item: Check | Probe) -> tuple[Need, ...]:
    """Its needs; none for annotations that name no type, which then shows when it is called."""
    try:
        return item.needs
    except (TypeError, NameError):
        return ()


@overload
def probe(function: Callable[..., Any]) -> Probe: ...
@overload
def probe(*, of_the_moment: bool = False) -> Callable[[Callable[..., Any]], Probe]: ...
def probe(function: Callable[..., Any] | None = None, *, of_the_moment: bool = False) -> Any:
    """Make a probe of a function that returns one fact; its return type is what it provides.

    `of_the_moment`: nodes are not compared by this fact, because it differs between equal ones.
    """
    if function is None:
        return lambda function: replace(probe(function), of_the_moment=of_the_moment)
    provides = hint_of(function, "return")
    if not is_fact(provides):
        raise TypeError(f"{function.__module__}.{function.__name__}: annotate what the probe returns")
    return Probe(function, provides)


def probe_on_cards(function: Callable[..., Any]) -> Probe:
    """Make a probe that opens devices: one runs at a time, and none whose checks are blocked by an error."""
    return Probe(function, probe(function).provides, on_cards=True)
