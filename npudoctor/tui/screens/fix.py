"""The dialog of a change: preview, confirm, apply, progress; nothing changes before the confirmation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from npudoctor.tui.model import fixing
from npudoctor.tui.model.fixing import Job, Kind, Line
from npudoctor.tui.widgets.page import Page, Paragraph

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp

_STYLES = {
    Kind.TITLE: "bold",
    Kind.ABOUT: "$muted",
    Kind.NOTE: "$foreground",
    Kind.STEP: "bold $accent",
    Kind.PLUS: "$success",
    Kind.MINUS: "$error",
    Kind.SAME: "",
    Kind.PROOF: "$accent",
    Kind.DONE: "bold $success",
    Kind.BAD: "bold $error",
}
SLOW_S = 0.7
"""Seconds after which a slow plan is announced."""

_DIFF = (Kind.PLUS, Kind.MINUS, Kind.SAME)
_LEADS = {Kind.DONE: "✔ ", Kind.BAD: "✖ ", Kind.PROOF: "… ", Kind.NOTE: "• "}


def open_fix(doctor: DoctorApp, checks: tuple[str, ...]) -> None:
    """Plan in the background, then ask; once, however often the key is pressed meanwhile."""
    if doctor.planning:
        return
    doctor.planning = True

    def plan() -> None:
        doctor.tell(ask, fixing.propose(doctor.session, doctor.diagnosis, checks))

    def ask(job: Job) -> None:
        doctor.planning = False
        if len(doctor.screen_stack) == 1:  # no other dialog was opened meanwhile
            doctor.push_screen(FixDialog(job))

    def say_so() -> None:
        if doctor.planning:
            doctor.notify("preparing the preview", timeout=3)

    doctor.set_timer(SLOW_S, say_so)
    doctor.beside(plan)


def lines_of(lines: Iterable[Line]) -> list[Paragraph]:
    """A preview, or progress, as paragraphs."""
    return [
        Paragraph(
            Content.styled(line.text, _STYLES[line.kind]),
            Content.styled(line.head or _LEADS.get(line.kind, ""), _STYLES[Kind.STEP if line.head else line.kind]),
            " " * (len(line.head or _LEADS.get(line.kind, "")) or 2 * (line.kind in _DIFF)),
            fold=line.kind in _DIFF,
        )
        for line in lines
    ]


class FixDialog(ModalScreen[None]):
    """Confirms one change, and shows its progress."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Close"),
        Binding("c", "copy", "Copy command"),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("up,k", "scroll(-1)", "Up", show=False),
        Binding("right", "app.focus_next", "Next", show=False),
        Binding("left", "app.focus_previous", "Previous", show=False),
        Binding("enter", "press_first", "Confirm", show=False),
    ]

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job
        self._told: list[Line] = []
        self.busy = False

    @property
    def _doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    def compose(self) -> ComposeResult:
        """The preview above the buttons."""
        job = self._job
        with Vertical(classes="dialog") as box:
            box.border_title = job.title
            box.border_subtitle = "↑ ↓ scroll · ← → choose · esc closes"
            with VerticalScroll(id="preview", can_focus=False):
                yield Page(id="lines")
            if job.word and job.ready:
                yield Input(placeholder=f"cannot be undone; type {job.word} to confirm", id="word")
            with Horizontal(classes="buttons"):
                if job.ready:
                    yield Button(job.verb, id="go", classes="key", disabled=bool(job.word))
                if job.sudo and self._doctor.session.source == "live" and not self.app.is_web:
                    yield Button("Run with sudo", id="sudo", classes="key")
                if job.command:
                    yield Button("Copy command", id="copy", classes="key")
                yield Button("Close", id="close", classes="key")

    def on_mount(self) -> None:
        """Show the preview."""
        job = self._job
        lines: list[Line] = []
        if job.obstacle:  # first, so that it is visible whatever follows
            lines.append(Line(Kind.BAD, job.obstacle))
            lines += [Line(Kind.NOTE, job.command_line)] if job.command else []
            lines += [Line(Kind.SAME)] if job.lines else []
        self.query_one("#lines", Page).show(lines_of([*lines, *job.lines]))
        self.query_one("#word" if job.word and job.ready else self._first).focus()

    @property
    def _first(self) -> str:
        """The button that is chosen when the dialog opens."""
        return "#go" if self._job.ready else "#close"

    def action_press_first(self) -> None:
        """Enter, where no button has the focus yet: the dialog is drawn before its button gets it."""
        if self.focused is None:
            self.query_one(self._first, Button).press()

    def on_resize(self) -> None:
        """Give the preview all free height."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        others = 8 if self.query("#word") else 6
        room = self.size.height * 23 // 25 - others
        self.query_one("#preview").styles.height = max(3, min(room, self.query_one("#lines").size.height))

    @on(Input.Changed, "#word")
    def _typed(self, event: Input.Changed) -> None:
        self.query_one("#go", Button).disabled = event.value.strip() != self._job.word

    @on(Input.Submitted, "#word")
    def _confirmed(self) -> None:
        if not self.query_one("#go", Button).disabled:
            self._go()

    @on(Button.Pressed, "#go")
    def _go(self) -> None:
        if not self.busy:
            self.busy = True
            self.query(".buttons Button").set(disabled=True)
            self._doctor.beside(self._carry_out)

    def _carry_out(self) -> None:
        doctor, job = self._doctor, self._job
        for line in fixing.carry_out(doctor.session, job, irreversible=job.word is not None):
            doctor.tell(self._tell, line)
        doctor.tell(self._ended)

    def _tell(self, line: Line) -> None:
        self._told.append(line)
        self.query_one("#lines", Page).show(lines_of(self._told))
        self.query_one("#preview", VerticalScroll).scroll_end(animate=False)
        self.call_after_refresh(self._fit)

    def _ended(self) -> None:
        self.busy = False
        self.query("#go, #sudo, #word, #copy").set(display=False)
        close = self.query_one("#close", Button)
        close.disabled = False
        close.focus()
        doctor, job = self._doctor, self._job
        for planned in job.plans:
            if planned.fix.effect.value != "now" and self._told and self._told[-1].kind is Kind.DONE:
                for aim in planned.aims:
                    doctor.diagnosis.expect(aim.check, planned.fix.effect.value)
        if job.undoes or job.recovers:
            doctor.diagnosis.waiting.clear()
        doctor.action_rerun()

    @on(Button.Pressed, "#sudo")
    def _sudo(self) -> None:
        with self.app.suspend():
            code = fixing.in_terminal(self._doctor.session, self._job.command)
        self._tell(Line(Kind.DONE if code == 0 else Kind.BAD, f"{self._job.command_line} exited with {code}"))
        self._doctor.action_rerun()

    @on(Button.Pressed, "#copy")
    def action_copy(self) -> None:
        """Put the command on the clipboard."""
        if self._job.command:
            self.app.copy_to_clipboard(self._job.command_line)
            self.notify(self._job.command_line, title="Copied", timeout=3, markup=False)

    def action_scroll(self, way: int) -> None:
        """Move through the preview."""
        self.query_one("#preview", VerticalScroll).scroll_relative(y=way, animate=False)

    @on(Button.Pressed, "#close")
    def action_close(self) -> None:
        """Close, unless a change is running."""
        if not self.busy:
            self.dismiss()


__all__ = ["FixDialog", "lines_of", "open_fix"]
