"""Simulated nodes for the tests of checks, said as a scenario says them; commands of all findings are known ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from npudoctor.findings import Finding, Report, Result
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.messages import Message
from npudoctor.sim import machine, scenario
from npudoctor.testing import run
from tests.remedies.remedy_commands import complaints


class Node:
    """A healthy server with 8 x 910B3, but for what `said` says; keys are those of a scenario."""

    def __init__(self, **said: Any) -> None:
        self.said = {"product": "atlas-800t-a2-910b3", **said}

    @property
    def host(self) -> SimulatedHost:
        return machine.build(scenario.parse(self.said, "test"), "test")

    def report(self, *names: str, **options: Any) -> Report:
        return run(self.host, *names, **options)

    def check(self, id: str, **options: Any) -> Result:
        return next(result for result in self.report(id, **options).results if result.check == id)


@pytest.fixture
def node() -> Callable[..., Node]:
    return Node


@cache
def complaints_about(command: str) -> tuple[str, ...]:
    return tuple(complaints(command))


@pytest.fixture(autouse=True)
def commands_exist(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Judges the commands of every finding, for no labelled node shows all findings that tests here show."""
    make = Message.finding
    wrong: list[str] = []

    def finding(self: Message, **params: Any) -> Finding:
        made = make(self, **params)
        wrong.extend(f"{made.code}: {line!r}: {why}" for line in made.commands for why in complaints_about(line))
        return made

    monkeypatch.setattr(Message, "finding", finding)
    yield
    assert not wrong, wrong
