"""Error and fault codes: the typed form of errors.json."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from npudoctor.knowledge import table
from npudoctor.records import record

_HEX = r"(?i)(?:0x)?([0-9a-f]{8})"
_IN_TEXT = re.compile(
    r"\b(?P<word>E[A-Z]\d{4}|ERR\d{5}|E\d{5})\b|(?:code|ret|is|result|failed)\s{0,3}[=:\[(]?\s{0,3}(?P<dcmi>-[89]\d{3})\b",
    re.IGNORECASE,
)


@record(frozen=True, kw_only=True)
class ErrorCode:
    """One code.

    `kind` is dcmi (npu-smi), hccn (hccn_tool), hccl, hccl-return, acl (runtime included), cann, torch_npu, chip or
    process (an exit code).
    `name` is its symbol, `look` the first thing to look at, `text` the line that prints it. `severity` is what it
    deserves; a chip's fault may deserve `single_node_severity` where one node alone is used, or `severity` only on
    chips of the family `severity_for` and `other_severity` elsewhere. `level` is MindCluster's fault level. `same_as`
    names the newer code of the same thing. A `generic` code wraps many causes: what is beside it says which.
    """

    code: str
    kind: str
    meaning: str
    severity: str
    sources: tuple[str, ...]
    look: str | None = None
    name: str | None = None
    text: str | None = None
    pitfalls: tuple[str, ...] = ()
    single_node_severity: str | None = None
    severity_for: str | None = None
    other_severity: str | None = None
    level: str | None = None
    same_as: str | None = None
    confidence: str = "high"
    generic: bool = False

    def severity_on(self, family: str | None, *, single_node: bool = False) -> str:
        """What the code deserves on this chip family, in a job of one node or of several."""
        if self.severity_for and family != self.severity_for:
            return self.other_severity or self.severity
        return (self.single_node_severity if single_node else None) or self.severity


@record(frozen=True, kw_only=True)
class ErrorText:
    """A message without a code of its own."""

    text: str
    meaning: str
    sources: tuple[str, ...]
    pitfalls: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class Errors:
    """The whole table. `families` are the beginnings of codes, and what prints them."""

    as_of: str
    codes: tuple[ErrorCode, ...]
    families: Mapping[str, str]
    texts: tuple[ErrorText, ...]
    notes: tuple[str, ...]

    def code(self, code: str | int) -> ErrorCode | None:
        """The row of a code in any usual spelling: -8005, `EI0006`, `0x80E3A203`, `HCCL 7`; None where unknown."""
        return self._by_code.get(normalise(code))

    def family(self, code: str) -> str | None:
        """What prints codes of this kind, known or not: `HCCL` for EI0099."""
        spelled = normalise(code)
        if not re.fullmatch(r"E[A-Z]\d{4}|E\d{5}|ERR\d{5}", spelled):
            return None
        return next((module for prefix, module in self.families.items() if spelled.startswith(prefix)), None)

    def message(self, text: str) -> ErrorText | None:
        """The known message that a text contains."""
        return next((message for message in self.texts if message.text in text), None)

    @cached_property
    def _by_code(self) -> dict[str, ErrorCode]:
        return {code.code: code for code in self.codes}


def spelled_in(text: str) -> Iterator[tuple[int, str]]:
    """Words that look like a code, known or not, and codes of npu-smi: where each begins, and its spelling.

    Other numbers are chosen by the words around them: npudoctor.explain.code_forms.
    """
    for match in _IN_TEXT.finditer(text):
        kind = match.lastgroup or ""
        yield match.start(kind), match[kind]


def normalise(code: str | int) -> str:
    """The spelling of the table: capitals, a chip's code without 0x."""
    text = str(code).strip()
    chip = re.fullmatch(_HEX, text)
    return (
        chip[1].upper()
        if chip
        else " ".join(text.upper().split()).replace("HCCN", "hccn").replace("EXIT CODE", "exit code")
    )


def load() -> Errors:
    """Read errors.json."""
    return table.record_of(Errors, table.read("errors"))
