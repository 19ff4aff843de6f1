"""Slices of a chip: what their names, numbers and device nodes say, and who has them."""

from __future__ import annotations

import pytest

from npudoctor.facts.dcmi.answer import LibraryAnswer, LibraryChip
from npudoctor.facts.network.hccl import hccl_ports
from npudoctor.facts.node.chips import Chips, NodeChip, chips
from npudoctor.facts.node.device_nodes import DeviceNode, DeviceNodes
from npudoctor.facts.node.running_containers import RunningContainer, RunningContainers
from npudoctor.facts.node.slices import owners, parent_number, template_of, whole_name
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import NotApplicable


@pytest.mark.parametrize(
    ("name", "template", "whole"),
    [
        ("910B3", None, "910B3"),
        ("910B3-vir05_1c_16g", "vir05_1c_16g", "910B3"),
        ("Ascend910B4-1-vir10_3c_16g_m", "vir10_3c_16g_m", "Ascend910B4-1"),
        ("310P3vir04_3c_ndvpp", "vir04_3c_ndvpp", "310P3"),
        ("310P3 vir01", "vir01", "310P3"),
        ("virtual", None, "virtual"),
        ("vir02_1c", "vir02_1c", None),
        (None, None, None),
    ],
)
def test_the_template_is_in_the_name(name: str | None, template: str | None, whole: str | None) -> None:
    assert template_of(name) == template
    assert whole_name(name) == whole


@pytest.mark.parametrize(("number", "parent"), [(100, 0), (107, 0), (116, 1), (180, 5), (212, 7), (347, 15)])
def test_the_number_of_a_slice_names_its_chip(number: int, parent: int) -> None:
    assert parent_number(number) == parent


def _container(name: str, *devices: str, pod: str | None = None) -> RunningContainer:
    return RunningContainer(id="9" * 64, runtime="containerd", pid=7, name=name, pod=pod, devices=devices, mounts={})


def test_the_owner_is_the_pod_that_a_slice_was_passed_into() -> None:
    having = owners(
        RunningContainers(
            (
                _container("serve", "/dev/davinci180", "/dev/davinci_manager", pod="jobs/chat-0"),
                _container("other", "/dev/vdavinci116", "/dev/davinci3"),
            )
        )
    )
    assert having == {180: "jobs/chat-0 (serve)", 116: "other"}
    assert owners(None) == {}


def _nodes(*paths: str) -> DeviceNodes:
    def numbered(path: str) -> DeviceNode:
        return DeviceNode(path=path, number=int("".join(filter(str.isdigit, path))))

    found = [numbered(path) for path in paths]
    return DeviceNodes(
        cards=tuple(one for one in found if (one.number or 0) < 100),
        slices=tuple(one for one in found if (one.number or 0) >= 100),
    )


def test_a_slice_without_a_name_of_its_own_is_known_by_its_node() -> None:
    info = NpuSmiInfo(npus=(Chip(npu_id=5, chip_id=0, name="910B3", hbm_total_mb=16384),))
    found = chips.function(info, _nodes("/dev/davinci180"), None, None, None, FakeHost())
    assert [(one.mode, one.parent, one.device) for one in found.chips] == [("vnpu", "npu:5", 180)]
    assert found.only_slices
    with pytest.raises(NotApplicable, match="HCCL"):
        hccl_ports.function({}, None, found)


def test_a_chip_that_containers_share_is_told_by_the_library() -> None:
    info = NpuSmiInfo(npus=tuple(Chip(npu_id=id, chip_id=0, name="910B3") for id in (0, 1)))
    told = [LibraryChip(npu_id=id, chip_id=0, told={"share": id}, refused={}, lost={}) for id in (0, 1)]
    library = LibraryAnswer(chips=tuple(told))
    found = chips.function(info, _nodes("/dev/davinci0", "/dev/davinci1"), None, None, library, FakeHost())
    assert [one.mode for one in found.chips] == ["whole", "shared"]
    assert [found.is_divided(one.subject) for one in found.chips] == [False, True]


def test_whole_chips_beside_slices_are_no_slices() -> None:
    found = Chips((NodeChip(subject="npu:0", mode="whole"), NodeChip(subject="npu:1", mode="vnpu")), "dcmi")
    assert not found.only_slices
    assert not Chips((), "/dev").only_slices
