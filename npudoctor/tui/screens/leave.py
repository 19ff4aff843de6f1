"""Asks before leaving while a run is in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button

from npudoctor.tui.widgets.page import Page, Paragraph

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp


class Leave(ModalScreen[None]):
    """Stay is chosen first."""

    CSS_PATH = "dialog.tcss"
    AUTO_FOCUS = "#stay"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "stay", "Stay"),
        Binding("q,y", "leave", "Leave"),
        Binding("right", "app.focus_next", "Next", show=False),
        Binding("left", "app.focus_previous", "Previous", show=False),
    ]

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def compose(self) -> ComposeResult:
        """The question above the answers."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Leave npudoctor?"
            box.border_subtitle = "q leaves · esc stays"
            yield Page(id="question")
            with Horizontal(classes="buttons"):
                yield Button("Stay", id="stay", classes="key")
                yield Button("Leave", id="leave", classes="key")

    def on_mount(self) -> None:
        """Say what leaving does."""
        self.query_one("#question", Page).show([Paragraph(Content(f"In progress: {self._what}"))])

    @on(Button.Pressed, "#stay")
    def action_stay(self) -> None:
        """Go back."""
        self.dismiss()

    @on(Button.Pressed, "#leave")
    def action_leave(self) -> None:
        """Stop the run, and leave."""
        cast("DoctorApp", self.app).leave(0)
