"""Applies the safe fixes that the site has named, at boot or when an issue appears, and only so often in an hour.

It goes through the fixer like everybody: planned, journalled, proved, and undone where it has not helped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from npudoctor.daemon.history import History
from npudoctor.daemon.store import Change
from npudoctor.findings import Report, Severity
from npudoctor.fixer import plan, runner
from npudoctor.fixer.runner import Outcome
from npudoctor.host import Host, MutableHost, Refused
from npudoctor.plugins import Catalog
from npudoctor.policy import AutoFix
from npudoctor.records import dataclass
from npudoctor.sdk import Fix, Options, Risk

HOUR_S = 3600.0
TRIED = ("fixed", "fix-failed")
BOOT = "boot of the last fixes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixer:
    """What is needed to apply a fix; `journal` is the folder of the fixer's journal, None for the usual one.

    `say` gets a line for the log about everything that is tried or refused.
    """

    catalog: Catalog
    history: History
    journal: str | None
    say: Callable[[str], None]

    def after(
        self, report: Report, changes: Sequence[Change], policy: AutoFix, host: Host, options: Options, boot: str
    ) -> int:
        """Apply what the policy says about this report; how many fixes were tried."""
        if not policy.fixes or host.about.source == "bundle" or not isinstance(host, MutableHost):
            return 0
        wanted = self._wanted(report, changes, policy, boot)
        tried = 0
        for id in wanted:
            if self.history.count_since(time.time() - HOUR_S, *TRIED) >= policy.per_hour:
                self._tell("fix-refused", f"{id}: the limit of {policy.per_hour} an hour is reached")
                continue
            tried += self._apply(id, host, options)
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

    def _apply(self, id: str, host: MutableHost, options: Options) -> bool:
        """Apply one fix and enter how it went; whether anything was tried."""
        fix = self.catalog.fixes.get(id)
        if fix is None or fix.risk is not Risk.SAFE:
            return False
        try:
            planned = plan.make(self.catalog, host.fresh(), plan.Request(id), options)
        except Refused as why:
            self._tell("fix-refused", f"{id}: {why.reason}")
            return False
        if planned.empty:
            return False
        ended = runner.Ended(outcome=Outcome.REFUSED, fix=id, reason="it did not end")
        for event in runner.apply(self.catalog, host.fresh(), planned, options, state=self.journal):
            if isinstance(event, runner.Ended):
                ended = event
        if ended.outcome is Outcome.REFUSED:
            self._tell("fix-refused", f"{id}: {ended.reason}")
            return False
        if ended.outcome is Outcome.NOTHING:
            return False
        back = f"; npudoctor undo {ended.run} takes it back" if ended.outcome is Outcome.APPLIED else ""
        kind = "fixed" if ended.outcome is Outcome.APPLIED else "fix-failed"
        self._tell(kind, f"{id}: {ended.reason} (run {ended.run}){back}")
        return True


def _offered(report: Report) -> dict[str, set[tuple[str | None, str | None]]]:
    """The findings from warning on that offer a fix, by fix."""
    found: dict[str, set[tuple[str | None, str | None]]] = {}
    for id, pairs in plan.offers(report).items():
        serious: set[tuple[str | None, str | None]] = {
            (result.check, one.subject) for result, one in pairs if one.severity >= Severity.WARNING
        }
        if serious:
            found[id] = serious
    return found


def safe_ones(fixes: Iterable[Fix]) -> set[str]:
    """The ids of the fixes that the daemon may apply."""
    return {fix.id for fix in fixes if fix.risk is Risk.SAFE}
