"""What differs between nodes: groups of nodes that are alike, who is unlike its group, and in what.

Nodes are first put into groups by how much of what they tell is the same; in a group, what most of its nodes have is
its norm. Who differs from the norm of its group, or belongs to a group far smaller than another, is an odd one out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from npudoctor.compare.features import GENERIC, Feature, Node, Values
from npudoctor.records import record

ALIKE = 0.06
"""The share of differing features up to which two nodes belong to one group, where few nodes are exactly alike."""

DWARFED = 3
"""A group is odd beside one that is more than so many times as large; so are one or two nodes beside any larger."""


@record(frozen=True)
class Difference:
    """One feature of a node that is not as expected; `expected` is the norm of its group, or what the reference has."""

    feature: Feature
    value: Values
    expected: Values


@record(frozen=True, kw_only=True)
class Odd:
    """A node that is unlike its peers. `peers` are as many nodes as have the norm that it is compared with."""

    node: Node
    peers: int
    differences: tuple[Difference, ...]


@record(frozen=True, kw_only=True)
class Split:
    """A feature in which nodes differ, and who has which value; the most frequent first."""

    feature: Feature
    values: tuple[tuple[Values, tuple[Node, ...]], ...]


@record(frozen=True, kw_only=True)
class Comparison:
    """How nodes compare. `groups` are those of nodes that are alike, the largest first; `splits` all that differs."""

    nodes: tuple[Node, ...]
    groups: tuple[tuple[Node, ...], ...]
    odd: tuple[Odd, ...]
    splits: tuple[Split, ...]
    golden: Node | None = None

    @property
    def alike(self) -> bool:
        """Whether no two nodes differ."""
        return not self.splits and not self.odd


def compare(nodes: Sequence[Node], *, golden: Node | None = None) -> Comparison:
    """Compare nodes with each other, or each of them with a reference."""
    everyone = [golden, *nodes] if golden else list(nodes)
    splits = _splits(everyone)
    if golden is not None:
        odd = tuple(_odd(node, {split.feature: golden.value(split.feature) for split in splits}, 1) for node in nodes)
        return Comparison(
            nodes=tuple(nodes),
            groups=(tuple(nodes),),
            odd=tuple(one for one in odd if one.differences),
            splits=splits,
            golden=golden,
        )
    features = [split.feature for split in splits]
    groups, dwarfed = _select_groups(_clusters(nodes, features, _feature_count(nodes)))
    norms = [_norm(group, features) for group in groups]
    found = []
    if len(nodes) > 2:
        for group, norm in zip(groups, norms, strict=True):
            found += [_odd(node, norm, len(group) - 1) for node in group]
        for node in dwarfed:
            nearest = min(range(len(groups)), key=lambda place: _distance(node, norms[place]))
            found.append(_odd(node, norms[nearest], len(groups[nearest])))
    order = {node.path: place for place, node in enumerate(nodes)}
    odd = tuple(sorted((one for one in found if one.differences), key=lambda one: order[one.node.path]))
    return Comparison(nodes=tuple(nodes), groups=groups, odd=odd, splits=splits)


def _feature_count(nodes: Iterable[Node]) -> int:
    """How many features there are."""
    return len({feature for node in nodes for feature in node.features})


def _splits(nodes: Sequence[Node]) -> tuple[Split, ...]:
    """The features that not all nodes have alike, but for what nearly every node has in its own way."""
    found = []
    for feature in sorted({feature for node in nodes for feature in node.features}):
        values: dict[Values, list[Node]] = {}
        for node in nodes:
            if (value := node.value(feature)) is not None:
                values.setdefault(value, []).append(node)
        individual = feature.rank >= GENERIC and len(values) > max(3, sum(map(len, values.values())) // 2)
        if len(values) > 1 and not individual:
            ordered = sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))
            found.append(Split(feature=feature, values=tuple((value, tuple(having)) for value, having in ordered)))
    return tuple(found)


# Groups

Signature = tuple[Values | None, ...]


def _clusters(nodes: Sequence[Node], features: Sequence[Feature], told: int) -> list[list[Node]]:
    """Nodes that are alike, around those that most nodes are exactly like; the largest cluster first."""
    same: dict[Signature, list[Node]] = {}
    for node in nodes:
        same.setdefault(tuple(node.value(feature) for feature in features), []).append(node)
    exactly = sum(len(members) for members in same.values() if len(members) > 1)
    limit = 0 if 2 * exactly >= len(nodes) else max(1, math.floor(told * ALIKE))
    clusters: list[tuple[Signature, list[Node]]] = []
    for signature, members in sorted(same.items(), key=lambda item: -len(item[1])):
        near = [(_apart(signature, centre), place) for place, (centre, _) in enumerate(clusters)]
        if near and min(near)[0] <= limit:
            clusters[min(near)[1]][1].extend(members)
        else:
            clusters.append((signature, list(members)))
    return sorted((members for _, members in clusters), key=len, reverse=True)


def _apart(one: Signature, other: Signature) -> int:
    """In how many features they differ, as far as both are known."""
    return sum(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))


def _select_groups(clusters: Sequence[Sequence[Node]]) -> tuple[tuple[tuple[Node, ...], ...], list[Node]]:
    """The clusters that count as groups, and the nodes of those that are dwarfed by the largest."""
    largest = len(clusters[0]) if clusters else 0
    groups: list[tuple[Node, ...]] = []
    dwarfed: list[Node] = []
    for cluster in clusters:
        if len(cluster) < largest and (len(cluster) <= 2 or len(cluster) * DWARFED < largest):
            dwarfed += cluster
        else:
            groups.append(tuple(cluster))
    return tuple(groups), dwarfed


Norm = Mapping[Feature, Values | None]


def _norm(group: Sequence[Node], features: Iterable[Feature]) -> Norm:
    """What more than half of a group has; None where no value has it."""
    return {feature: _majority([node.value(feature) for node in group]) for feature in features}


def _majority(values: Iterable[Values | None]) -> Values | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    value, count = Counter(known).most_common(1)[0]
    return value if 2 * count > len(known) else None


def _distance(node: Node, norm: Norm) -> int:
    return len(_differences(node, norm))


def _odd(node: Node, norm: Norm, peers: int) -> Odd:
    return Odd(node=node, peers=peers, differences=_differences(node, norm))


def _differences(node: Node, norm: Norm) -> tuple[Difference, ...]:
    found = []
    for feature, expected in norm.items():
        value = node.value(feature)
        if expected is not None and value is not None and value != expected:
            found.append(Difference(feature, value, expected))
    return tuple(found)


def distinct_differences(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """Each difference once: what only repeats, in another fact, values that an earlier one has already is left out."""
    seen: set[tuple[tuple[str, ...], ...]] = set()
    found = []
    for one in differences:
        words = tuple(tuple(part.rpartition(" × ")[2] for part in one_value) for one_value in (one.value, one.expected))
        if words not in seen or one.feature.rank < GENERIC:
            found.append(one)
        seen.add(words)
    return tuple(found)
