"""npu-smi is broken and the driver's library answers: the chips are judged all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npudoctor.sim import machine, scenario
from tests.fake_dcmi import answers, build, nodes

pytestmark = pytest.mark.thorough

BROKEN: dict[str, dict[str, Any]] = {
    "missing": {"remove": ["/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi"]},
    "crashes": {"driver": {"fault": "crash"}},
    "hangs": {"driver": {"fault": "hang"}},
    "prints nothing": {"commands": {"npu-smi info": {"stdout": ""}}},
    "refused": {
        "commands": {"npu-smi info": {"stdout": "dcmi module initialize failed. ret is -8005\n", "returncode": 1}}
    },
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_chips_are_judged_by_the_library(name: str, fake_dcmi: build.Library, tmp_path: Path) -> None:
    sick = {"product": "atlas-800t-a2-910b3", "card": [{"id": 2, "health": "Alarm", "codes": ["80E01801"]}]}
    nodes.put(fake_dcmi, tmp_path, answers.of_scenario(sick))
    said = {**sick, **BROKEN[name]}
    report, facts = nodes.known(nodes.WithLibrary(machine.build(scenario.parse(said, name), name), tmp_path))
    judged = {result.check: result for result in report.results}
    assert facts["node.chips"].source == "dcmi"
    assert [finding.severity.value for finding in judged["driver.npu-smi"].findings] == ["warning"]
    assert [finding.subject for finding in judged["npu.health"].findings] == ["npu:2"]
    blocked = [one.check for one in report.results if one.blocked_by == "driver.npu-smi"]
    assert blocked == []
    for check in ("npu.count", "npu.temperature", "npu.memory-free", "npu.ecc", "npu.uniform"):
        assert judged[check].status.value == "ok", (check, judged[check].reason)
