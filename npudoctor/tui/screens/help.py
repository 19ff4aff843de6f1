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

_MOVES = (("↑ ↓ j k", "move"), ("g G", "first, last"), ("tab", "next field"))
_EVERYWHERE = ("ctrl+p command palette", "ctrl+c quit")
_TO_THE_SHELL = "ctrl+z suspend"
_COLUMN, _GAP = 34, 4


class Help(ModalScreen[None]):
    """The keys and the marks."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss", "Close"),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
    ]

    def __init__(self, of: Screen[Any], label: str, *, read_only: str | None) -> None:
        super().__init__()
        self._of, self._label, self._read_only = of, label, read_only

    def compose(self) -> ComposeResult:
        """One box."""
        with VerticalScroll(classes="dialog") as box:
            box.border_title = f"Keys of {self._label}"
            box.border_subtitle = "esc closes"
            yield Page()

    def on_mount(self) -> None:
        """Fill it."""
        taken = {key for one in keys(self._of) for key in one.key.split(",")}
        moves = [f"{names} {word}" for names, word in _MOVES if not taken & set(names.split())]
        read_only = self._read_only
        everywhere = _EVERYWHERE if read_only else (*_EVERYWHERE, _TO_THE_SHELL)
        known = [Content(f"{_GAP * ' '}".join(line)) for line in (moves, everywhere)]
        known += [Content.styled(read_only, "bold $warning")] if read_only else []
        of_screen, of_all = _rows(keys(self._of)), _rows(keys(self.app))
        column = min(_COLUMN, max(one.cell_length for one in of_screen) + _GAP)
        columns = zip_longest(of_screen, of_all, fillvalue=Content())
        rows = [left.pad_right(max(column - left.cell_length, 0)) + right for left, right in columns]
        marks = Content("  ").join(Content.assemble((GLYPHS[one], STYLES[one]), f" {one.value}") for one in GLYPHS)
        said = [*known, Content(), *rows, Content(), marks]
        self.query_one(Page).show([Paragraph(one) for one in said])

    def action_scroll(self, way: int) -> None:
        """Scroll a page longer than the screen."""
        self.query_one(VerticalScroll).scroll_relative(y=way, animate=False)


def _rows(bindings: list[Binding]) -> list[Content]:
    return [
        Content.assemble((f"{_NAMES.get(one.key, one.key):>5}  ", "bold $accent"), one.tooltip or one.description)
        for one in bindings
        if one.description
    ]
