"""What earlier runs reached is remembered, and a fall from it is a warning."""

from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.data import to_data
from npudoctor.facts.node import smoke as facts
from npudoctor.findings import Result
from npudoctor.records import replace
from npudoctor.sdk import Options
from npudoctor.smoke import history, session
from npudoctor.smoke.events import Bandwidth, Planned, RankPlan
from npudoctor.smoke.plan import Request
from npudoctor.smoke.session import Session
from npudoctor.testing import FakeHost

MIB = 1 << 20


def planned(*cards: str) -> Planned:
    ranks = tuple(
        RankPlan(rank=place, local_rank=place, device=f"npu:{place}", card=card) for place, card in enumerate(cards)
    )
    shape: dict[str, Any] = {"size": "small", "steps": 6, "dtype": "fp32", "strategy": "ddp", "launcher": "direct"}
    return Planned(
        device="npu",
        backend="hccl",
        world_size=len(cards),
        ranks=ranks,
        python="python3",
        product="910B1",
        deadlines_s={"bandwidth": 60.0},
        **shape,
    )


def row(bus_gb_s: float, size_bytes: int = 64 * MIB) -> Bandwidth:
    return Bandwidth(
        at_s=1.0,
        size_bytes=size_bytes,
        dtype="fp16",
        calls=5,
        seconds=0.001,
        algorithm_gb_s=bus_gb_s,
        bus_gb_s=bus_gb_s,
    )


def test_three_runs_of_one_kind_say_what_is_usual(tmp_path: Path) -> None:
    folder, two = str(tmp_path / "state"), planned("npu:0", "npu:1")
    for speed in (100.0, 120.0):
        history.remember(two, (row(speed), row(900.0, 1 * MIB)), folder, min_bytes=16 * MIB)
    assert history.usual_bus_gb_s(two, folder) is None
    history.remember(two, (row(110.0),), folder, min_bytes=16 * MIB)
    assert history.usual_bus_gb_s(two, folder) == 110.0
    assert history.usual_bus_gb_s(planned("npu:0", "npu:2"), folder) is None


def test_a_file_that_is_damaged_or_may_not_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / history.FILE).write_text('{"kind": 3}\nnot json\n[]\n' + "x" * 100_000, encoding="utf-8")
    assert history.usual_bus_gb_s(planned("npu:0"), str(tmp_path)) is None
    history.remember(planned("npu:0"), (row(1.0),), "/proc/no/such", min_bytes=1)
    assert history.usual_bus_gb_s(planned("npu:0"), "/proc/no/such") is None


@pytest.mark.parametrize(("now", "status"), [(50.0, "warning"), (90.0, "ok")])
def test_less_than_usual_is_a_warning(now: float, status: str) -> None:
    events = [
        to_data(planned("npu:0", "npu:1")),
        to_data(row(now)),
        {"event": "measured", "name": "earlier-bus-gb-s", "value": 100.0},
        *({"event": "rank-stage", "rank": rank, "stage": "bandwidth", "outcome": "ok"} for rank in (0, 1)),
        {"event": "ended"},
    ]
    assert judged(events)["smoke.bandwidth"].status.value == status


def judged(events: list[dict[str, Any]]) -> dict[str, Result]:
    asked = Session(catalog=plugins.load(), host=FakeHost(), request=Request(), options=Options())
    return {result.check: result for result in asked.results_of(facts.of_events(events))}


def seen_on(card: str, pid: int, during_mb: float) -> list[dict[str, Any]]:
    cards = {"npu:0": (3000.0, []), "npu:1": (3000.0, []), card: (during_mb, [pid])}
    return [
        to_data(replace(planned("npu:0"), deadlines_s={"memory-seen": 30.0})),
        {"event": "rank-started", "rank": 0, "pid": 4711},
        *(
            {
                "event": "measured",
                "name": "card-memory",
                "value": {"card": name, "before_mb": 3000.0, "during_mb": used, "pids": pids},
            }
            for name, (used, pids) in cards.items()
        ),
        {"event": "rank-stage", "rank": 0, "stage": "memory-seen", "outcome": "ok"},
        {"event": "ended"},
    ]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (seen_on("npu:0", 4711, 5000.0), None),
        (seen_on("npu:1", 4711, 5000.0), "rank 0 trained on npu:1 instead of npu:0"),
        (seen_on("npu:1", 1, 5000.0), "npu-smi shows no memory in use on npu:0 while rank 0 trained on it"),
    ],
)
def test_the_card_that_a_rank_is_seen_on_is_the_one_that_it_was_given(
    events: list[dict[str, Any]], said: str | None
) -> None:
    findings = judged(events)["smoke.memory-seen"].findings
    assert [finding.summary for finding in findings] == ([said] if said else [])


def test_the_driver_is_waited_for_until_the_cards_are_as_before() -> None:
    shown = iter([{"npu:0": (5000.0, ()), "npu:1": (9000.0, ())}, {"npu:0": (3010.0, ()), "npu:1": (9000.0, ())}])
    assert session.let_go({"npu:0": 3000.0}, lambda: next(shown)).startswith("the driver released all devices 1 s")
    held = session.let_go({"npu:0": 3000.0}, lambda: {"npu:0": (5000.0, ())}, patience_s=0.0)
    assert held.startswith("memory still in use 0 s after the run: npu:0")
    assert "may take up to 20 s" in session.let_go({}, dict)
