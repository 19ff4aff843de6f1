"""The known ways in which a node fails: the typed form of pitfalls.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from npudoctor.knowledge import table
from npudoctor.knowledge.tables.errors import normalise
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Pitfall:
    """One way to fail.

    `rank` orders by how often it is reported (1 most), `frequency` is very-high, high, medium or low: a judgement, no
    measured rate. `symptoms` are regular expressions for logs and messages, each enough to suspect this known issue;
    `hints` fit it among others, `general` are symptoms of any package, library or file, which count less. A
    `consequence` usually follows from a failure elsewhere, which comes first where both are shown; a `device_fault` is
    one of the hardware, which never follows from a timeout. `refines` names the known issues that say the same in
    general. `detect` says how it shows before a job runs, `foreseen_by` which checks do. A step of `fix` is a command
    with a comment, or a sentence that ends with a full stop. `needs_root` is None where it depends, on what
    `root_when` says."""

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
    hints: tuple[str, ...] = ()
    general: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    consequence: bool = False
    device_fault: bool = False
    refines: tuple[str, ...] = ()
    foreseen_by: tuple[str, ...] = ()
    needs_root: bool | None = None
    root_when: str | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """The steps of the fix that a shell can run."""
        return tuple(step for step in self.fix if is_command(step))

    @property
    def advice(self) -> tuple[str, ...]:
        """The steps of the fix that are sentences."""
        return tuple(step for step in self.fix if not is_command(step))


@record(frozen=True, kw_only=True)
class Pitfalls:
    """The whole table, most frequent first."""

    as_of: str
    ranking: str
    rows: tuple[Pitfall, ...]

    def pitfall(self, id: str) -> Pitfall | None:
        """The row of this id (P003)."""
        return self._by_id.get(id)

    def match(self, text: str) -> tuple[Pitfall, ...]:
        """The known issues that a text shows: by symptoms before by hints, those that explain more of it first."""
        lengths = {pitfall.id: self._longest_match(pitfall, text) for pitfall in self.rows}
        shown = [pitfall for pitfall in self.rows if any(lengths[pitfall.id])]
        return tuple(sorted(shown, key=lambda pitfall: (*(-length for length in lengths[pitfall.id]), pitfall.rank)))

    def with_code(self, code: str | int) -> tuple[Pitfall, ...]:
        """The known issues that show this error code, the more frequent first."""
        wanted = normalise(code)
        return tuple(pitfall for pitfall in self.rows if wanted in pitfall.codes)

    def _longest_match(self, pitfall: Pitfall, text: str) -> tuple[int, ...]:
        """How much of a text a symptom matches, how much a hint, and how much a general symptom."""
        return tuple(_longest(expressions, text) for expressions in self._compiled[pitfall.id])

    @cached_property
    def _by_id(self) -> Mapping[str, Pitfall]:
        return {pitfall.id: pitfall for pitfall in self.rows}

    @cached_property
    def _compiled(self) -> Mapping[str, tuple[list[re.Pattern[str]], ...]]:
        return {
            pitfall.id: tuple(
                list(map(re.compile, ones)) for ones in (pitfall.symptoms, pitfall.hints, pitfall.general)
            )
            for pitfall in self.rows
        }


def is_command(step: str) -> bool:
    """Whether a step is a command for the shell; else it is a sentence, which ends with a full stop."""
    return not step.endswith(".")


def _longest(expressions: list[re.Pattern[str]], text: str) -> int:
    matches = (expression.search(text) for expression in expressions)
    return max((match.end() - match.start() for match in matches if match), default=0)


def load() -> Pitfalls:
    """Read pitfalls.json."""
    data = table.read("pitfalls")
    return table.record_of(Pitfalls, data, rows=data["pitfalls"])
