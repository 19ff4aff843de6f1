"""The answers of many nodes as one fact, which the checks across nodes take."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from npudoctor.compare import features
from npudoctor.compare.features import GENERIC, Feature, Node, Values
from npudoctor.findings import Finding, Severity, Status, Verdict
from npudoctor.fleet.digest import Clock, Digest, Event, Identity, Measure
from npudoctor.fleet.outcomes import Outcome
from npudoctor.records import field, record

FEWEST_FOR_A_NORM = 3
"""Below so many nodes that know a value, none of them is the odd one."""

T = TypeVar("T")


@record(frozen=True, kw_only=True)
class Member:
    """A node that answered, as its own checks and the comparison need it.

    `offset` are the bounds of its clock against this machine's, in seconds; None without times of this machine.
    `findings` are those above info that its site has not silenced; `crashes` (check, reason) of checks without result.
    """

    name: str
    node: Node
    product: str
    machine: str
    identity: Identity
    measures: Mapping[str, Measure]
    clock: Clock
    events: tuple[Event, ...]
    tool_version: str
    verdict: Verdict
    exit_code: int
    profile: str
    in_service: bool | None
    environment: str
    findings: tuple[tuple[str, str, Finding], ...] = ()
    crashes: tuple[tuple[str, str], ...] = ()
    offset: tuple[float, float] | None = None

    @property
    def group(self) -> str:
        """What is compared with each other: equal NPUs in equal machines."""
        return f"{self.product} ({self.machine})" if self.machine else self.product

    @property
    def unhealthy(self) -> bool:
        """Whether its own checks found an error."""
        return any(finding.severity is Severity.ERROR for _, _, finding in self.findings)


@record(frozen=True, kw_only=True)
class Fleet:
    """All expected nodes. `names` are in the order of the targets; `baseline` are the site's wanted versions by
    group ("" for every group), `golden` the node that all of its group must equal. `head` is this machine's version."""

    names: tuple[str, ...]
    outcomes: Mapping[str, Outcome]
    members: tuple[Member, ...]
    golden: Member | None = None
    baseline: Mapping[str, Mapping[str, tuple[str, str]]] = field(default_factory=dict)
    allow_missing: int = 0
    head: str = ""

    @property
    def groups(self) -> dict[str, list[Member]]:
        """The members by group, the largest first."""
        found: dict[str, list[Member]] = {}
        for member in self.members:
            found.setdefault(member.group, []).append(member)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    @property
    def missing(self) -> list[Outcome]:
        """The nodes without an answer that no scheduler has taken out."""
        return [one for one in self.outcomes.values() if not one.answered and one.kind != "scheduler"]


class Reader:
    """Makes members of digests; what many nodes have alike is kept once."""

    def __init__(self) -> None:
        self._features: dict[tuple[str, str], Feature] = {}
        self._told: dict[tuple[tuple[str, str, Values], ...], dict[Feature, Values]] = {}
        self._kept: dict[Any, Any] = {}

    def member(self, name: str, digest: Digest, outcome: Outcome) -> Member:
        """The member that a digest describes, under the name by which it was asked."""
        report, identity = digest.report, digest.identity
        if (told := self._told.get(digest.features)) is None:
            told = {self._feature(source, title): self._once(values) for source, title, values in digest.features}
            self._told[digest.features] = told
        known = frozenset() if report.profile == "quick" else frozenset(digest.known)  # quick does not ask everything
        return Member(
            name=name,
            node=Node(
                path=name,
                hostname=identity.hostname or "",
                features=told,
                known=self._once(known),
            ),
            product=self._once(identity.product),
            machine=self._once(report.host.machine or ""),
            identity=identity,
            measures=digest.measures,
            clock=digest.clock,
            events=digest.events,
            tool_version=self._once(digest.tool_version),
            verdict=report.verdict,
            exit_code=digest.exit_code,
            profile=self._once(report.profile),
            in_service=report.in_service,
            environment=self._once(report.environment),
            findings=tuple(
                (self._once(result.check), self._once(result.title), finding)
                for result in report.results
                for finding in result.open_findings
                if finding.severity > Severity.INFO
            ),
            crashes=tuple(
                (result.check, result.reason or "") for result in report.results if result.status is Status.CRASHED
            ),
            offset=_offset(digest.clock, outcome),
        )

    def _feature(self, source: str, title: str) -> Feature:
        key = (source, title)
        if key not in self._features:
            self._features[key] = features.feature_of(source, title)
        return self._features[key]

    def _once(self, value: T) -> T:
        kept: T = self._kept.setdefault(value, value)
        return kept


def _offset(clock: Clock, outcome: Outcome) -> tuple[float, float] | None:
    """The clock of a node against this machine's: its last reading was before the answer came, its first after the
    question left."""
    if not clock.readings or outcome.started is None or outcome.received is None:
        return None
    return (clock.readings[-1][0] - outcome.received, clock.readings[0][0] - outcome.started)


# What differs in a group


@record(frozen=True, kw_only=True)
class Split:
    """What a group does not have alike. `norm` is what more than half of it, or the golden node, has; None in a tie.

    `others` are the other values with their nodes, in a tie all values; the most frequent first.
    """

    title: str
    group: str
    norm: Any
    known: int
    others: tuple[tuple[Any, tuple[Member, ...]], ...]
    feature: Feature | None = None

    @property
    def odd(self) -> tuple[Member, ...]:
        """The nodes that differ from the norm; none in a tie."""
        return () if self.norm is None else tuple(member for _, having in self.others for member in having)


def split(
    title: str, group: str, members: Sequence[Member], value_of: Callable[[Member], Any], golden: Member | None = None
) -> Split | None:
    """What these members do not have alike; None where they do. A member whose value is None is not compared."""
    values: dict[Any, list[Member]] = {}
    for member in members:
        if (value := value_of(member)) is not None:
            values.setdefault(value, []).append(member)
    known = sum(map(len, values.values()))
    wanted = value_of(golden) if golden is not None and golden.group == group else None
    if wanted is None and (len(values) < 2 or known < 2):
        return None
    ordered = sorted(values.items(), key=lambda item: (-len(item[1]), str(item[0])))
    norm = wanted
    if norm is None and known >= FEWEST_FOR_A_NORM and 2 * len(ordered[0][1]) > known:
        norm = ordered[0][0]
    others = tuple((value, tuple(having)) for value, having in ordered if norm is None or value != norm)
    return Split(title=title, group=group, norm=norm, known=known, others=others) if others else None


def groups_alike(members: Iterable[Member]) -> list[tuple[Mapping[Feature, Values], list[str]]]:
    """The features that members have, each set of them once, with the names of those that have it."""
    found: dict[int, tuple[Mapping[Feature, Values], list[str]]] = {}
    for member in members:
        found.setdefault(id(member.node.features), (member.node.features, []))[1].append(member.name)
    return list(found.values())


def feature_splits(fleet: Fleet, wanted: Callable[[Feature], bool]) -> Iterator[Split]:
    """What the nodes of each group do not have alike, of these features, in the order of a listing.

    What nearly every node has in its own way is no difference.
    """
    for group, members in fleet.groups.items():
        kinds = list({(id(member.node.features), member.node.known): member for member in members}.values())
        for feature in sorted({feature for one in kinds for feature in one.node.features if wanted(feature)}):
            if fleet.golden is None and len({one.node.value(feature) for one in kinds} - {None}) < 2:
                continue

            def value(member: Member, feature: Feature = feature) -> Values | None:
                return member.node.value(feature)

            found = split(feature.title, group, members, value, fleet.golden)
            if found is None:
                continue
            if feature.rank >= GENERIC and len(found.others) > max(3, found.known // 2):
                continue
            yield Split(**{**vars(found), "feature": feature})


def name_for(digest: Digest, taken: Mapping[str, object], expected: Iterable[str]) -> str:
    """The name of an answer that came by itself: as it calls itself, or its short host name where that is expected.

    A second answer of the same name does not replace the first; lists for other programs leave it out.
    """
    known = set(expected)
    short = digest.name.partition(".")[0]
    by_short = Counter(name.partition(".")[0] for name in known)
    own = digest.name
    if own not in known and by_short.get(short) == 1:
        own = next(name for name in known if name.partition(".")[0] == short)
    again = (f"{own} (again, answer {number})" for number in itertools.count(len(taken) + 1))
    return next(name for name in itertools.chain([own], again) if name not in taken)
