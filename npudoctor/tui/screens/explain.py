"""What a code, a known issue or a check means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from npudoctor.tui.model import explaining
from npudoctor.tui.widgets.page import Page, Paragraph

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp


class Explain(ModalScreen[None]):
    """The names at the top, the text of the selected one below."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,x", "dismiss", "Close"),
        Binding("space", "scroll(1)", "Page down", show=False),
        Binding("b", "scroll(-1)", "Page up", show=False),
    ]

    def __init__(self, doctor: DoctorApp, names: Sequence[str]) -> None:
        super().__init__()
        self._doctor, self._names = doctor, names

    def compose(self) -> ComposeResult:
        """One row per name."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Explain"
            box.border_subtitle = "↑ ↓ choose · space, b scroll · esc closes"
            yield OptionList(*(Option(name) for name in self._names), compact=True)
            with VerticalScroll(id="explained", can_focus=False):
                yield Page(id="text")

    @on(OptionList.OptionHighlighted)
    def _chosen(self, event: OptionList.OptionHighlighted) -> None:
        name, doctor = self._names[event.option_index], self._doctor
        doctor.beside(lambda: doctor.tell(self._show, name, explaining.explain_lines(doctor.session, name)))

    def _show(self, name: str, found: Sequence[tuple[str, str]]) -> None:
        if not self.is_attached:
            return  # it was closed meanwhile
        place = self.query_one(OptionList).highlighted
        if place is None or self._names[place] != name:
            return
        said = []
        for label, text in found:
            lead = Content.styled(label, "bold $accent")
            body = Content.styled(text, "bold") if not label and len(found) > 1 else Content(text)
            said.append(Paragraph(body, lead, " " * lead.cell_length))
        self.query_one("#text", Page).show(said)
        self.query_one("#explained", VerticalScroll).scroll_to(y=0, animate=False)

    def action_scroll(self, way: int) -> None:
        """Scroll a page."""
        pane = self.query_one("#explained", VerticalScroll)
        pane.scroll_relative(y=way * max(pane.size.height - 2, 1), animate=False)
