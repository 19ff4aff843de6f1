"""The rows of the chips, and the text about one: identity, curves, processes, pages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from npudoctor.messages import gigabytes
from npudoctor.tui.bars import bar, curve
from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model.cards import ChipRow
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.model.holders import Held
from npudoctor.tui.model.series import MEASURES, Measure, Series, Value, span
from npudoctor.tui.widgets.page import Paragraph

GROUPS = 12
"""How many values the curve of a row has: with ten readings in each, the rows are seldom written anew."""


@dataclass(frozen=True)
class _Columns:
    """Column widths; 0 for a column without room."""

    model: int
    curve: int
    bar: int
    link: int
    firmware: int

    @classmethod
    def of(cls, width: int) -> _Columns:
        """As many as fit."""
        narrow, firmware = width < 75, 15 if width >= 130 else 0
        spare = max(width - (52 if narrow else 69) - firmware, 6)
        curve = min(spare // 2, 40)
        curve -= curve % GROUPS if curve > GROUPS else 0
        return cls(0 if narrow else 11, curve, min(spare - curve, 24), 0 if narrow else 6, firmware)


def head(width: int) -> Content:
    """The names of the columns."""
    fit = _Columns.of(width)
    model = f"{'model':<11}" if fit.model else ""
    core, memory = f"{'AI Core':<{fit.curve + 5}}", f"{'memory':<{fit.bar + 9}}"
    link = f"{'link':>6}" if fit.link else ""
    link += f"{'firmware':>{fit.firmware}}" if fit.firmware else ""
    text = f"  {'NPU':<5}{model}{'health':<8}{'temp':>6}{'power':>7}  {core}  {memory}{'proc':>6}{link}"
    return Content.styled(text, "$muted")


def line(row: ChipRow, past: Series, width: int) -> Content:
    """One row: the state, the present values, and the AI Core usage over time."""
    fit, chip = _Columns.of(width), row.chip
    core = "–" if chip.aicore_pct is None else f"{chip.aicore_pct}%"
    used, total = chip.memory_used_mb, chip.memory_mb
    full, empty = bar(used / total if used is not None and total else None, fit.bar)
    groups = min(fit.curve, GROUPS)
    (past_line,) = curve(past.peaks(chip.subject, "AI Core", groups), groups)
    past_line = "".join(letter * (fit.curve // groups) for letter in past_line)
    memory = f"{'–' if used is None else f'{used / 1024:.0f}'}/{total / 1024:.0f} GB" if total else "–"
    temp = "–" if chip.temp_c is None else f"{chip.temp_c} °C"
    power = "–" if chip.power_w is None else f"{chip.power_w:.0f} W"
    state = STYLES[row.state()]
    return Content.assemble(
        (f"{GLYPHS[row.state()]} ", state),
        (f"{row.label:<5}", "bold"),
        f"{(chip.name or '')[: fit.model - 1]:<{fit.model}}" if fit.model else "",
        (f"{(chip.health or '–')[:7]:<8}", _mark(row, "npu.health")),
        (f"{temp:>6}", _mark(row, "npu.temperature")),
        f"{power:>7}  ",
        _colour(past_line),
        f"{core:>5}  ",
        (full, "$accent"),
        (empty, "$faint"),
        f" {memory:>8}",
        f"{len(row.held) or '–':>6}",
        (f"{row.link or '–':>6}" if fit.link else "", "bold $error" if row.link not in ("UP", None) else ""),
        f"{row.firmware or '–':>{fit.firmware}}" if fit.firmware else "",
    )


def _mark(row: ChipRow, check: str) -> str:
    """The style of what one check judges."""
    state = row.state(check)
    return "" if state is State.OK else STYLES[state]


def _colour(text: str) -> Content:
    """A curve: what is unknown or lowest is faint. A terminal gets each style, so a run of letters has one."""
    runs = itertools.groupby(text, lambda letter: "$faint" if letter in "·▁" else "$accent")
    return Content.assemble(*(("".join(letters), style) for style, letters in runs))


def about(
    row: ChipRow,
    past: Series,
    held: Sequence[Held],
    title: str,
    pages: Sequence[tuple[str, str]],
    width: int,
    height: int,
) -> list[Paragraph]:
    """The text about one chip. `height` is that of a curve in lines, `title` is that of the processes."""
    chip = row.chip
    name = " · ".join(
        part for part in (chip.name, chip.bus_id, f"firmware {row.firmware}" * bool(row.firmware)) if part
    )
    said = [
        Paragraph(Content.assemble((chip.subject, "bold"), f"  {name}")),
        Paragraph(Content.styled(row.identity, "$accent")),
    ]
    if not row.checked:
        said.append(Paragraph(Content.styled("health not checked", "bold $warning"), "? ", "  "))
    for problem in row.problems:
        state = State(problem.severity.value)
        mark = Content.styled(f"{GLYPHS[state]} ", STYLES[state])
        said.append(Paragraph(Content.styled(problem.text, "bold"), mark, "  "))
    curves = [line for one in MEASURES for line in _series(one, past.of(chip.subject, one.name), width, height)]
    curves.append(Paragraph(Content.styled(f"since {past.since}", "$faint"), " " * 18))
    processes = _processes(held, title)
    said += [*processes, Paragraph(Content()), *curves] if height == 1 else [*curves, Paragraph(Content()), *processes]
    said += [Paragraph(Content(text), Content.styled(f"{name:<8}", "$muted"), " " * 8) for name, text in pages]
    return said


def _series(measure: Measure, values: Sequence[Value], width: int, height: int) -> list[Paragraph]:
    """One quantity: the present value, its curve, and the least and the most."""
    known = span(values)
    now = values[-1] if values else None
    shown = "unknown" if now is None else f"{now:.0f} {measure.unit}"
    extent = "" if known is None else f"{known[0]:.0f}–{known[1]:.0f}"
    least = measure.least if measure.least is not None else known[0] if known else 0.0
    most = measure.most if measure.most is not None else max(known[1] if known else 0.0, least + 1.0)
    lines = curve(values, max(width - 30, 8), least=least, most=most, height=1 if known is None else height)
    lead = Content.assemble((f"{measure.name:<8}", "$muted"), (f"{shown:>9} ", "" if now is not None else "$faint"))
    last = len(lines) - 1
    return [
        Paragraph(
            _colour(text) + Content.styled(f"  {extent}" if number == last else "", "$muted"),
            lead if number == last else " " * 18,
        )
        for number, text in enumerate(lines)
    ]


def _processes(held: Sequence[Held], title: str) -> list[Paragraph]:
    if not held:
        return [Paragraph(Content.styled(f"{title}: none", "$muted"))]
    said = [Paragraph(Content.styled(title, "bold $muted"))]
    box = min(max(len(one.box) for one in held), 40)
    rank = max(len(one.rank) for one in held)
    names = f"{'pid':>8} {'user':<10}{'memory':>9}  "
    names += f"{'rank':<{rank}}  " if rank else ""
    names += f"{'container':<{box}}  " if box else ""
    said.append(Paragraph(Content.styled(f"{names}command", "$muted")))
    for one in held:
        gone = {True: "", False: "  dead", None: "  not visible here"}[one.alive]
        memory = gigabytes(one.memory_mb) if one.memory_mb is not None else "–"
        lead = f"{one.pid:>8} {(one.owner or '–')[:9]:<10}{memory:>9}  "
        lead += f"{one.rank:<{rank}}  " if rank else ""
        lead += f"{one.box[:box]:<{box}}  " if box else ""
        text = Content.assemble(one.command or one.name, (gone, "bold $warning"))
        said.append(Paragraph(text, Content.styled(lead, "$accent"), " " * len(lead)))
    return said
