"""What a remedy says of several NPUs: the reset of each, once, and each event of the kernel log with its NPU."""

from __future__ import annotations

import pytest

from npudoctor.findings import Finding
from npudoctor.report import cause, page
from tests.nodes import labels


def findings(node: str, check: str) -> list[Finding]:
    report = labels.read(labels.FOLDER / f"{node}.toml").diagnose()
    return [finding for result in report.results if result.check == check for finding in result.findings]


def resets(finding: Finding) -> list[str]:
    return [command.partition("  #")[0] for command in finding.commands if "reset" in command]


def test_a_reset_that_takes_down_others_is_not_repeated_for_them() -> None:
    (found,) = findings("910a-five-dead-processes-of-one-job", "npu.processes")
    assert resets(found) == ["npu-smi set -t reset -i 0 -c 0", "npu-smi set -t reset -i 4 -c 0"]
    assert found.hint and found.hint.count("also takes down") == 2


def test_on_a_superpod_each_npu_has_its_reset() -> None:
    (found,) = findings("a3-memory-of-five-chips-left-behind", "npu.memory-free")
    assert resets(found) == [f"npu-smi set -t reset -i {npu} -c {chip}" for npu, chip in ((1, 0), (2, 0), (6, 1))]


@pytest.mark.parametrize(
    ("node", "check", "said"),
    [
        ("double-bit-error", "npu.ecc", "when none has; takes down all 8 chips of this server"),
        ("in-service-with-a-sick-card", "npu.ecc", "when all 7 processes there have ended; takes down all 8 chips"),
        ("910a-dead-holder-explains-the-memory", "npu.processes", "also takes down npu:4, npu:5, npu:7"),
        ("a3-chip-that-answers-nothing", "npu.health", "takes down several NPUs, or all"),
        ("950pr-with-double-bit-errors", "npu.ecc", "takes down this chip only"),
    ],
)
def test_a_reset_says_beside_its_command_what_it_takes_down(node: str, check: str, said: str) -> None:
    (found,) = findings(node, check)
    assert said in next(command for command in found.commands if "-t reset" in command)


@pytest.mark.parametrize("node", ["notebook-without-manager-nodes", "pod-with-the-address-of-its-node"])
def test_a_pod_is_offered_no_command_of_docker(node: str) -> None:
    report = labels.read(labels.FOLDER / f"{node}.toml").diagnose()
    found = [finding for result in report.results for finding in result.findings]
    assert not [one for one in found if one.fix and one.fix.id == "container.run-command"]
    assert not [command for one in found for command in one.commands if command.startswith(("docker", "podman"))]


def test_findings_of_one_subject_are_told_apart_by_what_they_say() -> None:
    shown = page.render(labels.read(labels.FOLDER / "torchvision-of-another-torch.toml").diagnose())
    assert "and 1 more of this kind: torchaudio 2.7.1 requires torch 2.7.1" in " ".join(shown.split())


def test_a_fault_code_of_the_vendors_lists_is_named_as_explain_does() -> None:
    (found,) = findings("duo-with-slices-and-a-chip-in-alarm", "npu.health")
    assert found.summary.endswith("HBM: isolated multi-bit error addresses reached the notice threshold (80E18401)")
    assert "npudoctor explain 80E18401" in found.commands


def test_a_headline_names_its_npus_once() -> None:
    (found,) = findings("a3-tls-of-two-chips", "npu.tls")
    assert cause.with_subject(found) == found.summary


def test_a_device_number_of_the_kernel_log_is_that_of_the_device_node() -> None:
    found = findings("a3-two-resets-in-the-kernel-log", "driver.kernel-log")
    assert {(one.subject, one.code.rpartition("/")[2]) for one in found if one.code} == {
        ("npu:5", "heartbeat-lost"),
        ("npu:1", "npu-reset"),
    }


def test_denied_and_missing_nodes_are_two_causes() -> None:
    found = findings("manager-node-missing-and-user-outside-the-group", "driver.access")
    assert len(found) == 2
    assert [bool(one.fix) for one in found] == [True, False]
