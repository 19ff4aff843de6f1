"""No consumer calls a node sick because it works: every simulated node, idle and with a job on its cards."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from junitparser import JUnitXml

from npudoctor import sim
from npudoctor.cli import main
from npudoctor.findings import Report
from npudoctor.report import junit, nagios, npd
from npudoctor.testing import run

WITH_CARDS = {"seed-910b1": 8, "healthy-a3": 16, "healthy-910a": 8, "duo-310p": 4, "new-node": 8, "sick-cards": 4}
HEALTHY = {"seed-910b1", "healthy-a3", "healthy-910a", "duo-310p"}


def scenario(name: str, folder: Path, more: str = "") -> str:
    """A shipped scenario with a line more."""
    text = files("npudoctor").joinpath(f"sim/scenarios/{name}.toml").read_text(encoding="utf-8")
    path = folder / f"{name}{'-at-work' if more else ''}.toml"
    path.write_text(f"{more}\n{text}", encoding="utf-8")
    return str(path)


def told(report: Report) -> dict[str, int]:
    """What each consumer makes of a report; 0 is well."""
    document = JUnitXml.fromstring(junit.render(report).encode())
    return {
        "nagios": nagios.exit_code(report),
        "node-problem-detector": npd.exit_code(report),
        "junit": document.failures,
        "check": report.exit_code,
    }


@pytest.mark.parametrize("name", WITH_CARDS)
def test_a_job_makes_no_node_sick(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idle = scenario(name, tmp_path)
    busy = scenario(name, tmp_path, f"job = {{ ranks = {WITH_CARDS[name]} }}")
    before, during = (run(sim.simulate(path)) for path in (idle, busy))
    assert during.in_service is not False
    assert told(during) == told(before)
    if name in HEALTHY:
        assert set(told(during).values()) == {0}
    codes = [main(["healthcheck", "--no-daemon", "--simulate", path]) for path in (idle, busy)]
    assert codes[0] == codes[1] == (name == "sick-cards")
    assert len(capsys.readouterr().out.splitlines()) == 2
