"""What is known at present, as one frozen record: the looks make it, HTTP and metrics read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npudoctor.daemon import answers
from npudoctor.daemon.answers import Card
from npudoctor.daemon.store import Issue
from npudoctor.findings import Because, Report, Result, Skip, Status
from npudoctor.records import field, record


@record(frozen=True, kw_only=True)
class Looked:
    """The last look of a kind: when it ended, in seconds since 1970, how long it took, and how many there were."""

    at: float
    seconds: float
    count: int


@record(frozen=True, kw_only=True)
class View:
    """Everything that is answered. Times are in seconds since 1970, `written_s` of the boot clock.

    `reports` are the newest of each profile, the newest last, `results` those of each check. `problem` is what is wrong
    with the cards' health whichever card it is, `undetermined` why it could not be judged.
    `patience_s` is how much longer than two intervals the last look is believed, because a long one is under way.
    """

    interval_s: float
    patience_s: float = 0.0
    reports: dict[str, Report] = field(default_factory=dict)
    results: tuple[Result, ...] = ()
    looks: Mapping[str, Looked] = field(default_factory=dict)
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
        """The report of the last look of any profile."""
        return next(reversed(self.reports.values()), None)

    @property
    def against(self) -> str | None:
        """Why the cards of this node are not known to be fit; None where they are."""
        if self.looked_at is None:
            return "nothing is known yet: the first look has not ended"
        for card in self.cards:
            if card.health is answers.Fitness.ERROR:
                return f"{card.subject}: {card.problem}"
        return self.problem or (f"could not look: {self.undetermined}" if self.undetermined else None)


def results_of(reports: Mapping[str, Report], after: Mapping[str, Iterable[str]]) -> tuple[Result, ...]:
    """The newest result of each check; one that stands behind what is broken since counts as blocked.

    `after` says behind which others each check stands, in the order of the catalogue.

    The quick profile runs often and the standard one seldom: what only the latter looks at is as old as it is.
    """
    newest = {result.check: result for report in reports.values() for result in report.results}
    for id in (id for id in after if id in newest):
        result = newest[id]
        cause = next((name for name in after[id] if name in newest and _stands_before(newest[name])), None)
        if cause and result.status in (Status.OK, Status.WARNING, Status.ERROR):
            behind = {"status": Status.SKIPPED, "skip": Skip.BLOCKED, "blocked_by": cause, "reason": f"see {cause}"}
            newest[id] = result.model_copy(update={**behind, "findings": ()})
    return tuple(newest.values())


def _stands_before(result: Result) -> bool:
    return result.status is Status.ERROR or result.skip is Skip.BLOCKED


def undetermined(results: Iterable[Result]) -> tuple[str, ...]:
    """Why checks could not be judged, in clauses: a tool failed or did not answer, or a check crashed."""
    reasons = [f"{result.reason} ({result.check})" for result in results if result.leaves_undetermined]
    return tuple(dict.fromkeys(reasons))


def could_not_look(result: Result) -> bool:
    """Whether nobody knows how it is: not because the question does not arise."""
    if result.status is Status.CRASHED:
        return True
    return result.status is Status.SKIPPED and result.because is not Because.NOT_APPLICABLE
