"""What npu-smi prints beside its tables: lists of keys and values per card and chip, its version, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npudoctor.sim.node import Chip, Node
from npudoctor.sim.releases import digest

Pair = tuple[str, object]

NO_DEVICE = (
    "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi module initialize failed. ret is -8005\n",
    187,
)
DEVICE_USED = (
    "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
    "dcmi model initialized failed, because the device is used. ret is -8020\n",
    172,
)
BOARD_TYPE = ("npu get board type failed. ret is -9005\n", 211)
UNKNOWN_OPTION = ("Command or option is not found.\n", 1)
INVALID_CARD = (
    "Invalid card id.\nError parameter of -i\nUsage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]\n",
    1,
)
"""Text and exit status of npu-smi's failures; the status is the return code cut to a byte."""


def unsupported(what: str) -> tuple[str, int]:
    """What a product says to a question that it does not know."""
    return f"This device does not support querying {what}.\n", 1


def version(node: Node) -> str:
    """`npu-smi -v`."""
    return f"npu-smi version: {node.scenario.driver.tool or node.driver.version}\n"


def listing(node: Node) -> str:
    """`npu-smi info -l`."""
    cards = node.cards()
    blocks = [_page([("Total Count", len(cards))])]
    blocks += [_page([("NPU ID", npu), ("Chip Count", len(chips))]) for npu, chips in cards.items()]
    return "\n".join(blocks)


def mapping(node: Node) -> str:
    """`npu-smi info -m`."""
    with_phy = node.product.family == "A3"
    titles = ["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if with_phy else []), "Chip Name"]
    name = node.product.chip if node.product.chip.startswith("Ascend") else f"Ascend {node.product.chip}"
    lines = ["\t" + "".join(f"{title:<31}" for title in titles)[:-1]]
    logic = 0
    for npu, chips in node.cards().items():
        for chip in chips:
            numbers = [npu, chip.chip, logic, *([chip.phy_id] if with_phy else [])]
            lines.append("\t" + "".join(f"{number:<31}" for number in numbers) + name)
            logic += 1
        if node.product.has_mcu:
            words = [str(npu), str(len(chips)), "-", *(["-"] if with_phy else [])]
            lines.append("\t" + "".join(f"{word:<31}" for word in words) + f"{'Mcu':<30}")
    return "\n".join(lines) + "\n"


def page(node: Node, kind: str, npu: int, chip: int | None) -> str | None:
    """`npu-smi info -t KIND -i NPU [-c CHIP]`; None for a kind, a card or a chip that there is not."""
    chips = node.cards().get(npu)
    if chips is None or (chip is not None and chip not in {one.chip for one in chips}):
        return None
    chosen = [one for one in chips if chip in (None, one.chip)]
    if kind == "board":
        return _page(_card_board(node, chips)) if chip is None else _page(_chip_board(node, chosen[0]))
    if kind == "proc-mem":
        return "".join(_process_memory(node, one) for one in chosen)
    if kind == "pcie-err":
        return _page([("NPU ID", npu), *((f"{name} Count", 0) for name in _PCIE_ERRORS), ("Chip ID", chosen[0].chip)])
    per_chip = _PER_CHIP.get(kind)
    if per_chip is None:
        return None
    width = 40 if kind == "ecc" else 30
    head: list[Pair] = [("NPU ID", npu), ("Chip Count", len(chips))]
    blocks = [_page(head, width)] if chip is None and kind != "health" else []
    with_chip = chip is None or kind != "health"
    blocks += [_page(per_chip(node, one, with_chip), width) for one in chosen]
    return "\n".join(blocks)


def _page(pairs: Iterator[Pair] | list[Pair], width: int = 30) -> str:
    return "".join(f"\t{key:<{width}} : {value}\n" for key, value in pairs)


def _card_board(node: Node, chips: list[Chip]) -> Iterator[Pair]:
    first = chips[0]
    yield from [("NPU ID", first.npu), ("Product Name", "IT21DMDA"), ("Model", "NA"), ("Manufacturer", "Huawei")]
    yield "Serial Number", f"1023C3{digest(node.scenario.hostname + first.bus_id) % 10**6:06}"
    yield from [("Software Version", node.driver.version), ("Firmware Version", node.firmware_version)]
    yield "Compatibility", "OK" if node.scenario.firmware.fits else "NOT OK"
    yield from [("Board ID", node.product.board_id), ("PCB ID", "A"), ("BOM ID", 1)]
    yield from [("PCIe Bus Info", first.bus_id.upper()), ("Slot ID", first.npu), ("Class ID", "NA")]
    yield from [("PCI Vendor ID", "0x19E5"), ("PCI Device ID", _hex(node.product.device_id))]
    yield from [("Subsystem Vendor ID", "0x19E5"), ("Subsystem Device ID", _hex(node.product.subsystem_id))]
    yield "Chip Count", len(chips)


def _chip_board(node: Node, chip: Chip) -> Iterator[Pair]:
    yield from [("NPU ID", chip.npu), ("Chip ID", chip.chip), ("Chip Type", "Ascend")]
    yield from [("Chip Name", node.product.chip), ("Chip Version", "V1"), ("Board ID", node.product.board_id)]
    yield from [("PCB ID", "NA"), ("BOM ID", 1)]
    for die in ("VDie ID", "NDie ID"):
        words = digest(f"{node.scenario.hostname} {chip.phy_id} {die}") ** 4 % (1 << 160)
        yield die, " ".join(f"{words >> shift & 0xFFFFFFFF:08X}" for shift in range(128, -1, -32))
    yield from [("Chip Position ID", chip.phy_id), ("PCIe Bus Info", chip.bus_id.upper())]
    yield "Firmware Version", node.firmware_version


def _hex(number: str) -> str:
    return "0x" + number[2:].upper()


def _health(_: Node, chip: Chip, with_chip: bool) -> Iterator[Pair]:
    yield "Health Status", chip.health
    yield "Error Code", " ".join(code.removeprefix("0x") for code in chip.codes) or "NA"
    yield "Error Information", "; ".join(f"fault {code} is active" for code in chip.codes) or "NA"
    if with_chip:
        yield "Chip ID", chip.chip


def _ecc(_: Node, chip: Chip, __: bool) -> Iterator[Pair]:
    for memory in ("DDR", "HBM"):
        single, double = (chip.ecc_single, chip.ecc_double) if (memory == "HBM") == bool(chip.hbm_total_mb) else (0, 0)
        yield from [(f"{memory} Single Bit Error Count", single), (f"{memory} Double Bit Error Count", double)]
        mine = (memory == "HBM") == bool(chip.hbm_total_mb)
        yield f"{memory} Single Bit Aggregate Total Err Cnt", single
        yield f"{memory} Double Bit Aggregate Total Err Cnt", double + (chip.ecc_double_old if mine else 0)
        yield f"{memory} Single Bit Isolated Pages Count", 0
        yield f"{memory} Double Bit Isolated Pages Count", chip.ecc_isolated_pages if mine else 0
    yield "Chip ID", chip.chip


def _usages(node: Node, chip: Chip, _: bool) -> Iterator[Pair]:
    used, total = node.product.hugepages
    yield from [("DDR Capacity(MB)", chip.mem_total_mb), ("DDR Usage Rate(%)", _ddr_pct(node, chip))]
    yield from [("DDR Hugepages Total(page)", total), ("DDR Hugepages Usage Rate(%)", 100 * used // (total or 1))]
    yield from [("HBM Capacity(MB)", chip.hbm_total_mb), ("HBM Usage Rate(%)", _hbm_pct(node, chip))]
    yield "Aicore Usage Rate(%)", node.aicore_pct(chip)
    if node.product.family != "910":
        yield "Aivector Usage Rate(%)", node.aicore_pct(chip) // 2
    yield from [("Aicpu Usage Rate(%)", 0), ("Ctrlcpu Usage Rate(%)", 1)]
    yield from [("DDR Bandwidth Usage Rate(%)", 0), ("HBM Bandwidth Usage Rate(%)", node.aicore_pct(chip) // 3)]
    yield "Chip ID", chip.chip


def _common(node: Node, chip: Chip, _: bool) -> Iterator[Pair]:
    busy = node.aicore_pct(chip)
    yield from [("Chip ID", chip.chip), ("Memory Usage Rate(%)", _ddr_pct(node, chip))]
    yield from [("HBM Usage Rate(%)", _hbm_pct(node, chip)), ("Aicore Usage Rate(%)", busy)]
    yield "Aicore Freq(MHZ)", node.product.aicore_mhz[0]
    at_work = node.product.aicore_mhz[0] if chip.busy_mhz is None else chip.busy_mhz
    yield "Aicore curFreq(MHZ)", (max(chip.aicore_mhz, at_work) if busy else chip.aicore_mhz)
    yield from [("Aicore Count", node.product.aicore_count), ("Temperature(C)", chip.temp_c)]
    yield "NPU Real-time Power(W)", "NA" if chip.power_w is None else f"{chip.power_w:.1f}"


def _memory(_: Node, chip: Chip, __: bool) -> Iterator[Pair]:
    yield from [("DDR Capacity(MB)", chip.mem_total_mb), ("DDR Clock Speed(MHz)", 2400 if chip.mem_total_mb else 0)]
    if chip.hbm_total_mb:
        yield from [("HBM Capacity(MB)", chip.hbm_total_mb), ("HBM Clock Speed(MHz)", 1600)]
        yield from [("HBM Temperature(C)", chip.hbm_temp_c), ("HBM Manufacturer ID", "0x56")]
    yield "Chip ID", chip.chip


def _process_memory(node: Node, chip: Chip) -> str:
    rows = [
        f"\tProcess id:{process.pid}  Process name:{process.name:<18}Process memory(MB):{memory}\n"
        for process, memory in node.holders(chip)
    ]
    return _page([("NPU ID", chip.npu), ("Chip ID", chip.chip)]) + "".join(rows)


def _hbm_pct(node: Node, chip: Chip) -> int:
    return 100 * node.hbm_used_mb(chip) // chip.hbm_total_mb if chip.hbm_total_mb else 0


def _ddr_pct(node: Node, chip: Chip) -> int:
    return 100 * node.mem_used_mb(chip) // chip.mem_total_mb if chip.mem_total_mb else 0


_PCIE_ERRORS = ("TX Error", "RX Error", "Lcrc Error", "Ecrc Error", "Retry")

_PER_CHIP: dict[str, Callable[[Node, Chip, bool], Iterator[Pair]]] = {
    "health": _health,
    "ecc": _ecc,
    "usages": _usages,
    "common": _common,
    "memory": _memory,
}
KINDS = ("board", *_PER_CHIP, "proc-mem")
