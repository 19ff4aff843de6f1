"""An installation of driver and firmware: the lines of `npudoctor setup` as they come, and how it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button

from npudoctor.control_characters import escape
from npudoctor.tui.widgets.page import Page, Paragraph

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp

KEPT_LINES = 400
"""So many of the last lines are shown."""
DRAWN_S = 0.1
GOES_ON = "an installation. Its step goes on without npudoctor; the next one begins with npudoctor setup --attach."


class Follow(ModalScreen[None]):
    """Runs `npudoctor setup` with options that were confirmed. Leaving leaves the step that runs as it is."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("q", "app.quit", "Leave"),
        Binding("down", "scroll(1)", "Down", show=False),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("pagedown,space", "scroll(10)", "Page down", show=False),
        Binding("pageup,b", "scroll(-10)", "Page up", show=False),
    ]
    cut_off = "npudoctor: an installer that has begun goes on; to follow it: npudoctor setup --attach"

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self._words = tuple(words)
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._drawn = False
        self.code: int | None = None
        self.busy = True

    @property
    def in_progress(self) -> str:
        """What leaving does."""
        return GOES_ON if self.busy else ""

    @property
    def _doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    def compose(self) -> ComposeResult:
        """The lines above the button."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Driver and firmware"
            box.border_subtitle = "↑ ↓ scroll · q leaves it running"
            with VerticalScroll(id="preview", can_focus=False):
                yield Page(id="lines")
            with Horizontal(classes="buttons"):
                yield Button("Close", id="close", classes="key", disabled=True)

    def on_mount(self) -> None:
        """Begin; the last line stays in view until a person scrolls."""
        self.query_one("#preview", VerticalScroll).anchor()
        self.set_interval(DRAWN_S, self._draw)
        self._doctor.beside(self._work)

    def on_resize(self) -> None:
        """Give the lines all free height, and keep the last one and the button on the screen."""
        self.query_one("#preview").styles.max_height = max(3, self.size.height * 23 // 25 - 6)

    def _work(self) -> None:
        """In a thread: the command, from its first line to its last."""
        doctor = self._doctor
        doctor.session.must_allow_changes()
        run = doctor.session.node.set_up
        code = run(self._words, lambda line: doctor.tell(self._say, escape(line))) if run is not None else 2
        doctor.tell(self._show_end, code)

    def _say(self, line: str) -> None:
        self._lines.append(line)
        self._drawn = False

    def _draw(self) -> None:
        if self._drawn or not self.is_attached:
            return
        self._drawn = True
        last = len(self._lines) - 1 if self.code is not None else -1
        style = "bold $success" if self.code == 0 else "bold $error"
        mark = "✔ " if self.code == 0 else "✖ "
        said = [
            Paragraph(Content.styled(line, style), mark, "  ")
            if number == last
            else Paragraph(Content(line), "", "     ", fold=True)
            for number, line in enumerate(self._lines)
        ]
        self.query_one("#lines", Page).show(said)

    def _show_end(self, code: int) -> None:
        self.code, self.busy, self._drawn = code, False, False
        if not self.is_attached:
            return
        self._draw()
        self.query_one(".dialog").border_subtitle = "↑ ↓ scroll · esc closes"
        close = self.query_one("#close", Button)
        close.disabled = False
        close.focus()
        self._doctor.after_change((), next_login=False)

    def action_scroll(self, way: int) -> None:
        """Move through the lines."""
        preview = self.query_one("#preview", VerticalScroll)
        preview.release_anchor()
        preview.scroll_relative(y=way, animate=False)

    @on(Button.Pressed, "#close")
    def action_close(self) -> None:
        """Close, once it has ended."""
        if not self.busy:
            self.dismiss()
