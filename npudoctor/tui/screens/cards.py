"""The chips, live: like `watch npu-smi info`, with their processes and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from npudoctor.tui.bars import bar, curve
from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model import cards
from npudoctor.tui.model.cards import ChipRow, Curves, Pace, Reading
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.screens.node_screen import NodeScreen
from npudoctor.tui.widgets.page import Page, Paragraph


class Cards(NodeScreen):
    """One row per chip; paused while another screen is shown."""

    CSS_PATH = "cards.tcss"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "pace(-1)", "Faster", key_display="+"),
        Binding("minus", "pace(1)", "Slower", key_display="-"),
        Binding("p", "pause", "Pause"),
        Binding("c", "copy_shown", "Copy"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._reading: Reading | None = None
        self._curves = Curves()
        self._pace = Pace()
        self._headed = (0, "")
        self._busy = False
        self._hidden = False
        self._paused = False
        self._next: Timer | None = None

    def body(self) -> ComposeResult:
        """The rows above the selected chip."""
        with Vertical(id="body"):
            yield Static(id="head")
            yield OptionList(id="chips", compact=True)
            with VerticalScroll(id="detail", can_focus=False):
                yield Page(id="page")

    def on_mount(self) -> None:
        """Start polling."""
        self._pace = Pace(self.doctor.settings.interval_s)
        super().on_mount()
        self._look()

    def on_screen_suspend(self) -> None:
        """Pause polling while hidden."""
        self._hidden = True

    def on_screen_resume(self) -> None:
        """Resume polling."""
        self._hidden = False
        self._look()

    def on_resize(self, event) -> None:  # type: ignore[no-untyped-def]
        """Redraw at the new width."""
        super().on_resize(event)
        self._show()

    def _look(self) -> None:
        """Start one call of the tool, unless one is running."""
        if self._busy or self._hidden or self._paused:
            return
        self._busy = True
        self.doctor.beside(self._read)

    def _read(self) -> None:
        reading = cards.read(self.doctor.session, self.doctor.diagnosis)
        self.doctor.tell(self._take, reading)

    def _take(self, reading: Reading) -> None:
        self._busy = False
        failed = reading.reason is not None
        self._pace.record_duration(reading.seconds, failed=failed)
        if not (failed and self._reading and self._reading.rows):
            self._reading = reading
            self._curves.add(reading)
        else:
            self._reading = Reading(self._reading.rows, reading.reason, reading.seconds, self._reading.at)
        self._show()
        self._next = self.set_timer(self._pace.wait_s, self._look)

    # Drawing

    def follow(self) -> None:
        """Redraw after a run of checks."""

    def _show(self) -> None:
        reading = self._reading
        if not self.query("#head"):
            return
        self.query("#head, #chips").set(display=bool(reading and reading.rows))
        if reading is None:
            self.query_one("#page", Page).show([Paragraph(Content.styled("running npu-smi", "$muted"), "… ")])
            return
        width = max(self.size.width - 3, 40)
        pace = "paused" if self._paused else f"every {_seconds(self._pace.wait_s)} s"
        if self._headed != (width, pace):
            self._headed = (width, pace)
            self.query_one("#head", Static).update(_head(width))
            self.query_one("#detail").border_title = pace
        rows = [_row(row, self._curves.of(row.chip.subject), width) for row in reading.rows]
        listed = self.query_one(OptionList)
        if listed.option_count == len(rows):
            for place, prompt in enumerate(rows):
                old = listed.get_option_at_index(place).prompt
                if not isinstance(old, Content) or old != prompt or old.spans != prompt.spans:
                    listed.replace_option_prompt_at_index(place, prompt)
        else:
            listed.set_options(Option(prompt) for prompt in rows)
            listed.highlighted = _worst(reading.rows) if rows else None
        if rows and self.focused is None:
            listed.focus()
        self._show_chip()

    @on(OptionList.OptionHighlighted)
    def _show_chip(self) -> None:
        reading, place = self._reading, self.query_one(OptionList).highlighted
        if reading is None:
            return
        said: list[Paragraph] = []
        if reading.reason:
            said.append(
                Paragraph(Content.styled(reading.reason, "bold $warning"), Content.styled("! ", "bold $warning"))
            )
        said += [
            Paragraph(Content.styled(remark, "bold $warning"), Content.styled("! ", "bold $warning"), "  ")
            for remark in reading.remarks
        ]
        if place is not None and place < len(reading.rows):
            row = reading.rows[place]
            said += _chip(row, cards.pages(self.doctor.session, row))
        self.query_one("#page", Page).show(said)

    # Keys

    def action_pace(self, way: int) -> None:
        """Change the refresh interval, and remember it."""
        self._pace.step(way)
        self.doctor.remember(interval_s=self._pace.chosen_s)
        if self._next is not None:
            self._next.stop()
        self._show()
        self._next = self.set_timer(self._pace.wait_s, self._look)

    def action_pause(self) -> None:
        """Pause or resume polling."""
        self._paused = not self._paused
        self._show()
        self._look()


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 1 else f"{seconds:.1f}"


def _worst(rows: tuple[ChipRow, ...]) -> int:
    """The first chip with a problem, else the first with a remark, else the first."""
    for state in (State.ERROR, State.WARNING):
        if (place := next((number for number, row in enumerate(rows) if row.state() is state), None)) is not None:
            return place
    return 0


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
        spare = max(width - (50 if narrow else 67) - firmware, 6)
        curve = min(spare // 2, 40)
        return cls(0 if narrow else 11, curve, min(spare - curve, 24), 0 if narrow else 6, firmware)


def _head(width: int) -> Content:
    fit = _Columns.of(width)
    model = f"{'model':<11}" if fit.model else ""
    core, memory = f"{'AI Core':<{fit.curve + 5}}", f"{'memory':<{fit.bar + 8}}"
    link = f"{'link':>6}" if fit.link else ""
    link += f"{'firmware':>{fit.firmware}}" if fit.firmware else ""
    text = f"  {'NPU':<5}{model}{'health':<8}{'temp':>5}{'power':>7}  {core}  {memory}{'proc':>6}{link}"
    return Content.styled(text, "$muted")


def _row(row: ChipRow, past: tuple[int, ...], width: int) -> Content:
    fit, chip = _Columns.of(width), row.chip
    core = "–" if chip.aicore_pct is None else f"{chip.aicore_pct}%"
    part = (chip.memory_used_mb or 0) / chip.memory_mb if chip.memory_mb else 0.0
    full, empty = bar(part, fit.bar)
    ground, risen = curve(past, fit.curve)
    memory = f"{(chip.memory_used_mb or 0) / 1024:.0f}/{chip.memory_mb / 1024:.0f}G" if chip.memory_mb else "–"
    temp = "–" if chip.temp_c is None else f"{chip.temp_c}°"
    power = "–" if chip.power_w is None else f"{chip.power_w:.0f} W"
    state = STYLES[row.state()]
    return Content.assemble(
        (f"{GLYPHS[row.state()]} ", state),
        (f"{row.label:<5}", "bold"),
        f"{(chip.name or '')[: fit.model - 1]:<{fit.model}}" if fit.model else "",
        (f"{(chip.health or '–')[:7]:<8}", _marked(row, "npu.health")),
        (f"{temp:>5}", _marked(row, "npu.temperature")),
        f"{power:>7}  ",
        (ground, "$faint"),
        (risen, "$accent"),
        f"{core:>5}  ",
        (full, "$accent"),
        (empty, "$faint"),
        f" {memory:>7}",
        f"{len(row.held) or '–':>6}",
        (f"{row.link or '–':>6}" if fit.link else "", "bold $error" if row.link not in ("UP", None) else ""),
        f"{row.firmware or '–':>{fit.firmware}}" if fit.firmware else "",
    )


def _marked(row: ChipRow, check: str) -> str:
    """The style of what one check judges."""
    state = row.state(check)
    return "" if state is State.OK else STYLES[state]


def _chip(row: ChipRow, pages: list[tuple[str, str]]) -> list[Paragraph]:
    chip = row.chip
    title = f"{chip.subject}  {chip.name or ''}"
    place = " · ".join(part for part in (chip.bus_id, f"firmware {row.firmware}" if row.firmware else "") if part)
    said = [Paragraph(Content.assemble((title, "bold"), f"  {place}"))]
    for problem in row.problems:
        state = State(problem.severity.value)
        mark = Content.styled(f"{GLYPHS[state]} ", STYLES[state])
        said.append(Paragraph(Content.styled(problem.text, "bold"), mark, "  "))
    for held in row.held:
        gone = {True: "", False: "  dead", None: "  not visible here"}[held.alive]
        memory = f"{held.memory_mb} MB" if held.memory_mb is not None else ""
        lead = Content.styled(f"{held.pid:>8} {held.owner or '–':<10}{memory:>9}  ", "$accent")
        text = Content.assemble(held.command or held.name, (gone, "bold $warning"))
        said.append(Paragraph(text, lead, " " * lead.cell_length))
    if not row.held:
        said.append(Paragraph(Content.styled("no process", "$muted")))
    said += [Paragraph(Content(text), Content.styled(f"{name:<8}", "$muted"), " " * 8) for name, text in pages]
    return said
