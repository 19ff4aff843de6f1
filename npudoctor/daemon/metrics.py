"""Prometheus metrics of a snapshot. Statuses are numbers: 0 ok, 1 warning, 2 error, 3 undetermined.

Skipped checks and unknown readings have no sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from npudoctor import __version__
from npudoctor.control_characters import all_visible
from npudoctor.daemon.answers import Card, Fitness
from npudoctor.daemon.snapshot import View, could_not_look
from npudoctor.findings import Result, Severity, Skip, Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ALL = "all"
"""The subject of a check as a whole."""

CODES = {"ok": 0, "info": 0, "warning": 1, "error": 2, "unknown": 3}


def render(view: View, *, started_at: float | None = None, troubles: int = 0) -> bytes:
    """All metrics, in the text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(view, started_at, troubles))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, view: View, started_at: float | None, complaints: int) -> None:
        self.view = view
        self.started_at = started_at
        self.troubles = complaints

    def collect(self) -> Iterator[Metric]:
        """Every family, in a fixed order."""
        yield _info(self.view)
        yield from _checks(self.view.results)
        yield from _looks(self.view)
        yield from _node(self.view)
        yield from _cards(self.view.cards)
        if self.started_at is not None:
            yield from _daemon(self.view, self.started_at, self.troubles)


def _gauge(name: str, about: str, labels: Iterable[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"npudoctor_{name}", about, labels=list(labels))


def _info(view: View) -> Metric:
    family = InfoMetricFamily("npudoctor", "Versions of npudoctor and of the software on the node.")
    report = view.newest
    about = {"hostname": report.host.hostname, "os": report.host.os, "kernel": report.host.kernel} if report else {}
    said = {
        "version": __version__,
        **{name: text for name, text in about.items() if text},
        **all_visible(view.versions),
    }
    family.add_metric([], said)
    return family


def _checks(results: Iterable[Result]) -> Iterator[Metric]:
    status = _gauge(
        "check_status",
        'Status of a check: 0 ok, 1 warning, 2 error, 3 undetermined; subject "all" is the check as a whole.',
        ("check", "subject"),
    )
    duration = _gauge("check_duration_seconds", "Duration of a check without its probes.", ("check",))
    silenced = _gauge("check_silenced", "1 for a silenced check.", ("check",))
    for result in results:
        if result.silenced:
            silenced.add_metric([result.check], 1)
            continue
        if result.skip is Skip.NOT_APPLICABLE:
            continue
        status.add_metric([result.check, ALL], _code(result))
        worst: dict[str, int] = {}
        for one in result.open_findings:
            if one.severity > Severity.INFO:
                for subject in (one.subject, *one.subjects):
                    worst[subject] = max(worst.get(subject, 0), CODES[one.severity.value])
        for subject, code in sorted(worst.items()):
            status.add_metric([result.check, subject], code)
        if result.status in (Status.OK, Status.WARNING, Status.ERROR):
            duration.add_metric([result.check], result.duration_s)
    yield status
    yield duration
    yield silenced


def _code(result: Result) -> int:
    return CODES["unknown"] if could_not_look(result) else CODES[result.status.value]


def _looks(view: View) -> Iterator[Metric]:
    last = _gauge("run_last_timestamp_seconds", "End of the last run of a kind, seconds since 1970.", ("profile",))
    seconds = _gauge("run_duration_seconds", "Duration of the last run of a kind.", ("profile",))
    runs = CounterMetricFamily("npudoctor_runs", "Finished runs since the start.", labels=["profile"])
    for kind, one in view.runs.items():
        last.add_metric([kind], one.at)
        seconds.add_metric([kind], one.seconds)
        runs.add_metric([kind], one.count)
    yield last
    yield seconds
    yield runs


def _node(view: View) -> Iterator[Metric]:
    fit = _gauge("cards_fit", "1 if all NPUs are known to be healthy, 0 otherwise.")
    fit.add_metric([], 0 if view.against else 1)
    undetermined = _gauge("undetermined", "1 if a check has no result because a tool failed or the check crashed.")
    undetermined.add_metric([], 1 if any(result.leaves_undetermined for result in view.results) else 0)
    yield fit
    yield undetermined
    if view.in_service is not None:
        service = _gauge("in_service", "1 while a live process uses an NPU.")
        service.add_metric([], int(view.in_service))
        yield service


_CARD: tuple[tuple[str, str, Callable[[Card], float | None]], ...] = (
    ("health", "Health of the chip: 0 ok, 1 warning, 2 error, 3 undetermined.", lambda c: CODES[c.health.value]),
    ("temperature_celsius", "Temperature of the chip.", lambda c: c.temperature_celsius),
    ("power_watts", "Power draw of the chip.", lambda c: c.power_watts),
    ("hbm_used_bytes", "Memory in use: HBM, or DDR where the chip has none.", lambda c: c.memory_used_bytes),
    ("hbm_total_bytes", "Total memory: HBM, or DDR where the chip has none.", lambda c: c.memory_total_bytes),
    (
        "ai_core_utilization_ratio",
        "Utilization of the AI cores, 0 to 1.",
        lambda c: None if c.ai_core_percent is None else c.ai_core_percent / 100,
    ),
    ("link_up", "1 if the network port of the chip is up.", lambda c: None if c.link is None else int(c.link == "UP")),
)


def _cards(cards: Iterable[Card]) -> Iterator[Metric]:
    cards = tuple(cards)
    count = _gauge("cards", "Number of chips by health.", ("health",))
    for fitness in Fitness:
        count.add_metric([fitness.value], sum(card.health is fitness for card in cards))
    yield count
    about = InfoMetricFamily("npudoctor_card", "Model, firmware and bus id of a chip.", labels=["card"])
    for card in cards:
        device = "" if card.device is None else str(card.device)
        about.add_metric([card.subject], {"name": card.name or "", "bus_id": card.bus_id or "", "device": device})
    yield about
    for name, what, value_of in _CARD:
        family = _gauge(f"card_{name}", what, ("card",))
        for card in cards:
            if (value := value_of(card)) is not None:
                family.add_metric([card.subject], value)
        yield family
    yield from _ecc(cards)


def _ecc(cards: Iterable[Card]) -> Iterator[Metric]:
    labels = ["card", "memory", "bits"]
    errors = CounterMetricFamily("npudoctor_card_ecc_errors", "Bit errors over the chip's life.", labels=labels)
    since = _gauge("card_ecc_errors_since_reset", "Bit errors since the last reset of the chip.", labels)
    pages = _gauge("card_ecc_isolated_pages", "Isolated memory pages.", labels)
    for card in cards:
        for one in card.ecc:
            for bits in ("single", "double"):
                for family, value in (
                    (errors, getattr(one, f"{bits}_aggregate")),
                    (since, getattr(one, bits)),
                    (pages, getattr(one, f"{bits}_isolated_pages")),
                ):
                    if value is not None:
                        family.add_metric([card.subject, one.memory, bits], value)
    yield errors
    yield since
    yield pages


def _daemon(view: View, started_at: float, complaints: int) -> Iterator[Metric]:
    started = _gauge("daemon_start_timestamp_seconds", "Start of the daemon, seconds since 1970.")
    started.add_metric([], started_at)
    interval = _gauge("daemon_interval_seconds", "Current interval of runs; longer than configured during back-off.")
    interval.add_metric([], view.interval_s)
    troubles = _gauge("daemon_troubles", "Number of problems of the daemon itself.")
    troubles.add_metric([], complaints)
    issues = _gauge("issues", "Open issues by severity.", ("severity",))
    flapping = _gauge("issues_flapping", "Issues that opened three times or more within the last hour.")
    for severity in (Severity.WARNING, Severity.ERROR):
        issues.add_metric([severity.value], sum(one.severity == severity.value for one in view.issues))
    flapping.add_metric([], sum(one.flapping for one in view.issues))
    yield from (started, interval, troubles, issues, flapping)
