"""The plan: its order, its steps, and the way back of each."""

from pathlib import Path

import pytest

from npudoctor.packages.missing import BARE, BOTH, CONTAINERS
from npudoctor.packages.node import Node, of_facts
from npudoctor.packages.plan import NO_WAY_BACK, Plan, make_plan
from npudoctor.packages.sets import package_sets
from npudoctor.records import replace

from . import build
from .test_folder import read

BARE_NODE = Node(chips=8, families=("A2",), arch="aarch64", os_id="openEuler", os_version="22.03", kernel="5.10.0-1")
OLD = replace(BARE_NODE, driver="25.2.0", firmware="7.7.0.6.236", cann="8.2.RC1", cann_root="/usr/local/Ascend/x")


def plan_for(folder: Path, node: Node, purpose: str = BOTH, only: tuple[str, ...] = ()) -> Plan:
    staged = read(folder)
    first = package_sets(staged, node).sets[0]
    return make_plan(first, staged, node, purpose=purpose, only=only)


def components(plan: Plan) -> list[str]:
    return [step.component for step in plan.steps]


def way_back(plan: Plan, component: str) -> str:
    return next(step.way_back for step in plan.steps if step.component == component)


def test_a_bare_node_gets_driver_firmware_reboot_cann_python(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    plan = plan_for(tmp_path, BARE_NODE)
    assert components(plan) == ["driver", "firmware", "toolkit", "ops", "nnal", "torch_npu"]
    assert plan.reboot == "after the firmware step"
    assert [step.component for step in plan.steps if step.way_back == NO_WAY_BACK] == ["firmware"]
    assert "--full --quiet --install-for-all" in plan.steps[0].command


def test_an_upgrade_begins_with_the_firmware(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    plan = plan_for(tmp_path, OLD)
    assert components(plan)[:3] == ["firmware", "driver", "toolkit"]
    assert [(step.now, step.then) for step in plan.steps][:2] == [("7.7.0.6.236", "7.8.0.7.220"), ("25.2.0", "25.5.2")]
    assert all("--upgrade" in step.command for step in plan.steps[:2])
    assert way_back(plan, "toolkit").endswith("uninstall.sh; then the link back to /usr/local/Ascend/x")


def test_the_way_back_of_a_driver_is_the_package_of_the_old_one_in_the_folder(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    assert way_back(plan_for(tmp_path, OLD), "driver") == NO_WAY_BACK
    old = "Ascend-hdk-910b-npu-driver_25.2.0_linux-aarch64.run"
    build.driver(tmp_path, old, "25.2.0")
    assert way_back(plan_for(tmp_path, OLD), "driver") == f"{old} in {tmp_path}"


@pytest.mark.parametrize(
    "damage",
    [{"name": "Ascend-hdk-310p-npu-driver_25.2.0_linux-aarch64.run", "chip": "310P"}, {"cut": 9}],
    ids=["another chip", "truncated"],
)
def test_an_old_package_that_cannot_be_used_is_no_way_back(tmp_path: Path, damage: dict[str, object]) -> None:
    build.a2_release(tmp_path)
    fields = {"name": "Ascend-hdk-910b-npu-driver_25.2.0_linux-aarch64.run", **damage}
    build.driver(tmp_path, version="25.2.0", **fields)  # type: ignore[arg-type]
    assert way_back(plan_for(tmp_path, OLD), "driver") == NO_WAY_BACK


def test_what_is_installed_is_no_step_and_an_older_driver_is_refused(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    plan = plan_for(tmp_path, replace(OLD, driver="25.5.2", firmware="9.0.0.0.205"))
    assert components(plan)[0] == "toolkit"
    assert plan.unchanged == ("NPU driver 25.5.2",)
    assert plan.refused == (
        "NPU firmware: 7.8.0.7.220 is older than the installed 9.0.0.0.205; npudoctor plans no downgrade",
    )


def test_containers_need_neither_cann_nor_python(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    assert components(plan_for(tmp_path, BARE_NODE, CONTAINERS)) == ["driver", "firmware"]
    assert components(plan_for(tmp_path, BARE_NODE, BARE, ("cann",))) == ["toolkit", "ops", "nnal"]


def test_a_bundle_is_two_steps(tmp_path: Path) -> None:
    name = "Ascend-hdk-910b-npu_25.5.0_linux-aarch64.zip"
    build.zip_file(tmp_path / name, (name, f"{name}.cms"))
    plan = plan_for(tmp_path, BARE_NODE, CONTAINERS)
    assert [(step.component, step.then) for step in plan.steps] == [
        ("driver", "25.5.0"),
        ("firmware", "that of HDK 25.5.0"),
    ]


def test_a_node_without_npus_gets_no_driver(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    plan = plan_for(tmp_path, replace(BARE_NODE, chips=0, families=()))
    assert components(plan)[0] == "toolkit"
    assert len(plan.refused) == 2


def test_a_driver_that_is_not_known_is_neither_installed_nor_upgraded(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    plan = plan_for(tmp_path, of_facts({}), BARE)
    assert "driver" not in components(plan)
    assert "it is not known whether a driver is installed, which decides the order" in plan.refused[0]


def test_older_cann_has_its_own_layout(tmp_path: Path) -> None:
    build.cann(tmp_path, "Ascend-cann-toolkit_8.2.RC1_linux-aarch64.run", "8.2.RC1")
    build.cann(tmp_path, "Ascend-cann-nnal_8.2.RC1_linux-aarch64.run", "8.2.RC1", package="Ascend-cann-nnal")
    plan = plan_for(tmp_path, BARE_NODE)
    assert way_back(plan, "toolkit") == "/usr/local/Ascend/ascend-toolkit/8.2.RC1/aarch64-linux/script/uninstall.sh"
    assert way_back(plan, "nnal") == "/usr/local/Ascend/nnal/atb/8.2.RC1/scripts/uninstall.sh"
