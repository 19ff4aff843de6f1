"""Whole nodes with a known truth: the causes, nothing else at warning or above, and what stands behind what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.findings import Evidence, Finding, HostSummary, Report, Result, Severity, Skip, Status, Verdict
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.records import replace
from npudoctor.testing import run
from tests.nodes import labels

WRITTEN = labels.written()
RECORDED = labels.recorded()
EACH = pytest.mark.parametrize("node", WRITTEN, ids=[node.name for node in WRITTEN])
KEYS = {"healthy", "must", "allowed", "must_not", "skipped", "ok", "info_ok", "says"}


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(node, id=node.name, marks=() if place % 8 == 0 else pytest.mark.thorough)
        for place, node in enumerate(WRITTEN)
    ],
)
def test_the_diagnosis_is_the_truth(node: labels.Label, tmp_path: Path) -> None:
    score = labels.score(node, node.diagnose(tmp_path if node.needs_a_folder else None))
    assert score.perfect, score


@pytest.mark.slow
@EACH
def test_the_diagnosis_of_a_recording_is_the_truth(node: labels.Label, tmp_path: Path) -> None:
    score = labels.score(node, node.diagnose(tmp_path))
    assert score.perfect, score


@pytest.mark.parametrize("node", RECORDED, ids=[node.name for node in RECORDED])
def test_the_diagnosis_of_a_node_beside_the_repository_is_the_truth(node: labels.Label) -> None:
    score = labels.score(node, node.diagnose())
    assert score.perfect, score


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["not-sourced", "container-without-nodes", "healthy-in-service"])
def test_a_recording_tells_what_the_simulated_node_tells(name: str, tmp_path: Path) -> None:
    for node in WRITTEN:
        if node.name == name:
            told = [
                [replace(result, duration_s=0.0) for result in report.results]
                for report in (node.diagnose(), node.diagnose(tmp_path))
            ]
            assert told[0] == told[1]


def test_the_nodes_are_many_and_cover_every_pitfall_that_a_node_shows() -> None:
    assert len(WRITTEN) >= 40
    covered = {pitfall for node in WRITTEN for pitfall in node.pitfalls}
    assert labels.BEFORE_TRAINING - covered == set()


@pytest.mark.thorough
@EACH
def test_a_truth_speaks_of_checks_that_there_are(node: labels.Label) -> None:
    truth, checks = node.truth, plugins.load().checks
    assert set(truth) <= KEYS
    assert bool(truth.get("healthy")) is not bool(node.musts)
    named = {*truth.get("allowed", ()), *truth.get("must_not", ()), *truth.get("skipped", {}), *truth.get("ok", ())}
    named |= {must["check"] for must in node.musts} | set(truth.get("skipped", {}).values())
    assert named <= set(checks)


# The score itself


def report(*results: Result) -> Report:
    return Report(
        tool_version="0",
        started_at="",
        duration_s=0,
        host=HostSummary(),
        profile="full",
        verdict=Verdict.OK,
        exit_code=0,
        role="full",
        in_service=False,
        environment="process",
        summary={},
        results=results,
    )


def ended(check: str, severity: Severity, subject: str = "host") -> Result:
    finding = Finding(summary="x", severity=severity, subject=subject, evidence=(Evidence(source="y"),))
    return Result(check=check, title="", status=Status(severity.value), findings=(finding,))


BEHIND = Result(check="c.behind", title="", status=Status.SKIPPED, skip=Skip.BLOCKED, blocked_by="a.cause")
TRUTH = {
    "must": [{"check": "a.cause", "severity": "error", "subject": "npu:3"}],
    "allowed": ["b.also"],
    "must_not": ["d.symptom"],
    "skipped": {"c.behind": "a.cause"},
}
CASES: dict[str, tuple[list[Result], tuple[int, int, int]]] = {
    "right": ([ended("a.cause", Severity.ERROR, "npu:3"), ended("b.also", Severity.WARNING), BEHIND], (0, 0, 0)),
    "missed": ([BEHIND], (1, 0, 0)),
    "lighter": ([ended("a.cause", Severity.WARNING, "npu:3"), BEHIND], (1, 0, 0)),
    "another card": ([ended("a.cause", Severity.ERROR, "npu:4"), BEHIND], (1, 1, 0)),
    "a symptom": ([ended("a.cause", Severity.ERROR, "npu:3"), ended("d.symptom", Severity.WARNING), BEHIND], (0, 1, 0)),
    "not skipped": ([ended("a.cause", Severity.ERROR, "npu:3"), ended("c.behind", Severity.ERROR)], (0, 1, 1)),
    "a crash": (
        [
            ended("a.cause", Severity.ERROR, "npu:3"),
            BEHIND,
            Result(check="e.e", title="", status=Status.CRASHED, reason="no"),
        ],
        (0, 1, 0),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_diagnosis_costs(case: str) -> None:
    results, expected = CASES[case]
    score = labels.score(labels.Label("n", "", (), TRUTH), report(*results))
    assert (len(score.missed), len(score.false), len(score.wrong_skips)) == expected


# Healthy nodes of which only what somebody pasted is known

DEVICE_IDS = {"910B": "0xd802", "910A": "0xd801", "910P": "0xd801", "310P": "0xd500", "310B": "0xd105", "310": "0xd100"}
NOT_SO_HEALTHY = {"910B2C-trailing-space-v23.0.2.1": {("npu.memory-free", "npu:1")}}
"""20 GB on a card for which the table has no process: an administrator would want to know."""

INDEX = labels.SHARED.parent / "captures" / "index.json"
CAPTURES = [
    capture
    for capture in (json.loads(INDEX.read_text(encoding="utf-8")) if INDEX.is_file() else [])
    if capture["kind"] == "npu-smi-info"
    and not capture["origin"].endswith(("elided", "edited", "mangled"))
    and {chip["health"] for chip in capture["expect"]["npus"]} <= {"OK"}
]


def recording_of(capture: dict[str, Any], folder: Path) -> str:
    """A recording of a host that printed this table, on which nobody looked at anything else."""
    expect = capture["expect"]
    chips = expect["npus"]
    device = next((id for name, id in DEVICE_IDS.items() if capture["chip"].startswith(name)), "0xd803")
    slots = sorted({chip["bus_id"].lower() for chip in chips if chip["bus_id"]})
    pci = [{"slot": slot, "vendor": "0x19e5", "device": device, "driver": "devdrv_device_driver"} for slot in slots]
    processes = [
        {"pid": one["pid"], "ppid": 1, "name": one["name"] or "python3", "username": "train", "status": "sleeping"}
        for one in expect["processes"]
    ]
    numbers = [
        next((chip[key] for key in ("phy_id", "device_id") if chip.get(key) is not None), chip["npu_id"])
        for chip in chips
    ]
    said: dict[str, Any] = {
        "bundle.json": {"schema": "npudoctor.bundle/1", "machine": "aarch64", "unrecorded": "unknown"},
        "host.json": {"pci": pci, "processes": processes},
    }
    files = {name: json.dumps(value) for name, value in said.items()}
    files["commands/npu-smi info/stdout"] = (INDEX.parent / capture["path"]).read_text(encoding="utf-8")
    files |= {f"root/dev/davinci{number}": "" for number in numbers}
    files |= {f"root/dev/{name}": "" for name in ("davinci_manager", "devmm_svm", "hisi_hdc")}
    files["root/usr/local/Ascend/driver/version.info"] = f"Version={expect['driver_version'] or '25.2.0'}\n"
    files["root/proc/modules"] = "drv_davinci_intf_host 65536 1 - Live 0x0\n"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


def test_the_captures_are_there_or_their_absence_is_said(shared: Path) -> None:
    assert len(CAPTURES) >= 15


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: Path(capture["path"]).stem)
def test_a_healthy_node_that_somebody_captured_is_silent(capture: dict[str, Any], tmp_path: Path) -> None:
    found = run(open_bundle(recording_of(capture, tmp_path)), profile="full")
    told = {
        (result.check, finding.subject)
        for result in found.results
        for finding in result.findings
        if finding.severity > Severity.INFO
    }
    assert told == NOT_SO_HEALTHY.get(Path(capture["path"]).stem, set())
    assert {result.check for result in found.results if result.status is Status.CRASHED} == set()
    assert next(result for result in found.results if result.check == "npu.health").status is Status.OK


def test_every_check_of_a_node_fires_on_one_of_them() -> None:
    """The smoke run's checks judge runs, not nodes; tests/smoke makes those fire. Those before an installation run only
    with a folder of packages; tests/checks/test_install.py makes those fire. A site's own frameworks are judged in
    tests/core/test_knowledge_site.py."""
    fires = {must["check"] for node in WRITTEN for must in node.musts}
    fires |= {check for node in WRITTEN for check in node.truth.get("says", ())}
    judging = {check.id for check in plugins.load().checks.values() if check.group not in ("install", "smoke")}
    assert judging - fires == {"stack.site"}
