"""CANN: installed, in force, one, and with its operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Finding, Result, Severity, Skip, Status
from npudoctor.testing import run_check

Nodes = Callable[..., Any]
ROOT = "/usr/local/Ascend/ascend-toolkit/latest"
USER = {"name": "dev", "uid": 1005, "groups": {"dev": 1005, "HwHiAiUser": 1000}}


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


# cann.installed


@pytest.mark.parametrize("version", ["8.2.RC1", "8.5.0"])
def test_a_toolkit_of_either_layout_is_found(node: Nodes, version: str) -> None:
    assert node(cann={"version": version}).check("cann.installed").findings == ()


def test_a_toolkit_below_a_home_is_found(node: Nodes) -> None:
    homely = node(user=USER, cann={"version": "8.5.0", "prefix": "/home/dev/Ascend"})
    assert homely.check("cann.installed").findings == ()
    assert homely.check("cann.environment").findings == ()


def test_torch_npu_without_cann_has_one_error(node: Nodes) -> None:
    bare = node(cann={"installed": False})
    finding = only(bare.check("cann.installed"))
    assert (finding.severity, finding.code) == (Severity.ERROR, "cann.installed/missing")
    assert finding.summary == "CANN toolkit not found"
    for id in ("cann.ops", "cann.environment", "cann.single", "python.cann-pairing", "python.packages"):
        assert bare.check(id).blocked_by == "cann.installed"


@pytest.mark.parametrize(
    ("torch_npu", "version", "operators"),
    [
        ("2.5.1.post1", "8.2.RC1", "Ascend-cann-kernels-910b_8.2.RC1"),
        ("2.8.0.post2", "8.5.0", "Ascend-cann-910b-ops_8.5.0"),
        ("2.13.0", "9.2.0", "Ascend-cann-910b-ops_9.2.0"),
    ],
)
def test_the_cann_that_torch_npu_pairs_with_is_named(node: Nodes, torch_npu: str, version: str, operators: str) -> None:
    python = {"torch_npu": torch_npu, "version": "3.11.7"}
    finding = only(node(cann={"installed": False}, python=python).check("cann.installed"))
    assert finding.hint is not None and f"CANN {version}, which matches the installed torch_npu" in finding.hint
    assert finding.commands[0].startswith("npudoctor fix cann.install --packages FOLDER ")
    assert operators in finding.commands[2]


def test_a_link_that_leads_nowhere_is_a_half_removed_cann(node: Nodes) -> None:
    finding = only(
        node(remove=["/usr/local/Ascend/ascend-toolkit/8.2.RC1"], cann={"version": "8.2.RC1"}).check("cann.installed")
    )
    assert finding.pitfall == "P092"
    path, target = "/usr/local/Ascend/ascend-toolkit/latest", finding.params["target"]
    assert finding.code == "cann.installed/incomplete"
    assert finding.summary == f"CANN installation incomplete: {path} links to missing {target}"


def test_a_dead_link_beside_another_cann_is_an_error_only_where_a_job_goes_through_it(node: Nodes) -> None:
    left = "/usr/local/Ascend/ascend-toolkit/8.1.RC1/aarch64-linux/ascend_toolkit_install.info"
    info = {left: "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\narch=aarch64\n"}
    gone = {"remove": ["/usr/local/Ascend/ascend-toolkit/8.2.RC1"], "files": info}
    used = node(cann={"version": "8.2.RC1"}, **gone)
    finding = only(used.check("cann.installed"))
    assert (finding.code, finding.severity) == ("cann.installed/broken-link", Severity.ERROR)
    assert finding.summary == f"{finding.params['path']} links to missing {finding.params['target']}"
    assert finding.detail is not None and finding.detail.startswith("The job's environment variables use this link")
    assert used.check("cann.environment").blocked_by == "cann.installed"
    unused = node(cann={"version": "8.2.RC1", "sourced": False}, **gone)
    assert only(unused.check("cann.installed")).severity is Severity.WARNING


def test_a_toolkit_for_another_machine_is_an_error(node: Nodes) -> None:
    info = "package_name=Ascend-cann-toolkit\nversion=8.2.RC1\narch=x86_64\n"
    path = "/usr/local/Ascend/ascend-toolkit/8.2.RC1/aarch64-linux/ascend_toolkit_install.info"
    finding = only(node(cann={"version": "8.2.RC1"}, files={path: info}).check("cann.installed"))
    assert finding.code == "cann.installed/wrong-architecture"
    assert finding.summary == "CANN is built for x86_64; this machine is aarch64"


def test_a_recording_that_did_not_look_is_no_verdict() -> None:
    result = run_check("cann.installed", unrecorded="unknown", files={"/dev/davinci0": ""})
    assert result.skip is Skip.COULD_NOT_LOOK


# cann.environment


@pytest.mark.parametrize("version", ["8.1.RC1", "8.3.RC1", "8.5.0"])
def test_what_set_env_sets_is_in_force(node: Nodes, version: str) -> None:
    assert node(cann={"version": version}).check("cann.environment").findings == ()


def test_a_shell_that_sourced_nothing_is_told_what_to_source(node: Nodes) -> None:
    finding = only(node(cann={"version": "8.2.RC1", "sourced": False}).check("cann.environment"))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P001")
    script = "/usr/local/Ascend/ascend-toolkit/set_env.sh"
    assert finding.code == "cann.environment/not-loaded"
    assert finding.summary == f"CANN environment not loaded: {script} was not sourced"
    assert finding.commands[0] == f"source {script}"
    missing = {name for evidence in finding.evidence for name in evidence.source.split(", ")}
    assert {"ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PATH"} <= missing


def test_from_8_5_on_the_script_of_the_new_layout_is_named(node: Nodes) -> None:
    finding = only(node(cann={"version": "8.5.0", "sourced": False}).check("cann.environment"))
    assert finding.commands[0] == "source /usr/local/Ascend/cann/set_env.sh"


@pytest.mark.parametrize(
    ("name", "value", "pitfall"),
    [
        ("LD_LIBRARY_PATH", "/opt/lib", "P037"),
        ("LD_LIBRARY_PATH", "", "P037"),
        ("PYTHONPATH", "/workspace", "P036"),
        ("ASCEND_OPP_PATH", "", "P037"),
    ],
)
def test_a_replaced_variable_is_named(node: Nodes, name: str, value: str, pitfall: str) -> None:
    finding = only(node(cann={"version": "8.2.RC1"}, environ={name: value}).check("cann.environment"))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, pitfall)
    assert finding.code == "cann.environment/incomplete"
    assert finding.summary == f"CANN environment incomplete: {name}"
    assert any(evidence.source == name for evidence in finding.evidence)


@pytest.mark.parametrize("name", ["ASCEND_HOME_PATH", "ASCEND_OPP_PATH"])
def test_a_variable_that_leads_nowhere_is_named(node: Nodes, name: str) -> None:
    result = node(cann={"version": "8.2.RC1"}, environ={name: "/opt/gone"}).check("cann.environment")
    assert result.findings[0].code == "cann.environment/invalid-path"
    assert result.findings[0].summary == f"{name} does not name a CANN installation: /opt/gone"
    assert result.findings[0].pitfall == "P066"
    assert len(result.findings) == 1


def test_what_most_jobs_can_do_without_is_info(node: Nodes) -> None:
    finding = only(node(cann={"version": "8.2.RC1"}, environ={"TOOLCHAIN_HOME": ""}).check("cann.environment"))
    assert (finding.code, finding.severity) == ("cann.environment/optional", Severity.INFO)
    assert finding.summary == "optional parts of the CANN environment missing: TOOLCHAIN_HOME"


def test_driver_folders_may_come_from_the_linker_s_configuration(node: Nodes) -> None:
    lists = node(cann={"version": "8.2.RC1"}).host.environ["LD_LIBRARY_PATH"].split(":")
    without = ":".join(entry for entry in lists if "/driver/" not in entry)
    environ = {"LD_LIBRARY_PATH": without}
    folders = "".join(f"/usr/local/Ascend/driver/lib64{below}\n" for below in ("", "/common", "/driver"))
    configured = {"/etc/ld.so.conf.d/ascend.conf": folders}
    remove = ["/etc/ld.so.conf.d"]
    said = {"cann": {"version": "8.2.RC1"}, "environ": environ}
    assert node(**said, files=configured).check("cann.environment").findings == ()
    assert only(node(**said, remove=remove).check("cann.environment")).severity is Severity.ERROR


def test_a_script_that_is_not_understood_is_replaced_by_the_usual_set(node: Nodes) -> None:
    script = {"/usr/local/Ascend/ascend-toolkit/set_env.sh": 'eval "$(python3 setup.py)"\n'}
    said = {"cann": {"version": "8.2.RC1"}, "files": script}
    assert node(**said).check("cann.environment").findings == ()
    assert node(**said, environ={"LD_LIBRARY_PATH": ""}).check("cann.environment").status is Status.ERROR


# cann.single


@pytest.mark.parametrize("version", ["8.2.RC1", "8.5.0"])
def test_one_cann_is_one_cann(node: Nodes, version: str) -> None:
    assert node(cann={"version": version}).check("cann.single").findings == ()
    assert node(cann={"version": version, "nnal": version}).check("cann.single").findings == ()


def test_two_canns_in_one_list_are_a_warning_that_names_both(node: Nodes) -> None:
    other = "/usr/local/Ascend/ascend-toolkit/8.1.RC1"
    info = "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\narch=aarch64\n"
    healthy = node(cann={"version": "8.2.RC1"}).host.environ
    mixed = node(
        cann={"version": "8.2.RC1"},
        files={f"{other}/aarch64-linux/ascend_toolkit_install.info": info, f"{other}/lib64/libhccl.so": ""},
        environ={"LD_LIBRARY_PATH": f"{healthy['LD_LIBRARY_PATH']}:{other}/lib64"},
    )
    finding = only(mixed.check("cann.single"))
    assert (finding.severity, finding.pitfall) == (Severity.WARNING, "P022")
    assert finding.code == "cann.single/mixed"
    assert finding.summary == "environment variables name 2 different CANN installations"
    assert any(evidence.actual == f"CANN 8.1.RC1 in {other}" for evidence in finding.evidence)


def test_a_second_cann_that_nothing_points_to_is_no_mixture(node: Nodes) -> None:
    other = "/usr/local/Ascend/ascend-toolkit/8.1.RC1/aarch64-linux/ascend_toolkit_install.info"
    info = "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\narch=aarch64\n"
    assert node(cann={"version": "8.2.RC1"}, files={other: info}).check("cann.single").findings == ()


def test_without_the_environment_the_mixture_is_not_judged(node: Nodes) -> None:
    assert node(cann={"sourced": False}).check("cann.single").blocked_by == "cann.environment"


def test_a_job_that_uses_another_cann_than_the_default_is_info(node: Nodes) -> None:
    other = "/opt/Ascend/cann-8.5.0"
    info = "package_name=Ascend-cann-toolkit\nversion=8.5.0\narch=aarch64\n"
    apart = node(
        cann={"version": "8.2.RC1"},
        files={f"{other}/aarch64-linux/ascend_toolkit_install.info": info},
        environ={"ASCEND_HOME_PATH": other, "ASCEND_TOOLKIT_HOME": other},
    )
    finding = next(one for one in apart.check("cann.single").findings if one.severity is Severity.INFO)
    assert finding.code == "cann.single/not-default"
    assert finding.summary == f"job uses CANN 8.5.0 in {other}, but {ROOT} links to 8.2.RC1"


# cann.ops


@pytest.mark.parametrize(
    ("product", "version"),
    [
        ("atlas-800t-a2-910b3", "8.2.RC1"),
        ("atlas-800t-a2-910b3", "8.5.0"),
        ("atlas-800t-a3", "8.3.RC1"),
        ("atlas-800t-a3", "8.5.0"),
        ("atlas-800-9000", "8.1.RC1"),
        ("atlas-300i-duo", "8.5.0"),
    ],
)
def test_operators_of_the_chip_and_the_toolkit_are_right(node: Nodes, product: str, version: str) -> None:
    assert node(product=product, cann={"version": version}).check("cann.ops").findings == ()


@pytest.mark.parametrize(
    ("version", "package"), [("8.2.RC1", "Ascend-cann-kernels-910b_8.2.RC1"), ("8.5.0", "Ascend-cann-910b-ops_8.5.0")]
)
def test_missing_operators_are_an_error_with_the_package_s_name(node: Nodes, version: str, package: str) -> None:
    finding = only(node(cann={"version": version, "ops": ""}).check("cann.ops"))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P008")
    assert finding.code == "cann.ops/missing"
    assert finding.summary == f"operator package of CANN {version} not installed"
    assert package in finding.commands[0]


def test_operators_whose_kernels_are_gone_are_an_error(node: Nodes) -> None:
    kernels = "/usr/local/Ascend/cann-8.5.0/opp/built-in/op_impl/ai_core/tbe/kernel"
    finding = only(node(cann={"version": "8.5.0"}, remove=[kernels]).check("cann.ops"))
    assert (finding.pitfall, finding.code) == ("P008", "cann.ops/kernels-missing")
    assert finding.summary == "operator kernels of CANN 8.5.0 missing"


def test_operators_of_another_chip_are_an_error(node: Nodes) -> None:
    finding = only(node(cann={"version": "8.5.0", "ops": "310p"}).check("cann.ops"))
    assert (finding.pitfall, finding.summary) == ("P034", "operator package for 310p does not match chip 910b")
    assert finding.code == "cann.ops/wrong-chip"


def test_operators_left_behind_are_an_error(node: Nodes) -> None:
    finding = only(node(cann={"version": "8.2.RC1", "ops_version": "8.1.RC1"}).check("cann.ops"))
    assert (finding.pitfall, finding.summary) == ("P059", "operator package 8.1.RC1 does not match toolkit 8.2.RC1")
    assert finding.code == "cann.ops/version-mismatch"


def test_releases_that_are_declared_interchangeable_may_differ(node: Nodes) -> None:
    assert node(cann={"version": "9.0.1", "ops_version": "9.0.0"}).check("cann.ops").findings == ()


def test_without_a_card_the_chip_is_not_judged() -> None:
    root = "/usr/local/Ascend/cann-8.5.0/aarch64-linux"
    info = "package_name={}\nversion=8.5.0\narch=aarch64\n"
    files = {
        f"{root}/ascend_toolkit_install.info": info.format("Ascend-cann-toolkit"),
        f"{root}/ascend_ops_install.info": info.format("Ascend-cann-310p-ops"),
    }
    assert run_check("cann.ops", files=files, links={"/usr/local/Ascend/cann": "cann-8.5.0"}).status is Status.OK
