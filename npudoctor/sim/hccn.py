"""What hccn_tool prints of the network port of a chip, and /etc/hccn.conf."""

from __future__ import annotations

from collections.abc import Callable

from npudoctor.sim.node import Chip, Node

FAILED = ("Cmd execute failed!\n", 1)
OUT_OF_RANGE = ("Device ID is out of the valid range.\nCmd execute failed!\n", 1)

WITHOUT_A_DIE = (
    "Option -u is required in mode -g but missing.\nEnter [ hccn_tool -h -g ] for more details.\n",
    1,
)
"""What 950 says to a question about a port, which requires a die and a port."""


def gateway_of(chip: Chip) -> str:
    """The first address of the chip's network, where nothing else is said."""
    return chip.address.rpartition(".")[0] + ".1" if chip.gateway is None else chip.gateway


def detect_address(chip: Chip) -> str:
    """The address that the chip pings, where nothing else is said that of its gateway."""
    return gateway_of(chip) if chip.netdetect is None else chip.netdetect


def _link_stat(chip: Chip) -> str:
    head = f"[devid {chip.phy_id}]"
    records = [f"{head}    Mon Nov  2 09:14:31 2026    LINK UP\n"]
    for fall in range(chip.link_falls):
        records.insert(0, f"{head}    Thu Nov 19 {fall // 60 % 24:02}:{fall % 60:02}:07 2026    LINK DOWN\n")
        records.insert(0, f"{head}    Thu Nov 19 {fall // 60 % 24:02}:{fall % 60:02}:09 2026    LINK UP\n")
    if chip.link == "DOWN":
        records.insert(0, f"{head}    Fri Nov 20 22:41:07 2026    LINK DOWN\n")
    return (
        f"{head}current time        : Sat Nov 21 02:10:44 2026\n"
        f"{head}link up count       : {1 + chip.link_falls}\n"
        f"{head}link change records :\n" + "".join(records[:20])
    )


def _tls(chip: Chip) -> str:
    return (
        f"dev_id:{chip.phy_id}, tls switch[{chip.tls}](0:disable, 1:enable), "
        "tls preconfigured[1](0:non-preset, 1:preset), tls alarm time threshold[60]days\n"
    )


def _lldp(chip: Chip) -> str:
    return (
        "Chassis ID TLV\n\tMAC: 2c:97:b1:00:10:00\n"
        f"Port ID TLV\n\tIfname: 200GE1/0/{chip.phy_id + 1}\n"
        "System Name TLV\n\tleaf-1\nMaximum Frame Size TLV\n\t9216\nEnd of LLDPDU TLV\n"
    )


def _ip(chip: Chip) -> str:
    return f"ipaddr:{chip.address}\nnetmask:{chip.netmask}\n" if chip.address else ""


def _gateway(chip: Chip) -> str:
    gateway = gateway_of(chip) if chip.address else ""
    return f"default gateway:{gateway}, Iface:eth{chip.phy_id}\n" if gateway else ""


_QUERIES: dict[str, Callable[[Chip], str]] = {
    "link": lambda chip: f"link status: {chip.link}\n",
    "ip": _ip,
    "gateway": _gateway,
    "net_health": lambda chip: f"net health status: {chip.net_health if chip.link == 'UP' else 'Fault'}\n",
    "netdetect": lambda chip: (
        f"netdetect address: {detect_address(chip)}\n" if chip.address and detect_address(chip) else ""
    ),
    "tls": _tls,
    "speed": lambda _: "Speed: 200000 Mb/s\n",
    "fec": lambda chip: f"fec mode: {chip.fec}\n",
    "link_stat": _link_stat,
    "stat": lambda chip: f"packet statistics:\nroce_rx_err_pkt_num:{chip.roce_errors}\nroce_tx_err_pkt_num:0\n",
    "lldp": _lldp,
}
QUERIES = (*_QUERIES, "vnic")


def query(node: Node, device: int, what: str) -> tuple[str, int]:
    """`hccn_tool -i DEVICE -WHAT -g`: its text and exit status."""
    chip = next((chip for chip in node.chips_at("device-node") if chip.phy_id == device), None)
    if chip is None:
        return OUT_OF_RANGE
    if not node.product.has_nic:
        return FAILED
    if what == "vnic" and node.product.family == "A3":
        address = f"192.168.{100 + device // 8}.{1 + device % 8}"
        return f"vnic link status: {chip.vnic}\nvnic ipaddr:{address}\nvnic netmask:255.255.0.0\n", 0
    if node.product.family == "950":
        if what in ("speed", "fec", "link_stat", "stat", "lldp"):
            return WITHOUT_A_DIE
        if what == "link":
            return f"link status : {chip.link}\n" + "".join(f"port {port} : {chip.link}\n" for port in range(4, 9)), 0
    answer = _QUERIES.get(what)
    return FAILED if answer is None else (answer(chip), 0)


def switch_tls(node: Node, device: int, to: str) -> tuple[str, int]:
    """`hccn_tool -i DEVICE -tls -s enable 0|1`."""
    chip = next((chip for chip in node.chips_at("device-node") if chip.phy_id == device), None)
    if chip is None:
        return OUT_OF_RANGE
    if to not in ("0", "1") or not node.product.has_nic:
        return FAILED
    chip.tls = int(to)
    return "Cmd execute successfully!\n", 0


def set_address(node: Node, words: list[str], text: str) -> tuple[str, int, str]:
    """`hccn_tool -i DEVICE -ip|-gateway|-netdetect -s ...`: text, exit status, and /etc/hccn.conf, which it writes."""
    chip = next((chip for chip in node.chips_at("device-node") if str(chip.phy_id) == words[1]), None)
    told = dict(zip(words[4::2], words[5::2], strict=False))
    what = words[2].removeprefix("-")
    if chip is None or not node.product.has_nic or node.user.uid:
        return (*FAILED, text)
    if what == "ip":
        chip.address, chip.netmask = told["address"], told["netmask"]
    elif what == "gateway":
        chip.gateway = told["gateway"]
    else:
        chip.netdetect, told = told["address"], {"netdetect": told["address"]}
    for key, value in told.items():
        line = f"{key}_{chip.phy_id}="
        kept = [one for one in text.splitlines(keepends=True) if not one.startswith(line)]
        text = "".join([*kept, f"{line}{value}\n"])  # the tool's own order: what is set last stands last
    return "", 0, text


def configuration(node: Node) -> str:
    """The text of /etc/hccn.conf."""
    lines = []
    for chip in node.chips:
        if chip.address:
            lines += [f"address_{chip.phy_id}={chip.address}", f"netmask_{chip.phy_id}=255.255.255.0"]
            gateway = gateway_of(chip)
            lines += [f"{key}_{chip.phy_id}={gateway}" for key in ("netdetect", "gateway") if gateway]
    return "".join(f"{line}\n" for line in lines)
