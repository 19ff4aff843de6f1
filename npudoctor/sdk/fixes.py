"""Fixes: what `@fix` makes, its risk, effect and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cached_property
from typing import Any

from npudoctor import injection
from npudoctor.injection import Need
from npudoctor.records import record
from npudoctor.sdk.checks import describe
from npudoctor.steps import Note, Step


class Risk(str, Enum):
    """SAFE: reversible, affects no running job; applied by `--all-safe`. ASK: needs confirmation."""

    SAFE = "safe"
    ASK = "ask"


class Effect(str, Enum):
    """When a fix takes effect."""

    NOW = "now"
    NEW_LOGIN = "new-login"
    REBOOT = "reboot"


@record(frozen=True)
class Parameters:
    """The parameters of a fix. A fix requires its own subclass, a record with a default for each field.

    The fields are text, numbers, flags, and tuples or mappings of these; the runner validates what it is given.
    """


@record(frozen=True, kw_only=True, eq=False)
class Fix:
    """A planner of reversible steps with a stable id. Made by `@fix`; only the runner acts."""

    id: str
    title: str
    why: str
    resolves: tuple[str, ...]
    risk: Risk
    effect: Effect
    root: bool
    function: Callable[..., Iterator[Step | Note]]

    @property
    def mends(self) -> tuple[str, ...]:
        """The name of `resolves` in 0.1."""
        import warnings

        warnings.warn("Fix.mends is called resolves", DeprecationWarning, stacklevel=2)
        return self.resolves

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The facts that it plans from, the host and its parameters among them."""
        return injection.needs_of(self.function)

    @cached_property
    def parameters(self) -> type[Parameters]:
        """The type of its parameters."""
        told = (need.fact for need in self.needs if isinstance(need.fact, type) and issubclass(need.fact, Parameters))
        return next(told, Parameters)

    def __call__(self, *facts: Any, **named: Any) -> Iterator[Step | Note]:
        """Plan: yield the steps, in order."""
        return self.function(*facts, **named)


def fix(
    id: str,
    *,
    resolves: tuple[str, ...] | None = None,
    risk: Risk = Risk.ASK,
    effect: Effect = Effect.NOW,
    root: bool = False,
    mends: tuple[str, ...] | None = None,
) -> Callable[[Callable[..., Iterator[Step | Note]]], Fix]:
    """Make a fix of a generator that reads facts (and the host) and yields steps; it never writes.

    `resolves` are the checks that are run again to verify it; `root` says whether only root can apply it. `mends` is
    the name of `resolves` in 0.1. Raises TypeError without it.
    """
    if mends is not None:
        import warnings  # a built-in fix never pays for it

        warnings.warn(f"{id}: write `resolves` instead of `mends`", DeprecationWarning, stacklevel=2)
    checks = mends if resolves is None else resolves
    if checks is None:
        raise TypeError(f"{id}: @fix requires resolves, the checks that the fix resolves; () for none")

    def make_fix(function: Callable[..., Iterator[Step | Note]]) -> Fix:
        title, why = describe(id, function)
        return Fix(id=id, title=title, why=why, resolves=checks, risk=risk, effect=effect, root=root, function=function)

    return make_fix
