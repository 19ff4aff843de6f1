"""A prefilter: matches every line that any real pattern could match, and few others.

Every pattern requires certain words; a line without any of them cannot match. Digits are never part of such a word, so
that lines that differ only in numbers either all pass or none does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import Any

try:
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_parse as _parser

SHORTEST = 4
"""The fewest letters of a word: shorter ones match too many lines."""

LONGEST = 10
"""The most letters of a word: longer ones distinguish no more lines."""

_MOST = 4
"""The most words that a part of a pattern stands for, where it has alternatives: more take longer to compile."""

_TELLS = 2
"""The fewest characters of the part of a word that is searched first."""

_FREQUENT = {
    190: " ",
    60: "et",
    40: "asonir",
    25: "l0pdc",
    18: "hmu2",
    12: "fg1:.,\n",
    8: "y[]_b3458xk-67w()|9",
    4: "vjqz",
}
_PER_MILLE = {character: share for share, characters in _FREQUENT.items() for character in characters}
"""Frequency of characters in logs; all others are rare."""

_EVERYDAY = frozenset(
    {
        *("Ascend", "ascend", "usr/local/Ascend", "CANN", "cann", "HCCL", "hccl", "NPU", "npu-smi", "torch"),
        *("torch_npu", "Health", "Model", "Version", "Worker", "code", "config", "data", "device", "driver", "file"),
        *("found", "full", "github.com", "http", "https", "import", "install", "line", "memory", "model", "network"),
        *("not", "package", "pages", "parallel", "path", "python", "rank", "site-packages", "version", "with"),
    }
)
"""Words that sound jobs print all the time."""

_EVERYDAY_ENDS = frozenset(word[1:] for word in _EVERYDAY)
"""What a pattern requires of them where it leaves open whether the first letter is a capital."""

_PASS = 20
"""What one more search costs, as characters per mille."""

_NO_START = frozenset("etaonisrhdlu ")
"""Characters so frequent in logs that a search begins with one of them only where a word has no other."""

_EVERYDAY_SHARE = 1e-6
_SLOW_SHARE = 1e-5
"""The share of a word that has only such characters: a search for it takes long."""


def words_of(expression: str) -> frozenset[str] | None:
    """Words of which every match of a pattern contains at least one; None without such words."""
    return _read(_parser.parse(expression))[1]


def _read(items: Any) -> tuple[list[str] | None, frozenset[str] | None]:
    """All texts that a sequence matches, where they are few; of the sets of words that it requires the rarest."""
    found: list[frozenset[str]] = []
    runs = [""]
    whole = True
    for operation, value in items:
        texts, words = _read_part(operation.name, value)
        if texts and len(runs) * len(texts) <= _MOST:
            runs = [run + text for run in runs for text in texts]
            continue
        whole = False
        found += _words(runs)
        runs = texts or [""]
        if words and not texts:
            found.append(words)
    found += _words(runs)
    return runs if whole else None, min(found, key=_share) if len(found) > 1 else next(iter(found), None)


def _words(runs: list[str]) -> Iterator[frozenset[str]]:
    """Alternative texts as words, if all are long enough; one that contains another one is not needed."""
    if min(map(len, runs)) >= SHORTEST:
        yield frozenset(run for run in runs if not any(other in run for other in runs if other != run))


def _read_part(operation: str, value: Any) -> tuple[list[str] | None, frozenset[str] | None]:
    """The same of a part of a pattern; no text has a digit."""
    if operation == "LITERAL":
        return None if chr(value).isdigit() else [chr(value)], None
    if operation == "IN":
        return _cases(value), None
    if operation in ("AT", "ASSERT", "ASSERT_NOT"):
        return [""], None
    if operation == "SUBPATTERN":
        return _read(value[-1])
    if operation == "BRANCH":
        read = [_read(branch) for branch in value[1]]
        texts = [text for branch, _ in read for text in branch or ()] if all(branch for branch, _ in read) else None
        words = frozenset().union(*(branch or () for _, branch in read)) if all(branch for _, branch in read) else None
        return texts if texts and len(texts) <= _MOST else None, words
    if operation in ("MAX_REPEAT", "MIN_REPEAT"):
        texts, words = _read(value[2])
        if value[1] > 1:
            texts = None
        return [*texts, ""] if texts and not value[0] else texts, words if value[0] else None
    return None, None


def _cases(members: Any) -> list[str] | None:
    """The two letters of a set that stands for a letter in both cases; None for any other set."""
    letters = [chr(value) for operation, value in members if operation.name == "LITERAL"]
    return letters if len(letters) == len(members) == 2 and letters[0].lower() == letters[1].lower() else None


def _share(words: frozenset[str]) -> float:
    """About how many places of a log have one of these words."""
    return sum(map(_share_of, words))


def _share_of(word: str) -> float:
    frequencies = [_PER_MILLE.get(one, 1) for one in word]
    share = prod(one / 1000 for one in frequencies[:LONGEST])
    if _NO_START.issuperset(_starts(word)):
        share = max(share, _SLOW_SHARE)
    bare = word.strip(" :/-")
    return max(share, _EVERYDAY_SHARE) if bare in _EVERYDAY or bare in _EVERYDAY_ENDS else share


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
    """For each word a part that begins with a rare character, else one of few others, and what precedes it."""
    starts = {word: _starts(word) for word in wanted}
    rare = {first for found in starts.values() for first in found if first not in _PER_MILLE}
    taken = beginnings | rare
    while left := [found for found in starts.values() if taken.isdisjoint(found)]:
        counts = Counter(first for found in left for first in found)
        taken.add(max(sorted(counts), key=lambda first: counts[first] / (_PER_MILLE[first] + _PASS)))
    pieces: dict[str, tuple[str, str]] = {}
    for word, found in starts.items():
        start = word.index(min(taken & found, key=lambda first: (_PER_MILLE.get(first, 0), first)))
        pieces[word] = word[:start], word[start : start + LONGEST]
    return pieces


def _starts(word: str) -> set[str]:
    """The characters of a word with which a search may begin: at least `_TELLS` characters follow from there."""
    found = {*word[: max(len(word) - _TELLS + 1, 1)]}
    return found - _NO_START or found


def _branches(begins: Sequence[tuple[str, str]]) -> list[str]:
    """The rests of pieces as alternatives with common prefixes merged; each ends by comparing all that ends there."""
    ends = [whole for rest, whole in begins if not rest]
    branches = [f"(?<={re.escape(whole)})" for whole in ends]
    for first in dict.fromkeys(rest[0] for rest, _ in begins if rest):
        rests = _branches([(rest[1:], whole) for rest, whole in begins if rest[:1] == first])
        branches.append(re.escape(first) + (f"(?:{'|'.join(rests)})" if len(rests) > 1 else rests[0]))
    return branches
