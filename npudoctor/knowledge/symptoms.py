"""The known ways in which a node fails: the typed form of pitfalls.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from npudoctor.knowledge import table
from npudoctor.knowledge.codes import normalised
from npudoctor.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pitfall:
    """One way to fail.

    `rank` orders by how often it is reported (1 most), `frequency` is very-high, high, medium or low: a judgement, no
    measured rate. `symptoms` are regular expressions for logs and messages. `detect` says how it shows before a job
    runs. `needs_root` is None where it depends, on what `root_when` says.
    """

    id: str
    rank: int
    title: str
    frequency: str
    severity: str
    cause: str
    detect: str
    fix: tuple[str, ...]
    reversible: bool
    sources: tuple[str, ...]
    symptoms: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    needs_root: bool | None = None
    root_when: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pitfalls:
    """The whole table, most frequent first."""

    as_of: str
    ranking: str
    rows: tuple[Pitfall, ...]

    def pitfall(self, id: str) -> Pitfall | None:
        """The row of this id (P003)."""
        return self._by_id.get(id)

    def match(self, text: str) -> tuple[Pitfall, ...]:
        """The pitfalls whose symptoms a text shows: those that explain more of it first, then the more frequent."""
        lengths = {pitfall.id: self._longest_match(pitfall, text) for pitfall in self.rows}
        shown = [pitfall for pitfall in self.rows if lengths[pitfall.id]]
        return tuple(sorted(shown, key=lambda pitfall: (-lengths[pitfall.id], pitfall.rank)))

    def with_code(self, code: str | int) -> tuple[Pitfall, ...]:
        """The pitfalls that show this error code, the more frequent first."""
        wanted = normalised(code)
        return tuple(pitfall for pitfall in self.rows if wanted in pitfall.codes)

    def _longest_match(self, pitfall: Pitfall, text: str) -> int:
        matches = (symptom.search(text) for symptom in self._compiled[pitfall.id])
        return max((match.end() - match.start() for match in matches if match), default=0)

    @cached_property
    def _by_id(self) -> Mapping[str, Pitfall]:
        return {pitfall.id: pitfall for pitfall in self.rows}

    @cached_property
    def _compiled(self) -> Mapping[str, list[re.Pattern[str]]]:
        return {pitfall.id: [re.compile(symptom) for symptom in pitfall.symptoms] for pitfall in self.rows}


def load() -> Pitfalls:
    """Read pitfalls.json."""
    data = table.read("pitfalls")
    return Pitfalls(as_of=data["as_of"], ranking=data["ranking"], rows=table.rows(Pitfall, data["pitfalls"]))
