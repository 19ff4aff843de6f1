"""The profile of a host: bonds, VLANs, virtual functions, shared storage; and of its NPUs: flow control and MCU."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from npudoctor import plugins, sim
from npudoctor.facts.hccn.port import parse_pfc
from npudoctor.fleet import describe, profile
from npudoctor.host import Completed, Host, ParseError, Unavailable
from npudoctor.sdk import Options
from npudoctor.selection import Selection

BOND = """\
Ethernet Channel Bonding Driver: v5.10.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
MII Status: up
Speed: 99999 Mbps

Slave Interface: enp1s0f0
MII Status: up
Speed: 25000 Mbps
Duplex: full

Slave Interface: enp1s0f1
MII Status: down
Speed: Unknown
"""


class Files:
    """A host that has only files."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self.files = files

    def read(self, path: str) -> str:
        said = self.read_bytes(path, limit=1 << 20)
        return said.decode()

    def read_bytes(self, path: str, *, limit: int) -> bytes:
        if path not in self.files:
            raise Unavailable(f"{path} does not exist")
        said = self.files[path]
        return (said if isinstance(said, bytes) else said.encode())[:limit]

    def exists(self, path: str) -> bool:
        return any(one == path or one.startswith(f"{path}/") for one in self.files)

    def list_dir(self, path: str) -> tuple[str, ...]:
        if not self.exists(path):
            raise Unavailable(f"{path} does not exist")
        return tuple(
            {one.removeprefix(f"{path}/").partition("/")[0] for one in self.files if one.startswith(f"{path}/")}
        )


def of(files: Mapping[str, str | bytes]) -> dict[str, tuple[str, ...]]:
    return dict(profile.of_host(Files(files)))  # type: ignore[arg-type]


def test_a_bond_names_its_mode_and_members_with_speed() -> None:
    assert profile.bond("bond0", BOND) == (
        "bond0: IEEE 802.3ad Dynamic link aggregation, enp1s0f0 25000 Mbps, enp1s0f1 down"
    )
    assert profile.bond("bond1", "") == "bond1: unknown mode, no members"


def test_the_network_and_the_storage_of_a_host() -> None:
    vlans = "VLAN Dev name    | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID\nbond0.100      | 100  | bond0\n"
    mounts = (
        "proc /proc proc rw 0 0\nfiler:/data /data nfs4 ro,relatime,vers=4.2 0 0\n"
        "mgs@tcp:/fs /lustre lustre rw,flock 0 0\ngvfsd-fuse /run/user/0/gvfs fuse.gvfsd-fuse rw 0 0\n"
    )
    said = of(
        {
            "/proc/net/dev": "",
            "/proc/net/bonding/bond0": BOND,
            "/proc/net/vlan/config": vlans,
            "/sys/class/net/enp1s0f0/device/sriov_numvfs": "8\n",
            "/sys/class/net/enp1s0f1/device/sriov_numvfs": "0\n",
            "/proc/mounts": mounts,
            "/proc/self/auxv": struct.pack("@4L", 16, 1, 6, 65536),
            "/sys/fs/cgroup/cgroup.controllers": "cpu",
            "/sys/kernel/iommu_groups/0/type": "DMA",
            "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu.passthrough=1\n",
        }
    )
    assert said["VLANs"] == ("bond0.100: 100 on bond0",)
    assert said["virtual functions"] == ("enp1s0f0: 8",)
    assert said["shared storage"] == ("/data: nfs4 filer:/data ro", "/lustre: lustre mgs@tcp:/fs")
    assert said["page size"] == ("65536 bytes",)
    assert (said["cgroup version"], said["IOMMU"]) == (("2",), ("on",))
    assert said["kernel command line"] == ("iommu.passthrough=1",)
    assert len(said["bonds"]) == 1


def test_what_a_host_lacks_is_compared_and_what_is_unreadable_is_not() -> None:
    assert of({}) == {}
    said = of({"/proc/net/dev": "", "/proc/mounts": ""})
    assert set(said.values()) == {("none",)} and "bonds" in said and "shared storage" in said


@pytest.mark.parametrize("mounts", ["", "x", "a b", "\n\n", "a /b nfs", "filer:/x /y nfs4"])
def test_any_table_of_mounts_is_read(mounts: str) -> None:
    assert all(line.startswith("/") for line in profile.shared_storage(mounts))


@pytest.mark.parametrize(
    ("page", "priorities"),
    [
        ("PFC configuration:\npriority   0 1 2 3 4 5 6 7\nenabled    0 0 0 0 1 0 0 0\n", (4,)),
        ("PFC configuration:\r\npriority   0 1 2 3 4 5 6 7\r\nenabled    1 0 0 1 0 0 0 1\r\n", (0, 3, 7)),
        ("bitmap 0,0,0,0,0,0,0,0\n", ()),
    ],
)
def test_the_priorities_with_flow_control_are_read(page: str, priorities: tuple[int, ...]) -> None:
    assert parse_pfc(page) == priorities


@pytest.mark.parametrize("page", ["", "Link status is down\n", "enabled 0 0 0\n", "enabled 0 0 0 0 1 0 0 0 1\n"])
def test_another_page_is_no_flow_control(page: str) -> None:
    with pytest.raises(ParseError):
        parse_pfc(page)


class Telling:
    """A simulated node that tells flow control and MCU, too."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        pages = {"-pfc": "enabled    0 0 0 0 1 0 0 0\n", "upgrade": "        Version                  : 23.3.13\n"}
        page = next((text for word, text in pages.items() if word in argv), None)
        return self.host.run(argv, **options) if page is None else Completed(returncode=0, stdout=page, seconds=0.1)


@pytest.mark.parametrize(("name", "pfc", "mcu"), [("standard", "4", ("8 × 23.3.13",)), ("quick", None, None)])
def test_a_node_tells_flow_control_and_mcu_unless_it_is_checked_by_quick(
    name: Any, pfc: str | None, mcu: tuple[str, ...] | None
) -> None:
    host = sim.simulate("seed-910b1")
    try:
        options = Options(profile=name)
        digest = describe.of_node(plugins.load(), Telling(host), Selection(options=options))
    finally:
        host.close()
    assert {npu.pfc for npu in digest.identity.npus.values()} <= {pfc}
    assert next((value for _, title, value in digest.features if title == "MCU version"), None) == mcu
