"""Where the words are typed that rows must hold."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class FilterField(Input):
    """Names its two ways out in the line of keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", key_display="enter"),
        Binding("escape", "screen.no_filter", "Show all", key_display="esc"),
    ]

    def __init__(self) -> None:
        super().__init__(placeholder="filter", id="filter")
