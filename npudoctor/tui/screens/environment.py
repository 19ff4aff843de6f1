"""The version chain, and the environment variables of a job."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model import detail, environment
from npudoctor.tui.model.environment import VariableRow
from npudoctor.tui.model.node import Joint
from npudoctor.tui.paragraphs import of_blocks
from npudoctor.tui.screens.check_screen import CheckScreen
from npudoctor.tui.widgets.filter_field import FilterField
from npudoctor.tui.widgets.page import Page, Paragraph


class Environment(CheckScreen):
    """A list of both, and the detail of one."""

    CSS_PATH = "environment.tcss"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fix", "Fix"),
        Binding("c", "copy", "Copy"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("o", "toggle_unset", "Hide unset"),
        Binding("escape", "no_filter", "Clear filter", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._unset = True
        self._rows: dict[str, VariableRow] = {}
        self._joints: dict[str, Joint] = {}
        self._at: str | None = None
        self._seen: object = None

    def body(self) -> ComposeResult:
        """The list at the left, the detail at the right."""
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield FilterField()
                yield OptionList(id="variables", compact=True)
            with VerticalScroll(id="detail", can_focus=False):
                yield Page(id="page")

    def follow(self) -> None:
        """Show the data of the last run."""
        line = self.doctor.node_line
        if line.chain and self._seen is not line:
            self._seen = line
            self._fill()

    def _fill(self) -> None:
        found = environment.variables(self.doctor.session, self.doctor.diagnosis)
        words = self.query_one("#filter", Input).value
        rows = environment.matching(found.rows, words=words, unset=self._unset)
        self._rows = {row.name: row for row in rows}
        self._joints = {f"@{joint.name}": joint for joint in self.doctor.node_line.chain}
        listed = self.query_one(OptionList)
        options = [Option(_heading("Versions", "driver to Python"), disabled=True)]
        options += [Option(_draw_joint(joint), id=key) for key, joint in self._joints.items()]
        whose = f"of {found.whose.replace('process', 'this process')}" if found.whose else found.reason or ""
        width = min(max((len(row.name) for row in rows if row.problem or row.value is not None), default=0), 24)
        for name, members in environment.sections(rows) or [("Variables", [])]:
            heading = _heading(name, f"{len(members)} variable{'s' * (len(members) != 1)} {whose}".strip())
            whose = ""
            options.append(Option(Content("\n") + heading, disabled=True))
            options += [Option(_variable(row, width), id=row.name) for row in members]
        ids = [option.id for option in options]
        kept = ids.index(self._at if self._at in ids and self._at else self._first())
        with self.prevent(OptionList.OptionHighlighted):
            listed.set_options(options)
            listed.highlighted = kept
        self._show(ids[kept] or "")

    def _first(self) -> str | None:
        """The first problem; else the first component of the chain."""
        joints = [key for key, joint in self._joints.items() if joint.broken]
        variables = [name for name, row in self._rows.items() if row.problem]
        return next(iter([*joints, *variables, *self._joints, *self._rows]), None)

    @on(OptionList.OptionHighlighted)
    def _chosen(self, event: OptionList.OptionHighlighted) -> None:
        self._at = event.option_id
        self._show(event.option_id or "")

    @on(OptionList.OptionSelected)
    def _cause(self) -> None:
        """Go to the cause of a component without a result."""
        if (check := self.check) and (cause := self.doctor.diagnosis.row(check).blocked_by):
            self.action_look_at(cause)

    def _show(self, key: str) -> None:
        page = self.query_one("#page", Page)
        if key in self._rows:
            page.show(_about_variable(self._rows[key]))
        elif key in self._joints:
            page.show(self._about_joint(self._joints[key]))
        self.refresh_bindings()

    @property
    def check(self) -> str | None:
        """The check of the selected component."""
        joint = self._joints.get(self._at or self._first() or "")
        return joint.check if joint else None

    def _about_joint(self, joint: Joint) -> list[Paragraph]:
        said = [
            Paragraph(Content.assemble((joint.name, "bold"), f" {joint.version or 'not found'}")),
            Paragraph(Content.styled(environment.PARTS.get(joint.name, ""), "$muted")),
        ]
        if joint.check:
            blocks = detail.blocks(self.doctor.diagnosis, joint.check)
            said += [Paragraph(Content()), *of_blocks(blocks, read_only=bool(self.doctor.session.read_only))]
        return said

    def action_show(self, name: str) -> None:
        """Select a variable."""
        self._unset = True
        self.query_one("#filter", Input).value = ""
        self._at = name
        self._fill()

    def action_toggle_unset(self) -> None:
        """Show or hide the variables that are not set."""
        self._unset = not self._unset
        self._fill()

    def apply_filter(self) -> None:
        """Show the rows that match the words."""
        if self._seen is not None:
            self._fill()


def _heading(name: str, remark: str) -> Content:
    return Content.assemble((name.upper(), "bold $muted"), (f"  {remark}", "$faint"))


def _draw_joint(joint: Joint) -> Content:
    mark = ("✖", "bold $error") if joint.broken else ("↓", "$faint")
    style = "bold $error" if joint.broken else "" if joint.version else "$faint"
    return Content.assemble(mark, (f" {joint.name:<10} ", "$muted"), (joint.version or "not found", style))


def _variable(row: VariableRow, width: int) -> Content:
    mark = (GLYPHS[row.state], STYLES[row.state]) if row.problem else (" ", "")
    if row.value is None and not row.problem:
        return Content.assemble("  ", (row.name, "$muted"))
    name = Content.styled(f"{row.name:<{width}}", "bold" if row.problem else "")
    value = ("not set", "$muted") if row.value is None else row.value or "empty"
    return Content.assemble(mark, " ", name, "  ", value)


def _about_variable(row: VariableRow) -> list[Paragraph]:
    said = [Paragraph(Content.styled(row.name, "bold")), Paragraph(Content())]
    said.append(Paragraph(Content(row.meaning)))
    if row.problem:
        mark = Content.styled(f"{GLYPHS[row.state]} ", STYLES[row.state])
        said += [Paragraph(Content()), Paragraph(Content.styled(row.problem, "bold"), mark, "  ")]
    said.append(Paragraph(Content()))
    value = "not set" if row.value is None else row.value or "empty"
    for name, text in (
        ("value", value),
        ("legal", row.legal),
        ("default", row.default or ""),
        ("set by", row.setter),
        ("group", row.group),
        ("beware", row.mistake or ""),
    ):
        if text:
            said.append(Paragraph(Content(text), Content.styled(f"{name:<9}", "$muted"), " " * 9))
    return said
