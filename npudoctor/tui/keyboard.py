"""Familiar keys: j, k, h, l, g and G move, ctrl+c quits, ctrl+z suspends."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from npudoctor.tui.background import Background

_MOVES = {
    "j": "cursor_down",
    "k": "cursor_up",
    "h": "cursor_left",
    "l": "cursor_right",
    "g": "first",
    "G": "last",
}


class Keyboard(Background):
    """An application with these keys; a screen can override them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"move({where!r})", show=False) for key, where in _MOVES.items()),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("ctrl+c", "leave_or_copy", show=False, priority=True),
    ]

    def on_mount(self) -> None:
        """Redraw after resume."""
        self.app_resume_signal.subscribe(self, lambda _: self.call_after_refresh(self._draw_all))

    def _draw_all(self) -> None:
        for widget in (self.screen, *self.screen.walk_children()):
            widget.refresh()

    def action_move(self, where: str) -> None:
        """Move in the focused list or matrix."""
        if (move := getattr(self.focused, f"action_{where}", None)) is not None:
            move()

    async def action_leave_or_copy(self) -> None:
        """Copy the selected text; without a selection, quit, but not during a change."""
        if isinstance(self.focused, Input) and self.focused.selected_text:
            self.focused.action_copy()
        elif self.screen.get_selected_text():
            await self.screen.run_action("copy_text")
        elif getattr(self.screen, "busy", False):
            self.notify("press ctrl+q to quit anyway", title="The node is being changed", severity="warning")
        else:
            self.leave(0)
