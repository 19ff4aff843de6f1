"""The host's side of the recorded nodes with known answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npudoctor.findings import Severity
from npudoctor.host.bundle import open_bundle
from npudoctor.testing import run

SUBJECTS = ("hccl", "env", "system", "container")
NAMES = (
    "example-healthy-container",
    "example-healthy-user-install",
    "example-master-port-taken",
    "example-npu-smi-missing",
    "example-ops-left-behind",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_node_shows_what_it_must_and_nothing_else(shared: Path, name: str) -> None:
    folder = shared / "scenarios" / name
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    host = open_bundle(str(folder / "bundle"))
    results = {result.check: result for result in run(host, *SUBJECTS).results}
    wanted = {must["check"] for must in truth["must"]} & set(results)
    found = {check for check, result in results.items() if result.worst and result.worst > Severity.INFO}
    assert found - set(truth["allowed"]) == wanted
    assert {results[check].status.value for check in truth.get("ok", ()) if check in results} <= {"ok"}
