"""Who holds the cards, what is here, and what follows for the role of the node."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.facts.node.chips import Chips, chips, memory_of, subject_of
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import (
    CardPresence,
    Presence,
    card_presence,
    driver_stack,
    role,
    service,
    software_stack,
)
from npudoctor.facts.node.device_access import device_access, parse_groups
from npudoctor.facts.node.device_nodes import DeviceNode, DeviceNodes
from npudoctor.facts.node.holders import CardHolders, State, card_holders
from npudoctor.facts.npu_smi import Chip, NpuProcess, NpuSmiInfo
from npudoctor.facts.system.pci import PciCard, PciCards
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import NotApplicable, Options, Unavailable, User

BOX = Container(runtime="docker")
ROOT, DEV = User(), User(name="dev", uid=9, gid=9, gids=(9,), groups=("dev",))


def holders(row: NpuProcess, *known: Process, container: Container | None = None, user: User = ROOT) -> CardHolders:
    table = NpuSmiInfo(npus=(Chip(npu_id=0, chip_id=0),), processes=(row,), idle_npus=())
    processes = Processes({process.pid: process for process in known})
    found = card_holders.function(FakeHost(user=user), table, processes, container)
    assert isinstance(found, CardHolders)
    return found


ROW = NpuProcess(npu_id=0, chip_id=0, pid=4711, name="python3", memory_mb=100)
INIT = Process(pid=1, name="systemd")
LIVE = Process(pid=4711, name="python3")


@pytest.mark.parametrize(
    ("known", "more", "state"),
    [
        ((INIT, LIVE), {}, State.LIVE),
        ((INIT,), {}, State.DEAD),
        ((INIT, Process(pid=4711, name="python3", status="zombie")), {}, State.DEAD),
        ((INIT,), {"user": DEV}, State.DEAD),
        ((Process(pid=77, name="bash"),), {"user": DEV}, State.UNKNOWN),  # /proc hides the others, the first one too
        ((INIT,), {"container": BOX}, State.UNKNOWN),
        ((INIT, Process(pid=4711, name="bash")), {"container": BOX}, State.UNKNOWN),  # another one of that number
        ((INIT, LIVE), {"container": BOX}, State.LIVE),  # the container shares the host's processes
    ],
)
def test_a_row_is_live_dead_or_unknown(known: tuple[Process, ...], more: dict[str, Any], state: State) -> None:
    found = holders(ROW, *known, **more)
    assert found.holders[0].state is state
    assert found.in_service is (state is not State.DEAD)
    assert found.pids == ({4711} if state is State.LIVE else set())


def test_the_pid_in_the_container_counts_where_the_driver_tells_it() -> None:
    row = NpuProcess(npu_id=0, pid=485946, name="python3", container_pid=12)
    assert holders(row, Process(pid=12, name="python3"), container=BOX).pids == {12}


def test_a_row_without_a_chip_counts_for_every_chip_of_its_npu() -> None:
    found = holders(NpuProcess(npu_id=3, pid=4711), LIVE)
    assert (len(found.on(3, 0)), len(found.on(3, 1)), len(found.on(4, 0))) == (1, 1, 0)


def test_no_table_of_processes_is_no_idle_node() -> None:
    with pytest.raises(NotApplicable):
        card_holders.function(FakeHost(), NpuSmiInfo(npus=(Chip(npu_id=0),)), None, None)


def test_service_is_known_from_the_table_or_from_the_absence_of_cards() -> None:
    assert service.function(holders(ROW, LIVE, INIT), None).pids == (4711,)
    assert service.function(None, CardPresence(pci=0, nodes=0)).in_service is False
    with pytest.raises(Unavailable):
        service.function(None, CardPresence(pci=8, nodes=8))


NODE = DeviceNodes(cards=(DeviceNode(path="/dev/davinci0", number=0),))
BUS = PciCards((PciCard(slot="0000:c1:00.0", device="0xd802", family="A2", subsystem="0x3000"),))


def test_a_container_s_bus_is_not_its_own() -> None:
    assert card_presence.function(BUS, DeviceNodes(cards=()), None, BOX).cards is False
    assert card_presence.function(BUS, DeviceNodes(cards=()), None, None).cards is True
    assert card_presence.function(None, DeviceNodes(cards=(), slices=NODE.cards), None, None).cards is True


def test_no_source_at_all_is_no_answer() -> None:
    with pytest.raises(Unavailable):
        card_presence.function(None, None, None, None)


def here(**more: Any) -> Presence:
    nothing = {"cards": False, "driver": False, "cann": False, "torch_npu": False, "in_container": False}
    return Presence(**(nothing | more))


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (here(cards=True, driver=True), "driver-only"),
        (here(driver=True), "driver-only"),
        (here(cards=True, driver=True, cann=True), "full"),
        (here(cards=True, driver=True, torch_npu=True), "full"),
        (here(cards=True, driver=True, in_container=True), "full"),
        (here(cards=True, driver=True, cann=None), "full"),
        (here(), "full"),
        (None, "full"),
    ],
)
def test_a_host_that_only_lends_its_cards_is_driver_only(found: Presence | None, name: str) -> None:
    assert role.function(Options(), found).name == name
    assert role.function(Options(role="full"), found).name == "full"
    assert role.function(Options(role="driver-only"), found).name == "driver-only"


@pytest.mark.parametrize(
    ("found", "blocked_by"),
    [
        (here(), "npu.present"),
        (here(in_container=True), "container.devices"),
        (here(cards=True, cann=True), None),
        (here(torch_npu=True), None),
        (here(cann=None), None),
    ],
)
def test_where_nothing_of_ascend_is_nothing_is_judged(found: Presence, blocked_by: str | None) -> None:
    here_role = role.function(Options(role="full"), found)
    if blocked_by is None:
        software_stack.function(found, here_role)
        return
    with pytest.raises(Unavailable) as caught:
        software_stack.function(found, here_role)
    assert caught.value.blocked_by == blocked_by
    with pytest.raises(Unavailable) as caught:
        driver_stack.function(found)
    assert caught.value.blocked_by == blocked_by


def test_on_a_node_that_only_lends_its_cards_the_stack_does_not_apply() -> None:
    found = here(cards=True, driver=True)
    with pytest.raises(NotApplicable, match="driver-only"):
        software_stack.function(found, role.function(Options(), found))
    driver_stack.function(found)


TWO = (Chip(npu_id=2, chip_id=0, name="310P3", bus_id="0000:01:00.0"), Chip(npu_id=2, chip_id=1, name="310P3"))


def test_a_chip_is_named_by_its_number_only_where_there_are_several() -> None:
    one = Chip(npu_id=4, chip_id=0)
    assert [subject_of(chip, TWO) for chip in TWO] == ["npu:2/chip:0", "npu:2/chip:1"]
    assert subject_of(one, (*TWO, one)) == "npu:4"
    assert subject_of(Chip(npu_id=0), (Chip(npu_id=0),)) == "npu:0"


def test_memory_is_hbm_else_ddr_else_unknown() -> None:
    assert memory_of(Chip(npu_id=0, mem_used_mb=5, mem_total_mb=15000, hbm_used_mb=7, hbm_total_mb=32768)) == (7, 32768)
    assert memory_of(Chip(npu_id=0, mem_used_mb=5, mem_total_mb=8192)) == (5, 8192)
    assert memory_of(Chip(npu_id=0, mem_used_mb=0, mem_total_mb=0, hbm_used_mb=None, hbm_total_mb=0)) == (None, None)


def known(*facts: Any) -> Chips:
    found = chips.function(*facts, None, FakeHost())
    assert isinstance(found, Chips)
    return found


def test_cards_come_from_npu_smi_then_from_dev_then_from_the_bus() -> None:
    table = NpuSmiInfo(npus=(Chip(npu_id=4, chip_id=0, name="910B3", bus_id="0000:C1:00.0", hbm_total_mb=65536),))
    best = known(table, NODE, BUS, None)
    assert (best.source, best.count, best.family, best.chips[0].subsystem) == ("npu-smi", 1, "A2", "0x3000")
    nodes = known(None, NODE, BUS, None)
    assert (nodes.source, nodes.chips[0].subject, nodes.family) == ("/dev", "npu:0", "A2")
    bus = known(None, DeviceNodes(cards=()), BUS, None)
    assert (bus.source, bus.chips[0].bus_id) == ("PCI", "0000:c1:00.0")
    assert known(None, DeviceNodes(cards=()), BUS, BOX).count == 0
    with pytest.raises(Unavailable):
        chips.function(None, None, None, None, None, FakeHost())


def test_a_first_generation_chip_that_calls_itself_910b_is_one() -> None:
    old = Chip(npu_id=0, chip_id=0, name="910B", mem_total_mb=15000, hbm_total_mb=32768)
    assert known(NpuSmiInfo(npus=(old,)), None, None, None).family == "910"


def test_groups_have_the_name_of_their_first_line() -> None:
    text = "root:x:0:\nHwHiAiUser:x:1000:dev\nother:x:1000:\nbroken\nx:y:²:\n"
    assert parse_groups(text) == {0: "root", 1000: "HwHiAiUser"}


def test_which_manager_nodes_are_needed_depends_on_the_family() -> None:
    for device, missing in (("A2", ("/dev/devmm_svm", "/dev/hisi_hdc")), ("950", ("/dev/hisi_hdc",))):
        bus = PciCards((PciCard(slot="0000:c1:00.0", device="0x", family=device),))
        nodes = DeviceNodes(cards=NODE.cards, managers=(DeviceNode(path="/dev/davinci_manager"),))
        assert device_access.function(FakeHost(), nodes, bus).missing == missing
    assert device_access.function(FakeHost(), NODE, None).missing == ("/dev/davinci_manager",)
    with pytest.raises(Unavailable):
        device_access.function(FakeHost(), DeviceNodes(cards=()), BUS)


@pytest.mark.parametrize(("owner", "counts"), [("root", False), ("mallory", True)])
def test_npudoctor_s_own_reader_holds_no_chip(owner: str, counts: bool) -> None:
    line = ("/opt/venv/bin/python3", "/opt/venv/lib/npudoctor/host/live/read_dcmi.py")
    reader = Process(pid=4711, name="python3", username=owner, cmdline=line)
    assert holders(ROW, INIT, reader).in_service is counts
