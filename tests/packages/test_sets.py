"""What fits a node, which packages go together, and what is missing."""

from pathlib import Path

import pytest

from npudoctor.facts.node.staged_packages import Package
from npudoctor.packages.missing import BARE, BOTH, CONTAINERS, find_missing
from npudoctor.packages.node import Node, why_not
from npudoctor.packages.sets import package_sets
from npudoctor.records import replace

from . import build
from .test_folder import read

A2 = Node(chips=8, families=("A2",), arch="aarch64", os_id="openEuler", os_version="22.03", glibc="2.34")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"families": ("310P",), "tag": "310p"}, "for chips 310p; this node has A2"),
        ({"tag": "777x"}, "for chips 777x, which are not in the table; this node has A2"),
        ({"arch": "x86_64"}, "for x86_64; this node is aarch64"),
        ({"os": "ubuntu18.04"}, "for ubuntu18.04; this node has openEuler 22.03"),
        ({"os": "openeuler20.03"}, "for openeuler20.03; this node has openEuler 22.03"),
        ({"os": "openeuler22.03-sp4"}, None),
        ({"os": "openeuler"}, None),
        ({"glibc": "2.35"}, "requires glibc 2.35; this node has 2.34"),
        ({"glibc": "2.28"}, None),
        ({"problem": "truncated: 1 of 2 bytes"}, "truncated: 1 of 2 bytes"),
        ({}, None),
    ],
)
def test_why_a_package_does_not_fit(fields: dict[str, object], reason: str | None) -> None:
    package = Package(
        path="/r/x",
        name="x",
        format="run",
        component="driver",
        title="x",
        told_by="name",
        **fields,  # type: ignore[arg-type]
    )
    assert why_not(package, A2) == reason


def test_kylin_is_compared_by_its_number() -> None:
    kylin = Node(os_id="kylin", os_version="V10", arch="aarch64")
    package = Package(
        path="/x", name="x", format="run", component="driver", title="x", told_by="name", os="kylinv10-sp3"
    )
    assert why_not(package, kylin) is None


def test_one_release_is_one_set_and_lacks_nothing(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    found = package_sets(read(tmp_path), A2)
    (only,) = found.sets
    assert [part.component for part in only.parts] == [
        *("driver", "firmware", "toolkit", "ops", "nnal", "torch", "torch_npu")
    ]
    assert (only.fit.value, only.uncertain, found.alone) == ("compatible", (), ())
    assert find_missing(only, A2, BOTH) == ()


def test_of_a_driver_as_rpm_and_as_run_the_one_that_is_installed_is_in_the_set(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    staged = read(tmp_path)
    driver = next(one for one in staged.packages if one.component == "driver")
    rpm = replace(driver, path=driver.path.replace("driver_", "driver-"), format="rpm")
    found = package_sets(replace(staged, packages=(rpm, *staged.packages)), A2)
    assert [one.of("driver") for one in found.sets] == [driver]


def test_two_sets_are_a_choice_newest_first(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    build.cann(tmp_path, "Ascend-cann-toolkit_8.3.RC1_linux-aarch64.run", "8.3.RC1")
    kernels = "Ascend-cann-kernels-910b"
    build.cann(tmp_path, f"{kernels}_8.3.RC1_linux-aarch64.run", "8.3.RC1", package=kernels)
    build.cann(tmp_path, "Ascend-cann-nnal_8.3.RC1_linux-aarch64.run", "8.3.RC1", package="Ascend-cann-nnal")
    found = package_sets(read(tmp_path), A2)
    toolkits = [one.of("toolkit") for one in found.sets]
    assert [part.version for part in toolkits if part] == ["8.5.0", "8.3.RC1"]
    assert [part.component for part in found.sets[1].parts][3] == "kernels"
    (chosen,) = package_sets(read(tmp_path), A2, cann="8.3.rc1").sets
    assert "CANN 8.3.RC1" in chosen.title


def test_two_products_and_two_architectures(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    build.driver(tmp_path, "Atlas-A3-hdk-npu-driver_25.5.0_linux-aarch64.run", "25.5.0", chip="910_93")
    build.wheel(tmp_path, "torch-2.8.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl")
    (only,) = package_sets(read(tmp_path), A2).sets
    assert {part.families for part in only.parts if part.families} == {("A2",)}
    assert {part.arch for part in only.parts if part.arch} == {"aarch64"}


def test_a_driver_that_does_not_accept_the_firmware_is_not_paired_with_it(tmp_path: Path) -> None:
    build.driver(tmp_path, "Ascend-hdk-910b-npu-driver_25.5.2_linux-aarch64.run", "25.5.2", accepts="[7.7.0,7.7.99]")
    build.firmware(tmp_path, "Ascend-hdk-910b-npu-firmware_7.8.0.7.220.run", "7.8.0.7.220")
    assert [one.title for one in package_sets(read(tmp_path), A2).sets] == ["driver 25.5.2", "firmware 7.8.0.7.220"]


def test_a_wheel_that_the_cann_is_too_old_for_is_in_no_set(tmp_path: Path) -> None:
    build.cann(tmp_path, "Ascend-cann-toolkit_8.0.0_linux-aarch64.run", "8.0.0")
    build.wheel(tmp_path, "torch-2.10.0-cp311-cp311-manylinux_2_28_aarch64.whl")
    build.wheel(tmp_path, "torch_npu-2.10.0-cp311-cp311-manylinux_2_28_aarch64.whl", ("torch==2.10.0",))
    titles = [one.title for one in package_sets(read(tmp_path), A2).sets]
    assert not any("CANN" in title and "torch" in title for title in titles)


def test_torch_on_x86_64_has_to_be_the_wheel_that_is_required(tmp_path: Path) -> None:
    node = Node(chips=8, families=("A2",), arch="x86_64")
    build.wheel(tmp_path, "torch-2.8.0-cp311-cp311-manylinux_2_28_x86_64.whl")
    npu = "torch_npu-2.8.0.post2-cp311-cp311-manylinux_2_28_x86_64.whl"
    build.wheel(tmp_path, npu, ("torch==2.8.0+cpu",))
    assert not package_sets(read(tmp_path), node).sets
    build.wheel(tmp_path, "torch-2.8.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl")
    (only,) = package_sets(read(tmp_path), node).sets
    assert "torch 2.8.0+cpu" in only.title


def test_wheels_for_several_pythons_are_one_set(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    build.wheel(tmp_path, "torch-2.8.0-cp310-cp310-manylinux_2_28_aarch64.whl")
    build.wheel(tmp_path, "torch_npu-2.8.0.post2-cp310-cp310-manylinux_2_28_aarch64.whl", ("torch==2.8.0",))
    (only,) = package_sets(read(tmp_path), A2).sets
    assert only.pythons == ("3.10", "3.11")


def test_missing_packages_have_the_published_names(tmp_path: Path) -> None:
    build.cann(tmp_path, "Ascend-cann-toolkit_8.5.0_linux-aarch64.run", "8.5.0")
    (only,) = package_sets(read(tmp_path), A2).sets
    assert [one.published for one in find_missing(only, A2, BARE)] == [
        "Ascend-hdk-910b-npu-driver_25.5.0_linux-aarch64.run",
        "Ascend-cann-910b-ops_8.5.0_linux-aarch64.run",
        "torch-2.9.0-cp310-cp310-manylinux_2_28_aarch64.whl",
        "torch_npu-2.9.0-cp310-cp310-manylinux_2_28_aarch64.whl",
    ]
    assert [one.component for one in find_missing(only, A2, CONTAINERS)] == ["driver"]


@pytest.mark.parametrize(
    ("family", "arch", "driver"),
    [
        ("A3", "aarch64", "Atlas-A3-hdk-npu-driver_<version>_linux-aarch64.run"),
        ("310P", "x86_64", "Ascend-hdk-310p-npu-driver_<version>_linux-x86-64.run"),
        ("950", "aarch64", "Atlas-A5-hdk-npu-driver_<version>_linux-aarch64.run"),
    ],
)
def test_the_published_name_is_that_of_the_chip(family: str, arch: str, driver: str) -> None:
    node = Node(chips=1, families=(family,), arch=arch)
    assert find_missing(None, node, CONTAINERS)[0].published == driver


def test_nothing_of_the_host_is_missing_in_a_container() -> None:
    node = Node(chips=8, families=("A2",), arch="aarch64", in_container=True)
    assert {one.component for one in find_missing(None, node, BOTH)} == {"toolkit", "torch", "torch_npu"}
