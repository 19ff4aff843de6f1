"""Applies the safe fixes that the site has named, at boot or when an issue appears, and only so often in an hour.

It goes through the fixer like everybody: planned, journalled, proved, and undone where it has not helped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npudoctor import clock
from npudoctor.daemon.history import History
from npudoctor.daemon.seen import Lost, Tried
from npudoctor.daemon.store import Change
from npudoctor.daemon_config import AutoFix
from npudoctor.findings import Report, Severity
from npudoctor.records import record

HOUR_S = 3600.0
TRIED = ("fixed", "fix-failed")
BOOT = "boot of the last fixes"


@record(frozen=True, kw_only=True)
class Fixer:
    """What is needed to apply a fix; `apply` does it, and returns None where there was nothing to do.

    `say` gets a line for the log about everything that is tried or refused.
    """

    history: History
    apply: Callable[[str], Tried | None]
    say: Callable[[str], None]

    def after(self, report: Report, changes: Sequence[Change], policy: AutoFix, boot: str) -> int:
        """Apply what the policy says about this report; how many fixes were tried."""
        if not policy.fixes:
            return 0
        wanted = self._wanted(report, changes, policy, boot)
        tried = 0
        for id in wanted:
            if self.history.count_since(clock.timestamp() - HOUR_S, *TRIED) >= policy.per_hour:
                self._tell("fix-refused", f"{id}: the limit of {policy.per_hour} an hour is reached")
                continue
            tried += self._apply(id)
        return tried

    def _wanted(self, report: Report, changes: Sequence[Change], policy: AutoFix, boot: str) -> list[str]:
        offered = _offered(report)
        opened = {(change.check, change.subject) for change in changes if change.kind == "opened"}
        wanted = [id for id in policy.on_issue if offered.get(id, set()) & opened]
        if policy.at_boot and report.profile != "quick" and self.history.remembered(BOOT) != boot:
            self.history.remember(BOOT, boot)
            wanted += [id for id in policy.at_boot if id in offered]
        return list(dict.fromkeys(wanted))

    def _tell(self, kind: str, said: str) -> None:
        self.history.note(kind, said)
        self.say(f"{kind}: {said}")

    def _apply(self, id: str) -> bool:
        """Have one fix applied and enter how it went; whether anything was tried."""
        try:
            tried = self.apply(id)
        except Lost as problem:
            tried = Tried(kind="fix-failed", said=f"{id}: {problem}; the next fix takes back what it left", tried=True)
        if tried is None:
            return False
        self._tell(tried.kind, tried.said)
        return tried.tried


def _offered(report: Report) -> dict[str, set[tuple[str | None, str | None]]]:
    """The findings from warning on that offer a fix, by fix."""
    found: dict[str, set[tuple[str | None, str | None]]] = {}
    for result in report.results:
        for one in result.findings:
            if one.fix is not None and one.severity >= Severity.WARNING:
                found.setdefault(one.fix.id, set()).add((result.check, one.subject))
    return found
