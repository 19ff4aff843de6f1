"""The frame of all screens: tabs and node at the top, keys at the bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from npudoctor.records import replace
from npudoctor.tui.model import clock
from npudoctor.tui.widgets.key_line import KeyLine
from npudoctor.tui.widgets.masthead import Masthead, Tabs
from npudoctor.tui.widgets.page import Page

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp
    from npudoctor.tui.model.diagnosis import Diagnosis
    from npudoctor.tui.model.node import NodeLine

LEAST_COLUMNS, LEAST_LINES = 60, 20

WHY_NOT = {
    "fix": "No fix for the selected check.",
    "fix_all": "No problem with a fix.",
    "cause": "Only a skipped check leads to its cause. ? shows the keys.",
    "undo": "No change to undo.",
    "start": "A run is in progress.",
    "stop": "No run is in progress.",
    "release": "No process on this NPU.",
}
"""What is said for the key of an action that is not possible at present."""


class NodeScreen(Screen[None]):
    """A screen about the node; its scrollable text is in its one VerticalScroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("C", "copy_shown", "Copy the text", show=False),
        Binding("space", "page(1)", "Page down", show=False),
        Binding("b", "page(-1)", "Page up", show=False),
    ]

    @property
    def doctor(self) -> DoctorApp:
        """The application."""
        return cast("DoctorApp", self.app)

    @property
    def diagnosis(self) -> Diagnosis:
        """The results that are shown."""
        return self.doctor.diagnosis

    @property
    def node_line(self) -> NodeLine:
        """The node that is shown."""
        return self.doctor.node_line

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide actions that a read-only session refuses."""
        return self.doctor.offers(action) and super().check_action(action, parameters)

    def compose(self) -> ComposeResult:
        """The frame around the body."""
        yield Tabs(self.doctor.labels, type(self).__name__)
        yield Masthead()
        yield from self.body()
        yield KeyLine(self.doctor.session.read_only or "")
        yield Static(f"terminal too small: npudoctor requires {LEAST_COLUMNS} × {LEAST_LINES}", classes="too-small")

    def body(self) -> ComposeResult:
        """The body, between node and keys."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Follow the run."""
        self.doctor.changed.subscribe(self, lambda _: self._follow())
        self._follow()

    def on_screen_resume(self) -> None:
        """Show changes made while another screen was shown."""
        self._follow()

    def on_resize(self, event: events.Resize) -> None:
        """Show a message where the terminal is too small."""
        self.set_class(event.size.width < LEAST_COLUMNS or event.size.height < LEAST_LINES, "-too-small")

    def _follow(self) -> None:
        if not self.is_current and self.app.screen_stack[0] is not self:
            return
        head = self.query_one(Masthead)
        diagnosis = self.diagnosis
        headline = diagnosis.headline()
        session, busy = self.doctor.session, self.node_line.state == "in service"
        if session.read_only or session.source == "bundle" or busy:
            headline = replace(headline, next="")
        head.node, head.headline = self.node_line, headline
        done, total = diagnosis.progress
        report = diagnosis.report
        if diagnosis.running:
            head.remark = f"{done} of {total}" if total else ""
        elif report is not None:
            head.remark = f"{clock.time_of_day(report.started_at)} · {report.duration_s:.1f} s"
        self.follow()

    def follow(self) -> None:
        """Show the state of the run."""

    def on_key(self, event: events.Key) -> None:
        """Say why a key does nothing here."""
        active = self.active_bindings.get(event.key)
        if active and not active.enabled and (why := WHY_NOT.get(active.binding.action.removeprefix("screen."))):
            self.notify(why, timeout=3)

    def action_copy_shown(self) -> None:
        """Put the text as shown on the clipboard."""
        from npudoctor.tui.screens.copy import copy_text

        if pages := self.query(Page):
            copy_text(self.doctor, pages.first().plain)

    def action_page(self, way: int) -> None:
        """Scroll the text by a page."""
        pane = self.query_one(VerticalScroll)
        pane.scroll_relative(y=way * max(pane.size.height - 2, 1), animate=False)
