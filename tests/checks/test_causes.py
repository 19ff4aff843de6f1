"""When one thing is broken, one check fails, and what depends on it stands behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.findings import Finding, Severity, Status
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.report.cause import with_subject
from npudoctor.sim import scenarios, simulate
from npudoctor.testing import run

Nodes = Callable[..., Any]
SUBJECTS = ("npu", "driver", "cann", "python")
READ_NPU_SMI = (
    "npu.count",
    "npu.health",
    "npu.temperature",
    "npu.memory-free",
    "npu.processes",
    "npu.uniform",
    "npu.topology",
)
OF_THE_DRIVER = ("driver.npu-smi", "driver.access", "driver.firmware")
OTHER_CANN = ("cann.environment", "cann.single", "cann.ops", "python.cann-pairing", "python.packages")
STRANGER = {"name": "dev", "uid": 1005, "groups": {"dev": 1005}}


@pytest.mark.parametrize(
    ("said", "errors", "behind"),
    [
        ({"cann": {"sourced": False}}, ["cann.environment"], {"cann.single": "cann.environment"}),
        ({"environ": {"LD_LIBRARY_PATH": "/x"}}, ["cann.environment"], {"cann.single": "cann.environment"}),
        ({"cann": {"installed": False}}, ["cann.installed"], dict.fromkeys(OTHER_CANN, "cann.installed")),
        ({"driver": {"fault": "hang"}}, ["driver.npu-smi"], dict.fromkeys(READ_NPU_SMI, "driver.npu-smi")),
        ({"driver": {"fault": "crash"}}, ["driver.npu-smi"], dict.fromkeys(READ_NPU_SMI, "driver.npu-smi")),
        ({"driver": {"fault": "no-device"}}, ["driver.npu-smi"], dict.fromkeys(READ_NPU_SMI, "driver.npu-smi")),
        ({"remove": ["/usr/local/bin/npu-smi"]}, ["driver.npu-smi"], dict.fromkeys(READ_NPU_SMI, "driver.npu-smi")),
        (
            {"driver": {"installed": False}},
            ["driver.installed"],
            dict.fromkeys((*READ_NPU_SMI, *OF_THE_DRIVER), "driver.installed"),
        ),
        (
            {"user": STRANGER, "driver": {"fault": "no-device"}},
            ["driver.access"],
            dict.fromkeys((*READ_NPU_SMI, "driver.npu-smi"), "driver.access"),
        ),
        ({"python": {"torch": "2.6.0"}}, ["python.pairing"], {}),
        ({"python": {"torch": "", "torch_npu": ""}}, ["python.torch"], {"python.torch-npu": "python.torch"}),
        ({"python": {"torch_npu": ""}}, ["python.torch-npu"], {"python.pairing": "python.torch-npu"}),
        ({"python": {"packages": {"decorator": ""}}}, ["python.packages"], {}),
        ({"cann": {"ops": ""}}, ["cann.ops"], {}),
        ({"card": [{"id": 2, "health": "Alarm", "codes": ["80E01801"]}]}, ["npu.health"], {}),
        ({"card": [{"id": 2, "missing": ["npu-smi"]}]}, ["npu.count"], {}),
        (
            {"product": "none", "cann": {"installed": False}, "python": {"torch": "", "torch_npu": ""}},
            ["npu.present"],
            dict.fromkeys((*READ_NPU_SMI, *OF_THE_DRIVER, "driver.installed", "cann.installed"), "npu.present"),
        ),
        (
            {"container": {"devices": []}},
            [],
            dict.fromkeys(("npu.present", *READ_NPU_SMI, *OF_THE_DRIVER, "driver.installed"), "container.devices"),
        ),
    ],
    ids=lambda said: ",".join(said) if isinstance(said, dict) else None,
)
def test_one_fault_is_one_error(node: Nodes, said: dict[str, Any], errors: list[str], behind: dict[str, str]) -> None:
    results = {result.check: result for result in node(**said).report(*SUBJECTS).results}
    assert [check for check, result in results.items() if result.status is Status.ERROR] == errors
    assert [check for check, result in results.items() if result.status in (Status.WARNING, Status.CRASHED)] == []
    assert {check: results[check].blocked_by for check in behind} == behind


@pytest.mark.parametrize("profile", ["quick", "standard", "full"])
@pytest.mark.parametrize(
    "name", sorted(name for name in scenarios() if name.startswith(("healthy", "seed", "duo", "in-")))
)
def test_healthy_nodes_yield_nothing(name: str, profile: str) -> None:
    report = run(simulate(name), *SUBJECTS, profile=profile)
    assert [
        finding.summary for result in report.results for finding in result.findings if finding.severity > Severity.INFO
    ] == []
    assert report.summary["crashed"] == 0


@pytest.mark.parametrize(
    "name",
    [
        *("example-healthy-container", "example-healthy-user-install", "example-master-port-taken"),
        *("example-npu-smi-missing", "example-ops-left-behind"),
    ],
)
@pytest.mark.parametrize("profile", ["quick", "standard", "full"])
def test_a_recorded_node_shows_what_it_must_and_nothing_else(shared: Path, name: str, profile: str) -> None:
    folder = shared / "scenarios" / name
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    results = {
        result.check: result for result in run(open_bundle(str(folder / "bundle")), *SUBJECTS, profile=profile).results
    }
    wanted = {must["check"]: must for must in truth["must"] if must["check"] in results}
    found = {
        check: finding
        for check, result in results.items()
        for finding in result.findings
        if finding.severity > Severity.INFO
    }
    assert set(found) - set(truth["allowed"]) == set(wanted)
    for check, must in wanted.items():
        assert found[check].severity.value == must["severity"]
        assert must["subject"] in (None, found[check].subject)
    behind = {check: blocker for check, blocker in truth["skipped"].items() if check in results}
    assert {check: results[check].blocked_by for check in behind} == behind
    if profile == "full":
        assert {
            check for check in truth.get("ok", ()) if check in results and results[check].status is not Status.OK
        } == set()


def test_a_torch_npu_on_a_machine_without_card_and_cann_has_two_errors(node: Nodes) -> None:
    said = json.dumps(
        {
            "executable": "/venv/bin/python",
            "version": "3.11.7",
            "machine": "x86_64",
            "distributions": {
                "torch": {"version": "2.13.0+cpu", "requires": []},
                "torch-npu": {"version": "2.13.0", "requires": ["torch==2.13.0.*"]},
            },
        }
    )
    bare = node(product="none", commands={"python environment": {"stdout": said}})
    results = bare.report().results
    assert [result.check for result in results if result.status is Status.ERROR] == ["npu.present", "cann.installed"]
    judged = {result.check for result in results if result.status is Status.OK}
    assert {"python.version", "python.torch", "python.torch-npu", "python.pairing"} <= judged


def test_a_wrong_pair_does_not_show_the_import_error_of_another_cause() -> None:
    host = simulate("new-node")
    report = run(host, "python.pairing", "cann.environment")
    sources = {each.check: [one.source for one in each.findings[0].evidence] for each in report.results}
    attempt = "import torch_npu in a new process"
    assert attempt in sources["cann.environment"]
    assert attempt not in sources["python.pairing"]


def test_a_headline_names_its_npu_once() -> None:
    for summary, where, headline in (
        ("NPU 5 (0000:02:00.0) has dropped off", "npu:5", "NPU 5 (0000:02:00.0) has dropped off"),
        ("NPU 51 has dropped off", "npu:5", "npu:5: NPU 51 has dropped off"),
        ("910B3 at 86 °C", "npu:6", "npu:6: 910B3 at 86 °C"),
    ):
        finding = Finding(severity=Severity.ERROR, summary=summary, subject=where)
        assert with_subject(finding) == headline
