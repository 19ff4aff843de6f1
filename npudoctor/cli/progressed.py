"""A report whose results say how far their problems are: what `check`, `setup` and `report` print of fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from npudoctor.findings import ProblemProgress, Report, Result
from npudoctor.host import Host, Refused, Unavailable
from npudoctor.records import replace

if TYPE_CHECKING:
    from npudoctor.fixer.progress import Change
    from npudoctor.host import MutableHost
    from npudoctor.plugins import Catalog


class Progressed:
    """Adds to results what the journal of this user says; `at_login` where the next login's environment is judged."""

    def __init__(self, host: Host, catalog: Catalog, *, state: str | None = None, at_login: bool | None = None) -> None:
        self._applied: tuple[Change, ...] = ()
        self._booted_at: str | None = None
        self._at_login = host.about.environment.startswith("login") if at_login is None else at_login
        if host.about.source == "bundle":
            return
        from npudoctor.fixer import journal, progress  # only a node that can be changed has a journal

        try:
            runs = journal.Journal(cast("MutableHost", host), state).history()
        except (Refused, Unavailable, OSError, ValueError):  # `npudoctor history` says why
            return
        if runs:
            self._applied = progress.changes(runs, progress.resolving(catalog.fixes))
            self._booted_at = progress.booted_at(host)

    def result(self, result: Result) -> Result:
        """The result with the progress of its problem; without a journal it is the same."""
        if not self._applied:
            return result
        from npudoctor.fixer import progress

        found = progress.of_check(result, self._applied, at_login=self._at_login, booted_at=self._booted_at)
        if found is None:
            return result
        change = found.change
        said = ProblemProgress(
            stage=found.stage.value,
            text=found.text,
            waits=found.stage.waits,
            fix=change.fix if change else None,
            run=change.run if change else None,
        )
        return replace(result, progress=said)

    def report(self, report: Report) -> Report:
        """The report with the progress of each problem."""
        if not self._applied:
            return report
        return replace(report, results=tuple(map(self.result, report.results)))
