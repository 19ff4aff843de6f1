"""The current state as one frozen record: runs produce it, HTTP and metrics read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npudoctor.daemon import answers
from npudoctor.daemon.answers import Card
from npudoctor.daemon.store import Issue
from npudoctor.findings import Because, Report, Result, Skip, Status
from npudoctor.records import field, record, replace


@record(frozen=True, kw_only=True)
class RunStats:
    """Runs of a kind: the end of the last in seconds since 1970, its duration in seconds, and their number."""

    at: float
    seconds: float
    count: int


@record(frozen=True, kw_only=True)
class View:
    """Everything that the HTTP API serves. Times are in seconds since 1970, `written_s` of the boot clock.

    `reports` are the newest of each profile, the newest last, `results` those of each check. `problem` is a health
    problem of the whole node, `undetermined` why health could not be determined.
    `patience_s` is how much longer than two intervals the last run stays valid, because a long one is running.
    """

    interval_s: float
    patience_s: float = 0.0
    reports: dict[str, Report] = field(default_factory=dict)
    results: tuple[Result, ...] = ()
    runs: Mapping[str, RunStats] = field(default_factory=dict)
    cards: tuple[Card, ...] = ()
    issues: tuple[Issue, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    in_service: bool | None = None
    seen_at: float | None = None
    counted_at: float | None = None
    looked_at: float | None = None
    written_s: float | None = None
    problem: str | None = None
    undetermined: str | None = None

    @property
    def newest(self) -> Report | None:
        """The report of the last run of any profile."""
        return next(reversed(self.reports.values()), None)

    @property
    def against(self) -> str | None:
        """Why the NPUs are not known to be healthy; None where they are."""
        if self.looked_at is None:
            return "no result yet: the first run has not ended"
        for card in self.cards:
            if card.health is answers.Fitness.ERROR:
                return f"{card.subject}: {card.problem}"
        return self.problem or (f"could not determine: {self.undetermined}" if self.undetermined else None)


def results_of(reports: Mapping[str, Report], after: Mapping[str, Iterable[str]]) -> tuple[Result, ...]:
    """The newest result of each check; one whose predecessor failed since counts as blocked.

    `after` maps each check to the checks that it runs after, in catalogue order.

    The quick profile runs often and the standard one seldom: results of the latter are older.
    """
    newest = {result.check: result for report in reports.values() for result in report.results}
    for id in (id for id in after if id in newest):
        result = newest[id]
        cause = next((name for name in after[id] if name in newest and _stands_before(newest[name])), None)
        if cause and result.status in (Status.OK, Status.WARNING, Status.ERROR):
            newest[id] = replace(
                result,
                status=Status.SKIPPED,
                skip=Skip.BLOCKED,
                blocked_by=cause,
                reason=f"see {cause}",
                findings=(),
            )
    return tuple(newest.values())


def _stands_before(result: Result) -> bool:
    return result.status is Status.ERROR or result.skip is Skip.BLOCKED


def undetermined_reasons(results: Iterable[Result]) -> tuple[str, ...]:
    """Why checks have no result, in clauses: a tool failed or timed out, or a check crashed."""
    reasons = [f"{result.reason} ({result.check})" for result in results if result.leaves_undetermined]
    return tuple(dict.fromkeys(reasons))


def could_not_look(result: Result) -> bool:
    """Whether the state is unknown, as opposed to not applicable."""
    if result.status is Status.CRASHED:
        return True
    return result.status is Status.SKIPPED and result.because is not Because.NOT_APPLICABLE
