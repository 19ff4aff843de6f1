"""Text with hanging indents, wrapped at the widget's width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.geometry import Region, Size
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
        if _with_styles(paragraphs) == _with_styles(self._paragraphs):
            return
        width = self.content_size.width
        before = self._wrap_all(width)
        self._paragraphs = tuple(paragraphs)
        self._lines = {}
        after = self._wrap_all(width)
        if len(after) != len(before):
            self.refresh(layout=True)  # a new layout draws the whole screen anew
        elif changed := [
            one for row, lines in enumerate(zip(before, after, strict=True)) for one in _changed_regions(row, *lines)
        ]:
            self.refresh(*changed)

    @property
    def plain(self) -> str:
        """The paragraphs as text, each unwrapped."""
        pairs = ((Content.from_text(one.lead, markup=False).plain, one.content.plain) for one in self._paragraphs)
        return "\n".join(f"{lead}{text}".rstrip() for lead, text in pairs)

    def render(self) -> Content:
        """The lines at the present width."""
        return Content("\n").join(self._wrap_all(self.content_size.width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """How many lines there are at a width."""
        return len(self._wrap_all(width))

    def _wrap_all(self, width: int) -> list[Content]:
        if width not in self._lines:
            self._lines = {width: [line for one in self._paragraphs for line in _lines(one, max(width, 8))]}
        return self._lines[width]


def _lines(paragraph: Paragraph, width: int) -> list[Content]:
    lead, rest = Content.from_text(paragraph.lead, markup=False), Content.from_text(paragraph.rest, markup=False)
    room = max(width - max(lead.cell_length, rest.cell_length), 4)
    if paragraph.fold:
        pieces = [piece for line in paragraph.content.split("\n") for piece in _fold(line, room)]
    else:
        pieces = [piece for line in paragraph.content.split("\n", allow_blank=True) for piece in _wrap(line, room)]
    return [(lead if number == 0 else rest) + piece.rstrip() for number, piece in enumerate(pieces)] or [lead]


def _with_styles(paragraphs: Sequence[Paragraph]) -> list[object]:
    """Paragraphs with their styles, which Content leaves out of a comparison."""
    return [(one, one.content.spans, getattr(one.lead, "spans", ())) for one in paragraphs]


def _changed_regions(row: int, old: Content, new: Content) -> list[Region]:
    """The part of a line that differs; a terminal that is far away gets no more."""
    before, after = _letter_styles(old), _letter_styles(new)
    if before == after:
        return []
    same = next(
        (place for place, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    begin, end = new[:same].cell_length, max(old.cell_length, new.cell_length)
    if len(before) == len(after) and old.cell_length == new.cell_length:
        alike = next(place for place, (a, b) in enumerate(zip(before[::-1], after[::-1], strict=True)) if a != b)
        end = new[: len(after) - alike].cell_length
    return [Region(begin, row, max(end - begin, 1), 1)]


def _letter_styles(line: Content) -> list[tuple[str, ...]]:
    """Each letter with its styles."""
    letters: list[tuple[str, ...]] = [(letter,) for letter in line.plain]
    for span in line.spans:
        style = str(span.style)
        letters[span.start : span.end] = [(*letter, style) for letter in letters[span.start : span.end]]
    return letters


def _wrap(line: Content, room: int) -> list[Content]:
    too_long = any(len(word) > room for word in line.plain.split(" "))
    return _fold(line, room) if too_long else list(line.wrap(room))


def _fold(line: Content, room: int) -> list[Content]:
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
