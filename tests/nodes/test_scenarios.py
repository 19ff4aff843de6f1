"""Whole nodes through the whole path: the labelled ones beside the repository, and those that npudoctor ships."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins, sim
from npudoctor.data import to_json
from npudoctor.findings import Report, Severity, Status
from npudoctor.host.live.rooted import open_root
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.testing import run
from tests.nodes import labels

SHARED = Path(__file__).resolve().parents[3] / "shared" / "scenarios"
LABELLED = sorted(path.parent for path in SHARED.glob("*/truth.json"))
SHIPPED = sorted(sim.scenarios())
HEALTHY = ("seed-910b1", "healthy-a3", "healthy-910a", "duo-310p", "in-service")


def worse(report: Report) -> dict[str, set[str]]:
    """The checks with a finding at warning or above, with the subjects."""
    found: dict[str, set[str]] = {}
    for result in report.results:
        for finding in result.findings:
            if finding.severity > Severity.INFO:
                found.setdefault(result.check, set()).add(finding.subject)
    return found


def without_times(report: Report) -> Any:
    data = json.loads(to_json(report))
    data.pop("started_at"), data.pop("duration_s")
    for result in data["results"]:
        result.pop("duration_s")
    return data


def test_the_labelled_nodes_are_there_or_their_absence_is_said() -> None:
    if not LABELLED:
        pytest.skip("the folder ../shared with the labelled nodes is not there")
    assert len(LABELLED) >= 5


@pytest.mark.parametrize("node", LABELLED, ids=lambda path: path.name)
def test_a_labelled_node_is_diagnosed_as_its_label_says(node: Path) -> None:
    truth = json.loads((node / "truth.json").read_text(encoding="utf-8"))
    report = run(open_bundle(str(node / "bundle")), profile="full")
    known = plugins.load().checks
    results = {result.check: result for result in report.results}
    found = worse(report)
    musts = [must for must in truth["must"] if must["check"] in known]
    for must in musts:
        subjects = must["subject"] if isinstance(must["subject"], list) else [must["subject"]]
        assert must["check"] in found, f"{must['check']} is missed"
        assert None in subjects or found[must["check"]] & set(subjects)
        worst = results[must["check"]].worst
        assert worst is not None and worst.value == must["severity"]
    false = set(found) - {must["check"] for must in musts} - set(truth["allowed"])
    assert not false, {check: [one.summary for one in results[check].findings] for check in false}
    for check, cause in truth["skipped"].items():
        if check in results:
            assert (results[check].status, results[check].blocked_by) == (Status.SKIPPED, cause)
    for check in truth.get("ok", ()):
        if check in results:
            assert results[check].status is Status.OK, f"{check}: {results[check].reason}"
    assert not [result for result in report.results if result.status is Status.CRASHED]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_node_is_silent(name: str) -> None:
    report = run(sim.simulate(name), profile="full")
    assert worse(report) == {}
    assert report.exit_code == 0


BROKEN = {
    "new-node": {"cann.environment": {"host"}, "python.pairing": {"python"}, "hccl.ports-reserved": {"host"}},
    "sick-cards": {
        "npu.count": {"npu:5"},
        "npu.health": {"npu:2"},
        "npu.temperature": {"npu:6"},
        "npu.memory-free": {"npu:3"},
    },
    "container-broken": {"container.devices": {"container"}},
    "bare-host": {"npu.present": {"host"}},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_node_shows_its_causes_and_nothing_else(name: str) -> None:
    assert worse(run(sim.simulate(name))) == BROKEN[name]


def test_every_shipped_node_is_judged_here() -> None:
    assert set(SHIPPED) == set(HEALTHY) | set(BROKEN)


def test_a_job_at_work_is_information_until_the_node_should_be_idle() -> None:
    serving = run(sim.simulate("in-service"))
    assert serving.in_service is True
    assert worse(serving) == {}
    idle = worse(run(sim.simulate("in-service"), expect_idle=True))
    assert {"npu.processes", "hccl.ports-free"} <= set(idle)


@pytest.mark.parametrize("name", SHIPPED)
def test_live_tools_a_recording_and_the_simulation_give_the_same_results(name: str, tmp_path: Path) -> None:
    simulated = run(sim.simulate(name))
    sim.write_tools(sim.simulate(name), str(tmp_path / "node"))
    host = open_root(str(tmp_path / "node"))
    live = run(host)
    recorded = run(open_bundle(str(tmp_path / "node")))
    assert without_times(live) == without_times(simulated)
    assert without_times(recorded) == without_times(simulated)
    calls = (tmp_path / "node" / "calls.log").read_text(encoding="utf-8").splitlines() if name != "bare-host" else []
    assert len(calls) == len(set(calls)), "no command runs twice"


@pytest.mark.parametrize("profile", ["quick", "standard"])
def test_no_more_is_asked_than_the_profile_allows(profile: str, tmp_path: Path) -> None:
    sim.write_tools(sim.simulate("seed-910b1"), str(tmp_path / "node"))
    run(open_root(str(tmp_path / "node")), profile=profile)
    calls = (tmp_path / "node" / "calls.log").read_text(encoding="utf-8").splitlines()
    vendor = [call for call in calls if call.startswith(("npu-smi", "hccn_tool"))]
    if profile == "quick":
        assert vendor == ["npu-smi info"]
    assert not [call for call in calls if call.startswith("python import")] or profile != "quick"


def test_a_bundle_written_by_hand_replays(tmp_path: Path) -> None:
    files = {
        "bundle.json": '{"schema": "npudoctor.bundle/1", "hostname": "typed", "machine": "aarch64"}',
        "host.json": '{"pci": [{"slot": "0000:c1:00.0", "vendor": "0x19e5", "device": "0xd802"}]}',
        "root/dev/davinci0": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    report = run(open_bundle(str(tmp_path)), "npu.present", "driver.installed")
    assert report.host.hostname == "typed"
    assert [result.status.value for result in report.results] == ["ok", "error"]
    assert "driver" in report.results[1].findings[0].summary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('abuot = "x"', "node.toml: abuot: no such key"),
        ('about = "x"\n[truth]\nskiped = {}', "node.toml: truth: skiped: no such key"),
        ('about = "x"\n[[truth.must]]\ncheck = "npu.health"\nsubjet = "npu:1"', "node.toml: truth: must: subjet: no"),
    ],
)
def test_a_label_says_nothing_that_nobody_reads(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "node.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(expected)):
        labels.read(tmp_path / "node.toml")


@pytest.mark.parametrize("name", ["seed-910b1", "sick-cards"])
def test_a_recording_of_a_later_version_is_read(name: str, tmp_path: Path) -> None:
    """Every object with fields has one more; what is keyed by path, variable or command has not."""
    node, later = tmp_path / "node", {"of_a_later_version": [1, {"a": None}]}
    sim.write_bundle(sim.simulate(name), str(node))
    before = run(open_bundle(str(node)))
    for path in [node / "bundle.json", node / "host.json", *node.glob("commands/*/result.json")]:
        data = {**json.loads(path.read_text(encoding="utf-8")), **later}
        for key, rows in data.items():
            if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                data[key] = [{**row, **later} for row in rows]
        path.write_text(json.dumps(data), encoding="utf-8")
    for path in (node / "stat.json", node / "failed.json"):
        if path.exists():
            path.write_text(
                json.dumps(
                    {key: {**row, **later} for key, row in json.loads(path.read_text(encoding="utf-8")).items()}
                ),
                encoding="utf-8",
            )
    assert without_times(run(open_bundle(str(node)))) == without_times(before)
