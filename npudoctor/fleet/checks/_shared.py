"""How findings about several nodes are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from npudoctor.facts.versions import is_older
from npudoctor.findings import Evidence, Finding
from npudoctor.fleet import targets
from npudoctor.fleet.merge import Member, Split
from npudoctor.messages import Message

Item = TypeVar("Item")
Key = TypeVar("Key")


def by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items by a key, in order of appearance."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def repeated_keys(
    rows: Iterable[Item], key: Callable[[Item], Key], node: Callable[[Item], str]
) -> dict[Key, list[Item]]:
    """The keys that rows of several nodes have, with these rows."""
    return {one: same for one, same in by(rows, key).items() if len({node(row) for row in same}) > 1}


def on(message: Message, names: Sequence[str], **params: Any) -> Finding:
    """A finding about these nodes: its subject is the folded list, its parameter `nodes` has all of them."""
    params.setdefault("count", len(names))
    return message.finding(subject=targets.fold(names) or "fleet", nodes=list(names), **params)


def value_text(value: Any) -> str:
    """A value in a sentence."""
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return (text if len(text) <= 80 else f"{text[:79]}…") or "nothing"


def differing(
    message: Message, tie: Message, splits: Iterable[Split], hints: Mapping[str, str] | None = None
) -> Iterator[Finding]:
    """One finding for all that the same nodes have otherwise; what else they have is its evidence.

    `hints` is what to do where one of the titles begins with a word.
    """
    alike = by(splits, lambda one: (one.group, one.norm is None, tuple(names(having) for _, having in one.others)))
    for same in alike.values():
        first = same[0]
        if first.norm is None:
            values = "; ".join(
                f"{value_text(value)} on {targets.brief(names(having))}" for value, having in first.others
            )
            everyone = [name for _, having in first.others for name in names(having)]
            rest = tuple(Evidence(source=one.title, actual=_sides(one)) for one in same[1:])
            yield on(tie, everyone, title=first.title, peers=first.known, values=values, evidence=rest)
            continue
        for place, (value, having) in enumerate(first.others):
            rest = tuple(
                Evidence(source=one.title, actual=value_text(one.others[place][0]), expected=value_text(one.norm))
                for one in same[1:]
            )
            hint = next(
                (text for word, text in (hints or {}).items() for one in same if one.title.startswith(word)), None
            )
            yield on(
                message,
                names(having),
                hint=hint,
                title=first.title,
                value=_difference(value, first.norm),
                norm=_difference(first.norm, value),
                peers=peers(first),
                newer=_age(value, first.norm),
                evidence=rest,
            )


def names(members: Iterable[Member]) -> tuple[str, ...]:
    """Their names."""
    return tuple(member.name for member in members)


def peers(found: Split) -> str:
    """The nodes that have the norm, as a number."""
    number = found.known - len(found.odd)
    return "the golden node" if number <= 0 else f"{number} other{'' if number == 1 else 's'}"


def _sides(found: Split) -> str:
    return "; ".join(f"{value_text(value)} ({len(having)})" for value, having in found.others)


def _difference(value: Any, other: Any) -> str:
    """A value; of a long list only what the other one lacks."""
    if isinstance(value, tuple) and isinstance(other, tuple) and max(len(value), len(other)) > 3:
        own = [part for part in value if part not in other]
        return f"with {value_text(tuple(own))}" if own else "without these"
    return value_text(value)


def _age(value: Any, norm: Any) -> str:
    one, other = (value_text(each) for each in (value, norm))
    if not (one[:1].isdigit() and other[:1].isdigit()):
        return ""
    return " (older)" if is_older(one, other) else " (newer)" if is_older(other, one) else ""
