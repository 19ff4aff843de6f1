"""A prefilter: matches every line that any real pattern could match, and few others.

Every pattern requires certain words; a line without any of them cannot match. Digits are never part of such a word, so
that lines that differ only in numbers either all pass or none does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

try:
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_parse as _parser

SHORTEST = 4
"""The fewest letters of a word: shorter ones match too many lines."""

LONGEST = 10
"""The most letters of a word: longer ones distinguish no more lines."""

_FREQUENT = {190: " ", 60: "et", 40: "asonir", 25: "l0pdc", 18: "hmu2", 12: "fg1:.,\n", 8: "y[]_b3458xk-67w()|9"}
_PER_MILLE = {character: share for share, characters in _FREQUENT.items() for character in characters}
"""Frequency of characters in logs; all others are rare."""


def words_of(expression: str) -> frozenset[str] | None:
    """Words of which every match of a pattern contains at least one; None without such words."""
    return _best(_parser.parse(expression))


def _best(items: Any) -> frozenset[str] | None:
    """The most selective of the sets of words that a sequence requires."""
    found: list[frozenset[str]] = []
    run = ""
    for operation, value in [*items, (None, None)]:
        if str(operation) == "LITERAL" and not chr(value).isdigit():
            run += chr(value)
            continue
        if len(run) >= SHORTEST:
            found.append(frozenset({run}))
        run = ""
        if inner := _inner(str(operation), value):
            found.append(inner)
    return max(found, key=_telling, default=None)


def _inner(operation: str, value: Any) -> frozenset[str] | None:
    if operation == "SUBPATTERN":
        return _best(value[-1])
    if operation in ("MAX_REPEAT", "MIN_REPEAT") and value[0] > 0:
        return _best(value[2])
    if operation == "BRANCH":
        branches = [_best(branch) for branch in value[1]]
        whole = [branch for branch in branches if branch]
        return frozenset().union(*whole) if len(whole) == len(branches) else None
    return None


def _telling(words: frozenset[str]) -> tuple[int, int]:
    return min(*map(len, words), LONGEST), -len(words)


class Sieve:
    """Passes only lines with one of these words or `further` expressions (first character, rest).

    A search is fast over characters with which none of its alternatives begins: of each word the part that begins with
    one of few, rare characters is searched first; where it matches, the whole word is compared.
    """

    def __init__(self, words: Iterable[str], further: Sequence[tuple[str, str]] = ()) -> None:
        pieces = _pieces(set(words), {first for first, _ in further})
        firsts = {*(piece[0] for piece in pieces.values()), *(first for first, _ in further)}
        choices = []
        for first in sorted(firsts, key=lambda first: (-_PER_MILLE.get(first, 0), first)):
            rests = _branches(sorted({piece[1:] for piece in pieces.values() if piece[0] == first}))
            rests += [rest for other, rest in further if other == first]
            choices.append(f"{re.escape(first)}(?:{'|'.join(rests)})")
        self.expression = re.compile("|".join(choices).encode())
        whole = [re.escape(first) + f"(?:{rest})" for first, rest in further]
        self._further = re.compile("|".join(whole or ["(?!)"]).encode())
        self._words: dict[bytes, list[bytes]] = {}
        for piece in pieces.values():
            meant = sorted(word.encode() for word, part in pieces.items() if part.startswith(piece))
            self._words[piece.encode()] = meant

    def passes(self, line: bytes, but: Collection[bytes] = ()) -> bytes | None:
        """What lets a line pass: its first word or match, except these."""
        search, match_further = self.expression.search, self._further.match
        match = search(line)
        while match:
            for word in self._words.get(match[0], ()):
                if word in line and word not in but:
                    return word
            further = match_further(line, match.start())
            if further and further[0] not in but:
                return further[0]
            match = search(line, match.start() + 1)
        return None


def _pieces(wanted: set[str], beginnings: set[str]) -> dict[str, str]:
    """For each word a part that begins with one of a minimal set of rare characters."""
    pieces: dict[str, str] = {}
    taken = set(beginnings)
    while wanted:
        reach: dict[str, list[str]] = {}
        for word in sorted(wanted):
            for first in dict.fromkeys(_firsts(word)):
                reach.setdefault(first, []).append(word)
        best = min(sorted(reach), key=lambda first: _cost(first, taken) / len(reach[first]))
        taken.add(best)
        pieces |= {word: _piece(word, best) for word in reach[best]}
        wanted = wanted - set(reach[best])
    return pieces


def _firsts(word: str) -> str:
    """Possible first characters of a part of a word."""
    return word[: max(len(word) - SHORTEST, 0) + 1]


def _piece(word: str, first: str) -> str:
    start = _firsts(word).index(first)
    return word[start : start + LONGEST]


def _cost(first: str, taken: set[str]) -> float:
    return 0 if first in taken else _PER_MILLE.get(first, 0) + 2


def _branches(words: Sequence[str]) -> list[str]:
    """The words as alternatives with common prefixes merged; a word covers all that start with it."""
    if "" in words:
        return []
    branches = []
    for first in dict.fromkeys(word[0] for word in words):
        rests = _branches([word[1:] for word in words if word[0] == first])
        branches.append(re.escape(first) + (f"(?:{'|'.join(rests)})" if len(rests) > 1 else "".join(rests)))
    return branches
