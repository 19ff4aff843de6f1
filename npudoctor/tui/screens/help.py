"""The keys, on one page."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen

from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.palette import keys
from npudoctor.tui.widgets.page import Page, Paragraph

_NAMES = {"question_mark": "?", "slash": "/"}


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
            yield Page(id="keys")

    def on_mount(self) -> None:
        """Fill it."""
        from npudoctor.tui.app import DoctorApp

        assert isinstance(self.app, DoctorApp)
        rows = [Paragraph(Content("↑ ↓ move    tab next field    ctrl+p all actions by name    esc back"))]
        for owner in (self._of, self.app):
            rows.append(Paragraph(Content()))
            rows += [
                Paragraph(
                    Content(one.description),
                    Content.styled(f"{_NAMES.get(one.key, one.key):>9}  ", "bold $accent"),
                    " " * 11,
                )
                for one in keys(owner)
                if one.description
            ]
        marks = Content("   ").join(Content.assemble((GLYPHS[one], STYLES[one]), f" {one.value}") for one in GLYPHS)
        self.query_one(Page).show([*rows, Paragraph(Content()), Paragraph(marks)])
