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
from npudoctor.records import record, replace


@record(frozen=True, kw_only=True)
class Framework:
    """A framework: `package` is the Python distribution, `brings` those that belong to the same release, `also_called`
    other names that people use.

    Where it is not `in_package_index`, or a release is older than `in_package_index_since`, its vendor publishes it
    elsewhere, and no `pip install` of it can be advised.
    Some jobs do without the parts in `optional`, and where one of the distributions in `instead` is installed, all do.
    """

    name: str
    title: str
    also_called: tuple[str, ...] = ()
    package: str
    brings: tuple[str, ...] = ()
    in_package_index: bool = True
    in_package_index_since: str | None = None
    optional: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which a person may ask for it."""
        return (self.name, self.title, self.package, *self.also_called)

    def has_in_package_index(self, release: str) -> bool:
        """Whether `pip install` finds this release."""
        since = self.in_package_index_since
        return self.in_package_index and (since is None or _order(release) >= _order(since))


class UnknownFramework(ValueError):
    """A name that no framework of the table has, with those that may be meant and those that are known."""

    def __init__(self, name: str, known: tuple[Framework, ...]) -> None:
        import difflib  # costs a millisecond that only a mistake should pay

        wanted = _letters(name)
        names = {_letters(each): one.name for one in known for each in (*one.names, *one.brings)}
        inside = [one for each, one in names.items() if len(wanted) > 2 and (wanted in each or each in wanted)]
        near = (*inside, *(names[each] for each in difflib.get_close_matches(wanted, names)))
        meant = f"did you mean {' or '.join(list(dict.fromkeys(near))[:2])}? " if near else ""
        super().__init__(f"unknown framework {name!r}; {meant}known are {', '.join(one.name for one in known)}")


@record(frozen=True, kw_only=True)
class FrameworkRelease:
    """One published set of releases; `*` stands for every release of which no other row speaks, `3.12.*` for a train.

    `requires` maps a part (torch, torch_npu, cann, driver, python, or a distribution) to what was published: one
    release (`2.7.1`), several (`0.10.1 or 0.10.1.1`), or a range (`>=3.10, <3.12`). `also_requires` are the parts in
    which further published sets of the same release differ from it; a part that is null is not required there.
    """

    framework: str
    release: str
    requires: Mapping[str, str]
    also_requires: tuple[Mapping[str, str | None], ...] = ()
    sources: tuple[str, ...] = ()
    note: str | None = None

    def sets(self) -> tuple[FrameworkRelease, ...]:
        """Each published set of this release as a row of its own, the first one first."""
        found = [{**self.requires, **one} for one in self.also_requires]
        needed = [{part: version for part, version in one.items() if version is not None} for one in found]
        return (self, *(replace(self, requires=one, also_requires=()) for one in needed))

    @property
    def is_candidate(self) -> bool:
        """Whether the release is a candidate: 0.26.0rc1."""
        return "rc" in spelling(self.release)

    def speaks_of(self, version: str) -> bool:
        """Whether the row is of this release, in any spelling: by its name, by its train, or by `*`.

        A build from source between two releases (0.9.4.dev0) is of no train.
        """
        here, wanted = spelling(version), spelling(self.release)
        if not wanted.endswith("*"):
            return here == wanted
        train = wanted.rstrip(".*")
        behind = here.removeprefix(train)
        is_of_train = here.startswith(train) and not behind[:1].isdigit()
        return not train or (".dev" not in here and is_of_train)


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

    def find(self, text: str) -> Framework:
        """The framework that a person calls so, in any spelling: LLaMA-Factory, vllm_ascend, a package.

        Raises UnknownFramework.
        """
        for framework in self.frameworks:
            if _letters(text) in map(_letters, framework.names):
                return framework
        raise UnknownFramework(text, self.frameworks)

    def of(self, framework: str) -> tuple[FrameworkRelease, ...]:
        """The releases of a framework, newest first."""
        rows = (release for release in self.releases if release.framework == framework)
        return tuple(sorted(rows, key=lambda row: _order(row.release), reverse=True))

    def release(self, framework: str, version: str) -> FrameworkRelease | None:
        """The row of this release, else of its train, else of every release; None where no table speaks of it."""
        rows = [row for row in self.of(framework) if row.speaks_of(version)]
        return max(rows, key=lambda row: ("*" not in row.release, len(row.release)), default=None)

    def chip(self, package: str, family: str) -> ChipSupport | None:
        """What is known of a distribution on a chip family."""
        return next((row for row in self.chips if (row.package, row.family) == (package, family)), None)

    @cached_property
    def _by_name(self) -> Mapping[str, Framework]:
        return {framework.name: framework for framework in self.frameworks}


def spelling(version: str) -> str:
    """A release as the tables spell it: 2.2rc1 for 2.2.RC1, 0.7.3.post1 for 0.7.3-post1; `3.12.*` as it is."""
    text = re.sub(r"[-_.]?(rc|alpha|beta)[-_.]?(?=\d)", r"\1", wheel(version))
    return re.sub(r"[-_.]?(post|dev)[-_.]?(?=\d)", r".\1", text)


def _letters(name: str) -> str:
    """A name without case and separators: llamafactory for LLaMA-Factory."""
    return re.sub(r"[\W_]+", "", name).lower()


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
    """Read stacks.json; of a release of vllm-ascend that both tables have, the row that a site wrote counts."""
    data = table.read("stacks")
    rows, stacks = data["releases"], list(_of_vllm_ascend(combinations))
    named = {spelling(one.release) for one in stacks}
    both = [row for row in rows if row["framework"] == _IN_COMBINATIONS and spelling(row["release"]) in named]
    if both:
        ours = table.ours("stacks")["releases"]
        rows = [row for row in rows if row not in both or row not in ours]
        by_the_site = {spelling(row["release"]) for row in both if row not in ours}
        stacks = [one for one in stacks if spelling(one.release) not in by_the_site]
    return table.record_of(Stacks, data, releases=[*stacks, *rows])


_IN_COMBINATIONS = "vllm-ascend"


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
            framework=_IN_COMBINATIONS,
            release=wheel(stack.vllm_ascend),
            requires={part: version for part, version in requires.items() if version},
            also_requires=stack.also_requires,
            sources=(combinations.sources["stacks"], *(stack.sources or ())),
        )
