"""A screen that shows a check: copy its commands, open its fix, follow its cause."""

from __future__ import annotations

from npudoctor.tui.model import copying
from npudoctor.tui.screens.copy import copy_text, offer
from npudoctor.tui.screens.filtered_screen import FilteredScreen
from npudoctor.tui.widgets.page import Page


class CheckScreen(FilteredScreen):
    """Shows one check at a time."""

    @property
    def check(self) -> str | None:
        """The selected check."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only actions that apply to the selected check."""
        if not super().check_action(action, parameters):
            return False
        result = self.diagnosis.results.get(self.check or "") if self.is_mounted else None
        if action == "fix":
            return bool(result and any(finding.fix for finding in result.findings)) or None
        if action == "fix_all":
            return any(row.fixable for row in self.diagnosis.rows()) or None
        return True

    def action_copy(self) -> None:
        """Put a command or the text as shown on the clipboard."""
        result = self.diagnosis.results.get(self.check or "")
        offer(self.doctor, copying.of_check(result, self.query_one(Page).plain))

    def action_copy_one(self, command: str) -> None:
        """Put one command on the clipboard."""
        copy_text(self.doctor, command)

    def action_look_at(self, check: str | None) -> None:
        """Go to a check, on the overview."""
        self.doctor.look_at(check)

    def action_fix(self) -> None:
        """Preview the fix of this check."""
        if self.check:
            self._fix((self.check,))

    def _fix(self, checks: tuple[str, ...]) -> None:
        from npudoctor.tui.screens.fix import open_fix

        open_fix(self.doctor, checks)
