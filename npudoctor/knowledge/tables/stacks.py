"""Frameworks on top of torch_npu and CANN: which releases go together, on which chips; the typed form of stacks.json.

The releases of vllm-ascend are in combinations.json, where a site may already have rows of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property

from npudoctor.knowledge import table
from npudoctor.knowledge.patterns import wheel
from npudoctor.knowledge.tables.combinations import Combinations
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Framework:
    """A framework: `package` is the Python distribution, `brings` those that belong to the same release.

    Where it is not `in_package_index`, its vendor publishes it elsewhere, and no `pip install` of it can be advised.
    `serves_as` are the commands and modules that start a service, whose option --port names where it listens.
    Some jobs do without the parts in `optional`, and where one of the distributions in `instead` is installed, all do.
    """

    name: str
    title: str
    package: str
    brings: tuple[str, ...] = ()
    in_package_index: bool = True
    serves_as: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class FrameworkRelease:
    """One published set of releases; `*` stands for every release of which no other row speaks, `3.12.*` for a train.

    `requires` maps a part (torch, torch_npu, cann, driver, python, or a distribution) to what was published: one
    release (`2.7.1`), several (`0.10.1 or 0.10.1.1`), or a range (`>=3.10, <3.12`).
    """

    framework: str
    release: str
    requires: Mapping[str, str]
    sources: tuple[str, ...] = ()
    note: str | None = None

    def speaks_of(self, version: str) -> bool:
        """Whether the row is of this release: by its name, by its train, or because it is of every release."""
        train = self.release.removesuffix("*")
        return version == self.release or (train != self.release and version.startswith(train))


@record(frozen=True, kw_only=True)
class ChipSupport:
    """Whether a distribution runs on a chip family (by the id of hardware.json); `since` its first release that does.

    `note` is a whole sentence for the reader.
    """

    package: str
    family: str
    supported: bool
    since: str | None = None
    note: str | None = None
    sources: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class Stacks:
    """The whole table. The releases of a framework stand newest first."""

    as_of: str
    frameworks: tuple[Framework, ...]
    releases: tuple[FrameworkRelease, ...]
    chips: tuple[ChipSupport, ...]

    def framework(self, name: str) -> Framework:
        """The framework of this name; raises KeyError for one that is not listed."""
        return self._by_name[name]

    def of(self, framework: str) -> tuple[FrameworkRelease, ...]:
        """The releases of a framework, newest first."""
        rows = (release for release in self.releases if release.framework == framework)
        return tuple(sorted(rows, key=lambda row: _order(row.release), reverse=True))

    def release(self, framework: str, version: str) -> FrameworkRelease | None:
        """The row of this release, else of its train, else of every release; None where no table speaks of it."""
        rows = [row for row in self.of(framework) if row.speaks_of(wheel(version))]
        return max(rows, key=lambda row: (row.release == wheel(version), len(row.release)), default=None)

    def chip(self, package: str, family: str) -> ChipSupport | None:
        """What is known of a distribution on a chip family."""
        return next((row for row in self.chips if (row.package, row.family) == (package, family)), None)

    @cached_property
    def _by_name(self) -> Mapping[str, Framework]:
        return {framework.name: framework for framework in self.frameworks}


def _order(release: str) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """A key that sorts releases, oldest first: numbers, then candidates before what they lead to, then post releases.

    `*` is the oldest, `3.12.*` the newest of its train.
    """
    found = re.match(r"(?P<numbers>\d+(?:\.\d+)*)(?P<train>\.\*)?(?P<stage>.*)", release)
    if found is None:
        return ((), 0, ())
    stage = found["stage"].strip(".-_")
    rank = 1 if not stage else 2 if stage.startswith("post") else 0
    numbers = (*map(int, found["numbers"].split(".")), *((sys.maxsize,) if found["train"] else ()))
    return (numbers, rank, tuple(map(int, re.findall(r"\d+", stage))))


def load(combinations: Combinations) -> Stacks:
    """Read stacks.json."""
    data = table.read("stacks")
    return table.record_of(Stacks, data, releases=[*_of_vllm_ascend(combinations), *data["releases"]])


def _of_vllm_ascend(combinations: Combinations) -> Iterator[FrameworkRelease]:
    for stack in combinations.stacks:
        requires = {
            "vllm": " or ".join(map(wheel, stack.vllm.split("/"))),
            "torch": stack.torch,
            "torch_npu": stack.torch_npu,
            "triton-ascend": stack.triton_ascend,
            "cann": stack.cann,
            "python": stack.python,
        }
        yield FrameworkRelease(
            framework="vllm-ascend",
            release=wheel(stack.vllm_ascend),
            requires={part: version for part, version in requires.items() if version},
            sources=(combinations.sources["stacks"],),
        )
