"""The report as text: the cause first, one line per check, failed ones in detail, the next step last."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from npudoctor.findings import Evidence, Finding, FixOffer, Report, Result, Severity, Skip, Status, Verdict
from npudoctor.records import replace
from npudoctor.report import cause
from npudoctor.report.look import ASCII_GLYPHS as ASCII_GLYPHS
from npudoctor.report.look import GLYPHS as GLYPHS
from npudoctor.report.look import STYLES as STYLES
from npudoctor.report.look import Look as Look
from npudoctor.report.look import look_of as look_of
from npudoctor.report.look import wrap

_QUIET = frozenset({Status.SKIPPED, Status.SILENCED})

NARROW = 60
"""Below this width in columns, a title is printed under its check, not beside it."""

LONG_COMMAND = 72
"""A longer command is not repeated in the last line; the hint is printed there instead."""


MOST_OF_A_KIND = 3
"""So many findings of one kind are printed in full."""

MOST_HEADLINES = 8
"""So many more are printed with their headline."""

MOST_EVIDENCE = 6
"""So many pieces of evidence of one finding are printed."""

LONGEST_PARAGRAPH = 1 << 14
"""The most characters of one paragraph that are shown: wrapping millions of them takes minutes."""


def render(report: Report, *, look: Look | None = None, verbose: bool = False, node: str = "") -> str:
    """The whole report; `node` are the options that name the node, for the commands that are shown."""
    return _List(look or Look(), node, verbose=verbose).render(report)


class Printer:
    """Prints marked and wrapped paragraphs; `node` are the options that name the node."""

    def __init__(self, look: Look, node: str) -> None:
        self._look = look
        self._on_node = f" {node}" if node else ""
        self._glyphs = look.glyphs
        self._dot = " · " if look.unicode else " | "
        self._out = io.StringIO()
        self._console = look.console(self._out)

    def _line(self, lead: str | Text, text: str | Text, *, style: str = "", hang: int | None = None) -> None:
        """One paragraph, wrapped below its own beginning."""
        body = text if isinstance(text, Text) else Text(text, style=style)
        hang = len(lead) if hang is None else hang
        if len(body) > LONGEST_PARAGRAPH:
            body = body[:LONGEST_PARAGRAPH] + Text("…" if self._look.unicode else "...")
        pieces = wrap(body, max(self._look.width - hang, 12))
        for number, piece in enumerate(pieces):
            piece.rstrip()
            start = lead if number == 0 else " " * hang
            self._console.print((start if isinstance(start, Text) else Text(start)) + piece, soft_wrap=True)

    def _mark(self, kind: str) -> Text:
        return Text(self._glyphs[kind], style=STYLES[kind])

    def _command(self, lead: str, command: str) -> None:
        """A command to copy, never wrapped."""
        self._console.print(Text(f"{lead}$ ", style="dim") + Text(command, style="green"), soft_wrap=True)

    def _closing(self, report: Report) -> None:
        """How the checks ended, and what to do first."""
        text = f"{cause.counts(report)} in {report.duration_s:.1f} s."
        if left := unchecked_note(report):
            text += f" Not checked: {left}."
        advice, command = self._next_step(report)
        self._line("", f"{text} {advice}")
        if command:
            self._command("  ", command)

    def _next_step(self, report: Report) -> tuple[str, str | None]:
        """What to do first, and the command for it, on a line of its own so that it can be copied."""
        first = cause.primary(report)
        if first is None:
            return "Nothing to fix.", None
        result, _ = cause.primary(_unfixed_report(report)) or first
        if result.waits:
            return self._later(report)
        worst = max(
            cause.actionable_findings(result, cause.action_threshold(report)),
            key=lambda finding: finding.severity.rank,
            default=None,
        )
        if worst is None:
            return f"Start with {result.blocked_by or result.check}.", None
        if worst.fix:
            return f"Start with {result.check}:", self._fix(worst.fix)
        if worst.commands and len(worst.commands[0]) <= LONG_COMMAND:
            return f"Start with {result.check}:", self._first_of(worst.commands)
        return f"Start with {result.check}: {worst.hint or worst.summary}", None

    def _first_of(self, commands: Sequence[str]) -> str:
        """What to show of the commands of a finding where there is room for one."""
        return commands[0]

    def _later(self, report: Report) -> tuple[str, str | None]:
        """What to do where every problem is fixed and some effects come later."""
        if any(one.progress and one.progress.stage == "after-reboot" for one in report.results):
            return "All problems are fixed, some after a reboot only: reboot and check again.", None
        command = f"npudoctor check --environment login{self._on_node}"
        return "All problems are fixed after the next login: open a new shell, or check as a new login:", command

    def _fix(self, offer: FixOffer) -> str:
        return fix_command(offer.id, self._on_node.strip())


class _List(Printer):
    """Every check by itself."""

    def __init__(self, look: Look, node: str, *, verbose: bool) -> None:
        super().__init__(look, node)
        self._opened: frozenset[str] = frozenset()
        self._verbose = verbose

    def render(self, report: Report) -> str:
        self._headline(report)
        self._node(report)
        self._add_problems([result for result in report.results if _is_broken(result, cause.action_threshold(report))])
        for group, results in groupby(report.results, key=lambda result: result.check.partition(".")[0]):
            self._group(group, list(results))
        self._console.print()
        self._closing(report)
        return self._out.getvalue()

    # Parts

    def _headline(self, report: Report) -> None:
        first = cause.primary(report)
        kind = "undetermined" if report.verdict is Verdict.UNDETERMINED else report.verdict.value
        line = self._mark(kind) + Text(" ")
        if first:
            result, summary = first
            line += Text(f"{summary} ", style="bold") + Text(f"({result.check})", style="dim")
            more = (
                sum(len(cause.actionable_findings(other, cause.action_threshold(report))) for other in report.results)
                - 1
            )
            if more > 0:
                line += Text(f" and {more} more", style="dim")
        else:
            line += Text(cause.all_clear(report), style="bold")
        self._line("", line, hang=2)
        self._console.print()

    def _node(self, report: Report) -> None:
        host = report.host
        kernel = f"kernel {host.kernel}" if host.kernel else None
        container = f"{host.container} container" if host.container else None
        state = None if report.in_service is None else "in service" if report.in_service else "idle"
        python = host.python_line or "no Python inspected"
        whose = "this process" if report.environment == "process" else report.environment
        for parts in (
            (host.hostname, host.os, kernel, host.machine, container),
            (python, f"environment of {whose}", f"profile {report.profile}", f"role {report.role}", state),
        ):
            self._line("  ", Text(self._dot.join(part for part in parts if part), style="dim"))

    def _add_problems(self, results: Sequence[Result]) -> None:
        """The findings to act on, in detail and before everything else; the most severe first."""
        opened = sorted(results, key=lambda result: -result.worst.rank if result.worst else 0)
        self._opened = frozenset(result.check for result in opened)
        for result in opened:
            self._console.print()
            head = Text.assemble(self._mark(result.status.value), " ", (result.check, "bold"))
            title = Text(result.title, style="dim")
            if len(head) + 2 + len(title) <= self._look.width:
                self._console.print(head + Text("  ") + title, soft_wrap=True)
            else:
                self._console.print(head, soft_wrap=True)
                self._line("  ", title)
            if result.progress is not None and result.progress.fix:
                self._line(Text("    state     ", style="cyan"), result.progress.text)
            self._details(result)

    def _details(self, result: Result) -> None:
        if result.status is Status.CRASHED:
            self._line("    ", Text(f"could not determine: {result.reason}", style=STYLES["crashed"]))
        self._findings(result.findings)
        if result.status is not Status.CRASHED:
            more = Text("      explain   ", style="cyan") + Text(f"npudoctor explain {result.check}", style="green")
            self._console.print(more, soft_wrap=True)
        if result.page and result.page.startswith("https://"):
            self._line(Text("      page      ", style="cyan"), result.page)
        if result.status is Status.CRASHED and result.detail and self._verbose:
            self._line("      ", Text(result.detail, style="dim"))

    def _group(self, name: str, results: Sequence[Result]) -> None:
        self._console.print()
        self._console.print(Text(name, style="bold"))
        shown: list[Result] = []
        hidden: dict[str, list[Result]] = {}
        for result in results:
            if result.status in _QUIET and not self._verbose:
                hidden.setdefault(why_quiet(result), []).append(result)
            else:
                shown.append(result)
        shown += [alike[0] for alike in hidden.values() if len(alike) == 1]
        order = {result.check: place for place, result in enumerate(results)}
        width = max(len(result.check) for result in results)
        for result in sorted(shown, key=lambda result: order[result.check]):
            self._result(result, width)
        for alike in hidden.values():
            if len(alike) > 1:
                said = Text(f" {len(alike)} {_kind(alike[0])}{why_quiet(alike[0])}", style="dim")
                self._line("  ", self._mark("skipped") + said, hang=4)

    def _result(self, result: Result, width: int) -> None:
        head = Text("  ") + self._mark(result.status.value) + Text(" ")
        broken = result.status in (Status.WARNING, Status.ERROR, Status.CRASHED)
        name = Text(result.check, style="bold" if broken else "dim" if result.status in _QUIET else "")
        if result.status in _QUIET:
            about = Text(f"{_kind(result)}{why_quiet(result)}", style="dim")
        elif result.status is Status.CRASHED:
            about = Text(f"could not determine: {result.reason}", style=STYLES["crashed"])
        else:
            about = Text(result.title, style="dim" if broken else "")
            if result.progress is not None and result.progress.fix and not broken:
                about += Text(f" · {result.progress.text}" if self._look.unicode else f" | {result.progress.text}")
        if self._look.width < NARROW:
            self._console.print(head + name)
            self._line("    ", about)
        else:
            name.pad_right(width - len(result.check) + 2)
            pieces = wrap(about, max(self._look.width - width - 6, 12))
            for number, piece in enumerate(pieces):
                piece.rstrip()
                self._console.print((head + name if number == 0 else Text(" " * (width + 6))) + piece, soft_wrap=True)
        if result.check not in self._opened and (self._verbose or not result.silenced):
            self._findings(result.findings)

    def _findings(self, findings: Sequence[Finding]) -> None:
        """All findings of a check; of many of one kind the first in full, and the others folded."""
        kinds: dict[tuple[str | None, Severity], list[Finding]] = {}
        for finding in findings:
            kinds.setdefault((finding.code, finding.severity), []).append(finding)
        for (code, severity), alike in kinds.items():
            if self._verbose or not code or len(alike) <= MOST_OF_A_KIND:
                for finding in alike:
                    self._finding(finding)
                continue
            self._finding(alike[0])
            others = alike[1:] if severity > Severity.INFO else []
            for finding in others[:MOST_HEADLINES]:
                self._summary(finding)
            rest = alike[1 + len(others[:MOST_HEADLINES]) :]
            if rest:
                self._line(
                    "    ", Text(f"… and {len(rest)} more of this kind: {subjects_line(rest)} (-vv)", style="dim")
                )

    def _summary(self, finding: Finding) -> None:
        self._line(
            "    ",
            self._mark(finding.severity.value)
            + Text(f" {cause.with_subject(finding)}", style="" if finding.severity is Severity.INFO else "bold"),
            hang=6,
        )

    def _finding(self, finding: Finding) -> None:
        self._summary(finding)
        if finding.severity is Severity.INFO and not self._verbose:
            return
        if finding.detail:
            self._line("      ", finding.detail)
        if finding.hint:
            self._line(Text("      do        ", style="cyan"), finding.hint)
        for command in finding.commands:
            self._command("                ", command)
        shown = finding.evidence if self._verbose else finding.evidence[:MOST_EVIDENCE]
        for evidence in shown:
            self._line(Text("      evidence  ", style="cyan"), evidence_line(evidence))
        if len(shown) < len(finding.evidence):
            more = f"… and {len(finding.evidence) - len(shown)} more (-vv)"
            self._line("                ", Text(more, style="dim"))
        if finding.fix:
            self._line(Text("      fix       ", style="cyan"), self._fix(finding.fix), style="green")
        if finding.pitfall and self._verbose:
            self._line(Text("      issue     ", style="cyan"), finding.pitfall)
        for link in finding.links if self._verbose else ():
            self._line(Text("      link      ", style="cyan"), link)


def fix_command(id: str, node: str) -> str:
    """The command of a fix; `node` are the options that name the node. Only a node itself can be changed."""
    if node.startswith(("--root", "--replay")):
        return f"npudoctor fix {id}  # on the node itself"
    return f"npudoctor fix {id} {node}".strip()


def _unfixed_report(report: Report) -> Report:
    """The report with the problems that are still to fix; the others wait for a login or a boot."""
    if report.verdict is Verdict.UNDETERMINED:
        return report
    return replace(report, results=tuple(one for one in report.results if not one.waits))


def _is_broken(result: Result, least: Severity) -> bool:
    return result.status is Status.CRASHED or bool(cause.actionable_findings(result, least))


def _kind(result: Result) -> str:
    return "skipped: " if result.status is Status.SKIPPED else ""


def why_quiet(result: Result) -> str:
    """Why a check was skipped or silenced."""
    if result.status is Status.SILENCED:
        found = len([finding for finding in result.findings if finding.severity > Severity.INFO])
        return f"{result.silenced} ({found} {'finding' if found == 1 else 'findings'})"
    return f"see {result.blocked_by}" if result.skip is Skip.BLOCKED else result.reason or ""


def unchecked_note(report: Report) -> str:
    """How many checks lacked privileges, and how many the recording; they are reported, but fail nothing."""
    kinds = {"no-right": "for lack of privileges", "not-recorded": "not in this recording"}
    counts = {
        key: sum(1 for result in report.results if result.because and result.because.value == key) for key in kinds
    }
    return ", ".join(f"{number} {kinds[key]}" for key, number in counts.items() if number)


def subjects_line(findings: Sequence[Finding]) -> str:
    """The subjects of several findings, each once, as many as a line holds."""
    subjects = list(dict.fromkeys(finding.subject for finding in findings))
    more = f", … ({len(subjects)} in all)" if len(subjects) > MOST_HEADLINES else ""
    return ", ".join(subjects[:MOST_HEADLINES]) + more


def evidence_line(evidence: Evidence) -> str:
    """A piece of evidence in one line."""
    parts = [evidence.source]
    if evidence.actual is not None:
        parts.append(f"actual {evidence.actual or 'nothing'}")
    if evidence.expected is not None:
        parts.append(f"expected {evidence.expected}")
    return f"{parts[0]}: {', '.join(parts[1:])}" if len(parts) > 1 else parts[0]
