"""Device nodes of the cards, by name and by right."""

from __future__ import annotations

import pytest

from npudoctor.facts.node.device_nodes import DeviceNodes, device_nodes
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sdk import Because, Unavailable, User

NODE = Overlay(kind="char", mode=0o660, uid=1000, gid=1000)


def nodes(*paths: str, user: User | None = None, **overlays: Overlay) -> DeviceNodes:
    stats = dict.fromkeys(paths, NODE) | {f"/dev/{name}": overlay for name, overlay in overlays.items()}
    found = device_nodes.function(FakeHost(files=dict.fromkeys(paths, ""), stats=stats, user=user))
    assert isinstance(found, DeviceNodes)
    return found


def test_cards_slices_and_managers_are_told_apart() -> None:
    found = nodes(
        *("/dev/davinci10", "/dev/davinci2", "/dev/davinci_manager", "/dev/hisi_hdc", "/dev/vdavinci100"),
        *("/dev/davinci101", "/dev/davinci_manager_docker", "/dev/null", "/dev/davinci0x"),
    )
    assert found.numbers == (2, 10)
    assert [node.number for node in found.slices] == [100, 101]
    assert found.manager("hisi_hdc") is not None
    assert found.manager("devmm_svm") is None


def test_a_folder_where_a_node_should_be_is_no_card() -> None:
    found = nodes("/dev/davinci1", davinci0=Overlay(kind="dir"))
    assert found.numbers == (1,)
    assert found.misplaced == ("/dev/davinci0",)


def test_rights_are_those_of_mode_and_group() -> None:
    stranger = User(name="dev", uid=1005, gid=1005, gids=(1005,), groups=("dev",))
    member = User(name="dev", uid=1005, gid=1005, gids=(1005, 1000), groups=("dev", "HwHiAiUser"))
    assert not nodes("/dev/davinci0", user=stranger).cards[0].usable
    assert nodes("/dev/davinci0", user=member).cards[0].usable


def test_without_dev_there_are_no_nodes() -> None:
    assert device_nodes.function(FakeHost()) == DeviceNodes(cards=())


def test_a_recording_that_did_not_look_is_not_an_empty_node() -> None:
    with pytest.raises(Unavailable) as caught:
        device_nodes.function(FakeHost(unrecorded="unknown"))
    assert caught.value.because is Because.NOT_RECORDED
