"""The changes made by npudoctor on this node, and their undo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from npudoctor.tui.model import clock, fixing
from npudoctor.tui.screens.fix import lines_of, open_job
from npudoctor.tui.screens.node_screen import NodeScreen
from npudoctor.tui.widgets.page import Page, Paragraph

_STYLES = {"applied": "bold $success", "undone": "$muted", "rolled-back": "$warning"}


class History(NodeScreen):
    """The runs of fixes, newest first."""

    CSS_PATH = "history.tcss"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "Undo"),
        Binding("c", "copy_shown", "Copy"),
    ]

    _runs: tuple[Mapping[str, Any], ...] = ()
    _loaded = False
    _problem = ""

    def body(self) -> ComposeResult:
        """The runs at the left, the changes of one at the right."""
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield OptionList(id="runs", compact=True)
            with VerticalScroll(id="detail", can_focus=False):
                yield Page(id="page")

    def follow(self) -> None:
        """Read the journal again after a run of checks, which may have followed a fix."""
        if not self.doctor.diagnosis.running:
            self.doctor.beside(self._load)

    def _load(self) -> None:
        runs, self._problem = fixing.history(self.doctor.session)
        if runs != self._runs or not self._loaded:
            self.doctor.tell(self._show, runs)

    def _show(self, runs: tuple[Mapping[str, Any], ...]) -> None:
        if runs == self._runs and self._loaded:
            return
        self._runs, self._loaded = runs, True
        self.query_one("#left").display = bool(runs)
        listed = self.query_one(OptionList)
        listed.set_options(Option(_line(run)) for run in runs)
        listed.highlighted = 0 if runs else None
        self.refresh_bindings()
        self._show_run()

    @on(OptionList.OptionHighlighted)
    def _show_run(self) -> None:
        run = self._run
        page = self.query_one("#page", Page)
        if run is None:
            why = self._problem or "No changes by npudoctor on this node."
            page.show([Paragraph(Content.styled(why, "$muted"))])
            return
        about = f"{run['fix']} · {run['status']} · {_when(run)} · by {run['by']}"
        said = [Paragraph(Content.styled(str(run["title"]), "bold")), Paragraph(Content.styled(about, "$muted"))]
        said += [Paragraph(Content(text)) for text in fixing.told_of(run)]
        for preview in run["preview"]:
            said += [Paragraph(Content()), *lines_of(fixing.diff(preview))]
        page.show(said)

    @property
    def _run(self) -> Mapping[str, Any] | None:
        place = self.query_one(OptionList).highlighted
        return self._runs[place] if place is not None and place < len(self._runs) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the undo where a run can be undone."""
        allowed = super().check_action(action, parameters)
        return None if allowed and action == "undo" and not self._runs else allowed

    def action_undo(self) -> None:
        """Ask whether to undo this run."""
        if (run := self._run) is not None:
            open_job(self.doctor, lambda: fixing.undoing(self.doctor.session, run))


def _line(run: Mapping[str, Any]) -> Content:
    status = str(run["status"])
    shown = str(run.get("stage") or status)
    mark = Content.styled(f"{shown:<13}", _STYLES.get(status, "bold $error"))
    return Content.assemble(mark, str(run["fix"]), (f"\n{'':13}{_when(run)}", "$muted"))


def _when(run: Mapping[str, Any]) -> str:
    return clock.day_and_time(str(run["started_at"]))
