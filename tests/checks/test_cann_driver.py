"""CANN against the driver, and NNAL beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.python import torch_abi
from npudoctor.findings import Finding, Result, Severity, Skip, Status
from npudoctor.sdk import ParseError
from npudoctor.sim import scenarios

Nodes = Callable[..., Any]
VERSION_INFO = "/usr/local/Ascend/driver/version.info"
NAMED = {"ATB_HOME_PATH": "/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1"}


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


# cann.driver


@pytest.mark.parametrize(
    ("cann", "driver"),
    [("8.2.RC1", "25.2.0"), ("8.2.RC1", "24.1.rc2"), ("8.5.0", "25.5.0"), ("8.0.0", "23.0.5"), ("8.5.0", "25.0.rc1")],
)
def test_a_driver_that_the_list_names_passes(node: Nodes, cann: str, driver: str) -> None:
    assert node(cann={"version": cann}, driver={"version": driver}).check("cann.driver").findings == ()


@pytest.mark.parametrize(
    ("cann", "driver"), [("8.5.0", "24.1.rc3"), ("8.3.RC1", "23.0.5"), ("9.1.0", "25.0.rc1"), ("8.2.RC1", "24.1.rc1")]
)
def test_a_driver_too_old_for_this_cann_is_an_error(node: Nodes, cann: str, driver: str) -> None:
    finding = only(node(cann={"version": cann}, driver={"version": driver}).check("cann.driver"))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P030")
    assert finding.code == "cann.driver/too-old"
    required = finding.params["required"]
    assert finding.summary == f"driver {driver} is too old: CANN {cann} requires {required}"
    assert finding.commands[0].startswith("npudoctor setup --packages FOLDER --dry-run ")


def test_a_cann_without_a_list_of_drivers_refuses_those_that_the_one_before_it_refuses(node: Nodes) -> None:
    for driver, refused in (("23.0.3", True), ("24.1.rc2", True), ("25.0.rc1", True), ("26.1.1", False)):
        found = node(cann={"version": "9.2.0"}, driver={"version": driver}).check("cann.driver").findings
        code = "cann.driver/too-old" if refused else "cann.driver/not-listed"
        assert [one.code for one in found] == [code], driver


def test_a_container_is_not_told_to_upgrade_a_driver_or_to_reboot(node: Nodes) -> None:
    inside = node(container={"host_network": True}, cann={"version": "8.5.0"}, driver={"version": "24.1.rc3"})
    finding = only(inside.check("cann.driver"))
    assert finding.commands == ()
    assert finding.hint is not None and finding.hint.startswith("On the host, upgrade driver and firmware ")


@pytest.mark.parametrize(("cann", "driver"), [("8.2.RC1", "26.0.rc1"), ("8.0.0", "25.5.0")])
def test_a_driver_newer_than_the_list_is_info(node: Nodes, cann: str, driver: str) -> None:
    finding = only(node(cann={"version": cann}, driver={"version": driver}).check("cann.driver"))
    assert (finding.code, finding.severity) == ("cann.driver/not-listed", Severity.INFO)
    as_of = finding.params["as_of"]
    assert finding.summary == f"driver {driver} with CANN {cann}: not in the compatibility tables of {as_of}"


def test_npu_smi_says_the_version_where_a_container_lacks_the_file(node: Nodes) -> None:
    inside = node(container={}, remove=[VERSION_INFO], cann={"version": "8.5.0"}, driver={"version": "24.1.rc3"}).check(
        "cann.driver"
    )
    assert only(inside).evidence[0].source == "npu-smi info"


def test_without_any_version_of_the_driver_nothing_is_judged(node: Nodes) -> None:
    inside = node(container={}, remove=[VERSION_INFO, "/usr/local/bin/npu-smi"]).check("cann.driver")
    assert (inside.status, inside.skip) == (Status.SKIPPED, Skip.COULD_NOT_LOOK)


# cann.nnal


def test_what_needs_no_nnal_is_not_asked_for_it(node: Nodes) -> None:
    assert node().check("cann.nnal").skip is Skip.NOT_APPLICABLE


def test_an_nnal_of_the_toolkit_s_release_passes(node: Nodes) -> None:
    assert node(cann={"version": "8.3.RC1", "nnal": "8.3.RC1"}).check("cann.nnal").findings == ()
    assert node(cann={"version": "9.0.0", "nnal": "9.0.1"}).check("cann.nnal").findings == ()


def test_an_nnal_of_another_release_is_a_warning(node: Nodes) -> None:
    finding = only(node(cann={"version": "8.3.RC1", "nnal": "8.1.RC1"}).check("cann.nnal"))
    assert (finding.severity, finding.pitfall) == (Severity.WARNING, "P014")
    assert finding.code == "cann.nnal/version-mismatch"
    assert finding.summary == "NNAL 8.1.RC1 does not match toolkit 8.3.RC1"


@pytest.mark.parametrize("profile", ["standard", "quick"])
def test_an_atb_of_the_other_abi_is_an_error(node: Nodes, profile: str) -> None:
    said: dict[str, Any] = {"cann": {"nnal": "8.2.RC1", "version": "8.2.RC1"}, "environ": NAMED}
    config = "/opt/miniforge3/envs/train/lib/python3.10/site-packages/torch/share/cmake/Torch/TorchConfig.cmake"
    if profile == "quick":
        said["files"] = {config: 'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")\n'}
    result = node(python={"cxx11_abi": False}, **said).check("cann.nnal", profile=profile)
    finding = only(result)
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P014")
    assert finding.code == "cann.nnal/abi-mismatch"
    assert finding.summary == "C++ ABI mismatch: ATB is built for ABI 1, torch for 0"
    assert finding.commands == ("source /usr/local/Ascend/nnal/atb/set_env.sh --cxx_abi=0",)


def test_an_abi_that_nobody_knows_is_no_finding(node: Nodes) -> None:
    said: dict[str, Any] = {"cann": {"nnal": "8.2.RC1", "version": "8.2.RC1"}, "environ": NAMED}
    assert node(python={"cxx11_abi": False}, **said).check("cann.nnal", profile="quick").findings == ()


def test_a_package_that_needs_atb_asks_for_it(node: Nodes) -> None:
    python = {"packages": {"vllm-ascend": "0.9.1"}}
    missing = only(node(python=python).check("cann.nnal"))
    assert (missing.severity, missing.pitfall) == (Severity.WARNING, "P013")
    unsourced = node(python=python, cann={"version": "8.2.RC1", "nnal": "8.2.RC1", "sourced": False})
    not_loaded = only(unsourced.check("cann.nnal"))
    assert not_loaded.code == "cann.nnal/not-loaded"
    assert not_loaded.summary == "NNAL environment not loaded, but required by vllm-ascend"
    assert missing.code == "cann.nnal/missing"
    assert missing.summary == "NNAL not installed, but required by vllm-ascend"
    invalid = only(node(environ=NAMED).check("cann.nnal"))
    assert invalid.code == "cann.nnal/invalid-path"
    assert invalid.summary == f"NNAL not found: ATB_HOME_PATH names {NAMED['ATB_HOME_PATH']}"


@given(st.text(alphabet="D_GLIBCXX_USE_CXX11_ABI=01 \n"))
def test_the_abi_is_read_or_refused(text: str) -> None:
    try:
        assert f"_GLIBCXX_USE_CXX11_ABI={int(torch_abi.parse(text))}" in text
    except ParseError:
        assert "CXX11_ABI=1" not in text or "_GLIBCXX_USE_CXX11_ABI=1" not in text


@pytest.mark.parametrize("name", sorted(name for name in scenarios() if name.startswith(("healthy", "seed", "duo"))))
def test_healthy_scenarios_have_a_driver_that_fits(name: str) -> None:
    from npudoctor.sim import simulate
    from npudoctor.testing import run

    found = run(simulate(name), "cann.driver", "cann.nnal").results
    assert [one.summary for result in found for one in result.findings if one.severity > Severity.INFO] == []
