"""The first screen: problems at the top, the selected check beside the list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input

from npudoctor.tui.model import detail, setting_up
from npudoctor.tui.model.diagnosis import Section, Shown
from npudoctor.tui.paragraphs import of_blocks
from npudoctor.tui.screens.check_screen import CheckScreen
from npudoctor.tui.widgets.check_list import CheckList
from npudoctor.tui.widgets.filter_field import FilterField
from npudoctor.tui.widgets.page import Page


class Overview(CheckScreen):
    """The checks, and the detail of one."""

    CSS_PATH = "overview.tcss"
    AUTO_FOCUS = "CheckList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fix", "Fix"),
        Binding("F", "fix_all", "Fix safe", key_display="F"),
        Binding("c", "copy", "Copy"),
        Binding("x", "explain", "Explain", show=False),
        Binding("n", "next_broken", "Next problem", show=False),
        Binding("enter", "cause", "Go to cause", show=False),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("o", "toggle_ok", "Toggle ok", show=False),
        Binding("s", "toggle_skipped", "Toggle skipped", show=False),
        Binding("escape", "no_filter", "Clear filter", show=False),
    ]

    def body(self) -> ComposeResult:
        """The list at the left, the check at the right."""
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield FilterField()
                yield CheckList(id="checks")
            with VerticalScroll(id="detail", can_focus=False):
                yield Page(id="page")

    @property
    def check(self) -> str | None:
        """The selected check."""
        return self.query_one(CheckList).chosen

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the way to a cause only where there is one."""
        if action == "cause" and self.is_mounted and self.check not in (None, setting_up.ENTRY):
            return bool(self.diagnosis.row(self.check or "").blocked_by) or None
        return super().check_action(action, parameters)

    def on_resize(self, event: events.Resize) -> None:
        """Show titles where there is room."""
        super().on_resize(event)
        if self.query(CheckList):
            self.follow()

    def follow(self) -> None:
        """Show the state of the run."""
        settings = self.doctor.settings
        words = self.query_one("#filter", Input).value
        shown = Shown(words=words, ok=settings.ok, skipped=settings.skipped)
        empty = "no matching check" if words else "all checks are hidden; press o and s\nto show ok and skipped ones"
        sections = self.diagnosis.sections(shown)
        if not words and not self.doctor.session.read_only and (first := setting_up.section(self.diagnosis)):
            sections = [first, *sections]
        self.query_one(CheckList).show(sections, empty)
        if self.doctor.changed_node and not self.diagnosis.running:
            self.doctor.changed_node = False
            self._go_on(sections)
        self._show_check()

    def _go_on(self, sections: Sequence[Section]) -> None:
        """After a change, go to the next problem where that of the selected check is gone."""
        broken = [row.check for section in sections for row in section.rows if row.state.broken]
        if broken and self.check not in broken:
            self.query_one(CheckList).choose(broken[0])

    @on(CheckList.Chosen)
    def _chosen(self) -> None:
        self._show_check()
        self.query_one("#detail", VerticalScroll).scroll_to(y=0, animate=False)

    def _show_check(self) -> None:
        check = self.check
        blocks = detail.blocks(self.diagnosis, check) if check else []
        if check == setting_up.ENTRY:
            blocks = setting_up.blocks(self.diagnosis)
        self.query_one("#page", Page).show(of_blocks(blocks, read_only=bool(self.doctor.session.read_only)))
        self.refresh_bindings()

    # Keys

    def action_cause(self) -> None:
        """Go to the cause of a skipped check, or set up the node."""
        if self.check == setting_up.ENTRY:
            from npudoctor.tui.screens.follow import Follow
            from npudoctor.tui.screens.setup import SetUp

            pending = self.diagnosis.pending
            self.doctor.push_screen(Follow((pending,)) if pending else SetUp())
            return
        row = self.diagnosis.row(self.check or "")
        self.action_look_at(row.blocked_by)

    def action_look_at(self, check: str | None) -> None:
        """Go to a check."""
        if check and not self.query_one(CheckList).choose(check):
            self.query_one("#filter", Input).value = ""
            self.doctor.remember(ok=True, skipped=True)
            self.follow()
            self.query_one(CheckList).choose(check)

    def action_next_broken(self) -> None:
        """Go to the next problem."""
        broken = [row.check for row in self.diagnosis.rows() if row.state.broken]
        if broken:
            place = broken.index(self.check) + 1 if self.check in broken else 0
            self.query_one(CheckList).choose(broken[place % len(broken)])

    def action_toggle_ok(self) -> None:
        """Show or hide ok checks."""
        self.doctor.remember(ok=not self.doctor.settings.ok)
        self.follow()

    def action_toggle_skipped(self) -> None:
        """Show or hide skipped checks."""
        self.doctor.remember(skipped=not self.doctor.settings.skipped)
        self.follow()

    def action_explain(self) -> None:
        """What the codes of the selected finding mean, and the check itself."""
        if self.check and self.check != setting_up.ENTRY:
            self.doctor.explain(*self.diagnosis.codes_of(self.check))

    def action_fix_all(self) -> None:
        """Preview all safe fixes together."""
        self._fix(())
