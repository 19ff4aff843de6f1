"""Numbers in the text of a message that decide between causes: the memory of a device when an allocation failed.

torch_npu prints `T total capacity; … F free; R reserved in total by PyTorch`: what others hold is T - F - R. Later
releases print what each process holds. vLLM prints free and total memory before it allocates any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from npudoctor.explain.patterns import Found, Kind
from npudoctor.explain.sightings import Sighting
from npudoctor.records import record, replace

FULL_DEVICE = "P017"
"""The known issue "memory of the NPU held by others"."""

OTHERS_GIB = 5.0
"""Memory held beside the job's own from which other processes are the cause, GiB.

The runtime and HCCL hold 2 to 3 GiB for the job itself: 60.96 - 1.32 - 57.55 = 2.1 (TouchNet#100),
61.27 - 0.005 - 58.39 = 2.9 (sglang#29838).
"""

_GIB = {"b": 2**-30, "k": 2**-20, "m": 2**-10, "g": 1.0, "t": 1024.0}
_NUMBER = re.compile(r"([\d.]{1,20})\s?(bytes|[KMGT]?i?B)")


@record(frozen=True, kw_only=True)
class Memory:
    """Memory of a device in a message, GiB; `wanted` is the size of the allocation, `own` what the job holds."""

    total: float
    free: float
    own: float
    wanted: float | None
    allocated: float | None
    sighting: Sighting

    @property
    def others(self) -> float:
        """What others hold, GiB."""
        return max(self.total - self.free - self.own, 0.0)

    @property
    def is_fragmented(self) -> bool:
        """Whether the memory that the job reserved and does not use would suffice."""
        return self.wanted is not None and self.allocated is not None and self.own - self.allocated >= self.wanted


def memory_of(one: Sighting) -> Memory | None:
    """The figures of a sighting; None where they do not add up to a statement."""
    read = {name: _gib(text) for name, text in one.found.values}
    total, free = read.get("total"), read.get("free")
    if total is None or free is None or free > total:
        return None
    parts = [size for name in ("own", "active", "idle") if (size := read.get(name)) is not None]
    own = sum(parts)  # none of it where a service states what it found on startup
    return Memory(
        total=total, free=free, own=own, wanted=read.get("wanted"), allocated=read.get("allocated"), sighting=one
    )


def are_of(memories: Iterable[Memory], failure: Sighting) -> bool:
    """Whether a failure is one of these: its exception is a sighting of its own, in the same line."""
    return any((one.sighting.file, one.sighting.line) == (failure.file, failure.line) for one in memories)


def weigh(seen: Iterable[Sighting]) -> tuple[list[Sighting], list[Memory]]:
    """The sightings with "memory held by others" as a symptom where the numbers say so, and else without it."""
    sightings = list(seen)
    memories = [memory for one in sightings if one.found.kind is Kind.MEMORY and (memory := memory_of(one))]
    if not memories:
        return sightings, []
    held = {id(memory.sighting) for memory in memories if memory.others > OTHERS_GIB}
    if held:
        return [_with_held_memory(one) if id(one) in held else one for one in sightings], memories
    return [one for one in sightings if not _speaks_of_memory(one)], memories


def _with_held_memory(one: Sighting) -> Sighting:
    return replace(one, found=Found(Kind.SYMPTOM, FULL_DEVICE, one.found.by, one.found.start))


def _speaks_of_memory(one: Sighting) -> bool:
    return one.found.kind in (Kind.SYMPTOM, Kind.HINT) and one.found.what == FULL_DEVICE


def _gib(text: str) -> float | None:
    """A size as printed, in GiB; a number without a unit is in GiB."""
    found = _NUMBER.fullmatch(text.strip())
    number, unit = (found[1], found[2]) if found else (text, "GiB")
    try:
        return float(number) * _GIB[unit[0].lower()]
    except ValueError:
        return None
