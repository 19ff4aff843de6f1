"""How a report judges the health of the cards, and what a container needs to know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npudoctor.daemon.answers import Card, Fitness
from npudoctor.daemon.seen import Counted
from npudoctor.daemon.state import CardState
from npudoctor.findings import Report, Result, Severity
from npudoctor.sdk import HEALTH


def health_results(report: Report) -> list[Result]:
    """The results that judge whether cards are fit."""
    return [result for result in report.results if HEALTH in result.tags]


def unseen(report: Report) -> str | None:
    """Why the health of the cards could not be judged, in a clause; None where it was."""
    for result in health_results(report):
        if result.silenced:
            continue
        if result.leaves_undetermined:
            return result.reason or f"{result.check} crashed"
        if result.blocked_by and not _is_health(result.blocked_by, report):
            return _of_cause(result.blocked_by, report) or f"{result.check} stands behind {result.blocked_by}"
    return None


def _is_health(check: str, report: Report) -> bool:
    return any(result.check == check for result in health_results(report))


def _of_cause(check: str, report: Report) -> str | None:
    """What a check behind which others stand has found."""
    for result in report.results:
        if result.check == check and result.findings:
            return f"{result.findings[0].summary} ({check})"
    return None


def node_problem(report: Report) -> str | None:
    """What is wrong with the cards' health whichever card it is; None where nothing is."""
    for result in health_results(report):
        for finding in result.open_findings:
            if finding.severity is Severity.ERROR and not finding.subject.startswith("npu:"):
                return f"{finding.summary} ({result.check})"
    return None


def states(cards: Iterable[Card]) -> tuple[CardState, ...]:
    """What the health check of a container needs to know of each chip that has a device node."""
    return tuple(
        CardState(card.device, (card.problem or "not fit") if card.health is Fitness.ERROR else None)
        for card in cards
        if card.device is not None
    )


def without_node(cards: Iterable[Card]) -> str | None:
    """What is wrong with a chip of which nobody knows the device node: it may be anybody's."""
    return next(
        (f"{card.subject}: {card.problem}" for card in cards if card.device is None and card.health is Fitness.ERROR),
        None,
    )


def with_counts(cards: Iterable[Card], counted: Mapping[str, Counted]) -> tuple[Card, ...]:
    """The cards with what each of them has told when it was asked by itself."""
    return tuple(
        card.model_copy(update={"link": one.link, "ecc": one.ecc}) if (one := counted.get(card.subject)) else card
        for card in cards
    )
