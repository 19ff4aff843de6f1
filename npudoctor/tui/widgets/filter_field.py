"""The input field of the filter."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class FilterField(Input):
    """Shows its two exit keys in the key line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Apply", key_display="enter"),
        Binding("escape", "screen.no_filter", "Show all", key_display="esc"),
    ]

    def __init__(self) -> None:
        super().__init__(placeholder="filter", id="filter")
