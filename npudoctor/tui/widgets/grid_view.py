"""A matrix of letters with a cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from npudoctor.tui.model.topology import Grid

_LABEL = 9
_CELL = 3
_SHADES = ("$accent", "$success", "$warning", "$secondary", "$primary")


MOVES = (
    Binding("left", "cursor_left", "Left", show=False),
    Binding("right", "cursor_right", "Right", show=False),
    Binding("up", "cursor_up", "Up", show=False),
    Binding("down", "cursor_down", "Down", show=False),
    Binding("home", "first", "First", show=False),
    Binding("end", "last", "Last", show=False),
)
"""The keys that move the cursor of a grid."""


class GridView(Widget, can_focus=True):
    """Draws the links; arrow keys and the mouse move the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [*MOVES]
    place: reactive[tuple[int, int]] = reactive((0, 1))

    class Moved(Message):
        """The cursor has moved."""

    def __init__(self) -> None:
        super().__init__()
        self.grid = Grid()

    def show(self, grid: Grid) -> None:
        """Show this matrix."""
        if grid != self.grid:
            self.grid = grid
            self.refresh(layout=True)

    def watch_place(self) -> None:
        """Post the position of the cursor."""
        self.post_message(self.Moved())

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """One line per chip, and one above."""
        return len(self.grid.devices) + 1 if self.grid.devices else 0

    def render(self) -> Content:
        """The letters, with outliers marked."""
        size = len(self.grid.devices)
        shade = self._shading()
        numbers = "".join(f"{_number(name):>{_CELL}}" for name in self.grid.devices)
        head = f"{'':<{_LABEL}}{numbers}" + ("   CPU affinity" if any(self.grid.near) else "")
        lines = [Content.styled(head, "$muted")]
        for row in range(size):
            line = Content.styled(f"{self.grid.devices[row]:<{_LABEL}}", "bold" if row == self.place[0] else "")
            for column in range(size):
                line += self._cell(row, column, shade)
            near = self.grid.near[row]
            lines.append(line + Content.styled(f"   {near}" if near else "", "$muted"))
        return Content("\n").join(lines)

    def _cell(self, row: int, column: int, shade: Callable[[str], str]) -> Content:
        letter = "·" if row == column else self.grid.letter(row, column)
        odd = (row, column) in self.grid.odd
        style = "$faint" if row == column else "bold $error" if odd else shade(letter)
        text = f"!{letter}" if odd else f" {letter}"
        if (row, column) == self.place and self.has_focus:
            style = f"{style} reverse"
        return Content.assemble(" ", (text, style))

    def _shading(self) -> Callable[[str], str]:
        letters = [letter for letter, *_ in self.grid.legend()]
        return lambda letter: _SHADES[letters.index(letter) % len(_SHADES)] if letter in letters else ""

    def action_cursor_left(self) -> None:
        """Move left."""
        self._move(0, -1)

    def action_cursor_right(self) -> None:
        """Move right."""
        self._move(0, 1)

    def action_cursor_up(self) -> None:
        """Move up."""
        self._move(-1, 0)

    def action_cursor_down(self) -> None:
        """Move down."""
        self._move(1, 0)

    def action_first(self) -> None:
        """Move to the first chip."""
        self._move(-self.place[0], 0)

    def action_last(self) -> None:
        """Move to the last chip."""
        self._move(len(self.grid.devices), 0)

    def _move(self, down: int, right: int) -> None:
        last = max(len(self.grid.devices) - 1, 0)
        row, column = self.place
        self.place = (max(0, min(row + down, last)), max(0, min(column + right, last)))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move to the cell under the mouse."""
        row, column = event.y - 1, (event.x - _LABEL) // _CELL
        if 0 <= row < len(self.grid.devices) and 0 <= column < len(self.grid.devices):
            self.place = (row, column)


def _number(name: str) -> str:
    return name.removeprefix("NPU").removeprefix("Phy-ID")
