"""The detail of one check: problem, reason, what to do, and evidence, as blocks to be drawn in order."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from npudoctor.records import record
from npudoctor.tui.model.diagnosis import Diagnosis, State, about, worth

if TYPE_CHECKING:
    from npudoctor.findings import Evidence, Finding, Result


class Kind(Enum):
    """The kind of a block."""

    TITLE = "title"
    ABOUT = "about"
    TEXT = "text"
    HEADING = "heading"
    COMMAND = "command"
    FIX = "fix"
    SOURCE = "source"
    FOUND = "found"
    EXPECTED = "expected"
    LINK = "link"
    TRACE = "trace"
    GAP = "gap"


@record(frozen=True)
class Block:
    """One paragraph. `state` colours a title; `target` is the linked check, or the offered fix."""

    kind: Kind
    text: str = ""
    state: State | None = None
    target: str | None = None


GAP = Block(Kind.GAP)
_WAITING = {
    "after-login": "The fix was applied and verified in a fresh login shell. Running processes, including this one, "
    "keep their old environment variables: open a new shell, and start the job there. Press e to judge the next login.",
    "after-reboot": "The fix was applied. It takes effect after a reboot and cannot be verified before.",
}


def blocks(diagnosis: Diagnosis, id: str) -> list[Block]:
    """The detail of a check."""
    row, result = diagnosis.row(id), diagnosis.results.get(id)
    if row.state in (State.PENDING, State.RUNNING) or result is None:
        return [Block(Kind.TITLE, row.title, row.state), Block(Kind.ABOUT, f"{id} · {row.summary}")]
    found: list[Block] = []
    progress = diagnosis.progress_of(id)
    if row.state is State.WAITING and progress is not None:
        found = [Block(Kind.TITLE, row.summary, row.state), Block(Kind.ABOUT, id), GAP]
        found += [Block(Kind.TEXT, _WAITING[progress.stage.value]), GAP, Block(Kind.HEADING, "Was")]
        return [*found, *(Block(Kind.TEXT, about(finding)) for finding in worth(result))]
    for finding in [*worth(result), *(one for one in result.findings if one.severity.value == "info")]:
        found += [*([GAP, GAP] if found and found[-1] is not GAP else []), *_finding(finding, id)]
    if result.page:
        address = f"{result.page} · " if result.page.startswith("https://") else ""
        found += [GAP, Block(Kind.ABOUT, f"explained: {address}npudoctor explain {id}")]
    if not result.findings:
        found += [Block(Kind.TITLE, result.title, row.state), Block(Kind.ABOUT, _about(result))]
        unjudged = list(_unjudged_blocks(result))
        found += [GAP, *unjudged] if unjudged else []
    if progress is not None and progress.stage.value != "open":
        found.insert(2, Block(Kind.ABOUT, progress.text))
    why = diagnosis.check(id)
    if why is not None and why.why and not worth(result):
        found += [GAP, Block(Kind.HEADING, "Why it matters"), Block(Kind.TEXT, _reflow(why.why))]
    return found


def commands(result: Result | None) -> list[str]:
    """The commands of a check's findings, each once."""
    return list(dict.fromkeys(one for finding in (result.findings if result else ()) for one in finding.commands))


def _finding(finding: Finding, id: str) -> Iterator[Block]:
    severity = finding.severity.value
    state = State.OK if severity == "info" else State(severity)
    yield Block(Kind.TITLE, about(finding), state)
    yield Block(Kind.ABOUT, f"{id} · {severity}" + (f" · {finding.pitfall}" if finding.pitfall else ""))
    if finding.detail:
        yield GAP
        yield Block(Kind.TEXT, finding.detail)
    if finding.hint or finding.commands:
        yield GAP
        yield Block(Kind.HEADING, "What to do")
    if finding.hint:
        yield Block(Kind.TEXT, finding.hint)
    for command in finding.commands:
        yield Block(Kind.COMMAND, command)
    if finding.fix:
        yield GAP
        yield Block(Kind.FIX, finding.fix.id, target=finding.fix.id)
    if finding.evidence:
        yield GAP
        yield Block(Kind.HEADING, "Evidence")
        for evidence in finding.evidence:
            yield from _evidence(evidence)
    for link in finding.links:
        yield Block(Kind.ABOUT, link)


def _evidence(evidence: Evidence) -> Iterator[Block]:
    yield Block(Kind.SOURCE, evidence.source)
    if evidence.actual is not None:
        yield Block(Kind.FOUND, evidence.actual or "nothing")
    if evidence.expected is not None:
        yield Block(Kind.EXPECTED, evidence.expected or "nothing")


def _reflow(text: str) -> str:
    """Paragraphs without the line breaks of the source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _unjudged_blocks(result: Result) -> Iterator[Block]:
    if result.blocked_by:
        yield Block(Kind.TEXT, "Skipped because this check has an error; fix it first:")
        yield Block(Kind.LINK, result.blocked_by, target=result.blocked_by)
    elif result.reason:
        yield Block(Kind.TEXT, result.reason)
    if result.detail:
        yield GAP
        yield Block(Kind.HEADING, "Traceback")
        yield Block(Kind.TRACE, result.detail.rstrip())


def _about(result: Result) -> str:
    took = f" · {result.duration_s:.1f} s" if result.duration_s >= 1 else ""
    return f"{result.check} · {result.status.value}{took}"
