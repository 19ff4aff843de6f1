"""The list of checks: problems at the top, groups below, each row with the state of its check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model.diagnosis import BROKEN, WAITING, Row, Section, State

_MOVES = frozenset({"up", "down", "pageup", "pagedown", "home", "end", "j", "k", "g", "G"})

ROOM_FOR_TITLES = 140
"""Least width of the screen in columns at which the title is beside the id of a check."""


class CheckList(OptionList):
    """Keeps its position while results arrive; until the user moves, this is the first row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.cause", "Go to cause", show=False),
    ]
    DEFAULT_CSS = "CheckList { text-wrap: nowrap; text-overflow: ellipsis; }"

    class Chosen(Message):
        """Another check was selected."""

        def __init__(self, check: str) -> None:
            super().__init__()
            self.check = check

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, compact=True)
        self.chosen: str | None = None
        self._steered = False
        self._prompts: dict[str, Content] = {}

    def show(self, sections: Sequence[Section], empty: str = "") -> None:
        """Show these rows; without rows, the reason."""
        titled = self.app.size.width >= ROOM_FOR_TITLES
        prompts: dict[str, Content] = {} if sections else {"#": Content.styled(empty, "$muted")}
        for number, section in enumerate(sections):
            prompts[f"#{section.name}"] = _heading(section, spaced=number > 0)
            prompts |= {row.check: _row(row, titled=titled) for row in section.rows}
        if list(prompts) == list(self._prompts):
            for key, prompt in prompts.items():
                if prompt != self._prompts[key] or prompt.spans != self._prompts[key].spans:
                    self.replace_option_prompt(key, prompt)
        else:
            above = self.scroll_offset.y
            with self.prevent(OptionList.OptionHighlighted):
                self.set_options(Option(prompt, id=key, disabled=key[0] == "#") for key, prompt in prompts.items())
            self.scroll_to(y=above, animate=False)
        self._prompts = prompts
        checks = [key for key in prompts if key[0] != "#"]
        if checks:
            self.choose(self.chosen if self._steered and self.chosen in prompts else checks[0], steered=self._steered)
        else:
            self.chosen = None

    def choose(self, check: str | None, *, steered: bool = True) -> bool:
        """Go to a check; returns whether it is listed."""
        if check is None or check not in self._prompts:
            return False
        self._steered = steered
        with self.prevent(OptionList.OptionHighlighted):
            self.highlighted = self.get_option_index(check)
        if not steered:
            self.scroll_to(y=0, animate=False)
        if check != self.chosen:
            self.chosen = check
            self.post_message(self.Chosen(check))
        return True

    def on_key(self, event: events.Key) -> None:
        """Keep the position after a move."""
        self._steered = self._steered or event.key in _MOVES

    def on_click(self) -> None:
        """Keep the position after a click."""
        self._steered = True

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Post the selected check."""
        event.stop()
        if event.option_id and event.option_id != self.chosen:
            self.chosen = event.option_id
            self.post_message(self.Chosen(event.option_id))


def _heading(section: Section, *, spaced: bool) -> Content:
    name = section.name.upper()
    style = "bold $foreground" if section.name in (BROKEN, WAITING) else "bold $muted"
    line = Content.assemble((name, style), (f"  {section.remark}" if section.remark else "", "$faint"))
    return Content("\n") + line if spaced else line


def _row(row: Row, *, titled: bool) -> Content:
    name = {State.SKIPPED: "$muted", State.PENDING: "$muted"}.get(row.state, "")
    name = "bold" if row.state.broken or row.state is State.WAITING else name
    note = (" i", "$accent") if row.noted else ("", "")
    title = (f"  {row.title}" if titled else "", "$muted")
    return Content.assemble((GLYPHS[row.state], STYLES[row.state]), " ", (row.check, name), note, title)
