"""A screen whose list is filtered by words."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.widget import Widget
from textual.widgets import Input, OptionList

from npudoctor.tui.screens.node_screen import NodeScreen


class FilteredScreen(NodeScreen):
    """Its list shows what matches the words in the Input #filter."""

    LIST: ClassVar[type[Widget]] = OptionList
    """The widget with the list, which has the focus again after the words."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the filter is typed, its key is ordinary input."""
        if action == "filter" and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        """Type the filter."""
        field = self.query_one("#filter", Input)
        field.display = True
        self.set_focus(field)

    def action_no_filter(self) -> None:
        """Show all rows again."""
        field = self.query_one("#filter", Input)
        field.value, field.display = "", False
        self.query_one(self.LIST).focus()

    def apply_filter(self) -> None:
        """Show the rows that match the words."""
        self.follow()

    @on(Input.Changed, "#filter")
    def _words_changed(self) -> None:
        self.apply_filter()

    @on(Input.Submitted, "#filter")
    def _filter_stays(self) -> None:
        self.query_one(self.LIST).focus()
