"""Turns blocks of a check's detail into paragraphs, with colours and indents."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content
from textual.style import Style

from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model.detail import Block, Kind
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.widgets.page import Paragraph


def of_blocks(blocks: Iterable[Block], *, read_only: bool = False) -> list[Paragraph]:
    """One paragraph per block; in a read-only session a fix is named by its command."""
    return [_paragraph(block, read_only) for block in blocks]


def _paragraph(block: Block, read_only: bool) -> Paragraph:
    if block.kind is Kind.TITLE:
        state = block.state or State.OK
        return Paragraph(Content.styled(block.text, "bold"), Content.styled(f"{GLYPHS[state]} ", STYLES[state]), "  ")
    if block.kind is Kind.ABOUT:
        return Paragraph(Content.styled(block.text, "$muted"), "  ", "  ")
    if block.kind is Kind.HEADING:
        return Paragraph(Content.styled(block.text, "bold $accent"))
    if block.kind is Kind.COMMAND:
        click = Style.from_meta({"@click": f"screen.copy_one({block.text!r})"})
        bar = Content.styled("▎ ", "$accent")
        more = Content.styled("▎   ", "$accent")
        return Paragraph(Content(block.text).stylize(click), bar, more, fold=True)
    if block.kind is Kind.FIX and read_only:
        command = (f"  read-only; in a terminal: npudoctor fix {block.text}", "$muted")
        return Paragraph(Content.assemble(("Fix  ", "bold $accent"), (block.text, "bold"), command))
    if block.kind is Kind.FIX:
        offer = Content.assemble(("Fix  ", "bold $accent"), (block.text, "bold"), ("  press f", "$muted"))
        return Paragraph(offer.stylize(Style.from_meta({"@click": "screen.fix()"})))
    if block.kind is Kind.SOURCE:
        return Paragraph(Content(block.text), "", "  ")
    if block.kind is Kind.FOUND:
        return Paragraph(
            Content.styled(block.text, "bold $warning"), Content.styled("  actual    ", "$muted"), " " * 12
        )
    if block.kind is Kind.EXPECTED:
        return Paragraph(Content.styled(block.text, "$success"), Content.styled("  expected  ", "$muted"), " " * 12)
    if block.kind is Kind.LINK:
        click = Style.from_meta({"@click": f"screen.look_at({block.target!r})"})
        text = Content.styled(block.text, "underline $accent").stylize(click)
        return Paragraph(text + Content.styled("  press enter", "$muted"), "→ ", "  ")
    if block.kind is Kind.TRACE:
        return Paragraph(Content.styled(block.text, "$muted"), fold=True)
    return Paragraph(Content(block.text))
