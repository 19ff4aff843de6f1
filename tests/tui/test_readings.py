"""The NPUs screen reads through the driver's library where it answers, and through npu-smi where it does not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import plugins, sim
from npudoctor.facts.npu_smi import NpuMap
from npudoctor.host import Host
from npudoctor.host.live import library, reader
from npudoctor.host.live.rooted import open_root
from npudoctor.sdk import Options
from npudoctor.selection import Selection
from npudoctor.tui.model import cards
from npudoctor.tui.model.cards import Pace
from npudoctor.tui.model.diagnosis import Diagnosis, State
from npudoctor.tui.model.session import Node, Session
from tests.fake_dcmi import answers, build, nodes

WITHOUT_CHIPS = ("bare-host", "container-broken")


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(library, "CALL_S", nodes.PATIENT_S)
    monkeypatch.setattr(library, "INIT_S", nodes.PATIENT_S)
    monkeypatch.setattr(reader, "RENEWED_S", 3600.0)
    monkeypatch.setattr(reader.KEPT, "wanted", True)
    yield
    reader.let_go()


def _session(folder: Path, chips_from: str = "auto") -> Session:
    @contextlib.contextmanager
    def opened() -> Iterator[Host]:
        host = open_root(str(folder))
        try:
            yield host
        finally:
            host.close()

    options = Options(tool_timeout_s=nodes.PATIENT_S, chips_from=chips_from)
    session = Session(lambda: Node(catalog=plugins.load(), selection=Selection(options=options), open=opened))
    session.facts = {NpuMap: None}
    return session


@pytest.mark.parametrize("scenario", [one for one in sorted(sim.scenarios()) if one not in WITHOUT_CHIPS])
def test_both_sources_draw_the_same_rows(scenario: str, fake_dcmi: build.Library, tmp_path: Path) -> None:
    nodes.write(tmp_path, scenario)
    by_library, by_npu_smi = (cards.read(_session(tmp_path, source), Diagnosis()) for source in ("auto", "npu-smi"))
    assert by_library.by_library and not by_npu_smi.by_library
    assert by_library.rows

    def drawn(row: cards.ChipRow) -> object:
        held = tuple((one.pid, one.memory_mb) for one in row.held)
        return row.chip, row.state(), [(one.check, one.severity, one.code) for one in row.problems], held

    assert [drawn(row) for row in by_library.rows] == [drawn(row) for row in by_npu_smi.rows]


def test_no_tool_is_started_for_a_reading_by_the_library(fake_dcmi: build.Library, tmp_path: Path) -> None:
    nodes.write(tmp_path, "healthy-a3")
    tool = tmp_path / "bin" / "npu-smi"
    tool.unlink()
    tool.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", encoding="utf-8")
    tool.chmod(0o755)
    session = _session(tmp_path)
    assert [len(cards.read(session, Diagnosis()).rows) for _ in range(3)] == [16, 16, 16]
    assert not (tmp_path / "started").exists()


def test_a_reading_after_a_run_of_checks_is_of_now(fake_dcmi: build.Library, tmp_path: Path) -> None:
    """What a run of checks knew of the moment is not used again, nor what was made of it."""
    nodes.write(tmp_path, "healthy-a3")
    session = _session(tmp_path)
    for _ in session.run():
        pass
    assert {row.state() for row in cards.read(session, Diagnosis()).rows} == {State.OK}
    sick = answers.of_scenario({"product": "atlas-800t-a3", "card": [{"id": 3, "health": "Critical"}]})
    build.tell(tmp_path / "library" / nodes.FOLDER / build.NAME, sick.text())
    anew = _session(tmp_path)  # a node that is not live stays open, and answers a question once
    anew.facts = session.facts
    later = cards.read(anew, Diagnosis())
    assert later.by_library
    assert [row.chip.npu_id for row in later.rows if row.state() is not State.OK] == [3, 3]


def test_the_interval_is_a_second_where_no_program_is_started() -> None:
    pace = Pace()
    pace.record_duration(0.01, failed=False, by_library=True)
    assert pace.wait_s == 1.0
    pace.record_duration(0.5, failed=False, by_library=True)
    assert pace.wait_s == 2.5
    pace.record_duration(0.01, failed=False)
    assert pace.wait_s == 2.0
    chosen = Pace(0.5)
    chosen.record_duration(0.01, failed=False, by_library=True)
    assert chosen.wait_s == 0.5


@pytest.mark.slow
def test_a_reading_of_16_chips_costs_10_ms(fake_dcmi: build.Library, tmp_path: Path) -> None:
    """Processor time of the process that draws; the best of many, since other processes share its caches."""
    nodes.write(tmp_path, "healthy-a3")
    session = _session(tmp_path)
    for _ in session.run():
        pass
    cards.read(session, Diagnosis())
    spent = []
    for _ in range(40):
        before = time.process_time()
        assert len(cards.read(session, Diagnosis()).rows) == 16
        spent.append(time.process_time() - before)
    assert sorted(spent)[len(spent) // 4] <= 0.010
