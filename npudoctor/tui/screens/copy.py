"""Chooses what to put on the clipboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from npudoctor.tui.model.copying import Choice

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp

LONGEST_NOTICE = 120
"""How many characters of a copied text are shown."""


def offer(doctor: DoctorApp, choices: Sequence[Choice]) -> None:
    """Copy the only text, or ask which one."""
    if len(choices) == 1:
        copy_text(doctor, choices[0].text)
    elif choices:
        doctor.push_screen(Copy(choices))


def copy_text(doctor: DoctorApp, text: str) -> None:
    """Put a text on the clipboard; OSC 52 works through SSH, too."""
    doctor.copy_to_clipboard(text)
    lines = text.splitlines()
    said = text if len(lines) == 1 else f"{len(lines)} lines"
    doctor.notify(said[:LONGEST_NOTICE], title="Copied", timeout=3, markup=False)


class Copy(ModalScreen[None]):
    """A list of texts; enter copies one."""

    CSS_PATH = "dialog.tcss"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,c", "dismiss", "Close")]

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._choices = choices

    def compose(self) -> ComposeResult:
        """One row per text."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Copy"
            box.border_subtitle = "enter copies · esc closes"
            yield OptionList(*(Option(_row(choice)) for choice in self._choices), compact=True)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        doctor = cast("DoctorApp", self.app)
        self.dismiss()
        copy_text(doctor, self._choices[event.option_index].text)


def _row(choice: Choice) -> Content:
    return Content.assemble(("▎ ", "$accent"), choice.label)
