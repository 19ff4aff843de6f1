"""The links between the chips."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.widgets import Static

from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model import topology
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.screens.node_screen import NodeScreen
from npudoctor.tui.widgets.grid_view import GridView
from npudoctor.tui.widgets.page import Page, Paragraph


class Topology(NodeScreen):
    """The selected cell in words, the matrix and the legend."""

    CSS_PATH = "topology.tcss"
    AUTO_FOCUS = "GridView"

    def body(self) -> ComposeResult:
        """The matrix above the text."""
        yield Static(id="sentence")
        with VerticalScroll(id="body", can_focus=False):
            yield GridView()
            yield Page(id="page")

    def follow(self) -> None:
        """Show the links of the last run."""
        grid = (
            topology.grid(self.doctor.session)
            if self.doctor.session.facts
            else topology.Grid(reason="checking this node")
        )
        self.query_one(GridView).show(grid)
        said = [Paragraph(Content.styled(grid.reason, "$muted"))] if grid.reason else []
        if grid.reason and (why := self.doctor.diagnosis.cause_elsewhere()):
            said += [Paragraph(Content()), Paragraph(Content(why))]
        legend = grid.legend()
        if legend:
            short = [
                Content.assemble((letter, "bold $accent"), f" {link} × {count}") for letter, link, _, count in legend
            ]
            said.append(Paragraph(Content("    ").join(short)))
        row = self.doctor.diagnosis.row("npu.topology") if grid.devices else None
        if row is not None and row.state in (State.OK, State.WARNING, State.ERROR):
            text = row.title if row.state is State.OK else row.summary
            mark = Content.styled(f"{GLYPHS[row.state]} ", STYLES[row.state])
            said += [Paragraph(Content()), Paragraph(Content(text), mark, "  ")]
        if legend:
            said.append(Paragraph(Content()))
        for _, link, meaning, _ in legend:
            lead = Content.styled(f"{link:<9}", "$muted")
            said.append(Paragraph(Content(meaning), lead, " " * 9))
        self.query_one("#page", Page).show(said)
        self._say()

    @on(GridView.Moved)
    def _moved(self) -> None:
        self._say()
        row = self.query_one(GridView).place[0]
        place = Region(0, row + 1 if row else 0, 1, 1)  # column numbers are above the first row
        self.query_one("#body", VerticalScroll).scroll_to_region(place, animate=False)

    def _say(self) -> None:
        view = self.query_one(GridView)
        row, column = view.place
        inside = max(row, column) < len(view.grid.devices)
        sentence = self.query_one("#sentence", Static)
        sentence.display = inside
        sentence.update(Content(view.grid.sentence(row, column) if inside else ""))
