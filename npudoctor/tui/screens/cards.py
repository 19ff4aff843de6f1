"""The chips, live: like `watch npu-smi info`, with their processes and findings."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from npudoctor.tui import chip_lines
from npudoctor.tui.model import cards, holders
from npudoctor.tui.model.cards import ChipRow, Pace, Reading
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.model.holders import ORDERS, Held
from npudoctor.tui.model.series import Series
from npudoctor.tui.screens.filtered_screen import FilteredScreen
from npudoctor.tui.screens.fix import open_job
from npudoctor.tui.widgets.filter_field import FilterField
from npudoctor.tui.widgets.page import Page, Paragraph


class Cards(FilteredScreen):
    """One row per chip; paused while another screen is shown."""

    CSS_PATH = "cards.tcss"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "pace(-1)", "Faster", key_display="+"),
        Binding("minus", "pace(1)", "Slower", key_display="-"),
        Binding("p", "pause", "Pause"),
        Binding("c", "copy_shown", "Copy"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("x", "release", "End processes"),
        Binding("escape", "no_filter", "Clear filter", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._reading: Reading | None = None
        self._series = Series()
        self._order = ORDERS[0]
        self._pace = Pace()
        self._headed = (0, "")
        self._busy = False
        self._hidden = False
        self._paused = False
        self._next: Timer | None = None

    def body(self) -> ComposeResult:
        """The rows above the selected chip."""
        with Vertical(id="body"):
            yield FilterField()
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
        if not self._series.count:
            self.doctor.tell(self._series.begin_with, cards.read_history(self.doctor.session))
        reading = cards.read(self.doctor.session, self.doctor.diagnosis)
        self.doctor.tell(self._take, reading)

    def _take(self, reading: Reading) -> None:
        self._busy = False
        failed = reading.reason is not None
        self._pace.record_duration(reading.seconds, failed=failed, by_library=reading.by_library)
        if not (failed and self._reading and self._reading.rows):
            self._reading = reading
            self._series.add(reading.rows, reading.at)
        else:
            self._reading = Reading(self._reading.rows, reading.reason, reading.seconds, self._reading.at)
        self._show()
        self._next = self.set_timer(self._pace.wait_s, self._look)

    # Drawing

    def follow(self) -> None:
        """Redraw after a run of checks, which may say why there is no reading."""
        if self._reading is not None and not self._reading.rows:
            self._show()

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
            self.query_one("#head", Static).update(chip_lines.head(width))
            self.query_one("#detail").border_title = pace
        rows = [chip_lines.line(row, self._series, width) for row in reading.rows]
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
        reading = self._reading
        if reading is None:
            return
        said: list[Paragraph] = []
        if reading.reason:
            said.append(
                Paragraph(Content.styled(reading.reason, "bold $warning"), Content.styled("! ", "bold $warning"))
            )
            if not reading.rows and (why := self.doctor.diagnosis.cause_elsewhere()):
                said += [Paragraph(Content()), Paragraph(Content(why))]
        said += [
            Paragraph(Content.styled(remark, "bold $warning"), Content.styled("! ", "bold $warning"), "  ")
            for remark in reading.remarks
        ]
        row = self._row
        if row is not None:
            pages = cards.pages(self.doctor.session, row)
            room = max(self.size.width - 4, 40)
            said += chip_lines.about(row, self._series, self._held_to_list(), self._title, pages, room, self._height)
        self.query_one("#page", Page).show(said)
        self.refresh_bindings()

    @property
    def _row(self) -> ChipRow | None:
        """The selected chip."""
        place = self.query_one(OptionList).highlighted
        rows = self._reading.rows if self._reading else ()
        return rows[place] if place is not None and place < len(rows) else None

    @property
    def _height(self) -> int:
        """The height of a curve in lines, by the room below the rows."""
        rows = len(self._reading.rows) if self._reading else 0
        return max(1, min(3, (self.size.height - rows - 18) // 5))

    @property
    def _words(self) -> str:
        return self.query_one("#filter", Input).value

    def _held_to_list(self) -> list[Held]:
        """The processes to list: those of the selected chip, with a filter those of all chips that match."""
        row, rows = self._row, self._reading.rows if self._reading else ()
        if self._words:
            return holders.order_held((one for each in rows for one in each.held), self._order, self._words)
        return holders.order_held(row.held if row else (), self._order)

    @property
    def _title(self) -> str:
        row = self._row
        whose = f"of all NPUs with {self._words}" if self._words else f"of {row.chip.subject}" if row else ""
        return f"Processes {whose}" + (f", by {self._order}" if self._held_to_list() else "")

    # Keys

    def action_pace(self, way: int) -> None:
        """Change the refresh interval, and remember it."""
        self._pace.step(way)
        self.doctor.remember(interval_s=self._pace.chosen_s)
        if self._next is not None:
            self._next.stop()
        self._show()
        self._next = self.set_timer(self._pace.wait_s, self._look)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to end processes where some are listed."""
        allowed = super().check_action(action, parameters)
        if action == "sort" and isinstance(self.focused, Input):
            return False  # there it is ordinary input
        return (
            None if allowed and action == "release" and not (self.query("#chips") and self._held_to_list()) else allowed
        )

    def action_sort(self) -> None:
        """The next order of the processes."""
        self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
        self._show_chip()

    def action_release(self) -> None:
        """Preview the end of the listed processes."""
        held = self._held_to_list()
        open_job(self.doctor, lambda: holders.releasing(self.doctor.session, held))

    def apply_filter(self) -> None:
        """List the processes that match the words."""
        self._show_chip()

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
