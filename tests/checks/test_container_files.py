"""What a container has of its host's driver, as a user would see the findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Finding, Result, Severity, Skip, Status
from npudoctor.host.simulated.tree import Overlay
from npudoctor.testing import run

Nodes = Callable[..., Any]
DRIVER = "/usr/local/Ascend/driver"
LIBRARIES = f"{DRIVER}/lib64"
SEVERAL = {"environ": {"MASTER_ADDR": "192.168.10.99"}}
NETWORK = ["/etc/hccn.conf", f"{DRIVER}/tools/hccn_tool"]


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


def box(node: Nodes, *remove: str, files: dict[str, str] | None = None, **more: Any) -> Any:
    container = {"runtime": "docker", **more.pop("container", {})}
    return node(container=container, remove=list(remove), files=files or {}, **more)


@pytest.mark.parametrize("product", ["atlas-800t-a2-910b3", "atlas-800t-a3", "atlas-300i-duo"])
@pytest.mark.parametrize("id", ["container.driver-files", "container.runtime"])
def test_a_container_with_all_mounts_passes(node: Nodes, product: str, id: str) -> None:
    result = box(node, product=product).check(id)
    assert (result.status, result.findings) == (Status.OK, ())


@pytest.mark.parametrize("id", ["container.driver-files", "container.runtime"])
def test_outside_a_container_it_does_not_apply(node: Nodes, id: str) -> None:
    assert node().check(id).reason == "this is not a container"


def test_without_the_libraries_the_corrected_command_is_the_remedy(node: Nodes) -> None:
    finding = only(box(node, LIBRARIES).check("container.driver-files"))
    assert (finding.severity, finding.subject, finding.pitfall) == (Severity.ERROR, "container", "P009")
    assert finding.code == "container.driver-files/missing"
    assert finding.summary == f"driver files not mounted into this container: {LIBRARIES}"
    assert f"-v {LIBRARIES}:{LIBRARIES}:ro" in finding.commands[0]
    assert "--device=/dev/davinci7" in finding.commands[0]


def test_a_folder_that_lacks_what_it_should_hold_is_the_wrong_one(node: Nodes) -> None:
    finding = only(box(node, f"{LIBRARIES}/driver").check("container.driver-files"))
    assert finding.code == "container.driver-files/wrong"
    wrong = f"{LIBRARIES} (without driver/libascend_hal.so)"
    assert finding.summary == f"wrong driver file in this container: {wrong}"
    moved = {"sources": {LIBRARIES: "/usr/local/Ascend/driver/lib64/common"}}
    finding = only(box(node, container=moved).check("container.driver-files"))
    assert finding.evidence[0].actual == "mounted from /usr/local/Ascend/driver/lib64/common"


def test_a_mount_from_a_disk_of_its_own_is_the_right_place(node: Nodes) -> None:
    moved = {"sources": {LIBRARIES: "/Ascend/driver/lib64", "/usr/local/bin/npu-smi": "/local/sbin/npu-smi"}}
    assert box(node, container=moved).check("container.driver-files").findings == ()


def test_a_file_that_became_a_folder_was_not_on_the_host(node: Nodes) -> None:
    path = f"{DRIVER}/version.info"
    host = box(node, path).host
    host.tree.stats[path] = Overlay(kind="dir", mode=0o755)
    result = next(one for one in run(host, "container.driver-files").results if one.check == "container.driver-files")
    finding = only(result)
    assert finding.code == "container.driver-files/wrong"
    assert finding.evidence[0].actual == "a directory: the host has nothing at the mounted path"
    assert finding.pitfall == "P060"


def test_dcmi_is_missed_only_by_who_asks_for_it(node: Nodes) -> None:
    finding = only(box(node, "/usr/local/dcmi").check("container.driver-files"))
    assert (finding.severity, finding.evidence[0].source) == (Severity.WARNING, "/usr/local/dcmi")


def test_what_the_ascend_runtime_does_not_mount_is_info_on_one_node(node: Nodes) -> None:
    result = box(node, f"{DRIVER}/version.info", "/etc/ascend_install.info", *NETWORK).check("container.driver-files")
    finding = only(result)
    assert (result.status, finding.severity) == (Status.OK, Severity.INFO)
    assert finding.code == "container.driver-files/optional"
    assert set(NETWORK) <= set(finding.params["paths"])
    paths = ", ".join(finding.params["paths"])
    assert finding.summary == f"optional driver files not mounted into this container: {paths}"


def test_several_nodes_need_the_cards_network_in_the_container(node: Nodes) -> None:
    finding = only(box(node, *NETWORK, **SEVERAL).check("container.driver-files"))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P027")
    assert finding.code == "container.driver-files/network"
    paths = ", ".join(finding.params["paths"])
    assert finding.summary == f"NPU network files not mounted into this container: {paths}"
    alone = box(node, *NETWORK, product="atlas-300i-duo", **SEVERAL).check("container.driver-files")
    assert alone.findings == ()


def test_a_job_on_one_node_over_the_ports_of_the_npus_needs_their_network(node: Nodes) -> None:
    told = box(node, *NETWORK, environ={"HCCL_INTRA_ROCE_ENABLE": "1"})
    assert only(told.check("container.driver-files")).code == "container.driver-files/network"


def test_the_files_of_another_driver_are_an_error(node: Nodes) -> None:
    copied = box(node, driver={"version": "25.2.0", "loaded": "24.1.rc3"})
    finding = only(copied.check("container.driver-files"))
    assert finding.severity is Severity.ERROR
    assert finding.code == "container.driver-files/version-mismatch"
    assert finding.summary == "driver files 25.2.0 in this container do not match driver 24.1.rc3 of the host"


def test_npu_smi_that_misses_a_library_is_the_mount_s_fault(node: Nodes) -> None:
    text = "npu-smi: error while loading shared libraries: libc_sec.so: cannot open shared object file\n"
    report = box(node, f"{LIBRARIES}/common", commands={"npu-smi info": {"stderr": text, "returncode": 127}}).report(
        "driver.npu-smi", "container.driver-files"
    )
    results = {result.check: result for result in report.results}
    assert results["container.driver-files"].status is Status.ERROR
    assert results["driver.npu-smi"].blocked_by == "container.driver-files"


def test_a_missing_npu_smi_is_told_once(node: Nodes) -> None:
    report = box(node, "/usr/local/bin/npu-smi").report("driver", "container")
    assert [result.check for result in report.results if result.status is Status.ERROR] == ["driver.npu-smi"]


def test_without_a_card_the_files_are_not_judged(node: Nodes) -> None:
    empty = box(node, LIBRARIES, container={"devices": [], "managers": False})
    assert empty.check("container.driver-files").blocked_by == "container.devices"


# container.runtime


def runtime(node: Nodes, value: str, **more: Any) -> Result:
    result = box(node, environ={"ASCEND_VISIBLE_DEVICES": value}, **more).check("container.runtime")
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("value", ["0-7", "0,1,2,3,4,5,6,7", "Ascend910-0,Ascend910-1,2-7", "void", "", "all"])
def test_a_variable_that_holds_yields_nothing(node: Nodes, value: str) -> None:
    assert runtime(node, value).findings == ()


def test_a_variable_without_effect_is_a_warning(node: Nodes) -> None:
    finding = only(runtime(node, "0,1"))
    assert (finding.severity, finding.subject, finding.pitfall) == (Severity.WARNING, "container", "P061")
    assert finding.code == "container.runtime/mismatch"
    assert finding.summary == "ASCEND_VISIBLE_DEVICES=0,1 does not match the 8 NPU devices in this container"
    assert "--runtime=ascend -e ASCEND_VISIBLE_DEVICES=0,1 " in finding.commands[1]


def test_a_variable_that_was_changed_after_the_start_is_told_so(node: Nodes) -> None:
    marked = {"ASCEND_VISIBLE_DEVICES": "0-3", "ASCEND_DOCKER_RUNTIME": "True"}
    finding = only(box(node, environ=marked, container={"devices": [0, 1]}).check("container.runtime"))
    assert finding.detail is not None and finding.detail.startswith("The variable was changed after")
    assert finding.params["count"] == 2


def test_without_cards_the_variable_is_the_clue_of_another_check(node: Nodes) -> None:
    result = runtime(node, "0-7", container={"devices": [], "managers": False})
    assert (result.skip, result.blocked_by) == (Skip.BLOCKED, "container.devices")
