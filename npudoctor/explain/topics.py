"""Finds a check, a known issue or a code by any usual name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from npudoctor import knowledge
from npudoctor.knowledge.tables.errors import ErrorCode, spelled_in
from npudoctor.knowledge.tables.pitfalls import Pitfall, is_command
from npudoctor.plugins import Catalog
from npudoctor.sdk import Check

Topic = Check | Pitfall | ErrorCode

_PITFALL = re.compile(r"[Pp]0*(\d{1,3})")


class Unknown(Exception):
    """Unknown name; the text suggests the nearest one."""


def find(name: str, catalog: Catalog) -> Topic:
    """The check, known issue or code of this name, in any usual spelling; raises Unknown."""
    text = name.strip()
    known = catalog.checks.get(text.partition("/")[0]) or _pitfall(text) or code(text)
    if known is None:
        raise Unknown(_nearest(text, catalog))
    return known


def _pitfall(text: str) -> Pitfall | None:
    number = _PITFALL.fullmatch(text)
    return knowledge.pitfalls().pitfall(f"P{int(number[1]):03}") if number else None


def code(text: str) -> ErrorCode | None:
    """A code by its number, its symbol, or a piece of a message that contains it."""
    errors = knowledge.errors()
    by_symbol = (row for row in errors.codes if row.name and row.name.upper() == text.upper())
    known = errors.code(text) or next(by_symbol, None) or errors.code(f"-{text}")
    return known or next((row for _, spelled in spelled_in(text) if (row := errors.code(spelled))), None)


def _nearest(text: str, catalog: Catalog) -> str:
    import difflib

    errors, pitfalls = knowledge.errors(), knowledge.pitfalls()
    names = [*catalog.checks, *(row.id for row in pitfalls.rows), *(row.code for row in errors.codes)]
    folded = {each.lower(): each for each in names}
    near = [folded[each] for each in difflib.get_close_matches(text.lower(), folded, n=1, cutoff=0.5)]
    family = errors.family(text)
    said = f"unknown code {text!r} of {family}" if family else f"unknown name {text!r}"
    return f"{said}; {f'did you mean {near[0]}?' if near else 'see `npudoctor list`'}"


def pitfalls_of(topic: Check | ErrorCode) -> tuple[Pitfall, ...]:
    """The known issues that a check detects, or that a code belongs to, the likelier first."""
    table = knowledge.pitfalls()
    if isinstance(topic, Check):
        return tuple(pitfall for pitfall in table.rows if topic.id in pitfall.foreseen_by)
    named = (table.pitfall(id) for id in topic.pitfalls)
    return tuple(dict.fromkeys(filter(None, (*named, *table.with_code(topic.code)))))


def foreseeing(pitfalls: Iterable[Pitfall], checks: Mapping[str, Check]) -> tuple[Check, ...]:
    """The installed checks that detect one of these."""
    return tuple(dict.fromkeys(checks[id] for pitfall in pitfalls for id in pitfall.foreseen_by if id in checks))


def facts_of(check: Check, catalog: Catalog) -> tuple[str, ...]:
    """The names of a check's facts, as in `npudoctor facts`."""
    probes = catalog.probes
    return tuple(probes[need.fact].name for need in check.needs if need.fact in probes)


def mended_by(pitfall: Pitfall) -> tuple[tuple[str, bool], ...]:
    """The steps of a fix, each with whether it is a command."""
    return tuple((step, is_command(step)) for step in pitfall.fix)
