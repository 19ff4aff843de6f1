"""The screens of a run of many nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from npudoctor.tui.bars import curve
from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model import fleet
from npudoctor.tui.model.diagnosis import Diagnosis, State
from npudoctor.tui.model.node import NodeLine
from npudoctor.tui.screens.copy import copy_text
from npudoctor.tui.screens.filtered_screen import FilteredScreen
from npudoctor.tui.screens.node_screen import NodeScreen
from npudoctor.tui.screens.overview import Overview
from npudoctor.tui.widgets.filter_field import FilterField
from npudoctor.tui.widgets.node_grid import STYLES as LETTERS
from npudoctor.tui.widgets.node_grid import NodeGrid
from npudoctor.tui.widgets.page import Page, Paragraph

if TYPE_CHECKING:
    from npudoctor.tui.fleet_app import FleetApp

_READING = "reading the answers"
BLANK = Paragraph(Content())


class FleetScreen(NodeScreen):
    """A screen about many nodes."""

    CSS_PATH = "fleet.tcss"

    @property
    def fleet(self) -> fleet.FleetDiagnosis:
        """The verdict."""
        return cast("FleetApp", self.app).diagnosis


class FleetNodes(FleetScreen, FilteredScreen):
    """The grid, and what concerns the selected node."""

    LIST = NodeGrid
    AUTO_FOCUS = "NodeGrid"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next_node", "Next problem"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "no_filter", "Clear filter", show=False),
        Binding("c", "copy_shown", "Copy"),
    ]

    def body(self) -> ComposeResult:
        """The grid above the selected node, or beside it where there is room."""
        yield FilterField()
        yield Static(id="legend")
        yield Static(id="sentence")
        with Container(id="body"):
            with VerticalScroll(id="grid", can_focus=False):
                yield NodeGrid()
            with VerticalScroll(id="detail", can_focus=False):
                yield Page(id="page")

    def follow(self) -> None:
        """Show the verdict."""
        grid, words = self.query_one(NodeGrid), self.query_one("#filter", Input).value.lower().split()
        cells = self.fleet.cells
        bright = {place for place, cell in enumerate(cells) if cell.matches(words)} if words else None
        grid.show(cells, bright)
        if bright and grid.place not in bright:
            grid.place = min(bright)
        letters = [cell.letter for cell in cells]
        legend = [
            Content.assemble((letter, LETTERS[letter]), f" {letters.count(letter):,} {word}")
            for letter, word in fleet.WORDS.items()
            if letter in letters
        ]
        legend += [Content.styled(f"{len(bright)} match", "bold")] if bright is not None else []
        self.query_one("#legend", Static).update(Content("   ").join(legend))
        self._say()

    @on(NodeGrid.Moved)
    def _moved(self) -> None:
        self._say()
        line = Region(0, self.query_one(NodeGrid).line, 1, 1)
        self.query_one("#grid", VerticalScroll).scroll_to_region(line, animate=False)
        self.query_one("#detail", VerticalScroll).scroll_to(y=0, animate=False)

    def _say(self) -> None:
        place = self.query_one(NodeGrid).place
        sentence, page = self.query_one("#sentence", Static), self.query_one("#page", Page)
        if place >= len(self.fleet.cells):
            sentence.update(Content())
            page.show([Paragraph(Content.styled(_READING, "$muted"))])
            return
        cell = self.fleet.cells[place]
        mark = (cell.letter, LETTERS[cell.letter])
        sentence.update(Content.assemble(mark, f" {cell.name}", (f"  {cell.about}", "$muted")))
        said = []
        for check, finding in cell.findings:
            state = State(finding.severity.value)
            lead = Content.styled(f"{GLYPHS[state]} ", STYLES[state])
            said.append(Paragraph(Content.assemble(finding.summary, (f"  {check}", "$muted")), lead, "  "))
            said += [Paragraph(Content.styled(finding.hint, "$muted"), "  ", "  ")] if finding.hint else []
        page.show(said or [Paragraph(Content.styled("nothing to fix", "$muted"))])

    # Keys

    def action_open(self) -> None:
        """Show the stored report of the selected node."""
        place = self.query_one(NodeGrid).place
        if place < len(self.fleet.cells):
            cast("FleetApp", self.app).open_node(self.fleet.cells[place])

    def action_next_node(self) -> None:
        """Go to the next node that matches the filter, without one to the next that is not ok."""
        grid = self.query_one(NodeGrid)
        wanted = grid.bright if grid.bright is not None else self._in_trouble()
        grid.place = next(fleet.walk(len(grid.cells), grid.place, wanted.__contains__), grid.place)

    def _in_trouble(self) -> set[int]:
        return {place for place, cell in enumerate(self.fleet.cells) if cell.letter != "."}

    def action_find(self, words: str) -> None:
        """Filter by these words."""
        field = self.query_one("#filter", Input)
        field.display, field.value = True, words
        self.query_one(NodeGrid).focus()

    def action_page(self, way: int) -> None:
        """Scroll the text by a page."""
        pane = self.query_one("#detail", VerticalScroll)
        pane.scroll_relative(y=way * max(pane.size.height - 2, 1), animate=False)


class FleetProblems(Overview):
    """What is wrong: the checks across nodes, and the nodes' own findings."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "cause", "Show its nodes")]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the way to the nodes of a check where it has some."""
        if action == "cause" and self.is_mounted and self._has_nodes():
            return True
        return super().check_action(action, parameters)

    def action_cause(self) -> None:
        """Show the nodes of the selected check, or the cause of a skipped one."""
        if self.check and self._has_nodes():
            cast("FleetApp", self.app).find_nodes(self.check)
        else:
            super().action_cause()

    def _has_nodes(self) -> bool:
        return bool(self.check and cast("FleetApp", self.app).diagnosis.nodes_of(self.check))


class FleetText(FleetScreen):
    """A screen of one text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy_shown", "Copy"),
        Binding("down", "scroll(1)", "Down", show=False),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
        Binding("home,g", "edge(0)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
    ]

    def body(self) -> ComposeResult:
        """The text."""
        with VerticalScroll(id="body", can_focus=False):
            yield Page(id="page")

    def follow(self) -> None:
        """Show it once the answers are read."""
        reading = [Paragraph(Content.styled(_READING, "$muted"))]
        self.query_one(Page).show(list(self.paragraphs()) if self.fleet.members is not None else reading)

    def paragraphs(self) -> Iterator[Paragraph]:
        """The text."""
        raise NotImplementedError

    def action_scroll(self, way: int) -> None:
        """Scroll by a line."""
        self.query_one(VerticalScroll).scroll_relative(y=way, animate=False)

    def action_edge(self, end: int) -> None:
        """Go to the first or the last line."""
        pane = self.query_one(VerticalScroll)
        pane.scroll_to(y=pane.max_scroll_y if end else 0, animate=False)


class FleetGroups(FleetText):
    """The nodes by hardware and software, and what differs within each group."""

    def paragraphs(self) -> Iterator[Paragraph]:
        """Each group, then its differences."""
        from npudoctor.fleet.targets import brief

        for cause in self.fleet.verdict.causes if self.fleet.verdict else ():
            yield Paragraph(Content(cause), Content.styled("cause  ", "bold $warning"), " " * 7)
            yield BLANK
        differing = self.fleet.differences
        for group in self.fleet.verdict.groups if self.fleet.verdict else ():
            nodes = f"{group.nodes:,} node{'s' * (group.nodes != 1)}"
            yield Paragraph(Content.assemble((group.name, "bold $accent"), f"  {nodes}"))
            names = group.names if len(group.names) < 200 else f"{group.names[:200]}…"
            yield Paragraph(Content.styled(names, "$muted"), "  ", "  ")
            for title, value in group.software.items():
                yield Paragraph(Content(value), Content.styled(f"  {title:<20} ", "$muted"), " " * 23)
            rows = differing.get(group.name, [])
            yield Paragraph(
                Content.styled("Differences", "bold") if rows else Content.styled("no differences", "$muted")
            )
            for row in rows[: fleet.MOST_DIFFERENCES]:
                norm = f"{row.norm} on the others" if row.norm is not None else "no majority"
                others = "; ".join(f"{value} on {brief(names)}" for value, names in row.others)
                lead = Content.styled(f"  {row.title}: ", "bold")
                yield Paragraph(Content.assemble(lead, others, (f"; {norm}", "$muted")), "", "    ")
            if len(rows) > fleet.MOST_DIFFERENCES:
                yield Paragraph(Content.styled(f"  … and {len(rows) - fleet.MOST_DIFFERENCES} more", "$muted"))
            yield BLANK


class FleetNumbers(FleetText):
    """Measured numbers as distributions, with outliers."""

    def paragraphs(self) -> Iterator[Paragraph]:
        """One distribution for each measure and group, then the outliers."""
        group = ""
        for one in self.fleet.numbers:
            if one.group != group:
                group = one.group
                yield Paragraph(Content.styled(group, "bold $accent"))
            known = "" if one.condition == "unknown" else f", {one.condition}"
            about = f"  {one.nodes:,} node{'s' * (one.nodes != 1)}{known}"
            yield Paragraph(Content.assemble(f"{one.measure} in {one.unit}", (about, "$muted")), "  ")
            bars = curve([count or None for count in one.counts], fleet.BINS, most=max(one.counts))[0]
            ends = f"{one.least:g} to {one.most:g}, median {one.middle:g}"
            yield Paragraph(Content.assemble((bars.replace("·", " "), "$accent"), f"  {ends}"), "  ", fold=True)
        outliers = self.fleet.results.get("fleet.outliers")
        if outliers is not None:
            yield BLANK
            yield Paragraph(Content.styled("Outliers", "bold"))
            for finding in outliers.findings:
                yield Paragraph(Content(finding.summary), Content.styled("! ", "bold $warning"), "  ")
            if not outliers.findings:
                yield Paragraph(Content.styled(outliers.reason or "none", "$muted"), "  ", "  ")


class FleetRails(FleetText):
    """The rail map: which switch has the NPUs of which index."""

    def paragraphs(self) -> Iterator[Paragraph]:
        """One line for each switch."""
        found = self.fleet.rails
        if not found.switches:
            why = "no switch is known: hccn_tool reports LLDP neighbours only of ports that receive them"
            yield Paragraph(Content.styled(why, "$muted"))
            return
        wide = min(max(len(name) for name, _ in found.switches), 30)
        yield Paragraph(Content.styled(f"{'NPU':>{wide}}" + "".join(f"{one:>6}" for one in found.devices), "$muted"))
        for switch, counts in found.switches:
            line = Content(f"{switch[-wide:]:>{wide}}")
            names: list[str] = []
            for device, count in zip(found.devices, counts, strict=True):
                wrong = found.wrong.get((switch, device), ())
                names += [name for name in wrong if name not in names]
                text = f"{'!' if wrong else ''}{count}" if count else "·"
                line += Content.styled(f"{text:>6}", "bold $error" if wrong else "" if count else "$faint")
            about = f"  {', '.join(names[:2])}{'…' if len(names) > 2 else ''}" if names else ""
            yield Paragraph(line + Content.styled(about, "$error"), fold=True)
        yield BLANK
        text = f"{len(found.switches)} switches by LLDP; each number is a count of nodes, ! an NPU on a wrong switch"
        yield Paragraph(Content.styled(text, "$muted"))


class FleetLists(FleetScreen):
    """Lists for other programs."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "copy_list", "Copy")]

    def body(self) -> ComposeResult:
        """The lists at the left, one at the right."""
        from npudoctor.fleet.lists import KINDS

        with Horizontal(id="body"):
            yield OptionList(*(Option(kind, id=kind) for kind in KINDS), compact=True)
            with VerticalScroll(id="detail", can_focus=False):
                yield Page(id="page")

    @on(OptionList.OptionHighlighted)
    def follow(self) -> None:
        """Show the selected list."""
        text = self._text()
        said = text.splitlines() if text is not None else [_READING]
        self.query_one(Page).show([Paragraph(Content(line), fold=True) for line in said or ["empty"]])

    def _text(self) -> str | None:
        from npudoctor.fleet import lists

        place, found = self.query_one(OptionList).highlighted or 0, self.fleet
        if found.members is None or found.verdict is None:
            return None
        return lists.render(list(lists.KINDS)[place], found.verdict, found.members)

    def action_copy_list(self) -> None:
        """Put the list on the clipboard."""
        if text := self._text():
            copy_text(self.doctor, text.rstrip("\n"))


class NodeReport(Overview):
    """The stored report of one node."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", key_display="esc")]

    def __init__(self, diagnosis: Diagnosis, line: NodeLine) -> None:
        super().__init__()
        self._diagnosis, self._line = diagnosis, line

    @property
    def diagnosis(self) -> Diagnosis:
        """Its results."""
        return self._diagnosis

    @property
    def node_line(self) -> NodeLine:
        """The node."""
        return self._line

    def action_look_at(self, check: str | None) -> None:
        """Go to a check of this node."""
        Overview.action_look_at(self, check)

    def action_back(self) -> None:
        """Clear the filter, else return to the fleet."""
        if self.query_one("#filter", Input).display:
            self.action_no_filter()
        else:
            self.app.pop_screen()
