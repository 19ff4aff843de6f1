"""A report as one page of text: the verdict, the problems in short, one line per group, and the next command.

Each problem keeps its headline with its subject and check, one piece of evidence, and its fix, its first command or
what to do. Two of them fit on 24 rows of 80 columns; where there is room they are shown with all their commands.
`npudoctor.report.text` has the whole list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, takewhile

from rich.text import Text

from npudoctor.findings import Evidence, Finding, Report, Result, Severity, Status, Verdict
from npudoctor.records import replace
from npudoctor.report import cause, inventory
from npudoctor.report.look import wrap
from npudoctor.report.text import (
    LONG_COMMAND,
    NARROW,
    STYLES,
    Look,
    Printer,
    evidence_line,
    subjects_line,
    unchecked_note,
    why_quiet,
)

ROWS = 24
"""A page of more rows is printed with fewer commands of each problem."""

MOST_IN_FULL = 6
"""So many problems have evidence and a command; the others have their headline."""

MOST_ROWS = 2
"""A piece of evidence of more rows is passed over for a shorter one, an advice beside a command is left out."""

LONGEST_LINE = 4096
"""Bytes of the verdict in one line; no summary of a check has so many."""

_LABEL = 10
_WORST = (Status.ERROR, Status.CRASHED, Status.WARNING, Status.OK, Status.SILENCED, Status.SKIPPED)
_NAMED = 3


def render(report: Report, *, look: Look | None = None, node: str = "") -> str:
    """The page; `node` are the options that name the node, for the commands that are shown."""
    look = look or Look()
    pages = []
    airy = ((True, True, MOST_ROWS), (False, True, MOST_ROWS))
    for whole, spaced, advice in (*airy, *((False, False, rows) for rows in range(MOST_ROWS, -1, -1))):
        pages.append(_Page(look, node, whole=whole, airy=spaced, advice=advice).render(report))
        if sum(max(1, -(-len(row) // look.width)) for row in pages[-1].splitlines()) <= ROWS:
            return pages[-1]
    return pages[1]


def line(report: Report, *, look: Look | None = None) -> str:
    """The verdict in one line: the first problem and how many more there are."""
    return f"{(look or Look()).glyphs[_kind(report)]} {cause.one_line(report, room=LONGEST_LINE)}\n"


def _kind(report: Report) -> str:
    return "undetermined" if report.verdict is Verdict.UNDETERMINED else report.verdict.value


class _Page(Printer):
    """`whole`: with all commands of a problem; `airy`: with a blank line between the parts; `advice`: its rows."""

    def __init__(self, look: Look, node: str, *, whole: bool, airy: bool, advice: int) -> None:
        super().__init__(look, node)
        self._advice = advice
        self._airy = airy
        self._whole = whole
        self._told: set[str] = set()
        """The advice of problems above, which is not repeated."""

    def render(self, report: Report) -> str:
        problems = _problems(report)
        self._headline(report, sum(map(len, problems)))
        self._node(report)
        self._add_blank()
        for number, alike in enumerate(problems):
            self._problem(alike, in_full=number < MOST_IN_FULL)
        unknown = self._without_result(report, told=not problems)
        fixed = [result for result in report.results if result.status is Status.OK and result.progress]
        if fixed:
            names = ", ".join(result.check for result in fixed[:_NAMED])
            more = f" and {len(fixed) - _NAMED} more" if len(fixed) > _NAMED else ""
            said = Text(f" fixed by npudoctor and verified: {names}{more} (npudoctor history)")
            self._line("", self._mark("ok") + said, hang=2)
        if problems or unknown or fixed:
            self._add_blank()
        self._groups(report.results)
        self._add_blank()
        self._closing(report)
        return self._out.getvalue()

    def _add_blank(self) -> None:
        if self._airy:
            self._console.print()

    def _headline(self, report: Report, problems: int) -> None:
        unknown = sum(1 for result in report.results if result.leaves_undetermined)
        first = cause.primary(report)
        if first is None:
            said = cause.all_clear(report)
        elif problems:
            said = f"{problems} problem{'s' * (problems != 1)} found"
            if later := sum(
                len(cause.actionable_findings(one, cause.action_threshold(report))) for one in _waiting(report)
            ):
                said += f", {later} of them fixed: in force later"
            if unknown:
                said += f", {unknown} check{'s' * (unknown != 1)} without a result"
            said += cause.silenced_note(report)
        else:
            said = f"{first[1]} ({first[0].check})"
        self._line("", self._mark(_kind(report)) + Text(f" {said}", style="bold"), hang=2)

    def _node(self, report: Report) -> None:
        """What was examined, in one row where possible: what is as usual is left out."""
        host = report.host
        parts = (
            host.hostname,
            f"{host.container} container" if host.container else None,
            host.python_line,
            f"environment of {report.environment}" if report.environment != "process" else None,
            f"profile {report.profile}" if report.profile != "standard" else None,
            f"role {report.role}" if report.role not in ("full", "auto") else None,
            "in service" if report.in_service else None,
        )
        self._line("  ", Text(self._dot.join(part for part in parts if part), style="dim"))
        if self._airy and (known := inventory.short(report.inventory)):
            while len(known) > 1 and len(self._dot.join(known)) > self._look.width - 2:
                known.pop()
            self._line("  ", Text(self._dot.join(known), style="dim"))

    # Problems

    def _problem(self, alike: Sequence[tuple[Result, Finding]], *, in_full: bool) -> None:
        """Findings of one kind: the first in short, and the subjects of the others."""
        result, finding = alike[0]
        head = Text(f" {cause.with_subject(finding)} ", style="bold") + Text(f"({result.check})", style="dim")
        self._line("", self._mark(finding.severity.value) + head, hang=2)
        if len(alike) > 1:
            more = f"and {len(alike) - 1} more of this kind: {self._others([one for _, one in alike])}"
            self._line("  ", Text(more, style="dim"))
        if not in_full:
            return
        if finding.evidence:
            self._add_labelled("evidence", self._shortest(finding.evidence, finding.summary))
        if result.progress is not None and result.progress.fix:
            self._add_labelled("state", result.progress.text)
        if result.waits:
            return
        if finding.fix:
            self._command("  ", self._fix(finding.fix))
            return
        if self._whole:
            if finding.hint:
                self._add_labelled("do", self._in_short(finding.hint))
            for command in finding.commands:
                self._command("  ", command)
            return
        if finding.hint:
            said = self._in_short(finding.hint)
            is_first = len(finding.commands) > 1  # the first of several commands says less than the advice
            rows = self._advice + (is_first and self._advice == MOST_ROWS)
            if said not in self._told and (self._rows(said) <= rows or not finding.commands):
                self._add_labelled("do", said)
                self._told.add(said)
        if finding.commands and (len(finding.commands[0]) <= LONG_COMMAND or not finding.hint):
            self._command("  ", _one_of(finding.commands))

    def _others(self, alike: Sequence[Finding]) -> str:
        """What tells the others from the first finding: their subjects, or else what they say."""
        if alike[0].subject not in {one.subject for one in alike[1:]}:
            return subjects_line(alike[1:])
        said = list(dict.fromkeys(one.summary for one in alike[1:]))
        room = MOST_ROWS * max(self._look.width - 2, 12) - len("and 99 more of this kind: ")
        shown = len(list(takewhile(lambda length: length <= room, accumulate(len(one) + 2 for one in said)))) or 1
        return "; ".join([*said[:shown], *([f"… ({len(said)} in all)"] if shown < len(said) else [])])

    def _without_result(self, report: Report, *, told: bool) -> int:
        """The checks without a result that no finding reports, by their reason; how many reasons.

        `told` says that the headline has the first of them.
        """
        reasons: dict[str, list[str]] = {}
        for result in report.results:
            if result.leaves_undetermined and (told or not result.reported_by):
                reasons.setdefault(result.reason or "", []).append(result.check)
        for number, (reason, checks) in enumerate(reasons.items()):
            if told and number == 0 and len(checks) == 1:
                continue
            more = f" and {len(checks) - _NAMED} more" if len(checks) > _NAMED else ""
            head = Text(f" could not determine: {reason} ", style=STYLES["crashed"])
            names = Text(f"({', '.join(checks[:_NAMED])}{more})", style="dim")
            self._line("", self._mark("undetermined") + head + names, hang=2)
        return len(reasons)

    def _add_labelled(self, label: str, text: str) -> None:
        self._line(Text(f"  {label.ljust(_LABEL)}", style="cyan"), text)

    def _rows(self, text: str) -> int:
        return len(wrap(Text(text), max(self._look.width - 2 - _LABEL, 12)))

    def _shortest(self, evidence: Sequence[Evidence], summary: str) -> str:
        """The first piece of evidence that takes few rows, if need be without what was expected or the summary says."""
        lines = [evidence_line(one) for one in evidence]
        lines += [evidence_line(replace(one, expected=None)) for one in evidence if one.actual]
        lines += [one.source for one in evidence if one.actual and one.actual in summary]
        return min(lines, key=lambda one: max(MOST_ROWS, self._rows(one)))

    def _in_short(self, text: str) -> str:
        """The text, or as many of its first sentences as take few rows."""
        first, *others = _sentences(text)
        for one in others:
            if self._rows(f"{first} {one}") > self._advice:
                break
            first += f" {one}"
        return first

    # Groups

    def _groups(self, results: Sequence[Result]) -> None:
        """One row per group; groups without a result share one where the reason is the same or none matters."""
        rows: list[tuple[str, str, str]] = []
        skipped: dict[str, list[tuple[str, int, str]]] = {}
        for group, these in groupby(results, key=lambda result: result.check.partition(".")[0]):
            members = list(these)
            if any(result.status is not Status.SKIPPED for result in members):
                rows.append((group, *_counts(members)))
                continue
            reasons = {why_quiet(result) for result in members}
            behind = {result.blocked_by for result in members}
            key = f"see {behind.pop()}" if len(behind) == 1 and None not in behind else ""
            why = reasons.pop() if len(reasons) == 1 else "do not apply here"
            skipped.setdefault(key, []).append((group, len(members), why))
        for alike in skipped.values():
            why = alike[0][2] if len({why for _, _, why in alike}) == 1 else "do not apply here"
            rows.append(
                (
                    ", ".join(group for group, _, _ in alike),
                    "skipped",
                    f"{sum(count for _, count, _ in alike)} skipped: {why}",
                )
            )
        width = max((len(group) for group, _, _ in rows if "," not in group), default=0)
        for group, kind, said in rows:
            lead = self._mark(kind) + Text(f" {group.ljust(width)}  ")
            if len(lead) + len(said) <= self._look.width or self._look.width >= NARROW:
                self._line(lead, Text(said, style="dim"), hang=min(len(lead), width + 4))
            else:
                self._line("", lead, hang=2)
                self._line("  ", Text(said, style="dim"))

    # The end

    def _first_of(self, commands: Sequence[str]) -> str:
        return commands[0] if self._whole else _one_of(commands)

    def _closing(self, report: Report) -> None:
        text = f"{cause.counts(report)} in {report.duration_s:.1f} s."
        if left := unchecked_note(report):
            text += f" Not checked: {left}."
        first = cause.primary(report)
        if first is None:
            self._line("", f"{text} -v lists all checks. Nothing to fix.")
            return
        advice, command = self._next_step(report)
        if first[0].waits and all(alike[0][0].waits for alike in _problems(report)):
            self._line("", f"{text} {advice}")
            if command:
                self._command("  ", command)
            return
        self._line("", f"{text} -v lists all checks{'' if self._whole else ' and commands'}. Next:")
        hidden = max((len(one.commands) for one in first[0].findings), default=0)
        if hidden and not command:  # the first is too long for a page
            which = "the command" if hidden == 1 else f"the {hidden} commands"
            command = f"npudoctor check -v {first[0].check}{self._on_node}  # shows {which}"
        self._command("  ", command or f"npudoctor explain {first[0].blocked_by or first[0].check}")


def _one_of(commands: Sequence[str]) -> str:
    """The first command, with a comment that says how many there are."""
    if len(commands) == 1:
        return commands[0]
    return f"{commands[0]}{';' if '  # ' in commands[0] else '  #'} first of {len(commands)} commands, -v shows all"


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text)


def _problems(report: Report) -> list[list[tuple[Result, Finding]]]:
    """The findings to act on, those of one kind together; the most severe first."""
    least = cause.action_threshold(report)
    found = [(result, one) for result in report.results for one in cause.actionable_findings(result, least)]
    found.sort(key=lambda pair: -pair[1].severity.rank)
    kinds: dict[tuple[str, str, Severity], list[tuple[Result, Finding]]] = {}
    for number, pair in enumerate(found):
        result, finding = pair
        kinds.setdefault((result.check, finding.code or str(number), finding.severity), []).append(pair)
    return list(kinds.values())


def _waiting(report: Report) -> list[Result]:
    """The results whose problems are fixed, with an effect that comes later."""
    return [result for result in report.results if result.waits]


def _counts(results: Sequence[Result]) -> tuple[str, str]:
    """The mark of a group, and how its checks ended, the worst first."""
    return _worst(results).value, ", ".join(_parts(results))


def _worst(results: Sequence[Result]) -> Status:
    ended = {result.status for result in results}
    return next(status for status in _WORST if status in ended)


def _parts(results: Sequence[Result]) -> Iterator[str]:
    ended = [result.status for result in results]
    for status in _WORST:
        if number := ended.count(status):
            plural = status in (Status.ERROR, Status.WARNING) and number != 1
            yield f"{number} {status.value}{'s' * plural}"
    notes = sum(1 for result in results for one in result.open_findings if one.severity is Severity.INFO)
    if notes:
        yield f"{notes} note{'s' * (notes != 1)}"
