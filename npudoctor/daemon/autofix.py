"""Applies the configured safe fixes, at boot or when an issue appears, with a limit per hour.

It uses the fixer like any command: planned, journalled, verified, and rolled back where it did not help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npudoctor import clock
from npudoctor.daemon.history import History
from npudoctor.daemon.replies import Lost, Tried
from npudoctor.daemon.store import Change
from npudoctor.daemon_config import AutoFix
from npudoctor.findings import Report, Severity
from npudoctor.records import record

HOUR_S = 3600.0
TRIED = ("fixed", "fix-failed")
BOOT = "boot of the last fixes"


@record(frozen=True, kw_only=True)
class Fixer:
    """The means to apply a fix; `apply` does it, and returns None where there was nothing to do.

    `say` gets a log line about every fix that is tried or refused.
    """

    history: History
    apply: Callable[[str], Tried | None]
    say: Callable[[str], None]

    def after(self, report: Report, changes: Sequence[Change], policy: AutoFix, boot: str) -> int:
        """Apply the policy to this report; the number of fixes that were tried."""
        if not policy.fixes:
            return 0
        wanted = self._wanted_fixes(report, changes, policy, boot)
        tried = 0
        for id in wanted:
            if self.history.count_since(clock.timestamp() - HOUR_S, *TRIED) >= policy.per_hour:
                self._tell("fix-refused", f"{id}: limit of {policy.per_hour} per hour reached")
                continue
            tried += self._apply(id)
        return tried

    def _wanted_fixes(self, report: Report, changes: Sequence[Change], policy: AutoFix, boot: str) -> list[str]:
        offered = _offers_by_fix(report)
        opened = {(change.check, change.subject) for change in changes if change.kind == "opened"}
        wanted = [id for id in policy.on_issue if offered.get(id, set()) & opened]
        if policy.at_boot and report.profile != "quick" and self.history.recall(BOOT) != boot:
            self.history.remember(BOOT, boot)
            wanted += [id for id in policy.at_boot if id in offered]
        return list(dict.fromkeys(wanted))

    def _tell(self, kind: str, said: str) -> None:
        self.history.note(kind, said)
        self.say(f"{kind}: {said}")

    def _apply(self, id: str) -> bool:
        """Apply one fix and record the outcome; whether anything was tried."""
        try:
            tried = self.apply(id)
        except Lost as problem:
            tried = Tried(kind="fix-failed", said=f"{id}: {problem}; the next fix rolls back its changes", tried=True)
        if tried is None:
            return False
        self._tell(tried.kind, tried.said)
        return tried.tried


def _offers_by_fix(report: Report) -> dict[str, set[tuple[str | None, str | None]]]:
    """The findings at warning or above that offer a fix, by fix."""
    found: dict[str, set[tuple[str | None, str | None]]] = {}
    for result in report.results:
        for one in result.findings:
            if one.fix is not None and one.severity >= Severity.WARNING:
                found.setdefault(one.fix.id, set()).add((result.check, one.subject))
    return found
