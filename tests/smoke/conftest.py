"""Smoke runs for tests: real ranks on the real torch, with gloo or with hccl on stub libraries."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.data import to_data
from npudoctor.facts.node import smoke as facts
from npudoctor.findings import Result
from npudoctor.records import record
from npudoctor.sdk import Options
from npudoctor.smoke import launch, plan, runner
from npudoctor.smoke.events import Event, RankFailed
from npudoctor.smoke.session import Session
from npudoctor.testing import FakeHost
from tests.smoke import warm

HERE = Path(__file__).parent
ON_CPU = str(HERE / "on_cpu")
"""On PYTHONPATH it makes the fake NPU compute."""


@record(frozen=True, kw_only=True)
class Ran:
    """A run that has ended: its events, what the checks say of it, and which of its processes are still there."""

    events: list[Event]
    results: dict[str, Result]
    left: list[int]
    outcome: facts.SmokeRun

    @property
    def failed(self) -> list[RankFailed]:
        """The ranks that broke, or that waited."""
        return [event for event in self.events if isinstance(event, RankFailed)]

    @property
    def first(self) -> list[tuple[int, str, str]]:
        """Rank, stage and cause of those that broke by themselves."""
        return [(one.rank, one.stage, one.cause.value) for one in self.failed if one.first]

    @property
    def errors(self) -> dict[str, str]:
        """The summaries of the errors, by check."""
        return {
            check: finding.summary
            for check, result in self.results.items()
            for finding in result.findings
            if finding.severity.value == "error"
        }


def run_plan(made: plan.Plan, keep: Path) -> Ran:
    """Run a plan to its end and have it judged."""
    events = list(runner.run(made))
    outcome = facts.of_events(to_data(event) for event in events)
    session = Session(catalog=plugins.load(), host=FakeHost(), request=made.request, options=Options())
    results = {result.check: result for result in session.results_of(outcome)}
    pids = [event.pid for event in events if event.event == "rank-started"]
    left = [*launch.marked_processes(str(keep / "told.json")), *(pid for pid in pids if launch.is_alive(pid))]
    return Ran(events=events, results=results, left=left, outcome=outcome)


@pytest.fixture(scope="session")
def warm_python(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Python with torch whose ranks are there at once; the tests that are about starting use `torch_python`."""
    with warm.interpreter(torch_python, tmp_path_factory.mktemp("warm")) as python:
        yield python


@pytest.fixture(scope="session")
def warm_cards(torch_python: Path, cann_libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same with torch_npu on stub libraries."""
    environ = {"LD_LIBRARY_PATH": str(cann_libraries), "PYTHONPATH": ON_CPU}
    with warm.interpreter(torch_python, tmp_path_factory.mktemp("warm"), "torch_npu", environ=environ) as python:
        yield python


@pytest.fixture
def smoke(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Ran]:
    """Plans and runs two ranks with gloo; `fault` is what a rank does wrong, `environ` what every rank gets.

    `fresh`: each rank is an interpreter of its own from the start.
    """

    def go(
        *,
        fault: str = "",
        environ: dict[str, str] | None = None,
        busy_port: bool = False,
        fresh: bool = False,
        python: Path | None = None,
        **asked: Any,
    ) -> Ran:
        variables = {**os.environ, **({"NPUDOCTOR_SMOKE_FAULT": fault} if fault else {}), **(environ or {})}
        asked = {"device": "cpu", "ranks": 2, "steps": 6, "bandwidth_s": 0.2, **asked}
        python = python or request.getfixturevalue("torch_python" if fresh else "warm_python")
        made = plan.make(plan.Request(**asked), plan.Known(python=str(python), environ=variables))
        if not busy_port:
            return run_plan(made, tmp_path)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", made.master_port))
            taken.listen()
            return run_plan(made, tmp_path)

    return go
