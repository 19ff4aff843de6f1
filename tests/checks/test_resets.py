"""What a remedy says of several NPUs: the reset of each, once, and each event of the kernel log with its NPU."""

from __future__ import annotations

from npudoctor.findings import Finding
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
