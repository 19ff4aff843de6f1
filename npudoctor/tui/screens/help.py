"""The keys, on one page."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen

from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.palette import keys
from npudoctor.tui.widgets.page import Page, Paragraph

_NAMES = {"question_mark": "?", "slash": "/", "escape": "esc", "plus,equals_sign": "+", "minus": "-"}

_COLUMN = 34


class Help(ModalScreen[None]):
    """What each key and each mark means."""

    CSS_PATH = "dialog.tcss"
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
            yield Page()

    def on_mount(self) -> None:
        """Fill it."""
        from npudoctor.tui.app import DoctorApp

        assert isinstance(self.app, DoctorApp)
        move = Content("↑ ↓ move    tab next field    ctrl+p all actions by name    esc back")
        columns = zip_longest(_rows(keys(self._of)), _rows(keys(self.app)), fillvalue=Content())
        rows = [left.pad_right(max(_COLUMN - left.cell_length, 0)) + right for left, right in columns]
        marks = Content("  ").join(Content.assemble((GLYPHS[one], STYLES[one]), f" {one.value}") for one in GLYPHS)
        said = [move, Content(), *rows, Content(), marks]
        self.query_one(Page).show([Paragraph(one) for one in said])


def _rows(bindings: list[Binding]) -> list[Content]:
    return [
        Content.assemble((f"{_NAMES.get(one.key, one.key):>5}  ", "bold $accent"), one.description)
        for one in bindings
        if one.description
    ]
