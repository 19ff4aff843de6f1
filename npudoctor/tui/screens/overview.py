"""The first screen: what is wrong at the top, the selected check beside it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input

from npudoctor.tui.model import detail
from npudoctor.tui.model.diagnosis import Shown
from npudoctor.tui.paragraphs import of_blocks
from npudoctor.tui.screens.check_screen import CheckScreen
from npudoctor.tui.widgets.check_list import CheckList
from npudoctor.tui.widgets.filter_field import FilterField
from npudoctor.tui.widgets.page import Page


class Overview(CheckScreen):
    """The checks, and what is to be said about one of them."""

    CSS_PATH = "overview.tcss"
    AUTO_FOCUS = "CheckList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fix", "Fix"),
        Binding("F", "fix_all", "Fix all safe", key_display="F"),
        Binding("c", "copy", "Copy"),
        Binding("n", "next_broken", "Next", show=False),
        Binding("enter", "cause", "To its cause", show=False),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("o", "toggle_ok", "Show/hide ok", show=False),
        Binding("s", "toggle_skipped", "Show/hide skipped", show=False),
        Binding("escape", "no_filter", "No filter", show=False),
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
        """The check that is looked at."""
        return self.query_one(CheckList).chosen

    def follow(self) -> None:
        """Show the run as it stands."""
        settings = self.doctor.settings
        words = self.query_one("#filter", Input).value
        shown = Shown(words=words, ok=settings.ok, skipped=settings.skipped)
        empty = "no check has these words" if words else "all are hidden; o and s\nshow ok and skipped ones"
        self.query_one(CheckList).show(self.doctor.diagnosis.sections(shown), empty)
        self._show_check()

    @on(CheckList.Chosen)
    def _chosen(self) -> None:
        self._show_check()
        self.query_one("#detail", VerticalScroll).scroll_to(y=0, animate=False)

    def _show_check(self) -> None:
        check = self.check
        blocks = detail.blocks(self.doctor.diagnosis, check) if check else []
        self.query_one("#page", Page).show(of_blocks(blocks, read_only=bool(self.doctor.session.read_only)))
        self.refresh_bindings()

    # Keys

    def action_cause(self) -> None:
        """Go to what stands behind a skipped check."""
        row = self.doctor.diagnosis.row(self.check or "")
        self.action_look_at(row.blocked_by)

    def action_look_at(self, check: str | None) -> None:
        """Go to a check."""
        if check and not self.query_one(CheckList).choose(check):
            self.query_one("#filter", Input).value = ""
            self.doctor.remember(ok=True, skipped=True)
            self.follow()
            self.query_one(CheckList).choose(check)

    def action_next_broken(self) -> None:
        """Go to the next check that somebody should act on."""
        broken = [row.check for row in self.doctor.diagnosis.rows() if row.state.broken]
        if broken:
            place = broken.index(self.check) + 1 if self.check in broken else 0
            self.query_one(CheckList).choose(broken[place % len(broken)])

    def action_toggle_ok(self) -> None:
        """Show or hide the checks that are well."""
        self.doctor.remember(ok=not self.doctor.settings.ok)
        self.follow()

    def action_toggle_skipped(self) -> None:
        """Show or hide the checks that were skipped."""
        self.doctor.remember(skipped=not self.doctor.settings.skipped)
        self.follow()

    def action_fix_all(self) -> None:
        """Preview all safe fixes together."""
        self._fix(())
