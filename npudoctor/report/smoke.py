"""A smoke run as text: the verdict, a row per rank, the loss curve, the bandwidth table, and what to do."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from itertools import groupby

from rich.text import Text

from npudoctor.findings import Finding, Result, Severity, Status
from npudoctor.report.look import wrap
from npudoctor.report.text import ASCII_GLYPHS, GLYPHS, STYLES, Look
from npudoctor.smoke.coverage import coverage
from npudoctor.smoke.events import Bandwidth, Cause, Excluded, RankReport, SmokeReport

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.,-~=*#"


def render(report: SmokeReport, *, look: Look | None = None, verbose: bool = False, node: str = "") -> str:
    """The whole report; `node` are the options that name the node, for the commands that are shown."""
    return _Page(look or Look(), verbose, node).render(report)


def sparkline(values: Sequence[float | None], *, unicode: bool = True, width: int = 60) -> str:
    """A curve as one line of bars from its lowest to its highest value; `x` for a missing value."""
    bars = BARS if unicode else ASCII_BARS
    step = max(1, -(-len(values) // width))
    picked = [values[place] for place in range(0, len(values), step)]
    known = [value for value in picked if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = (high - low) or 1.0
    return "".join("x" if value is None else bars[round((value - low) / span * 7)] for value in picked)


def size_text(size_bytes: int) -> str:
    """8 B, 32 KiB, 256 MiB."""
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size_bytes >= 1 << shift:
            return f"{size_bytes >> shift} {unit}"
    return f"{size_bytes} B"


def time_text(seconds: float | None) -> str:
    """A time with a fitting unit."""
    if seconds is None:
        return "-"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def headline(report: SmokeReport) -> str:
    """The first line: PASS, FAIL or INCOMPLETE, how many NPUs were tested, which were not and why, and what failed.

    PASS stands for exit code 0 alone.
    """
    word = {0: "PASS", 3: "INCOMPLETE"}.get(report.exit_code, "FAIL")
    tested = _count_tested(report)
    passed = word == "PASS"
    if report.plan is not None and report.plan.chosen_by is not None and report.plan.device == "npu":
        tested += f" ({report.plan.chosen_by})"
    parts = [tested if passed or report.plan is None or report.plan.device == "cpu" else f"{tested} tested"]
    plan = report.plan
    named = [one for one in plan.excluded if plan.chosen_by is None or one.check is not None] if plan else []
    parts += [f"{npus} excluded ({reason})" for npus, reason in _group_excluded(named)]
    parts += [f"{npus} unhealthy ({reason})" for npus, reason in _group_excluded(report.unhealthy)]
    text = f"{word}: {', '.join(parts)}"
    worst = [
        finding
        for severity in (Severity.ERROR, Severity.WARNING)
        for result in report.results
        for finding in result.open_findings
        if finding.severity is severity
    ]
    if worst:
        return f"{text}; {worst[0].summary}"
    if report.complete and report.exit_code == 3:
        return f"{text}; could not determine whether this node can train"
    return text


def _count_tested(report: SmokeReport) -> str:
    """How many NPUs, or ranks on the CPU."""
    if report.plan is None or report.plan.device == "cpu":
        ranks = report.plan.world_size if report.plan is not None else len(report.ranks)
        skipped = sum(result.status is Status.SKIPPED for result in report.results)
        return f"{_many(ranks, 'rank')}, {len(report.results) - skipped} of {len(report.results)} stages"
    found = coverage(report.plan)
    if found.of_npus is None:
        return _many(found.npus, "NPU")
    text = f"{found.npus} of {_many(found.of_npus, 'NPU')}"
    return text if found.of_chips == found.of_npus else f"{text} ({found.chips} of {found.of_chips} chips)"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _group_excluded(excluded: Sequence[Excluded]) -> list[tuple[str, str]]:
    """The NPUs with the same reason together."""
    reasons = dict.fromkeys(one.reason for one in excluded)
    return [(" and ".join(one.npu for one in excluded if one.reason == reason), reason) for reason in reasons]


def _why_skipped(result: Result) -> str:
    """The same for neighbours that were skipped for the same reason; else the check's own name."""
    if result.status is not Status.SKIPPED:
        return result.check
    return f"see {result.blocked_by}" if result.blocked_by else result.reason or result.check


class _Page:
    def __init__(self, look: Look, verbose: bool, node: str) -> None:
        self._node = node
        self._look = look
        self._verbose = verbose
        self._glyphs = GLYPHS if look.unicode else ASCII_GLYPHS
        self._out = io.StringIO()
        self._console = look.console(self._out)

    def render(self, report: SmokeReport) -> str:
        self._last = list(report.plan.deadlines_s)[-1] if report.plan else None
        self._unhealthy = {one.npu: one.reason for one in report.unhealthy}
        self._headline(report)
        self._table(
            ["rank", "device", "reached", "start", "step", "alone", "loss", ""],
            map(self._rank, report.ranks),
            right=(3, 4, 5),
        )
        self._loss(report)
        if report.bandwidth:
            self._console.print()
            rows = map(self._bandwidth, report.bandwidth)
            self._table(["all-reduce", "time", "GB/s", "bus GB/s"], rows, right=range(4))
        large = report.plan is not None and report.plan.size == "large"
        if large and report.speedup is not None and len(report.ranks) > 1:
            share = f" ({100 * (report.efficiency or 0):.0f} % of ideal)" if report.efficiency else ""
            self._console.print()
            self._line("  ", f"scaling {report.speedup:.2f}× one rank{share}")
        self._console.print()
        alike = [list(group) for _, group in groupby(report.results, key=_why_skipped)]
        for results in alike:
            self._result(results)
        for note in report.notes:
            self._line("  i ", note)
        on_node = f" {self._node}" if self._node else ""
        named = (*(report.plan.excluded if report.plan else ()), *report.unhealthy)
        if checks := sorted({one.check for one in named if one.check}):
            self._line("  i ", f"what is wrong with these NPUs: npudoctor check {' '.join(checks)}{on_node}")
        elif report.exit_code == 3:
            self._line("  i ", f"what kept this node from being tested: npudoctor check{on_node}")
        if report.logs:
            self._line("  i ", f"logs and stacks: {report.logs}")
        text = self._out.getvalue()
        return text if self._look.unicode else text.replace("µs", "us")

    def _line(self, lead: str, text: str | Text) -> None:
        body = text if isinstance(text, Text) else Text(text)
        for number, piece in enumerate(wrap(body, max(self._look.width - len(lead), 12))):
            piece.rstrip()
            self._console.print(Text(lead if number == 0 else " " * len(lead)) + piece, soft_wrap=True)

    def _headline(self, report: SmokeReport) -> None:
        kind, plan = report.verdict.value, report.plan
        self._line("", Text(f"{self._glyphs[kind]} ", style=STYLES[kind]) + Text(headline(report), style="bold"))
        if plan is not None:
            ranks = "1 rank" if plan.world_size == 1 else f"{plan.world_size} ranks"
            ranks = f"simulated: {ranks}" if plan.simulated else ranks
            what = f"{ranks} by {plan.launcher}, {plan.backend}, {plan.strategy}, {plan.dtype}"
            self._line("  ", Text(f"{what}, size {plan.size}, {report.duration_s:.1f} s; {plan.python}", style="dim"))
        self._console.print()

    def _table(self, titles: Sequence[str], rows: object, *, right: Collection[int] = ()) -> None:
        """Rows below their titles; the columns of `right` hold numbers."""
        listed = [[Text(title, style="dim") for title in titles], *rows]  # type: ignore[misc]
        widths = [max(cell.cell_len for cell in column) for column in zip(*listed, strict=True)]
        for row in listed:
            line = Text("  ")
            for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
                room = width - cell.cell_len
                cell.pad_left(room) if column in right else cell.pad_right(room)
                line += cell + "  "
            line.rstrip()
            self._console.print(line, soft_wrap=True)

    def _rank(self, rank: RankReport) -> list[Text]:
        sick = self._unhealthy.get(rank.card or "")
        kind = "error" if rank.first or sick else "ok" if rank.reached == self._last else "skipped"
        glyph, style = self._glyphs[kind], STYLES[kind]
        loss = "-" if rank.last_loss is None else f"{rank.first_loss:.3f} to {rank.last_loss:.3f}"
        how = "failed" if rank.first else "ended" if rank.cause is Cause.ENDED else "waited"
        state = f"{how} in {rank.failed}" if rank.failed else ""
        state = state or (f"unhealthy: {sick}" if sick else "")
        return [
            Text(f"{glyph} {rank.rank}", style=style),
            Text(rank.card or rank.device),
            Text("the end" if rank.reached == self._last else rank.reached or "-"),
            Text(time_text(rank.stages_s.get("launch"))),
            Text(time_text(rank.step_s)),
            Text(time_text(rank.local_step_s)),
            Text(loss),
            Text(state, style=style),
        ]

    def _loss(self, report: SmokeReport) -> None:
        if not report.loss:
            return
        known = [loss for loss in report.loss if loss is not None]
        ends = f"{known[0]:.4f} to {known[-1]:.4f}" if known else "no finite value"
        self._console.print()
        width = max(10, self._look.width - 40)
        curve = sparkline(report.loss, unicode=self._look.unicode, width=width)
        steps = "1 step" if len(report.loss) == 1 else f"{len(report.loss)} steps"
        self._console.print(Text(f"  loss  {curve}  {ends}, {steps}"), soft_wrap=True)

    def _bandwidth(self, row: Bandwidth) -> list[Text]:
        cells = (size_text(row.size_bytes), time_text(row.seconds), f"{row.algorithm_gb_s:.2f}", f"{row.bus_gb_s:.2f}")
        return [Text(cell) for cell in cells]

    def _result(self, results: Sequence[Result]) -> None:
        """One result, or several that were skipped for the same reason."""
        result = results[0]
        skipped = result.status is Status.SKIPPED
        about = (f"see {result.blocked_by}" if result.blocked_by else result.reason) if skipped else result.title
        more = f" and {len(results) - 1} more" if len(results) > 1 else ""
        mark = Text(f"  {self._glyphs[result.status.value]} ", style=STYLES[result.status.value])
        name = Text(f"{f'{result.check}{more}':<18}  ", style="dim" if skipped else "")
        lines = wrap(Text(about or "", style="dim"), max(self._look.width - 4 - name.cell_len, 20))
        for number, line in enumerate(lines or [Text("")]):
            line.rstrip()
            self._console.print(
                (mark + name if number == 0 else Text(" " * (4 + name.cell_len))) + line, soft_wrap=True
            )
        for finding in result.findings:
            self._finding(finding)

    def _on_node(self, command: str) -> str | None:
        """The command for this node; None where it requires a live one."""
        if not (self._node and command.startswith("npudoctor ")):
            return command
        return None if "--keep-logs" in command else f"{command} {self._node}"

    def _finding(self, finding: Finding) -> None:
        kind = finding.severity.value
        where = "" if finding.subject == "host" else f"{finding.subject}: "
        self._line(f"    {self._glyphs[kind]} ", Text(f"{where}{finding.summary}", style="bold"))
        if finding.severity is Severity.INFO and not self._verbose:
            return
        if finding.detail:
            self._line("      ", finding.detail)
        if finding.hint:
            self._line("      do        ", finding.hint)
        for command in filter(None, map(self._on_node, finding.commands)):
            self._console.print(Text("                $ ", style="dim") + Text(command, style="green"), soft_wrap=True)
        for evidence in finding.evidence:
            expected = f", expected {evidence.expected}" if evidence.expected else ""
            self._line("      evidence  ", f"{evidence.source}: {evidence.actual or 'nothing'}{expected}")
