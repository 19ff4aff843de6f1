"""The first screen: what is wrong at the top, the selected check beside it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input

from npudoctor.tui.paragraphs import of_blocks
from npudoctor.tui.screens.node_screen import NodeScreen
from npudoctor.tui.widgets.check_list import CheckList
from npudoctor.tui.widgets.page import Page
from npudoctor.views import detail
from npudoctor.views.diagnosis import Shown


class Overview(NodeScreen):
    """The checks, and what is to be said about one of them."""

    CSS_PATH = "overview.tcss"
    AUTO_FOCUS = "CheckList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fix", "Fix"),
        Binding("F", "fix_all", "Fix all safe", key_display="F"),
        Binding("c", "copy", "Copy commands"),
        Binding("n", "next_broken", "Next", show=False),
        Binding("enter", "cause", "To its cause", show=False),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("o", "toggle_ok", "Show/hide ok", show=False),
        Binding("s", "toggle_skipped", "Show/hide skipped", show=False),
        Binding("escape", "no_filter", "No filter", show=False),
        Binding("space", "page(1)", "Scroll on", show=False),
        Binding("b", "page(-1)", "Scroll back", show=False),
    ]

    def body(self) -> ComposeResult:
        """The list at the left, the check at the right."""
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Input(placeholder="filter", id="filter")
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
        shown = Shown(words=self.query_one("#filter", Input).value, ok=settings.ok, skipped=settings.skipped)
        self.query_one(CheckList).show(self.doctor.diagnosis.sections(shown))
        self._show_check()

    @on(CheckList.Chosen)
    def _chosen(self) -> None:
        self._show_check()
        self.query_one("#detail", VerticalScroll).scroll_to(y=0, animate=False)

    def _show_check(self) -> None:
        check = self.check
        blocks = detail.blocks(self.doctor.diagnosis, check) if check else []
        self.query_one("#page", Page).show(of_blocks(blocks))
        self.refresh_bindings()

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Offer only what can be done with what is looked at."""
        result = self.doctor.diagnosis.results.get(self.check or "") if self.is_mounted else None
        if action == "copy":
            return bool(detail.commands(result)) or None
        if action == "fix":
            return bool(result and any(finding.fix for finding in result.findings)) or None
        if action == "fix_all":
            return any(row.fixable for row in self.doctor.diagnosis.rows()) or None
        return True

    def action_copy(self) -> None:
        """Put the commands on the clipboard; OSC 52 reaches it through SSH, too."""
        self._copy(detail.commands(self.doctor.diagnosis.results.get(self.check or "")))

    def action_copy_one(self, command: str) -> None:
        """Put one command on the clipboard."""
        self._copy([command])

    def _copy(self, commands: list[str]) -> None:
        if commands:
            self.app.copy_to_clipboard("\n".join(commands))
            what = commands[0] if len(commands) == 1 else f"{len(commands)} commands"
            self.notify(what, title="Copied", timeout=3, markup=False)

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

    def action_page(self, way: int) -> None:
        """Scroll what is said about the check."""
        pane = self.query_one("#detail", VerticalScroll)
        pane.scroll_relative(y=way * max(pane.size.height - 2, 1), animate=False)

    def action_filter(self) -> None:
        """Type what a row must hold."""
        field = self.query_one("#filter", Input)
        field.display = True
        self.set_focus(field)

    def action_no_filter(self) -> None:
        """Show all rows again."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.display = False
        self.query_one(CheckList).focus()

    @on(Input.Changed, "#filter")
    def _filtered(self) -> None:
        self.follow()

    @on(Input.Submitted, "#filter")
    def _filter_stays(self) -> None:
        self.query_one(CheckList).focus()

    def action_fix(self) -> None:
        """Preview the fix of this check."""
        if self.check:
            self._fix((self.check,))

    def action_fix_all(self) -> None:
        """Preview all safe fixes together."""
        self._fix(())

    def _fix(self, checks: tuple[str, ...]) -> None:
        from npudoctor.tui.screens.fix import open_fix

        open_fix(self.doctor, checks)
