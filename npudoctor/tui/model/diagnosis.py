"""Progress and results of a run, in reading order: causes first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING

from npudoctor.records import record

if TYPE_CHECKING:
    from npudoctor.engine import Event
    from npudoctor.findings import Finding, Report, Result
    from npudoctor.fixer.progress import Change, Progress
    from npudoctor.sdk import Check
    from npudoctor.smoke.events import SmokeReport

BROKEN = "Problems"
"""The heading of all checks to act on."""
WAITING = "Fixed — not yet in effect"
"""The heading of fixed checks whose fix is not yet in effect."""


class State(str, Enum):
    """The state of a check. WAITING: fixed, effective after a new login or a reboot."""

    PENDING = "pending"
    RUNNING = "running"
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"
    CRASHED = "crashed"
    WAITING = "waiting"

    @property
    def broken(self) -> bool:
        """Whether the check needs action."""
        return self in (State.WARNING, State.ERROR, State.CRASHED)


_CODE = re.compile(r"\b(?:E[A-Z0-9]\d{4}|P\d{3}|[1-5]\d{5}|0x[0-9A-Fa-f]{4,8}|[0-9A-F]{8})\b")
"""Codes of CANN's components, known issues of npudoctor, and codes of the runtime and of faults."""

_INCOMPLETE = 3
"""The exit code of a smoke run that did not test every NPU that it should."""

_URGENCY = {State.ERROR: 0, State.CRASHED: 1, State.WARNING: 2, State.WAITING: 3}


@record(frozen=True, kw_only=True)
class Row:
    """One check in the list. `noted`: ok, with an information finding; `fixable`: a fix is offered."""

    check: str
    title: str
    state: State
    summary: str
    blocked_by: str | None = None
    noted: bool = False
    fixable: bool = False

    @property
    def group(self) -> str:
        """The subject of its id."""
        return self.check.partition(".")[0]


@record(frozen=True)
class Section:
    """Rows under a heading, with a remark beside it."""

    name: str
    rows: tuple[Row, ...]
    remark: str = ""


@record(frozen=True, kw_only=True)
class Headline:
    """The verdict in one line. `check` is the cause; `more` counts the other findings; `next` is the next step.

    `short` replaces the text where it has no room.
    """

    state: State
    text: str
    check: str | None = None
    more: int = 0
    next: str = ""
    short: str = ""


@record(frozen=True, kw_only=True)
class Shown:
    """The filter of the list: `words` that a row must contain, and whether ok and skipped rows are listed."""

    words: str = ""
    ok: bool = True
    skipped: bool = True

    def admits(self, row: Row, text: Callable[[str], str] = str) -> bool:
        """Whether a row is listed; `text` gives all that is said about a check."""
        if row.state is State.OK and not self.ok and not row.noted:
            return False
        if row.state is State.SKIPPED and not self.skipped:
            return False
        if not self.words:
            return True
        said = f"{row.check} {row.title} {row.summary} {text(row.check)}".lower()
        return all(word in said for word in self.words.lower().split())


class Diagnosis:
    """Follows the events of a run. A result stays visible while its check runs again."""

    def __init__(self) -> None:
        self.results: dict[str, Result] = {}
        self.report: Report | None = None
        self.running = False
        self.changes: tuple[Change, ...] = ()
        self.noted: tuple[Change, ...] = ()
        self.booted_at: str | None = None
        self.at_login = False
        self.pending = ""
        self.previewed: set[str] = set()
        self.smoke: SmokeReport | None = None
        self._checks: dict[str, Check] = {}
        self._begun: set[str] = set()
        self._ended: set[str] = set()

    def begin(self, checks: Iterable[Check]) -> None:
        """Start a run of these checks."""
        self._checks = {check.id: check for check in checks}
        self.results = {id: result for id, result in self.results.items() if id in self._checks}
        self._begun, self._ended = set(), set()
        self.running = True

    def take(self, event: Event) -> None:
        """Update the state from an event."""
        name = type(event).__name__
        if name == "Started":
            self._begun.add(event.check)  # type: ignore[union-attr]
        elif name == "Finished":
            result: Result = event.result  # type: ignore[union-attr]
            self.results[result.check] = result
            self._ended.add(result.check)
        elif name == "Done":
            self.report = event.report  # type: ignore[union-attr]
            self.running = False

    def know(self, changes: Sequence[Change], booted_at: str | None, *, at_login: bool, pending: str = "") -> None:
        """Take the applied runs of the journal, which environment is judged, and what goes on with an installation."""
        self.pending = pending
        self.changes, self.booted_at, self.at_login = tuple(changes), booted_at, at_login

    def note(self, changes: Iterable[Change]) -> None:
        """Keep changes whose journal this user cannot read: those that sudo made for this session."""
        self.noted = (*self.noted, *changes)

    def forget_smoke(self) -> None:
        """Drop the smoke run of a node that has been changed since, or of another environment."""
        self.smoke = None

    # Queries

    @property
    def progress(self) -> tuple[int, int]:
        """The number of finished checks, and of all."""
        return len(self._ended), len(self._checks) or len(self.results)

    def rows(self) -> Iterator[Row]:
        """Every check, in the order of the catalogue; plug-ins that could not be loaded come first."""
        known = [id for id in self.results if id not in self._checks]
        for id in (*known, *self._checks):
            yield self.row(id)

    def row(self, id: str) -> Row:
        """The row of one check."""
        result, check = self.results.get(id), self._checks.get(id)
        title = result.title if result else check.title if check else id
        if self.running and id not in self._ended and id in self._checks:
            begun = id in self._begun
            state = State.RUNNING if begun else State.PENDING
            return Row(check=id, title=title, state=state, summary="running" if begun else "queued")
        if result is None:
            return Row(check=id, title=title, state=State.PENDING, summary="not run yet")
        state = State(result.status.value)
        if state.broken and (progress := self.progress_of(id)) is not None and progress.stage.waits:
            return Row(check=id, title=title, state=State.WAITING, summary=progress.text)
        return Row(
            check=id,
            title=title,
            state=state,
            summary=_summary(result),
            blocked_by=result.blocked_by,
            noted=state is State.OK and bool(result.findings),
            fixable=any(finding.fix for finding in worth(result)),
        )

    def progress_of(self, id: str) -> Progress | None:
        """How far the problem of a check is; None where it has none and nothing was changed for it."""
        result = self.results.get(id)
        if result is None:
            return None
        from npudoctor.fixer import progress  # late: the first frame does not need it

        return progress.of_check(
            result,
            (*self.noted, *self.changes),
            at_login=self.at_login,
            booted_at=self.booted_at,
            previewed=id in self.previewed,
        )

    def text_of(self, id: str) -> str:
        """All that is said about a check: its findings with evidence, codes, commands and fixes, and why it matters."""
        result, check = self.results.get(id), self._checks.get(id)
        parts: list[str | None] = [check.why if check else None, *(check.tags if check else ())]
        parts += [result.reason, result.blocked_by] if result else []
        for finding in result.findings if result else ():
            parts += [finding.summary, finding.detail, finding.hint, finding.code, finding.pitfall, *finding.commands]
            parts += [finding.subject, *(finding.links or ()), finding.fix.id if finding.fix else None]
            parts += [f"{one.source} {one.actual or ''} {one.expected or ''}" for one in finding.evidence]
        return " ".join(part for part in parts if part)

    def evidence_of(self, id: str) -> list[tuple[str, str]]:
        """What the problems of a check were seen by: source and actual value."""
        result = self.results.get(id)
        found = [one for finding in worth(result) for one in finding.evidence] if result else []
        return [(one.source, one.actual or "nothing") for one in found]

    def fixes_of(self, id: str) -> set[str]:
        """The fixes that the findings of a check offer."""
        result = self.results.get(id)
        return {finding.fix.id for finding in worth(result) if finding.fix} if result else set()

    def codes_of(self, id: str) -> list[str]:
        """The error codes and known issues that the findings of a check name, and the check itself."""
        result = self.results.get(id)
        text = " ".join(
            f"{finding.pitfall or ''} {finding.summary} {finding.detail or ''}"
            for finding in (result.findings if result else ())
        )
        return [*dict.fromkeys(_CODE.findall(text)), id]

    def codes(self) -> dict[str, str]:
        """Every code that a finding names, with the first check that names it."""
        found: dict[str, str] = {}
        for id in self.results:
            for code in self.codes_of(id)[:-1]:
                found.setdefault(code, id)
        return found

    def sections(self, shown: Shown) -> list[Section]:
        """The list: problems, most severe first, then the groups with the other checks."""
        rows = list(self.rows())
        urgent = sorted(
            (row for row in rows if row.state in _URGENCY and shown.admits(row, self.text_of)),
            key=lambda row: _URGENCY[row.state],
        )
        broken = tuple(row for row in urgent if row.state.broken)
        waiting = tuple(row for row in urgent if not row.state.broken)
        sections = [Section(name, rows) for name, rows in ((BROKEN, broken), (WAITING, waiting)) if rows]
        for group, members in groupby(rows, key=lambda row: row.group):
            alike = list(members)
            rest = tuple(row for row in alike if row.state not in _URGENCY and shown.admits(row, self.text_of))
            if rest:
                sections.append(Section(group, rest, _remark(alike)))
        return sections

    def cause_elsewhere(self) -> str | None:
        """For a screen without data: the problem that may explain it, and where to read of it; None without one."""
        found = self.headline()
        return (
            f"{found.text} ({found.check}); 1 Overview says what to do" if found.state.broken and found.check else None
        )

    def headline(self) -> Headline:
        """The verdict, or the state of the run."""
        worst = [row for row in self.rows() if row.state in _URGENCY]
        worst.sort(key=lambda row: _URGENCY[row.state])
        if worst and worst[0].state is not State.WAITING:
            more = sum(len(worth(self.results[row.check])) or 1 for row in worst if row.state.broken) - 1
            return Headline(state=worst[0].state, text=worst[0].summary, check=worst[0].check, more=more)
        if self.running or self.report is None:
            return Headline(state=State.RUNNING, text="checking this node")
        if worst:
            return Headline(state=State.WAITING, text=worst[0].summary, check=worst[0].check, more=len(worst) - 1)
        if self.report.verdict.value == "undetermined":
            undetermined = next((result for result in self.results.values() if result.leaves_undetermined), None)
            reason = undetermined.reason if undetermined else "some checks have no result"
            check = undetermined.check if undetermined else None
            return Headline(state=State.CRASHED, text=f"could not determine: {reason}", check=check)
        return self._all_clear(self.report)

    def _all_clear(self, report: Report) -> Headline:
        from npudoctor.report.cause import all_clear  # late: the first frame does not need it

        if self.smoke is None:
            return Headline(
                state=State.OK, text=all_clear(report), short="No problems found", next="5, then g: smoke run"
            )
        from npudoctor.report.smoke import headline

        said = f"smoke {headline(self.smoke)}"
        if self.smoke.exit_code != 0:
            state = State.CRASHED if self.smoke.exit_code == _INCOMPLETE else State.ERROR
            return Headline(state=state, text=f"no problems found, but {said}")
        total, skipped = len(report.results), report.summary.get("skipped", 0)
        return Headline(
            state=State.OK,
            text=f"Node ready: no problems ({total} checks, {skipped} not applicable), {said}",
            short=f"Node ready: no problems, {said.partition(' (')[0]}",
        )

    def counts(self) -> Mapping[State, int]:
        """The number of checks in each state."""
        states = [row.state for row in self.rows()]
        return {state: states.count(state) for state in State if state in states}

    def check(self, id: str) -> Check | None:
        """The check, None where it is unknown."""
        return self._checks.get(id)


def worth(result: Result) -> list[Finding]:
    """The findings to act on."""
    return [finding for finding in result.findings if finding.severity.value != "info"]


def about(finding: Finding) -> str:
    """The summary, with the NPU or interface that it is about."""
    from npudoctor.report.cause import with_subject  # late, as above

    return with_subject(finding)


def _summary(result: Result) -> str:
    findings = worth(result) or list(result.findings)
    if findings:
        worst = max(findings, key=lambda finding: finding.severity)
        return about(worst)
    if result.status.value == "skipped":
        return f"see {result.blocked_by}" if result.blocked_by else result.reason or "skipped"
    return result.reason or "ok"


def _remark(rows: Sequence[Row]) -> str:
    ok = sum(row.state is State.OK for row in rows)
    skipped = sum(row.state is State.SKIPPED for row in rows)
    busy = sum(row.state in (State.PENDING, State.RUNNING) for row in rows)
    if busy:
        return f"{busy} left"
    return ", ".join(f"{number} {word}" for number, word in ((ok, "ok"), (skipped, "skipped")) if number)


__all__ = ["BROKEN", "WAITING", "Diagnosis", "Headline", "Row", "Section", "Shown", "State", "about", "worth"]
