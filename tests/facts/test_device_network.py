"""What hccn_tool says of each device, and what becomes of its refusals."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor import sim
from npudoctor.facts.hccn import per_port, probes
from npudoctor.facts.hccn.probes import NetworkDevices, network_devices
from npudoctor.facts.node.chips import Chips, NodeChip, chips
from npudoctor.facts.node.device_nodes import DeviceNode, DeviceNodes, device_nodes
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.facts.npu_smi.probes import npu_smi_answer
from npudoctor.host import Completed
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Because, NotApplicable, Options, ParseError, Probe, Unavailable, User

TWO = NetworkDevices({0: "npu:0", 1: "npu:1"})
A2 = Chips((NodeChip(subject="npu:0", family="A2"),), "npu-smi")
ROOT = User()
PERSON = User(name="ada", uid=1000, gid=1000, gids=(1000,), groups=("ada",))
GENERIC = Completed(returncode=1, stdout="Cmd execute failed!\n")
ASKED: dict[str, Probe] = {page.query: page.probe() for page in per_port.PAGES}
PROBES = {
    "link": "link status: UP\n",
    "ip": "ipaddr:10.0.0.7\nnetmask:255.255.255.0\n",
    "vnic": "vnic link status: UP\nvnic ipaddr: 192.168.1.2\nvnic netmask: 255.255.0.0\n",
    "gateway": "default gateway:10.0.0.1, Iface:eth0\n",
    "net_health": "net health status: Success\n",
    "netdetect": "netdetect address: 10.0.0.1\n",
    "tls": "dev_id:0, tls switch[0](0:disable, 1:enable), tls alarm time threshold[60]days\n",
    "speed": "Speed: 200000 Mb/s\n",
    "fec": "fec mode: rs FEC mode\n",
    "link_stat": "[devid 0]link up count       : 1\n",
    "stat": "packet statistics:\nroce_rx_err_pkt_num:0\n",
    "lldp": "Port ID TLV\n\tIfname: 200GE1/0/1\nEnd of LLDPDU TLV\n",
}


def ask(query: str, *given: str | Completed, user: User = ROOT, **options: Any) -> Any:
    """Ask two devices, which answer as given."""
    commands = {f"hccn_tool -i {device} -{query} -g": answer for device, answer in enumerate(given)}
    return ASKED[query].function(FakeHost(commands=commands, user=user), Options(**options), TWO)


@pytest.mark.parametrize("query", PROBES)
def test_every_device_is_asked_in_the_recorded_form(query: str) -> None:
    answer = PROBES[query]
    found = ask(query, answer, answer)
    assert (list(found.by_device), found.failed) == ([0, 1], {})


@pytest.mark.parametrize("query", PROBES)
def test_without_the_tool_the_fact_is_unavailable(query: str) -> None:
    with pytest.raises(Unavailable, match="hccn_tool is not installed") as caught:
        ask(query)
    assert caught.value.because is Because.ABSENT


@pytest.mark.parametrize("query", PROBES)
def test_quick_asks_no_device(query: str) -> None:
    with pytest.raises(NotApplicable, match="profile quick"):
        ask(query, profile="quick")


def said(text: str) -> Completed:
    return Completed(returncode=1, stdout=text)


@pytest.mark.parametrize(
    ("given", "user", "because"),
    [
        (GENERIC, ROOT, Because.FAILED),
        (GENERIC, PERSON, Because.NO_RIGHT),
        (said(""), PERSON, Because.NO_RIGHT),
        (said(""), ROOT, Because.FAILED),
        (said("permission denied: pls check this cmd run permission.\n"), ROOT, Because.NO_RIGHT),
        (said("hccn_tool is busy, please try again.\n"), PERSON, Because.FAILED),
        (said("The command is not supported on this product.\n"), ROOT, Because.NOT_APPLICABLE),
        (said("what is this?\n"), ROOT, Because.FAILED),
        (Completed(returncode=None, timed_out=True, seconds=10.0), ROOT, Because.TIMED_OUT),
    ],
)
def test_a_refusal_has_its_cause(given: Completed, user: User, because: Because) -> None:
    with pytest.raises(Unavailable) as caught:
        ask("link", given, given, user=user)
    assert caught.value.because is because


def test_a_device_that_fails_is_left_out_with_its_reason() -> None:
    found = ask("link", "link status: UP\n", GENERIC)
    assert found.by_device[0].status == "UP"
    assert found.failed == {1: "`hccn_tool -i 1 -link -g` failed: Cmd execute failed!"}


def test_what_is_not_set_is_an_answer() -> None:
    unset = Completed(returncode=13, stdout="Get ipconf failed, because no ip was preset there!\n")
    found = ask("ip", "", unset)
    assert [address.ipaddr for address in found.by_device.values()] == [None, None]
    no_gateway = Completed(returncode=13, stdout="Get gateway failed, because no gateway was preset there!\n")
    assert ask("gateway", no_gateway, "").by_device[0].default_gateway is None


def nodes(*numbers: int) -> DeviceNodes:
    return DeviceNodes(cards=tuple(DeviceNode(path=f"/dev/davinci{number}", number=number) for number in numbers))


def devices(info: NpuSmiInfo | None, found: DeviceNodes | None, known: Chips = A2) -> dict[int, str]:
    return dict(network_devices.function(info, found, known).subjects)


def test_the_table_s_own_numbers_come_first() -> None:
    a3 = NpuSmiInfo(
        npus=tuple(Chip(npu_id=npu, chip_id=chip, phy_id=2 * npu + chip) for npu in (4, 5) for chip in (0, 1))
    )
    assert devices(a3, nodes(0, 1, 2, 3)) == {
        8: "npu:4/chip:0",
        9: "npu:4/chip:1",
        10: "npu:5/chip:0",
        11: "npu:5/chip:1",
    }  # fmt: skip


def test_else_the_device_nodes_stand_in_the_order_of_the_table() -> None:
    table = NpuSmiInfo(npus=(Chip(npu_id=1, chip_id=0), Chip(npu_id=4, chip_id=0)))
    assert devices(table, nodes(2, 3)) == {2: "npu:1", 3: "npu:4"}
    assert devices(None, nodes(2, 3)) == {2: "npu:2", 3: "npu:3"}


def test_without_numbers_nothing_is_asked() -> None:
    with pytest.raises(Unavailable, match="device ids unknown"):
        devices(NpuSmiInfo(npus=(Chip(npu_id=0, chip_id=0),)), None)


def test_a_family_without_ports_has_no_network() -> None:
    with pytest.raises(NotApplicable, match="310P"):
        devices(None, nodes(0), Chips((NodeChip(subject="npu:0", family="310P"),), "npu-smi"))


def test_the_settings_on_disk_are_read() -> None:
    text = "address_0=10.0.0.7\nnetmask_0=255.255.255.0\naddress_1=10.0.0.8\n"
    found = probes.settings.function(FakeHost(files={"/etc/hccn.conf": text}))
    assert found.by_device == {0: {"address": "10.0.0.7", "netmask": "255.255.255.0"}, 1: {"address": "10.0.0.8"}}
    for empty in ("", "# nothing yet\n"):
        assert probes.settings.function(FakeHost(files={"/etc/hccn.conf": empty})).by_device == {}
    with pytest.raises(ParseError):
        probes.settings.function(FakeHost(files={"/etc/hccn.conf": "hello\n"}))
    with pytest.raises(Unavailable, match="does not exist"):
        probes.settings.function(FakeHost())


@pytest.mark.parametrize("name", ["seed-910b1", "healthy-a3", "healthy-910a", "sick-cards"])
def test_the_simulator_s_answers_are_read(name: str) -> None:
    host = sim.simulate(name)
    info = npu_smi_answer.function(host, Options()).info
    here = device_nodes.function(host)
    found = network_devices.function(info, here, chips.function(info, here, None, None, None, FakeHost()))
    assert len(found.subjects) == len(info.npus if info else ())
    for query in PROBES:
        if query == "vnic" and name != "healthy-a3":
            continue
        answers = ASKED[query].function(host, Options(), found)
        assert (list(answers.by_device), answers.failed) == (list(found.subjects), {}), query
