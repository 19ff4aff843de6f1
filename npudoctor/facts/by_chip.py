"""What each chip, or its network port, answers when it is asked by itself: one record for the pages of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from npudoctor.records import field, record
from npudoctor.sdk import Because, Completed, Unavailable

Page = TypeVar("Page")
Place = TypeVar("Place", str, int)


@record(frozen=True)
class PerChip(Generic[Page]):
    """Pages by the subject that findings name: `npu:3`, `npu:3/chip:1`, of a page about the whole NPU `npu:3`.

    `failed` says in a clause why others have none, `why` is the most severe of these reasons with its kind. `sources`
    names the pages that do not come from npu-smi: `dcmi` is the driver's library.
    """

    by_subject: Mapping[str, Page]
    failed: Mapping[str, str] = field(default_factory=dict)
    why: Unavailable | None = field(default=None, compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)


@record(frozen=True)
class PerPort(Generic[Page]):
    """Pages by the number of the device that has the port; `failed`, `why` and `sources` as in `PerChip`."""

    by_device: Mapping[int, Page]
    failed: Mapping[int, str] = field(default_factory=dict)
    why: Unavailable | None = field(default=None, compare=False)
    sources: Mapping[int, str] = field(default_factory=dict, compare=False)


def collect(
    places: Iterable[Place],
    answers: Iterable[Completed | Unavailable],
    read: Callable[[Place, Completed], Page],
) -> tuple[dict[Place, Page], dict[Place, str], Unavailable | None]:
    """What is read of each answer, why others gave nothing, and the worst reason; raised where no chip answered."""
    found: dict[Place, Page] = {}
    failed: dict[Place, str] = {}
    first: Unavailable | None = None
    for place, answer in zip(places, answers, strict=True):
        try:
            if isinstance(answer, Unavailable):
                raise answer
            found[place] = read(place, answer)
        except Unavailable as why:
            failed[place] = why.reason
            first = graver_reason(first, why)
    if first is not None and not found:
        raise first
    return found, failed, first


def graver_reason(one: Unavailable | None, other: Unavailable | None) -> Unavailable | None:
    """The reason that counts of two: the first, but a tool that failed or hung before what could not be asked."""
    known = [why for why in (one, other) if why is not None]
    return next((why for why in known if why.because in (Because.TIMED_OUT, Because.FAILED)), next(iter(known), None))
