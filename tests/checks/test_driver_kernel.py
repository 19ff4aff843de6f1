"""The driver's modules, the kernel that boots next, and the kernel log, as a user would see the findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status

Nodes = Callable[..., Any]
PERSON = {"name": "ada", "uid": 1000, "groups": {"ada": 1000, "HwHiAiUser": 1000}}
PRODUCTS = ("atlas-800t-a2-910b3", "atlas-800t-a3", "atlas-800-9010", "atlas-300i-duo")


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("id", ["driver.rebooted", "driver.next-boot", "driver.kernel-log"])
def test_a_healthy_driver_yields_nothing(node: Nodes, product: str, id: str) -> None:
    result = node(product=product).check(id)
    assert (result.status, result.findings) == (Status.OK, ())


# driver.rebooted


def test_a_driver_that_was_upgraded_without_a_reboot_is_the_cause(node: Nodes) -> None:
    stale = node(driver={"version": "25.2.0", "loaded": "24.1.rc3"}, firmware={"fits": False})
    report = stale.report("driver")
    results = {result.check: result for result in report.results}
    finding = only(results["driver.rebooted"])
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P031")
    assert finding.code == "driver.rebooted/version-mismatch"
    assert finding.summary == "driver 25.2.0 is installed, but kernel modules of 24.1.rc3 are loaded"
    assert results["driver.firmware"].blocked_by == "driver.rebooted"


def test_another_spelling_is_the_same_version(node: Nodes) -> None:
    same = node(driver={"version": "24.1.rc1", "loaded": "24.1.RC1"}).check("driver.rebooted")
    assert (same.status, same.findings) == (Status.OK, ())


def test_modules_that_do_not_say_their_version_are_no_verdict(node: Nodes) -> None:
    result = node(remove=["/sys/module"]).check("driver.rebooted")
    assert result.skip is Skip.COULD_NOT_LOOK
    assert result.reason == "the loaded modules do not state their driver version"


def test_a_container_has_its_host_s_driver(node: Nodes) -> None:
    for id in ("driver.rebooted", "driver.next-boot", "driver.kernel-log"):
        assert node(container={}).check(id).skip is Skip.NOT_APPLICABLE


# driver.next-boot


def test_a_kernel_that_the_driver_was_not_built_for_is_told_before_the_reboot(node: Nodes) -> None:
    new = "5.10.0-300.0.0.1.oe2203sp4.aarch64"
    finding = only(node(next_kernel=new).check("driver.next-boot"))
    assert (finding.severity, finding.pitfall) == (Severity.WARNING, "P069")
    assert finding.code == "driver.next-boot/no-modules"
    assert finding.summary == f"kernel {new} boots next and has no Ascend driver modules"
    assert finding.evidence[0].source == "saved_entry in /boot/grub2/grubenv"
    built = {f"/lib/modules/{new}/updates/drv_davinci_intf_host.ko": "ELF"}
    assert node(next_kernel=new, files=built).check("driver.next-boot").findings == ()


def test_what_dkms_will_build_is_info(node: Nodes) -> None:
    files = {"/var/lib/dkms/davinci_ascend/1.0/source/dkms.conf": ""}
    finding = only(node(next_kernel="6.6.0-72.oe2403.aarch64", files=files).check("driver.next-boot"))
    assert finding.severity is Severity.INFO


def test_without_a_boot_folder_the_next_kernel_is_not_known(node: Nodes) -> None:
    result = node(remove=["/boot"]).check("driver.next-boot")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.ABSENT)


def test_a_driver_that_lies_elsewhere_is_no_finding(node: Nodes) -> None:
    kernel = "5.10.0-300.0.0.1.oe2203sp4.aarch64"
    away = node(next_kernel=kernel, files={"/lib/modules/x": ""}, remove=["/lib/modules"]).check("driver.next-boot")
    assert away.skip is Skip.COULD_NOT_LOOK


# driver.kernel-log

AT = "[912.4]"
FAULTS = {
    "[ascend] [devdrv] [ERROR] device 3 heart beat lost, status 1": "heartbeat-lost",
    "davinci: dev_id=3 heartbeat timeout": "heartbeat-lost",
    "drv_pcie: 0000:82:00.0 link down": "npu-lost",
    "[hccs] link 3 fatal": "hccs-link",
    "pcieport 0000:80:00.0: AER: Uncorrected (Fatal) error: 0000:82:00.0": "pcie-error",
    "{1}[Hardware Error]: event severity: fatal": "hardware-error",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0": "hardware-error",
    "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400": "hardware-error",
    "INFO: task npu-smi:4711 blocked for more than 120 seconds.": "hung-process",
    "[devmm] device 3 multi-bit ecc error": "memory-error",
    "[devdrv] device 3 hang detected": "npu-fault",
}
HARMLESS = (
    "devdrv_device_driver 0000:82:00.0: enabling device (0000 -> 0002)",
    "[ascend] [devdrv] exception module init success",
    "pcieport 0000:80:00.0: AER: enabled with IRQ 29",
    "pcieport 0000:80:00.0: AER: Corrected error received: 0000:82:00.0",
    "pcieport 0000:80:00.0: AER: Uncorrected (Non-Fatal) error received: 0000:82:00.0",
    "{1}[Hardware Error]: event severity: corrected",
    "mce: [Hardware Error]: Machine check events logged",
    "EDAC MC0: Giving out device to module skx_edac",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
    "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 9c00004000010090",
    "drv_davinci_intf_host: loading out-of-tree module taints kernel.",
    "hns3 0000:7d:00.0 eth1: link down",
    "usb 1-1: input device lost",
    "hisi_sas: debugfs: hccs statistics dumped",
    "[ascend] default queue registered, page fault handler set",
    "Out of memory: Killed process 4711 (python3)",
)


@pytest.mark.parametrize(("line", "what"), FAULTS.items())
def test_a_fault_is_named_with_its_line(node: Nodes, line: str, what: str) -> None:
    finding = only(node(kernel_log=[*HARMLESS, line]).check("driver.kernel-log"))
    assert finding.severity is Severity.WARNING
    assert finding.code == f"driver.kernel-log/{what}"
    assert finding.summary.endswith("(kernel log, 1 time in 7 days)")
    assert finding.evidence[0].actual is not None and line in finding.evidence[0].actual
    of_card_3 = "82:00.0" in line or "3 " in line or "=3" in line
    assert finding.subject == ("npu:3" if of_card_3 and "hccs" not in line else "host")


def test_what_a_healthy_kernel_writes_is_no_fault(node: Nodes) -> None:
    assert node(kernel_log=list(HARMLESS)).check("driver.kernel-log").findings == ()


def test_many_lines_of_a_kind_are_one_finding(node: Nodes) -> None:
    lines = [f"[devdrv] device {number % 8} heart beat lost" for number in range(40)]
    finding = only(node(kernel_log=lines).check("driver.kernel-log"))
    assert finding.summary == "NPU heartbeat lost (kernel log, 40 times in 7 days)"
    assert (finding.subject, len(finding.evidence)) == ("host", 4)


def test_who_may_not_read_the_log_is_told_so(node: Nodes) -> None:
    result = node(user=PERSON).check("driver.kernel-log")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.NO_RIGHT)
    insider = {**PERSON, "groups": {**PERSON["groups"], "systemd-journal": 190}}  # type: ignore[dict-item]
    assert node(user=insider).check("driver.kernel-log").status is Status.OK


def test_quick_asks_nothing_more_of_the_node(node: Nodes) -> None:
    report = node().report(profile="quick")
    names = {result.check for result in report.results}
    assert "driver.kernel-log" not in names
    assert {"driver.rebooted", "driver.next-boot", "npu.pcie"} <= names
