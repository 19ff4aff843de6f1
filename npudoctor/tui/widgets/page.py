"""Text with hanging indents, wrapped at the widget's width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget


@dataclass(frozen=True)
class Paragraph:
    """One paragraph. `lead` precedes its first line, `rest` the others; `fold` keeps all blanks."""

    content: Content
    lead: Content | str = ""
    rest: Content | str = ""
    fold: bool = False


class Page(Widget):
    """Draws paragraphs below each other."""

    DEFAULT_CSS = "Page { height: auto; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.auto_links = False
        self._paragraphs: Sequence[Paragraph] = ()
        self._lines: dict[int, list[Content]] = {}

    def show(self, paragraphs: Sequence[Paragraph]) -> None:
        """Replace the paragraphs."""
        if list(paragraphs) == list(self._paragraphs):
            return
        width = self.content_size.width
        before = len(self._wrapped(width))
        self._paragraphs = tuple(paragraphs)
        self._lines = {}
        self.refresh(layout=len(self._wrapped(width)) != before)  # a new layout draws the whole screen anew

    @property
    def plain(self) -> str:
        """The paragraphs as text, each unwrapped."""
        pairs = ((Content.from_text(one.lead, markup=False).plain, one.content.plain) for one in self._paragraphs)
        return "\n".join(f"{lead}{text}".rstrip() for lead, text in pairs)

    def render(self) -> Content:
        """The lines at the present width."""
        return Content("\n").join(self._wrapped(self.content_size.width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """How many lines there are at a width."""
        return len(self._wrapped(width))

    def _wrapped(self, width: int) -> list[Content]:
        if width not in self._lines:
            self._lines = {width: [line for one in self._paragraphs for line in _lines(one, max(width, 8))]}
        return self._lines[width]


def _lines(paragraph: Paragraph, width: int) -> list[Content]:
    lead, rest = Content.from_text(paragraph.lead, markup=False), Content.from_text(paragraph.rest, markup=False)
    room = max(width - max(lead.cell_length, rest.cell_length), 4)
    if paragraph.fold:
        pieces = [piece for line in paragraph.content.split("\n") for piece in _folded(line, room)]
    else:
        pieces = [piece for line in paragraph.content.split("\n", allow_blank=True) for piece in _wrapped(line, room)]
    return [(lead if number == 0 else rest) + piece.rstrip() for number, piece in enumerate(pieces)] or [lead]


def _wrapped(line: Content, room: int) -> list[Content]:
    too_long = any(len(word) > room for word in line.plain.split(" "))
    return _folded(line, room) if too_long else list(line.wrap(room))


def _folded(line: Content, room: int) -> list[Content]:
    """Break between words; within a word only where it does not fit on one line."""
    pieces = []
    while line.cell_length > room:
        most = max(len(line.fold(room)[0].plain), 1)
        blank = line.plain.rfind(" ", 0, most + 1)
        word = line.plain[blank + 1 :].split(" ", 1)[0]
        cut = blank + 1 if line.plain[: max(blank, 0)].strip() and len(word) <= room else _within(line.plain, most)
        pieces.append(line[:cut])
        line = line[cut:]
    return [*pieces, line]


def _within(text: str, most: int) -> int:
    """The position to break a long word: after the last part of a path that fits, unless that leaves much room."""
    cut = text.rfind("/", 0, most) + 1
    return cut if cut > most // 2 else most
