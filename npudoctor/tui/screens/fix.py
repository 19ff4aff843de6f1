"""The dialog of a change: preview, confirm, apply, progress; nothing changes before the confirmation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from npudoctor.control_characters import visible_lines
from npudoctor.tui.model import copying, fixing
from npudoctor.tui.model.fixing import Job, Kind, Line
from npudoctor.tui.screens.copy import offer
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
LINES_OF_OUTPUT = 6
"""How many lines of a command's output are shown while it runs."""

SLOW_S = 0.7
"""Seconds after which a slow plan is announced."""

_DIFF = (Kind.PLUS, Kind.MINUS, Kind.SAME)
_LEADS = {Kind.DONE: "✔ ", Kind.BAD: "✖ ", Kind.PROOF: "… ", Kind.NOTE: "• "}


def open_fix(doctor: DoctorApp, checks: tuple[str, ...]) -> None:
    """Plan the fixes of these checks, or without checks all safe ones, and ask."""
    open_job(doctor, lambda: fixing.propose(doctor.session, doctor.diagnosis, checks))


def open_job(doctor: DoctorApp, propose: Callable[[], Job]) -> None:
    """Plan in the background, then ask; once, however often the key is pressed meanwhile."""
    if doctor.planning:
        return
    doctor.planning = True

    def plan() -> None:
        try:
            doctor.tell(ask, propose())
        except BaseException:
            doctor.tell(end)
            raise

    def end() -> None:
        doctor.planning = False

    def ask(job: Job) -> None:
        doctor.planning = False
        if len(doctor.screen_stack) == 1:  # no other dialog was opened meanwhile
            doctor.diagnosis.previewed.update(job.resolves)
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
        Binding("c", "copy", "Copy"),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("up,k", "scroll(-1)", "Up", show=False),
        Binding("right", "app.focus_next", "Next", show=False),
        Binding("left", "app.focus_previous", "Previous", show=False),
        Binding("enter", "press_first", "Confirm", show=False),
    ]

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job
        self._shown: list[Line] = []
        self._told: list[Line] = []
        self._printed: list[str] = []
        self._began = 0.0
        self.busy = False

    @property
    def in_progress(self) -> str:
        """What leaving would stop."""
        return "the node is being changed. Leaving stops it." if self.busy else ""

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
                if job.command or job.lines:
                    yield Button("Copy", id="copy", classes="key")
                yield Button("Close", id="close", classes="key")

    def on_mount(self) -> None:
        """Show the preview."""
        job = self._job
        lines: list[Line] = []
        if job.obstacle:  # first, so that it is visible whatever follows
            lines.append(Line(Kind.BAD, job.obstacle))
            lines += [Line(Kind.NOTE, job.command_line)] if job.command else []
            lines += [Line(Kind.SAME)] if job.lines else []
        self._shown = [*lines, *job.lines]
        self.query_one("#lines", Page).show(lines_of(self._shown))
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
        others = 8 if self.query("#word") else 6
        self.query_one("#preview").styles.max_height = max(3, self.size.height * 23 // 25 - others)

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
            self._began = time.monotonic()
            self.set_interval(1.0, self._tick)
            self.query(".buttons Button").set(disabled=True)
            self._doctor.beside(self._carry_out)

    def _carry_out(self) -> None:
        doctor, job = self._doctor, self._job
        for line in fixing.carry_out(doctor.session, job, irreversible=job.word is not None, stream=self._stream):
            doctor.tell(self._tell, line)
        doctor.tell(self._show_end)

    def _stream(self, text: str) -> None:
        """From the thread of the change: what a command prints."""
        self._doctor.tell(self._print, visible_lines(text))

    def _print(self, text: str) -> None:
        lines = [line for line in text.splitlines() if line.strip()]
        self._printed = [*self._printed, *lines][-LINES_OF_OUTPUT:]
        self._show_progress()

    def _tell(self, line: Line) -> None:
        self._told.append(line)
        self._printed = []
        self._show_progress()

    def _show_progress(self) -> None:
        output = [Line(Kind.ABOUT, f"  {line}") for line in self._printed]
        self.query_one("#lines", Page).show(lines_of([*self._told, *output]))
        self.query_one("#preview", VerticalScroll).scroll_end(animate=False)

    def _tick(self) -> None:
        """Show how long the change has taken."""
        if self.busy and (spent := int(time.monotonic() - self._began)):
            self.query_one(".dialog").border_subtitle = f"in progress · {spent} s"

    def _show_end(self) -> None:
        self.busy = False
        self.query_one(".dialog").border_subtitle = "esc closes"
        self.query("#go, #sudo, #word, #copy").set(display=False)
        close = self.query_one("#close", Button)
        close.disabled = False
        close.focus()
        doctor, job = self._doctor, self._job
        done = bool(self._told) and self._told[-1].kind is Kind.DONE
        at_login = any(planned.fix.effect.value == "new-login" for planned in job.plans)
        doctor.after_change(job.resolves, next_login=done and at_login)

    @on(Button.Pressed, "#sudo")
    def _sudo(self) -> None:
        with self.app.suspend():
            code = fixing.in_terminal(self._doctor.session, self._job.command)
        self._tell(Line(Kind.DONE if code == 0 else Kind.BAD, f"{self._job.command_line} exited with {code}"))
        if code == 0:
            self._doctor.diagnosis.note(fixing.changes_of(self._job))
        self._doctor.after_change(self._job.resolves, next_login=False)

    @on(Button.Pressed, "#copy")
    def action_copy(self) -> None:
        """Put the command, one of the texts shown, or all of it on the clipboard."""
        offer(self._doctor, copying.of_job(self._job, [*self._told] or self._shown))

    def action_scroll(self, way: int) -> None:
        """Move through the preview."""
        self.query_one("#preview", VerticalScroll).scroll_relative(y=way, animate=False)

    @on(Button.Pressed, "#close")
    def action_close(self) -> None:
        """Close, unless a change is running."""
        if not self.busy:
            self.dismiss()


__all__ = ["FixDialog", "lines_of", "open_fix", "open_job"]
