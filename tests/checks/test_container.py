"""What a container lacks, as a user would see the findings."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.findings import Result, Severity, Skip, Status
from npudoctor.host.simulated.tree import Overlay
from npudoctor.testing import run_check

MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
ALL = dict.fromkeys(("/dev/davinci0", "/dev/davinci1", *MANAGERS), "")
RULES = "/sys/fs/cgroup/devices/devices.list"


def pci(device: str = "0xd802", count: int = 2) -> list[dict[str, Any]]:
    return [{"slot": f"0000:{place:02x}:00.0", "vendor": "0x19e5", "device": device} for place in range(count)]


def run(
    files: dict[str, str], *, runtime: str = "docker", environ: dict[str, str] | None = None, **more: Any
) -> Result:
    stats = {path: Overlay(kind="char", access="rw", rdev=f"236:{place}") for place, path in enumerate(files)}
    stats |= more.pop("stats", {})
    measures = {"container": {"runtime": runtime, "cgroup": "v1"}, "pci": pci(), **more}
    return run_check("container.devices", files=files, stats=stats, environ=environ or {}, measures=measures)


def test_a_container_with_its_cards_passes() -> None:
    assert (run(ALL).status, run(ALL).findings) == (Status.OK, ())


def test_outside_a_container_it_does_not_apply() -> None:
    result = run_check("container.devices", files=ALL)
    assert (result.skip, result.reason) == (Skip.NOT_APPLICABLE, "this is not a container")


def test_without_cards_there_is_one_error_with_the_corrected_command() -> None:
    result = run({"/etc/hostname": "x"}, stats={"/etc/hostname": Overlay()})
    assert [finding.severity for finding in result.findings] == [Severity.ERROR]
    finding = result.findings[0]
    assert (finding.subject, finding.summary) == ("container", "no NPU device is mapped into this container")
    assert finding.code == "container.devices/missing"
    for flag in ("--device=/dev/davinci0", "--device=/dev/davinci1", "--device=/dev/hisi_hdc", "-v /usr/local/dcmi:"):
        assert flag in finding.commands[0]
    assert "--runtime=ascend -e ASCEND_VISIBLE_DEVICES=0,1 " in finding.commands[1]
    assert finding.pitfall == "P009"


def test_a_variable_that_only_the_ascend_runtime_reads_is_the_clue() -> None:
    finding = run({}, environ={"ASCEND_VISIBLE_DEVICES": "0-7"}).findings[0]
    assert finding.pitfall == "P061"
    assert finding.detail is not None and "only the ascend runtime reads it" in finding.detail
    assert run({}, environ={"ASCEND_VISIBLE_DEVICES": "void"}).findings[0].pitfall == "P009"


def test_a_pod_is_told_to_request_cards() -> None:
    finding = run({}, runtime="kubernetes").findings[0]
    assert finding.hint is not None and "huawei.com/Ascend910: 2" in finding.hint


def test_a_node_that_was_passed_as_a_volume_is_a_folder() -> None:
    finding = run({"/dev/davinci0/x": ""}, stats={"/dev/davinci0": Overlay(kind="dir", access="rx")}).findings[0]
    assert finding.detail is not None and "/dev/davinci0 is a directory: it was mapped with -v" in finding.detail


@pytest.mark.parametrize("missing", MANAGERS)
def test_a_missing_manager_node_is_named(missing: str) -> None:
    result = run({path: "" for path in ALL if path != missing})
    assert [finding.severity for finding in result.findings] == [Severity.ERROR]
    assert result.findings[0].code == "container.devices/manager-missing"
    assert result.findings[0].summary == f"NPU manager device missing in this container: {missing}"
    assert f"--device={missing}" in result.findings[0].commands[0]


def test_the_950_has_no_devmm_svm() -> None:
    files = {path: "" for path in ALL if path != "/dev/devmm_svm"}
    assert run(files, pci=pci("0xd806")).findings == ()


def test_a_slice_of_a_card_is_a_card() -> None:
    assert run(dict.fromkeys(("/dev/vdavinci100", *MANAGERS), "")).findings == ()


@pytest.mark.parametrize(
    ("rules", "denied"),
    [
        ("a *:* rwm\n", []),
        ("c 236:* rw\n", []),
        ("c 236:0 rwm\nc 236:2 rwm\nc 236:3 rwm\nc 236:4 rwm\n", ["/dev/davinci1"]),
        ("c 236:* r\n", list(ALL)),
        ("b 236:* rwm\n", list(ALL)),
    ],
)
def test_nodes_that_the_control_group_denies_are_named(rules: str, denied: list[str]) -> None:
    result = run({**ALL, RULES: rules}, stats={RULES: Overlay()})
    assert [finding.severity for finding in result.findings] == ([Severity.ERROR] if denied else [])
    if denied:
        finding = result.findings[0]
        assert (finding.code, finding.params["paths"]) == ("container.devices/denied", denied)
        assert finding.summary == f"device rules of this container deny access to {', '.join(denied)}"


def test_rules_that_are_none_are_not_judged() -> None:
    assert run({**ALL, RULES: "x 1:2\n"}, stats={RULES: Overlay()}).findings == ()
