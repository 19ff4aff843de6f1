"""One cell for each node, with a cursor."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from npudoctor.tui.model.fleet import Cell, Layout, Segment, layout
from npudoctor.tui.widgets.grid_view import MOVES

STYLES = {
    ".": "$success",
    "w": "bold $warning",
    "E": "bold $error",
    "u": "$secondary",
    "~": "bold $accent",
    "?": "bold $secondary",
    "-": "$muted",
}


class NodeGrid(Widget, can_focus=True):
    """Draws the letters of all nodes; nodes outside `bright` are faint."""

    DEFAULT_CSS = "NodeGrid { height: auto; width: 100%; text-wrap: nowrap; text-overflow: clip; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *MOVES,
        Binding("enter", "screen.open", "Open", key_display="enter"),
    ]
    place: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor has moved."""

    def __init__(self) -> None:
        super().__init__()
        self.auto_links = False
        self.cells: Sequence[Cell] = ()
        self.bright: Collection[int] | None = None
        self._layouts: dict[tuple[int, int], Layout] = {}

    def show(self, cells: Sequence[Cell], bright: Collection[int] | None = None) -> None:
        """Show these nodes."""
        if cells is not self.cells:
            self.cells, self._layouts = cells, {}
            self.place = min(self.place, max(len(cells) - 1, 0))
            self.refresh(layout=True)
        if bright != self.bright:
            self.bright = bright
            self.refresh()

    @property
    def line(self) -> int:
        """The line of the cursor."""
        return self._layout(self.content_size.width).places.get(self.place, (0, 0))[0]

    def watch_place(self) -> None:
        """Post the position of the cursor."""
        self.post_message(self.Moved())

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Move to the node under the mouse."""
        found = self._layout(self.content_size.width)
        row = [(column, place) for place, (line, column) in found.places.items() if line == event.y]
        at = [place for column, place in row if column <= event.x < column + found.step]
        self.place = at[0] if at else self.place

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """How many lines there are at a width."""
        return len(self._layout(width).lines)

    def _layout(self, width: int) -> Layout:
        key = (width, self.app.size.height - 10)
        if key not in self._layouts:
            self._layouts = {key: layout([cell.name for cell in self.cells], *key)}
        return self._layouts[key]

    def render(self) -> Content:
        """The letters in their racks."""
        found = self._layout(self.content_size.width)
        lines = []
        for segments in found.lines:
            parts: list[tuple[str, str] | str] = []
            at = 0
            for column, segment in segments:
                parts += [" " * (column - at), (f"{segment.label:<{found.label}}", "$muted")]
                parts += self._cells(segment, found.step)
                at = column + found.label + segment.count * found.step
            lines.append(Content.assemble(*parts))
        return Content("\n").join(lines)

    def _cells(self, segment: Segment, step: int) -> list[tuple[str, str]]:
        places = range(segment.first, segment.first + segment.count)
        runs = groupby(places, key=lambda place: (self._style(place), place == self.place))
        return [("".join(f"{self._letter(place):<{step}}" for place in run), style) for (style, _), run in runs]

    def _letter(self, place: int) -> str:
        return self.cells[place].letter if self.bright is None or place in self.bright else "·"

    def _style(self, place: int) -> str:
        dark = self.bright is not None and place not in self.bright
        style = "$faint" if dark else STYLES[self.cells[place].letter]
        return f"{style} reverse" if place == self.place and self.has_focus else style

    # Keys

    def action_cursor_left(self) -> None:
        """Move left."""
        self._beside(-1)

    def action_cursor_right(self) -> None:
        """Move right."""
        self._beside(1)

    def action_cursor_up(self) -> None:
        """Move up."""
        self._below(-1)

    def action_cursor_down(self) -> None:
        """Move down."""
        self._below(1)

    def action_first(self) -> None:
        """Move to the first node."""
        self.place = 0

    def action_last(self) -> None:
        """Move to the last node."""
        self.place = max(len(self.cells) - 1, 0)

    def _beside(self, way: int) -> None:
        places = self._layout(self.content_size.width).places
        if not places:
            return
        order = sorted(places, key=places.__getitem__)
        at = order.index(self.place) + way
        self.place = order[max(0, min(at, len(order) - 1))]

    def _below(self, way: int) -> None:
        places = self._layout(self.content_size.width).places
        if not places:
            return
        line, column = places[self.place]
        near = [place for place, (row, _) in places.items() if row == line + way]
        if near:
            self.place = min(near, key=lambda place: abs(places[place][1] - column))
