"""A prefilter: matches every line that any real pattern could match, and few others.

Every pattern requires certain words; a line without any of them cannot match. Digits are never part of such a word, so
that lines that differ only in numbers either all pass or none does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from math import log, prod
from typing import Any

from ahocorasick_rs import BytesAhoCorasick, Implementation

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

_PIECE = 6
"""The most bytes of a word that are searched: the automaton of whole words takes five times the memory."""

_EVERYDAY_SHARE = 1e-6


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
    bare = word.strip(" :/-")
    return max(share, _EVERYDAY_SHARE) if bare in _EVERYDAY or bare in _EVERYDAY_ENDS else share


class Sieve:
    """Passes only lines with one of these words or a match of `further` expressions (beginning, rest).

    Beginnings of one letter are searched together, a longer one by itself: faster where texts have its letters.
    """

    def __init__(self, words: Iterable[str], further: Sequence[tuple[str, str]] = ()) -> None:
        encoded = sorted(map(str.encode, set(words)))
        self._ascii = _Pieces(filter(bytes.isascii, encoded))
        self._others = _Pieces(word for word in encoded if not word.isascii())
        whole = [(len(first) > 1, re.escape(first) + f"(?:{rest})") for first, rest in further]
        together = "|".join(one for is_long, one in whole if not is_long)
        apart = [one for is_long, one in whole if is_long]
        self.further = [re.compile(one.encode()) for one in (together, *apart) if one]

    def starts_in(self, text: bytes, but: Collection[bytes] = ()) -> list[int]:
        """Where something matches in a text of many lines, without these words, in order."""
        starts = {start for pieces in self._possible_in(text) for start in pieces.starts_in(text, but)}
        starts.update(match.start() for further in self.further for match in further.finditer(text))
        return sorted(starts)

    def passes(self, line: bytes, but: Collection[bytes] = ()) -> bytes | None:
        """What lets a line pass: a word or match, except these."""
        others = (match[0] for further in self.further for match in further.finditer(line))
        return next((word for word in chain(self.words_in(line), others) if word not in but), None)

    def words_in(self, line: bytes) -> list[bytes]:
        """All words of a line."""
        return [word for pieces in self._possible_in(line) for word in pieces.words_in(line)]

    def _possible_in(self, text: bytes) -> tuple[_Pieces, ...]:
        return (self._ascii,) if text.isascii() else (self._ascii, self._others)


class _Pieces:
    """One automaton that finds the rarest piece of each word; where it does, the whole word is compared.

    Words that are not ASCII have one of their own: 159 different bytes instead of 89 double the memory of all states.
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        self._words: dict[bytes, list[bytes]] = {}
        self._piece_of = {word: _piece(word) for word in words}
        for word, piece in self._piece_of.items():
            self._words.setdefault(piece, []).append(word)
        self._pieces = list(self._words)
        self._automaton = BytesAhoCorasick(self._pieces, implementation=Implementation.DFA)

    def starts_in(self, text: bytes, but: Collection[bytes]) -> list[int]:
        worn = {piece for word in but if (piece := self._piece_of.get(word))}
        left_out = {piece for piece in worn if all(map(but.__contains__, self._words[piece]))}
        found = self._automaton.find_matches_as_indexes(text, overlapping=bool(left_out))
        return [start for number, start, _ in found if self._pieces[number] not in left_out]

    def words_in(self, line: bytes) -> list[bytes]:
        found = self._automaton.find_matches_as_indexes(line, overlapping=True)
        pieces = dict.fromkeys(self._pieces[number] for number, _, _ in found)
        return [word for piece in pieces for word in self._words[piece] if word in line]


def _piece(word: bytes) -> bytes:
    """The part of a word that logs have least, of at most `_PIECE` bytes."""
    sums = [0.0, *accumulate(map(_WEIGHTS.__getitem__, word))]
    parts = [after - before for before, after in zip(sums, sums[_PIECE:], strict=False)] or [0.0]
    start = parts.index(min(parts))
    return word[start : start + _PIECE]


_WEIGHTS = [log(_PER_MILLE.get(chr(byte), 1)) for byte in range(256)]
"""How often logs have a byte: logarithms, which add up along a part."""
