"""What the daemon keeps over time: readings of the chips, and which NPUs the node had by their serial numbers."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from npudoctor import clock
from npudoctor.cli import report as command
from npudoctor.daemon import kept, stored
from npudoctor.daemon.answers import Card, Ecc, Fitness
from npudoctor.daemon.store import Store
from npudoctor.findings import Inventory, InventoryNpu
from npudoctor.privacy import identifying_fields, redaction
from npudoctor.records import replace
from npudoctor.report import case
from npudoctor.tui.model import cards
from npudoctor.tui.model.series import MEASURES, Series
from tests.daemon.test_store import a_report


def a_card(subject: str, temperature: int | None, *, errors: int | None = None) -> Card:
    return Card(
        subject=subject,
        npu_id=0,
        chip_id=0,
        device=0,
        bus_id=None,
        name="910B",
        health=Fitness.OK,
        problem=None,
        said="OK",
        temperature_celsius=temperature,
        power_watts=90.5,
        memory_used_bytes=1 << 30,
        memory_total_bytes=4 << 30,
        ai_core_percent=None,
        link=None,
        ecc=() if errors is None else (Ecc(memory="hbm", single=errors),),
    )


def test_readings_are_kept_for_a_day_and_what_is_unknown_stays_so(tmp_path: Path) -> None:
    now = clock.timestamp()
    with contextlib.closing(Store(str(tmp_path / "history.sqlite"))) as store:
        store.sample([a_card("npu:0", 11)], at=now - kept.KEPT_S - 60)
        store.sample([a_card("npu:0", 40), a_card("npu:1", None, errors=3)], at=now - 60)
        store.sample([a_card("npu:0", 50)], at=now)
    found = list(stored.readings(str(tmp_path), since=0, most=100))
    assert [(chip, values) for _, chip, values in found] == [
        ("npu:0", (None, 25.0, 40.0, 90.5, None)),
        ("npu:1", (None, 25.0, None, 90.5, 3.0)),
        ("npu:0", (None, 25.0, 50.0, 90.5, None)),
    ]
    assert [chip for _, chip, _ in stored.readings(str(tmp_path), since=now - 30, most=100)] == ["npu:0"]
    assert tuple(one.name for one in MEASURES) == stored.MEASURES


def test_readings_of_the_future_go_where_the_clock_was_set_back(tmp_path: Path) -> None:
    now = clock.timestamp()
    with contextlib.closing(Store(str(tmp_path / "history.sqlite"))) as store:
        store.sample([a_card("npu:0", 11)], at=now + 9000)
        store.sample([a_card("npu:0", 12)], at=now)
    assert [values[2] for _, _, values in stored.readings(str(tmp_path), since=0, most=100)] == [12.0]


def test_the_report_shows_the_least_and_the_most_of_the_day(tmp_path: Path) -> None:
    now = clock.timestamp()
    with contextlib.closing(Store(str(tmp_path / "history.sqlite"))) as store:
        for number, heat in enumerate((40, 71, 38)):
            store.sample([a_card("npu:0", heat), a_card("npu:1", None)], at=now - 3 + number)
    rows = command.series(str(tmp_path))
    assert rows[1:] == [
        ("npu:0", "unknown", "25–25", "38–71", "90–90", "unknown"),
        ("npu:1", "unknown", "25–25", "unknown", "90–90", "unknown"),
    ]
    page = case.markdown(case.Case(report=a_report(), series=rows))
    assert "## Last 24 hours" in page and "| npu:0 | unknown | 25–25 | 38–71 |" in page
    assert "<td>38–71" in case.html(case.Case(report=a_report(), series=rows))


def test_another_file_has_no_readings(tmp_path: Path) -> None:
    assert command.series(str(tmp_path)) == []
    with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as other, other:
        other.execute(
            "CREATE VIEW samples AS WITH RECURSIVE n(at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n) "
            "SELECT at, 'npu:0' AS chip, 1 AS temp, 1 AS power, 1 AS hbm, 1 AS aicore, 1 AS ecc FROM n"
        )
    assert command.series(str(tmp_path)) == []


def an_inventory(*npus: tuple[str, str], firmware: str = "7.1", driver: str = "25.2") -> Inventory:
    boards = tuple(InventoryNpu(subject=at, serial_number=serial, firmware=firmware) for at, serial in npus)
    return Inventory(npus=boards, driver=driver)


def test_the_inventory_keeps_its_history_by_serial_number(tmp_path: Path) -> None:
    inventories = (
        an_inventory(("npu:0", "S-A"), ("npu:1", "S-B")),
        an_inventory(("npu:0", "S-A"), ("npu:1", "")),  # not told this time: nothing is gone
        an_inventory(("npu:0", "S-B"), ("npu:1", "S-C"), firmware="7.3", driver="25.5"),
        an_inventory(("npu:0", "S-B"), ("npu:1", "S-C"), firmware="7.3", driver="25.5"),
    )
    with contextlib.closing(Store(str(tmp_path / "history.sqlite"))) as store:
        said = [[one.said for one in store.take(replace(a_report(), inventory=inventory))] for inventory in inventories]
    assert said[0] == said[1] == said[3] == []
    assert said[2] == [
        "NPU with serial number S-B moved from npu:1 to npu:0",
        "firmware of the NPU with serial number S-B changed: 7.1 → 7.3",
        "NPU with serial number S-C is new, at npu:1",
        "NPU with serial number S-A is gone, it was at npu:0",
        "driver changed: 25.2 → 25.5",
    ]
    assert any("inventory: NPU with serial number S-C is new" in line for line in command.timeline(str(tmp_path)))
    found = identifying_fields.Found({})
    found.in_prose("serial number S1023C3X is gone")
    assert "S1023C3X" not in redaction.Pseudonyms(found).apply("serial number S1023C3X is gone")


def test_the_npus_screen_begins_with_the_readings_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.timestamp()
    with contextlib.closing(Store(str(tmp_path / "history.sqlite"))) as store:
        store.sample([a_card("npu:0", 40)], at=now - 120)
        store.sample([a_card("npu:0", 44)], at=now - 60)
    monkeypatch.setattr(stored, "FOLDER", str(tmp_path))
    series = Series()
    series.begin_with(cards.read_history(_session("live")))
    assert series.of("npu:0", "temp") == (40.0, 44.0)
    assert series.of("npu:0", "AI Core") == (None, None)
    assert series.since
    assert cards.read_history(_session("simulated")) == [], "the daemon has read this machine and no other"


def _session(source: str) -> Any:
    """What `kept` asks of a session: where its node is from."""
    host = SimpleNamespace(about=SimpleNamespace(source=source))
    return SimpleNamespace(looking=lambda: contextlib.nullcontext(host))
