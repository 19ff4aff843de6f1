"""The head of every screen: tabs, node, version chain, and verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model.diagnosis import Headline
from npudoctor.tui.model.node import Joint, NodeLine

_SHORT = {"Topology": "Topo", "Environment": "Environ"}
_LEAST = ("firmware", "Python", "driver")
"""Components dropped first in a narrow terminal."""


_ROOM_FOR_ALL = 70
"""Least width in columns at which the duration of the run is shown."""

_ROOM_FOR_BOTH = 50
"""Least width in columns at which the verdict is truncated to keep the number of other findings visible."""


class Tabs(Widget):
    """The screens by name and label, and their keys, on one line."""

    DEFAULT_CSS = "Tabs { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: clip; }"

    def __init__(self, labels: Mapping[str, str], active: str) -> None:
        super().__init__()
        self.auto_links = False
        self._labels = labels
        self._active = active

    def render(self) -> Content:
        """The labels; short ones in a narrow terminal."""
        wide = self.content_size.width >= 11 + sum(len(label) + 4 for label in self._labels.values()) - 2
        parts: list[Content] = [Content.styled("npudoctor", "bold $accent")] if wide else []
        for number, (name, label) in enumerate(self._labels.items(), 1):
            active = name == self._active
            style = "bold $foreground underline" if active else "$muted"
            click = Style.from_meta({"@click": f"app.go({name.lower()!r})"})
            text = label if wide else _SHORT.get(name, label)
            tab = Content.assemble((f"{number} ", "$accent"), (text, style)).stylize(click)
            parts.append(tab)
        return Content("  ").join(parts)


class Masthead(Widget):
    """The node in two lines, and the verdict in a third."""

    DEFAULT_CSS = "Masthead { height: 3; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }"
    node: reactive[NodeLine] = reactive(NodeLine())
    headline: reactive[Headline | None] = reactive(None)
    remark: reactive[str] = reactive("")

    def render(self) -> Content:
        """Three lines, the remarks at the right."""
        width = self.content_size.width
        remark = self.remark if width >= _ROOM_FOR_ALL else self.remark.split(" · ")[0]
        badge = Content.styled(f" {self.node.badge} ", "bold $background on $warning") if self.node.badge else Content()
        lines = [
            _spread(self._who(width - badge.cell_length - 2), badge, width),
            _chain(self.node.chain, width),
            _spread(self._verdict(width - len(remark) - 2), Content.styled(remark, "$muted"), width),
        ]
        return Content("\n").join(lines)

    def _who(self, room: int) -> Content:
        if not self.node.hostname:
            return Content.styled("this node", "$muted")
        name = Content.styled(self.node.hostname, "bold")
        cards = Content.assemble("  ", (self.node.cards, "bold $accent")) if self.node.cards else Content()
        line = name + cards
        for number, part in enumerate(self.node.system):
            more = line + Content.styled(f" · {part}" if number else f"  {part}", "$muted")
            if number and more.cell_length > room:
                break
            line = more
        return line

    def _verdict(self, room: int) -> Content:
        if self.headline is None:
            return Content()
        state = self.headline.state
        text = self.headline.text
        behind = len(self.headline.next) + 2 if self.headline.next else 0
        if self.headline.short and len(text) + 2 + behind > room:
            text = self.headline.short
        mark = Content.assemble((f"{GLYPHS[state]} ", STYLES[state]), (text, "bold"))
        more = f"  and {self.headline.more} more" if self.headline.more > 0 else ""
        if self.headline.next and mark.cell_length + len(self.headline.next) + 2 <= room:
            more = f"  {self.headline.next}"
        if room < _ROOM_FOR_BOTH and mark.cell_length + len(more) > room:
            return mark
        if mark.cell_length + len(more) > room:
            mark = mark.truncate(room - len(more), ellipsis=True)
        return mark + Content.styled(more, "$muted")


def _spread(left: Content, right: Content, width: int) -> Content:
    room = width - right.cell_length - (2 if right else 0)
    if left.cell_length > room:
        left = left.truncate(max(room, 0), ellipsis=True)
    return left + " " * max(width - left.cell_length - right.cell_length, 0) + right


def _chain(joints: Sequence[Joint], width: int) -> Content:
    """The versions, as many as fit; a mismatch is marked between the two components."""
    line = Content()
    for left_out, between in ((0, " › "), (1, " › "), (1, "  "), (2, " › "), (2, "  "), (3, "  ")):
        line = Content()
        for joint in joints:
            if joint.name in _LEAST[:left_out] and not joint.broken:
                continue
            if line:
                line += Content.styled(" ✖ ", "bold $error") if joint.broken else Content.styled(between, "$faint")
            known = (joint.version, "bold $error" if joint.broken else "") if joint.version else ("–", "$faint")
            line += Content.assemble((f"{joint.name} ", "$muted"), known)
        if line.cell_length <= width:
            break
    return line
