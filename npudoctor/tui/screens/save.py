"""The dialog that saves a report, or a recording of the node."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from npudoctor.tui.model import saving

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp


class Save(ModalScreen[None]):
    """Chooses a format and a path."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Close"),
        Binding("j", "shape(1)", show=False),
        Binding("k", "shape(-1)", show=False),
    ]

    def compose(self) -> ComposeResult:
        """The formats above the path."""
        self._shapes = saving.shapes()
        with Vertical(classes="dialog") as box:
            box.border_title = "Save"
            box.border_subtitle = "enter saves · tab to the name · esc closes"
            yield OptionList(*(Option(_line(shape)) for shape in self._shapes), compact=True)
            yield Input(id="path")

    @property
    def _doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    @on(OptionList.OptionHighlighted)
    def _named(self, event: OptionList.OptionHighlighted) -> None:
        shape = self._shapes[event.option_index]
        self.query_one(Input).value = saving.name_for(self._doctor.diagnosis.report, shape)

    def action_shape(self, way: int) -> None:
        """Select the next or previous format."""
        listed = self.query_one(OptionList)
        listed.highlighted = ((listed.highlighted or 0) + way) % len(self._shapes)

    @on(OptionList.OptionSelected)
    @on(Input.Submitted)
    def _save(self) -> None:
        shape = self._shapes[self.query_one(OptionList).highlighted or 0]
        doctor = self._doctor
        doctor.beside(partial(_write, doctor, shape, self.query_one(Input).value))
        self.dismiss()


def _write(doctor: DoctorApp, shape: saving.Shape, path: str) -> None:
    try:
        place = saving.save(doctor.session, doctor.diagnosis.report, shape, path)
    except saving.NotSaved as problem:
        doctor.tell(partial(doctor.notify, str(problem), title="Not saved", severity="error", markup=False))
    else:
        doctor.tell(partial(doctor.notify, place, title="Saved", markup=False))


def _line(shape: saving.Shape) -> Content:
    return Content.assemble((f"{shape.name:<11}", "bold"), (shape.about, "$muted"))
