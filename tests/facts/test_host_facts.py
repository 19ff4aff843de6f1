"""The host around the cards: PCIe links, kernel log, connections, clock, container engine, and who asks."""

from __future__ import annotations

import pytest

from npudoctor.facts.network.conntrack import conntrack
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.container_engine import container_engine
from npudoctor.facts.node.container_engine import parse as parse_engine
from npudoctor.facts.node.current_user import asker
from npudoctor.facts.system.clock import parse as parse_clock
from npudoctor.facts.system.clock import time_service
from npudoctor.facts.system.kernel_log import kernel_log
from npudoctor.facts.system.pci import PciCard, PciCards
from npudoctor.facts.system.pcie import PcieLinks, parse_errors, parse_speed, parse_width, pcie_links
from npudoctor.host import Completed
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Because, NotApplicable, ParseError, Unavailable, User

SLOT = "/sys/bus/pci/devices/0000:c1:00.0"
CARDS = PciCards((PciCard(slot="0000:c1:00.0", device="0xd802", family="A2"),))
AER = "Undefined 0\nDLP 2\nSDES 1\nTLP 0\n"


def failed(text: str) -> Completed:
    return Completed(returncode=1, stderr=text)


def links(files: dict[str, str], cards: PciCards = CARDS) -> PcieLinks:
    found = pcie_links.function(FakeHost(files={f"{SLOT}/{name}": text for name, text in files.items()}), cards)
    assert isinstance(found, PcieLinks)
    return found


def test_a_link_that_runs_below_what_it_can_is_slow() -> None:
    sysfs = {
        "current_link_speed": "8.0 GT/s PCIe\n",
        "max_link_speed": "16.0 GT/s PCIe\n",
        "current_link_width": "16\n",
        "max_link_width": "16\n",
        "aer_dev_fatal": AER + "TOTAL_ERR_FATAL 3\n",
        "aer_dev_correctable": AER,
    }
    link = links(sysfs).links[0]
    assert (link.current_speed_gts, link.max_speed_gts, link.current_width, link.max_width) == (8.0, 16.0, 16, 16)
    assert (link.fatal_errors, link.nonfatal_errors, link.correctable_errors) == (3, None, 3)
    assert link.is_slow
    assert not links({**sysfs, "current_link_speed": "16.0 GT/s PCIe\n"}).links[0].is_slow


def test_what_the_kernel_does_not_know_is_none_and_is_not_slow() -> None:
    link = links(
        {"current_link_speed": "Unknown\n", "max_link_speed": "16.0 GT/s\n", "current_link_width": "0\n"}
    ).links[0]
    assert (link.current_speed_gts, link.current_width, link.is_slow) == (None, None, False)


def test_links_without_files_or_cards_are_unavailable() -> None:
    with pytest.raises(Unavailable, match="current_link_speed does not exist"):
        links({})
    with pytest.raises(Unavailable, match="no link state"):
        links({"current_link_speed": "Unknown\n"})
    with pytest.raises(Unavailable, match="no Ascend NPU"):
        links({}, PciCards(()))


def test_what_is_no_link_state_is_refused() -> None:
    for parse in (parse_speed, parse_width, parse_errors):
        with pytest.raises(ParseError):
            parse("fast\n")


LOG = """-- Logs begin at Mon 2026-11-02 09:14:31 CST. --
Nov 20 22:40:59 node-1 kernel: e1000e 0000:00:1f.6 eno1: NIC Link is Up
Nov 20 22:41:07 node-1 kernel: [ascend] [drv_pcie_host] device 5 heartbeat lost
Nov 20 22:41:08 node-1 kernel: mce: [Hardware Error]: Machine check events logged
Nov 20 22:45:00 node-1 kernel: Out of memory: Killed process 4711 (python3)
"""
JOURNAL = "journalctl -k --since -7d"


def test_the_kernel_log_keeps_what_may_tell_of_a_fault() -> None:
    found = kernel_log.function(FakeHost(commands={JOURNAL: LOG}))
    assert [line.split()[2] for line in found.lines] == ["22:41:07", "22:41:08", "22:45:00"]
    assert found.seen == 4


HINT = "Hint: You are currently not seeing messages from other users and the system.\n-- No entries --\n"


@pytest.mark.parametrize(
    ("given", "because"),
    [
        (None, Because.ABSENT),
        (failed("No journal files were opened due to insufficient permissions.\n"), Because.NO_RIGHT),
        (Completed(returncode=0, stdout="-- No entries --\n", stderr=HINT), Because.NO_RIGHT),
        (Completed(returncode=0, stdout="-- No entries --\n", stderr="No journal files were found.\n"), Because.ABSENT),
        (failed("Failed to add filter.\n"), Because.FAILED),
        (Completed(returncode=None, timed_out=True, seconds=10.0), Because.TIMED_OUT),
    ],
)
def test_a_kernel_log_that_cannot_be_read_is_no_quiet_one(given: Completed | None, because: Because) -> None:
    with pytest.raises(Unavailable) as caught:
        kernel_log.function(FakeHost(commands={} if given is None else {JOURNAL: given}))
    assert caught.value.because is because


def test_a_quiet_kernel_log_is_an_answer() -> None:
    assert kernel_log.function(FakeHost(commands={JOURNAL: "-- No entries --\n"})).lines == ()


FOLDER = "/proc/sys/net/netfilter"


def test_the_table_of_connections_is_measured() -> None:
    files = {f"{FOLDER}/nf_conntrack_count": "196608\n", f"{FOLDER}/nf_conntrack_max": "262144\n"}
    assert conntrack.function(FakeHost(files=files)).used_pct == 75.0
    with pytest.raises(Unavailable, match="connection tracking is off"):
        conntrack.function(FakeHost())
    with pytest.raises(ParseError):
        conntrack.function(FakeHost(files={**files, f"{FOLDER}/nf_conntrack_max": "many\n"}))


def test_the_clock_is_as_the_time_service_says() -> None:
    text = "Timezone=Asia/Shanghai\nLocalRTC=no\nCanNTP=yes\nNTP=yes\nNTPSynchronized=no\n"
    found = time_service.function(FakeHost(commands={"timedatectl show": text}))
    assert (found.timezone, found.ntp, found.synchronized) == ("Asia/Shanghai", True, False)
    with pytest.raises(ParseError):
        parse_clock("hello\n")


@pytest.mark.parametrize(
    ("given", "because"),
    [
        (None, Because.ABSENT),
        (failed("System has not been booted with systemd as init system (PID 1).\n"), Because.NOT_APPLICABLE),
        (failed("Failed to query server: Connection timed out\n"), Because.FAILED),
        (Completed(returncode=None, timed_out=True, seconds=10.0), Because.TIMED_OUT),
    ],
)
def test_without_a_time_service_the_clock_is_unknown(given: Completed | None, because: Because) -> None:
    with pytest.raises(Unavailable) as caught:
        time_service.function(FakeHost(commands={} if given is None else {"timedatectl show": given}))
    assert caught.value.because is because


DAEMON = """{"default-runtime": "ascend", "runtimes": {"ascend": {"path": "/opt/ascend-docker-runtime"}},
"default-shm-size": "64G", "default-ulimits": {"nofile": {"Name": "nofile", "Hard": 65535, "Soft": 1024},
"core": {}}}"""


def test_the_engine_s_settings_are_read() -> None:
    found = container_engine.function(FakeHost(files={"/etc/docker/daemon.json": DAEMON}), None)
    assert (found.default_runtime, found.runtimes, found.default_shm_size) == ("ascend", ("ascend",), "64G")
    assert found.default_ulimits == {"nofile": (1024, 65535)}
    assert parse_engine("").default_runtime is None


def test_without_an_engine_or_inside_a_container_there_are_no_settings() -> None:
    with pytest.raises(Unavailable, match="does not exist"):
        container_engine.function(FakeHost(), None)
    with pytest.raises(NotApplicable):
        container_engine.function(FakeHost(), Container(runtime="docker"))


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_what_is_no_configuration_of_docker_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_engine(text)


def test_nothing_is_hidden_from_root() -> None:
    assert asker.function(FakeHost()).is_root
    assert not asker.function(FakeHost(user=User(name="ada", uid=1000))).is_root
