"""The health of the NPUs in a report, and the part that a container needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npudoctor.daemon.answers import Card, Fitness
from npudoctor.daemon.replies import Counted
from npudoctor.daemon.state import CardState
from npudoctor.findings import Report, Result, Severity
from npudoctor.records import replace
from npudoctor.sdk import HEALTH


def health_results(report: Report) -> list[Result]:
    """The results of health checks."""
    return [result for result in report.results if HEALTH in result.tags]


def why_unseen(report: Report) -> str | None:
    """Why the health of the NPUs could not be determined, in a clause; None where it was."""
    for result in health_results(report):
        if result.silenced:
            continue
        if result.leaves_undetermined:
            return result.reason or f"{result.check} crashed"
        if result.blocked_by and not _is_health(result.blocked_by, report):
            return _of_cause(result.blocked_by, report) or f"{result.check} was skipped because of {result.blocked_by}"
    return None


def _is_health(check: str, report: Report) -> bool:
    return any(result.check == check for result in health_results(report))


def _of_cause(check: str, report: Report) -> str | None:
    """The finding of a check that blocks others."""
    for result in report.results:
        if result.check == check and result.findings:
            return f"{result.findings[0].summary} ({check})"
    return None


def node_problem(report: Report) -> str | None:
    """A health problem of the whole node; None without one."""
    for result in health_results(report):
        for finding in result.open_findings:
            if finding.severity is Severity.ERROR and not finding.chips:
                return f"{finding.summary} ({result.check})"
    return None


def states(cards: Iterable[Card]) -> tuple[CardState, ...]:
    """The state of each chip that has a device node, for health checks of containers."""
    return tuple(
        CardState(card.device, (card.problem or "unhealthy") if card.health is Fitness.ERROR else None)
        for card in cards
        if card.device is not None
    )


def without_node(cards: Iterable[Card]) -> str | None:
    """A problem of a chip whose device node is unknown: it may be any container's."""
    return next(
        (f"{card.subject}: {card.problem}" for card in cards if card.device is None and card.health is Fitness.ERROR),
        None,
    )


def with_counts(cards: Iterable[Card], counted: Mapping[str, Counted]) -> tuple[Card, ...]:
    """The chips with the readings of their per-chip pages."""
    return tuple(
        replace(card, link=one.link, ecc=one.ecc) if (one := counted.get(card.subject)) else card for card in cards
    )
