"""Simulated nodes for the tests of checks, said as a scenario says them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Report, Result
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sim import machine, scenario
from npudoctor.testing import run


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
