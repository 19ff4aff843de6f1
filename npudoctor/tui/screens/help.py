"""The keys, on one page."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen

from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.palette import keys
from npudoctor.tui.widgets.page import Page, Paragraph

_NAMES = {"question_mark": "?", "slash": "/", "escape": "esc", "plus,equals_sign": "+", "minus": "-"}


class Help(ModalScreen[None]):
    """What each key and each mark means."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss", "Close"),
    ]

    def __init__(self, of: Screen[Any]) -> None:
        super().__init__()
        self._of = of

    def compose(self) -> ComposeResult:
        """One box."""
        with VerticalScroll(classes="dialog") as box:
            box.border_title = f"Keys of {type(self._of).__name__}"
            yield Page(id="about")
            with Horizontal():
                yield Page(id="here")
                yield Page(id="everywhere")
            yield Page(id="marks")

    def on_mount(self) -> None:
        """Fill it."""
        from npudoctor.tui.app import DoctorApp

        assert isinstance(self.app, DoctorApp)
        move = Content("↑ ↓ move    tab next field    ctrl+p all actions by name    esc back")
        self.query_one("#about", Page).show([Paragraph(move)])
        for owner, where in ((self._of, "#here"), (self.app, "#everywhere")):
            self.query_one(where, Page).show(_rows(keys(owner)))
        marks = Content("  ").join(Content.assemble((GLYPHS[one], STYLES[one]), f" {one.value}") for one in GLYPHS)
        self.query_one("#marks", Page).show([Paragraph(marks)])


def _rows(bindings: list[Binding]) -> list[Paragraph]:
    return [
        Paragraph(
            Content(one.description), Content.styled(f"{_NAMES.get(one.key, one.key):>5}  ", "bold $accent"), " " * 7
        )
        for one in bindings
        if one.description
    ]
