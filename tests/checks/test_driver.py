"""The driver: there, loaded, answering, in step with the firmware, and open to this user."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status
from npudoctor.host import Completed, User
from npudoctor.host.simulated.tree import Overlay
from npudoctor.testing import run_check

Nodes = Callable[..., Any]
STRANGER = {"name": "dev", "uid": 1005, "groups": {"dev": 1005}}
MEMBER = {"name": "dev", "uid": 1005, "groups": {"dev": 1005, "HwHiAiUser": 1000}}
CARDS = [{"slot": "0000:c1:00.0", "vendor": "0x19e5", "device": "0xd802"}]
INSTALLED = {
    "/usr/local/Ascend/driver/version.info": "Version=25.2.0\ncompatible_version_fw=[7.5.0,7.8.99]\n",
    "/proc/modules": "drv_davinci_intf_host 229376 10 - Live 0x0 (OE)\n",
}


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


def with_cards(id: str, answer: str | Completed | None = None, **more: Any) -> Result:
    commands = {} if answer is None else {"npu-smi info": answer}
    return run_check(id, files=more.pop("files", INSTALLED), commands=commands, measures={"pci": CARDS}, **more)


# driver.npu-smi


def test_an_answer_is_enough(node: Nodes) -> None:
    assert node().check("driver.npu-smi").findings == ()


def test_a_missing_npu_smi_is_an_error_that_names_the_places() -> None:
    finding = only(with_cards("driver.npu-smi"))
    assert (finding.severity, finding.subject, finding.pitfall) == (Severity.ERROR, "host", "P060")
    assert (finding.code, finding.summary) == ("driver.npu-smi/missing", "npu-smi not found")
    assert finding.evidence[0].expected is not None and "/usr/local/sbin/npu-smi" in finding.evidence[0].expected


def test_a_hanging_npu_smi_is_an_error_and_blocks_what_reads_it(node: Nodes) -> None:
    hung = node(driver={"fault": "hang"})
    finding = only(hung.check("driver.npu-smi"))
    assert (finding.code, finding.summary) == ("driver.npu-smi/timed-out", "npu-smi timed out after 10 s")
    result = hung.check("npu.topology")
    assert (result.status, result.blocked_by) == (Status.SKIPPED, "driver.npu-smi")


@pytest.mark.parametrize(
    ("answer", "severity", "words"),
    [
        (
            Completed(returncode=1, stdout="dcmi module initialize failed. ret is -8005\n"),
            Severity.ERROR,
            "npu-smi failed with code -8005: inner error of the driver interface",
        ),
        (
            Completed(returncode=1, stdout="dcmi model initialized failed, because the device is used. ret is -8020\n"),
            Severity.WARNING,
            "-8020",
        ),
        (Completed(returncode=1, stdout="npu get board type failed. ret is -9005\n"), Severity.WARNING, "-9005"),
        (Completed(returncode=-11), Severity.ERROR, "ended by signal 11"),
        (Completed(returncode=0, stdout=""), Severity.ERROR, "printed nothing"),
        (Completed(returncode=0, stdout="hello\n"), Severity.ERROR, "unexpected output"),
        (Completed(returncode=0, stdout="\0\ufffd\1" * 400), Severity.ERROR, "unexpected output"),
        (Completed(returncode=0, stdout="x" * 900, truncated=True), Severity.ERROR, "more than 8 MiB"),
        (
            Completed(
                returncode=127, stderr="npu-smi: error while loading shared libraries: libc_sec.so: cannot open\n"
            ),
            Severity.ERROR,
            "libc_sec.so",
        ),
    ],
)
def test_what_npu_smi_says_instead_is_decoded(answer: Completed, severity: Severity, words: str) -> None:
    finding = only(with_cards("driver.npu-smi", answer))
    assert finding.severity is severity
    assert words in finding.summary
    by_code = finding.params.get("ret") is not None
    assert finding.code == ("driver.npu-smi/error-code" if by_code else "driver.npu-smi/failed")


def test_a_failure_that_says_nothing_of_the_card_leaves_the_run_undetermined(node: Nodes) -> None:
    report = node(driver={"fault": "device-used"}).report("npu", "driver")
    assert (report.exit_code, report.verdict.value) == (3, "undetermined")


@pytest.mark.parametrize("lines", [9, 13, 20, 21, 22, 24, 27, 34])
def test_a_cut_table_is_npu_smi_s_failure_and_no_missing_card(node: Nodes, lines: int) -> None:
    whole = node().host.commands["npu-smi info"].stdout.splitlines(keepends=True)
    assert len(whole) > 44
    cut = node(commands={"npu-smi info": {"stdout": "".join(whole[:lines])}})
    report = cut.report("npu", "driver.npu-smi")
    results = {result.check: result for result in report.results}
    assert "stopped in the middle of its table" in only(results["driver.npu-smi"]).summary
    assert (results["npu.count"].status, results["npu.count"].blocked_by) == (Status.SKIPPED, "driver.npu-smi")
    assert report.exit_code == 1


def test_an_npu_smi_that_nobody_may_run_is_not_called_missing() -> None:
    files = {**INSTALLED, "/usr/local/sbin/npu-smi": "ELF"}
    finding = only(with_cards("driver.npu-smi", files=files))
    assert finding.code == "driver.npu-smi/not-executable"
    assert finding.summary == "/usr/local/sbin/npu-smi cannot be executed: its mode is 0644"
    assert "sudo chmod 0755 /usr/local/sbin/npu-smi" in finding.commands


def test_a_slow_npu_smi_is_a_warning(node: Nodes) -> None:
    finding = only(node(driver={"fault": "slow"}).check("driver.npu-smi"))
    assert (finding.code, finding.severity) == ("driver.npu-smi/slow", Severity.WARNING)
    assert finding.summary == f"npu-smi took {finding.params['seconds']:.1f} s to answer"


def test_what_only_the_rights_keep_from_answering_is_not_npu_smi_s_fault(node: Nodes) -> None:
    result = node(user=STRANGER, driver={"fault": "no-device"}).check("driver.npu-smi")
    assert (result.status, result.blocked_by) == (Status.SKIPPED, "driver.access")


def test_a_recording_without_npu_smi_s_answer_is_no_failure(node: Nodes) -> None:
    result = run_check(
        "driver.npu-smi", files=INSTALLED, measures={"pci": CARDS}, commands={"npu-smi -v": "npu-smi version: 25.2.0"}
    )
    assert result.skip is Skip.COULD_NOT_LOOK
    assert result.reason == "`npu-smi info` is not in this recording"


# driver.installed


def test_a_driver_on_disk_with_its_modules_is_installed(node: Nodes) -> None:
    assert node().check("driver.installed").findings == ()


def test_cards_without_a_driver_are_one_error(node: Nodes) -> None:
    finding = only(node(driver={"installed": False}).check("driver.installed"))
    assert (finding.code, finding.summary) == ("driver.installed/missing", "Ascend driver not installed")
    assert finding.detail is not None and finding.detail.startswith("The NPUs are on the PCI bus")


def test_a_driver_that_is_not_loaded_needs_a_reboot_or_headers() -> None:
    files = {**INSTALLED, "/proc/modules": "nvme 57344 4 - Live 0x0\n"}
    finding = only(with_cards("driver.installed", files=files))
    assert finding.pitfall == "P069"
    assert finding.code == "driver.installed/not-loaded"
    assert finding.summary == "driver 25.2.0 is installed, but its kernel modules are not loaded"


def test_a_driver_without_version_info_is_half_installed_even_while_npu_smi_answers(node: Nodes) -> None:
    half = {"/proc/modules": INSTALLED["/proc/modules"]}
    assert only(with_cards("driver.installed", files=half)).severity is Severity.ERROR
    report = node(remove=["/usr/local/Ascend/driver/version.info", "/usr/local/Ascend/driver/lib64"]).report()
    installed = next(result for result in report.results if result.check == "driver.installed")
    finding = only(installed)
    assert (finding.severity, finding.evidence[1].actual) == (Severity.ERROR, "not found")
    paths = "/usr/local/Ascend/driver/version.info, /usr/local/Ascend/driver/lib64"
    assert finding.code == "driver.installed/incomplete"
    assert finding.summary == f"driver installation incomplete: {paths} missing"
    assert "until the next boot" in str(finding.detail)
    behind = {result.check for result in report.results if result.blocked_by == "driver.installed"}
    assert {"driver.npu-smi", "driver.firmware", "npu.health"} <= behind


def test_a_prefix_that_cannot_be_read_is_no_missing_driver() -> None:
    stats = {"/etc/ascend_install.info": Overlay(access="")}
    files = {"/etc/ascend_install.info": "", "/proc/modules": INSTALLED["/proc/modules"]}
    result = with_cards("driver.installed", files=files, stats=stats, user=User(name="dev", uid=1005, gid=1005))
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.NO_RIGHT)


def test_a_driver_at_a_recorded_prefix_is_found() -> None:
    files = {
        "/etc/ascend_install.info": "Driver_Install_Path_Param=/opt/hdk\nUserName=HwHiAiUser\n",
        "/opt/hdk/driver/version.info": "Version=25.2.0\n",
        "/proc/modules": INSTALLED["/proc/modules"],
    }
    assert with_cards("driver.installed", files=files).status is Status.OK


def test_a_container_needs_libraries_or_npu_smi(node: Nodes) -> None:
    assert node(container={}).check("driver.installed").findings == ()
    finding = only(node(container={"driver_files": False}).check("driver.installed"))
    assert finding.code == "driver.installed/not-mounted"
    assert finding.summary == "driver libraries and npu-smi missing from this container"


def test_without_cards_and_driver_there_is_nothing_to_judge(node: Nodes) -> None:
    assert node(product="none").check("driver.installed").blocked_by == "npu.present"


def test_a_driver_without_a_card_is_judged(node: Nodes) -> None:
    result = run_check("driver.installed", files={**INSTALLED, "/dev/null": ""}, measures={"pci": []})
    assert result.status is Status.OK


# driver.firmware


def test_a_pair_of_one_release_fits(node: Nodes) -> None:
    assert node().check("driver.firmware").findings == ()
    assert node().check("driver.firmware", profile="quick").findings == ()


def test_boards_that_refuse_the_firmware_are_errors(node: Nodes) -> None:
    finding = only(node(firmware={"fits": False}).check("driver.firmware"))
    assert (finding.subject, finding.pitfall) == ("host", "P029")
    assert finding.code == "driver.firmware/incompatible"
    assert finding.summary == "driver and firmware are incompatible (npu-smi reports NOK)"
    key = "npu-smi info -t board -i 5"
    page = node().host.commands[key].stdout
    odd = re.sub(r"(Compatibility\s*: )OK", r"\1NOK", page)
    assert only(node(commands={key: {"stdout": odd}}).check("driver.firmware")).subject == "npu:5"


@pytest.mark.parametrize(("version", "fits"), [("7.8.0.5.216", True), ("7.8.99.9.1", True), ("7.9.0.1.231", False)])
def test_in_quick_the_driver_s_range_decides(version: str, fits: bool) -> None:
    files = {**INSTALLED, "/usr/local/Ascend/firmware/version.info": f"Version={version}\n"}
    result = run_check("driver.firmware", files=files, measures={"pci": CARDS}, options={"profile": "quick"})
    assert (result.status is Status.OK) is fits


def test_the_range_counts_even_where_the_boards_say_ok(node: Nodes) -> None:
    narrow = {"/usr/local/Ascend/driver/version.info": "Version=25.2.0\ncompatible_version_fw=[6.0.0,6.4.99]\n"}
    finding = only(node(files=narrow).check("driver.firmware"))
    assert finding.subject == "host"
    assert finding.code == "driver.firmware/out-of-range"
    assert finding.summary == "firmware 7.7.0.6.236 does not match: the driver requires [6.0.0,6.4.99]"


def test_the_firmware_s_own_list_alone_fails_nobody() -> None:
    firmware = "Version=7.8.0.5.216\ncompatible_version_drv=[24.1.0,24.1.0.]\n"
    files = {**INSTALLED, "/usr/local/Ascend/firmware/version.info": firmware}
    assert run_check("driver.firmware", files=files, measures={"pci": CARDS}).status is Status.OK


def test_without_any_declaration_it_is_skipped() -> None:
    files = {"/usr/local/Ascend/driver/version.info": "Version=22.0.2\n", "/proc/modules": INSTALLED["/proc/modules"]}
    result = with_cards("driver.firmware", files=files)
    assert result.skip is Skip.COULD_NOT_LOOK
    assert result.reason is not None and result.reason.startswith("firmware required by the driver unknown")


# driver.access


def test_root_and_members_of_the_group_may_open_the_cards(node: Nodes) -> None:
    assert node().check("driver.access").findings == ()
    assert node(user=MEMBER).check("driver.access").findings == ()


def test_a_stranger_is_told_the_group_and_the_command(node: Nodes) -> None:
    finding = only(node(user=STRANGER).check("driver.access"))
    assert finding.severity is Severity.ERROR
    assert finding.commands == ("usermod -aG HwHiAiUser dev  # as root",)
    assert finding.code == "driver.access/denied"
    assert finding.summary == "user dev has no access to 11 NPU device nodes"


def test_in_a_container_the_number_of_the_group_counts(node: Nodes) -> None:
    finding = only(node(user=STRANGER, container={}).check("driver.access"))
    assert "--group-add=1000" in finding.commands[0]


def test_a_member_whom_the_mode_keeps_out_is_told_of_the_mode(node: Nodes) -> None:
    finding = only(node(user=MEMBER, node_mode="0600").check("driver.access"))
    assert finding.hint is not None and "the mode of the device nodes denies access" in finding.hint


def test_a_missing_manager_node_on_a_host_is_the_driver_s_fault(node: Nodes) -> None:
    finding = only(node(remove=["/dev/hisi_hdc"]).check("driver.access"))
    assert finding.code == "driver.access/missing"
    assert finding.summary == "device node /dev/hisi_hdc missing"


def test_a_recording_without_rights_is_no_verdict() -> None:
    files = {**INSTALLED, "/dev/davinci0": "", "/dev/davinci_manager": ""}
    user = User(name="dev", uid=1005, gid=1005, gids=(1005,), groups=("dev",))
    result = with_cards("driver.access", files=files, user=user)
    assert result.reason == "the access rights of the device nodes are not in this recording"
