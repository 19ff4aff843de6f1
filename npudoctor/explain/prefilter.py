"""A prefilter: matches every line that any real pattern could match, and few others.

Every pattern requires certain words; a line without any of them cannot match. Digits are never part of such a word, so
that lines that differ only in numbers either all pass or none does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

try:
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_parse as _parser

SHORTEST = 4
"""The fewest letters of a word: shorter ones match too many lines."""

LONGEST = 10
"""The most letters of a word: longer ones distinguish no more lines."""

_TELLS = 3
"""The fewest characters of the part of a word that is searched first."""

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
        if inner := _inner_words(str(operation), value):
            found.append(inner)
    return max(found, key=_telling, default=None)


def _inner_words(operation: str, value: Any) -> frozenset[str] | None:
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
    one of few, rare characters is searched first; where it matches, a lookbehind compares what precedes it. Characters
    that are not rare have an expression each: one of all of them took three times as long.
    """

    def __init__(self, words: Iterable[str], further: Sequence[tuple[str, str]] = ()) -> None:
        pieces = _pieces(set(words), {first for first, _ in further})
        choices: dict[str, list[str]] = {}
        for first in sorted({*(piece[0] for _, piece in pieces.values()), *(first for first, _ in further)}):
            begins = [(piece[1:], before + piece) for before, piece in set(pieces.values()) if piece[0] == first]
            rests = _branches(sorted(begins))
            rests += [rest for other, rest in further if other == first]
            together = first if first in _PER_MILLE else ""
            choices.setdefault(together, []).append(f"{re.escape(first)}(?:{'|'.join(rests)})")
        self.expressions = tuple(re.compile("|".join(choice).encode()) for choice in choices.values())
        whole = [re.escape(first) + f"(?:{rest})" for first, rest in further]
        self._further = re.compile("|".join(whole or ["(?!)"]).encode())
        self._words: dict[bytes, list[bytes]] = {piece.encode(): [] for _, piece in pieces.values()}
        for word, (_, piece) in sorted(pieces.items()):
            for beginning in accumulate(piece):
                if beginning.encode() in self._words:
                    self._words[beginning.encode()].append(word.encode())

    def starts_in(self, text: bytes) -> list[int]:
        """Where something matches in a text of many lines, in order."""
        return sorted({match.start() for expression in self.expressions for match in expression.finditer(text)})

    def passes(self, line: bytes, but: Collection[bytes] = ()) -> bytes | None:
        """What lets a line pass: a word or match, except these."""
        return next((word for word in self._matching_lines(line, further=True) if word not in but), None)

    def words_in(self, line: bytes) -> list[bytes]:
        """All words of a line."""
        return list(dict.fromkeys(self._matching_lines(line, further=False)))

    def _matching_lines(self, line: bytes, *, further: bool) -> Iterator[bytes]:
        match_further, words = self._further.match, self._words
        for expression in self.expressions:
            match = expression.search(line)
            while match:
                start = match.start()
                for word in words.get(match[0], ()):
                    if word in line:
                        yield word
                if further and (other := match_further(line, start)):
                    yield other[0]
                match = expression.search(line, start + 1)


def _pieces(wanted: set[str], beginnings: set[str]) -> dict[str, tuple[str, str]]:
    """For each word a part that begins with one of a minimal set of rare characters, and what precedes it.

    At least `_TELLS` characters follow from where a part begins: a shorter one is compared at every such character.
    """
    pieces: dict[str, tuple[str, str]] = {}
    taken = set(beginnings)
    while wanted:
        reach: dict[str, list[str]] = {}
        for word in sorted(wanted):
            for first in dict.fromkeys(word[: max(len(word) - _TELLS + 1, 1)]):
                reach.setdefault(first, []).append(word)
        best = min(sorted(reach), key=lambda first: _cost(first, taken) / len(reach[first]))
        taken.add(best)
        for word in reach[best]:
            start = word.index(best)
            pieces[word] = word[:start], word[start : start + LONGEST]
        wanted = wanted - set(reach[best])
    return pieces


def _cost(first: str, taken: set[str]) -> float:
    return 0 if first in taken else _PER_MILLE.get(first, 0) + 2


def _branches(begins: Sequence[tuple[str, str]]) -> list[str]:
    """The rests of pieces as alternatives with common prefixes merged; each ends by comparing all that ends there."""
    ends = [whole for rest, whole in begins if not rest]
    branches = [f"(?<={re.escape(whole)})" for whole in ends]
    for first in dict.fromkeys(rest[0] for rest, _ in begins if rest):
        rests = _branches([(rest[1:], whole) for rest, whole in begins if rest[:1] == first])
        branches.append(re.escape(first) + (f"(?:{'|'.join(rests)})" if len(rests) > 1 else rests[0]))
    return branches
