"""The driver's library libdcmi.so: the typed form of dcmi.json, which npudoctor/host/live/library.py reads too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.knowledge import table
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Call:
    """A question: the symbol of each family that answers it, and its parameters.

    `older` is the symbol of libraries that lack `v1`; `v2_parameters` those of `v2` where they differ; `after` is the
    question without whose answer it does not arise, `not_of` how names of chips begin that lack it. A parameter is
    `chip` or `npu` (its ids), a number, or an object: `out` and `sized` a buffer, `count` how many of it were written,
    `known` and `each` earlier answers, `two` two numbers in one argument.
    """

    v1: str | None = None
    v2: str | None = None
    older: str | None = None
    after: str | None = None
    not_of: tuple[str, ...] = ()
    parameters: tuple[Any, ...]
    v2_parameters: tuple[Any, ...] | None = None


@record(frozen=True, kw_only=True)
class Struct:
    """A structure: its name in the header, size in bytes, and fields as name, kind, offset and count.

    `fill` is the value of each byte before the call, None for 0.
    """

    of: str
    size: int
    fields: tuple[Any, ...]
    fill: int | None = None


@record(frozen=True, kw_only=True)
class Dcmi:
    """What is bound of it: no call that sets, resets, creates or subscribes. `meanings` are those of return codes."""

    as_of: str
    sources: tuple[str, ...]
    calls: Mapping[str, Call]
    structs: Mapping[str, Struct]
    of_chip: tuple[str, ...]
    pages_of_chip: tuple[str, ...]
    meanings: Mapping[int, str]

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every function that may be called, sorted."""
        named = {symbol for call in self.calls.values() for symbol in (call.v1, call.v2, call.older) if symbol}
        return tuple(sorted(named))


def load() -> Dcmi:
    """Read dcmi.json as it is written: a site has no rows of its own here."""
    data = table.ours("dcmi")
    return table.record_of(Dcmi, data, meanings={row["value"]: row["means"] for row in data["return_codes"]})
