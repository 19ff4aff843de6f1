"""container.runtime: Docker's other settings stay as they are, and what is not understood is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sdk import Options
from npudoctor.sim import machine, scenario

PROGRAM = "/usr/local/bin/ascend-docker-runtime"
SETTINGS = "/etc/docker/daemon.json"
CATALOG = plugins.load(folder="")


def node(daemon: str | None, program: str | None = "#!") -> SimulatedHost:
    files = {SETTINGS: daemon, PROGRAM: program}
    there = {path: text for path, text in files.items() if text is not None}
    said = {"product": "atlas-800t-a2-910b3", "files": {"/etc/docker/key.json": "{}", **there}}
    return machine.build(scenario.parse(said, "test"), "test")


def planned(host: SimulatedHost, **params: Any) -> FixPlan:
    return plan.make(CATALOG, host, Request("container.runtime", {"path": PROGRAM, **params}), Options())


@pytest.mark.parametrize("daemon", [None, "", "{}", '{"log-opts": {"max-size": "1g"}, "runtimes": {"crun": {}}}'])
def test_only_the_runtime_is_added(daemon: str | None) -> None:
    host = node(daemon)
    made = planned(host)
    assert made.refused is None
    *_, ended = runner.apply(CATALOG, host, made, Options())
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.APPLIED
    before, after = json.loads(daemon or "{}"), json.loads(host.read(SETTINGS))
    assert after["runtimes"].pop("ascend") == {"path": PROGRAM, "runtimeArgs": []}
    assert after == {"runtimes": {}, **before}
    assert planned(host).empty


def test_lines_that_are_not_changed_are_not_in_the_preview() -> None:
    daemon = '{\n\t"live-restore": true,\n\t"runtimes": {}\n}\n'
    changed = [line for line in planned(node(daemon)).preview.splitlines() if line[:1] in "+-"]
    assert not any("live-restore" in line for line in changed)


def test_it_is_the_default_only_where_that_is_asked_for() -> None:
    assert '"default-runtime": "ascend"' not in planned(node("{}")).preview
    assert '"default-runtime": "ascend"' in planned(node("{}"), default=True).preview


@pytest.mark.parametrize(
    "daemon",
    [
        "[]",
        "not JSON",
        '{"runtimes": []}',
        '{"runtimes": {"ascend": {"path": "/opt/other"}}}',
        '{"mtu": 1, "mtu": 2}',
        '{"log-opts": {"max-file": "1", "max-file": "2"}}',
        '{"mtu": NaN}',
        '{"mtu": -Infinity}',
        '{"mtu": 1e400}',
        '{"bridge": "\\ud800"}',
        '{"\\udfff": []}',
    ],
)
def test_settings_that_are_not_understood_or_of_another_runtime_are_left_alone(daemon: str) -> None:
    refused = planned(node(daemon)).refused
    assert refused is not None
    assert SETTINGS in refused.reason


def test_without_the_program_or_with_an_odd_path_it_is_refused() -> None:
    refused = planned(node("{}", program=None)).refused
    assert refused is not None
    assert "not installed" in refused.reason
    assert planned(node("{}"), path="/opt/a b;id").refused is not None
