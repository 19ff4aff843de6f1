"""What npu-smi prints beside its tables: lists of keys and values per NPU and chip, its version, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npudoctor.sim.node import Chip, Node
from npudoctor.sim.releases import digest

Pair = tuple[str, object]

UNFINISHED = (
    "[WARNING]The driver package may not be completely installed, which may cause function abnormal. "
    "Please reinstall it."
)
"""What is below the table of NPUs with HBM, outside of a container."""

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
USAGE = """\
Usage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]

Commands:
       watch          Show all device's status in scrolling format
       proc           Show device's matrix process status in scrolling format
       -h, --help     Show this help text and exit
       -m             Show all device's mapping information
       -l             Show all device's topology information
       -t type        Show information for type

Options:
       -i %d          Card ID
       -c %d          Chip ID
       -p %d          Chip Physical ID
"""
UNKNOWN_OPTION = (
    "Command or option is not found.\nUsage: npu-smi <Command|-h|-v> [Options...]\n\nnpu-smi Command:\n"
    "\t-h            This command's help information\n\tinfo          Show hardware details\n",
    211,
)
NO_TOPOLOGY = ('Failed to query "topo" info.\nFailed to execute npu-smi info. ret is -8001.\n', 191)
"""What one lost NPU makes of the matrix of all."""


def refuse(said: str) -> tuple[str, int]:
    """What a question with wrong words gets: a line, the usage, and the low byte of -9001."""
    return said + USAGE, 215


INVALID_CARD = refuse("Invalid card id.\nError parameter of -i\n")
INVALID_CHIP = refuse("Invalid chip id.\nError parameter of -c\n")
"""Text and exit status of npu-smi's failures; the status is the return code cut to a byte."""


def answer_unsupported(what: str) -> tuple[str, int]:
    """What a product says to a question that it does not know; that is no failure of npu-smi."""
    return f"This device does not support querying {what}.\n", 0


def version(node: Node) -> str:
    """`npu-smi -v`."""
    return f"npu-smi version: {node.scenario.driver.tool or node.driver.version}\n"


def listing(node: Node) -> str:
    """`npu-smi info -l`: a lost NPU is counted and has no number."""
    cards = node.cards()
    blocks = [page_of([("Total Count", len(cards) + len(node.lost_npus()))])]
    blocks += [page_of([("NPU ID", npu), ("Chip Count", len(chips))]) for npu, chips in cards.items()]
    blocks += [page_of([("NPU ID", -1), ("Chip Count", 0)]) for _ in node.lost_npus()]
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
            lines.append("\t" + "".join(f"{number:<31}" for number in numbers) + name + chip.suffix)
            logic += 1
        if node.product.has_mcu:
            lines.append(_mcu_row(npu, len(chips), with_phy))
    lines += [_mcu_row(-1, 0, with_phy) for _ in node.lost_npus()]
    return "\n".join(lines) + "\n"


def _mcu_row(npu: int, chip: int, with_phy: bool) -> str:
    words = [str(npu), str(chip), "-", *(["-"] if with_phy else [])]
    return "\t" + "".join(f"{word:<31}" for word in words) + f"{'Mcu':<30}"


def page(node: Node, kind: str, npu: int, chip: int | None) -> tuple[str, int]:
    """`npu-smi info -t KIND -i NPU [-c CHIP]`, of an NPU that there is: its text and exit status."""
    chips = node.cards()[npu]
    if chips[0].template and kind not in ("health", "memory", "usages"):
        return answer_unsupported(kind)
    one = next((one for one in chips if one.chip == chip), None)
    if chip is not None and one is None:
        return INVALID_CHIP
    if kind == "board":
        return page_of(_card_board(node, chips) if one is None else _chip_board(node, one)), 0
    if kind == "common":
        if one is not None:
            return refuse('Error parameter in querying chip info, type: "common".\n')
        return _common_page(node, chips), 0
    if kind not in _PER_CHIP or (kind in _OF_A3 and node.product.family != "A3"):
        return answer_unsupported(kind)
    if one is not None:
        return _of_chip(node, kind, one)
    if kind in _OF_A_CHIP:
        return refuse("Must input parameter of chip id.\n")
    return _of_card(node, kind, chips)


def _of_chip(node: Node, kind: str, chip: Chip) -> tuple[str, int]:
    """A page of one chip, without its number."""
    if chip.silent:
        return f'Failed to query "{kind}" result.\n', 210
    return _block(node, "diagnosis" if kind == "health" else kind, chip), 0


def _of_card(node: Node, kind: str, chips: list[Chip]) -> tuple[str, int]:
    """A page of an NPU: the number of a chip is behind its values, or before the failure; the MCU is the last."""
    width = _WIDTH.get(kind, 30)
    text = page_of([("NPU ID", chips[0].npu), ("Chip Count", len(chips))], width) + "\n"
    status = 0
    for chip in chips:
        if kind == "power" and node.product.family == "310P":
            continue
        text += ("" if chip.silent else _block(node, kind, chip)) + page_of([("Chip ID", chip.chip)], width)
        text += f"Failed to query npu chip: {chip.chip} info.\n\n" if chip.silent else "\n"
        status = 210 if chip.silent else 0
    if node.product.has_mcu and kind in _MCU:
        text += _MCU[kind] + page_of([("Chip Name", "MCU")]) + "\n"
        status = 0
    return text + (f'Failed to query "{kind}" info.\n' if status else ""), status


def _block(node: Node, kind: str, chip: Chip) -> str:
    made = _PER_CHIP[kind](node, chip)
    return made if isinstance(made, str) else page_of(made, _WIDTH.get(kind, 30))


def page_of(pairs: Iterator[Pair] | list[Pair], width: int = 30) -> str:
    """Lines of a key and its value."""
    return "".join(f"\t{key:<{width}} : {value}\n" for key, value in pairs)


def _card_board(node: Node, chips: list[Chip]) -> Iterator[Pair]:
    first = chips[0]
    yield from [("NPU ID", first.npu), ("Product Name", "IT21DMDA"), ("Model", "NA"), ("Manufacturer", "Huawei")]
    yield "Serial Number", f"1023C3{digest(node.scenario.hostname + first.bus_id) % 10**6:06}"
    yield from [("Software Version", node.driver.version), ("Firmware Version", node.firmware_version)]
    verdict = node.scenario.firmware.says or ("OK" if node.scenario.firmware.fits else "NOK")
    yield "Compatibility", "NOT SUPPORT" if node.user.uid else verdict
    yield "Board ID", node.product.board_id
    yield from [("Main Board ID", "0x1c")] if node.product.family == "A3" else []
    yield from [("PCB ID", "A"), ("BOM ID", 1)]
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


def _health(_: Node, chip: Chip) -> Iterator[Pair]:
    yield "Health", chip.health


def _diagnosis(_: Node, chip: Chip) -> str:
    """Codes are in one line; each has a line of words, blank lines between them."""
    codes = [code.removeprefix("0x").upper() for code in chip.codes]
    words = [f"node type=SoC, sensor type=Fault, event state={code}" for code in codes]
    health = chip.health if codes or chip.health == "UNKNOWN" else "OK"  # so the tool words a state without a code
    text = page_of([("Health Status", health), ("Error Code", " ".join(codes) or "NA")])
    text += page_of([("Error Information", words[0] if words else "NA")])
    return text + "".join("\n" + page_of([("", word)]) for word in words[1:])


def _ecc(node: Node, chip: Chip) -> Iterator[Pair]:
    memories = {"910": ("DDR", "HBM"), "310P": ("DDR",)}.get(node.product.family, ("HBM",))
    for memory in memories:
        mine = (memory == "HBM") == bool(chip.hbm_total_mb)
        single, double = (chip.ecc_single, chip.ecc_double) if mine else (0, 0)
        yield from [(f"{memory} Single Bit Error Count", single), (f"{memory} Double Bit Error Count", double)]
        yield f"{memory} Single Bit Aggregate Total Err Cnt", single
        yield f"{memory} Double Bit Aggregate Total Err Cnt", double + (chip.ecc_double_old if mine else 0)
        yield f"{memory} Single Bit Isolated Pages Count", 0
        yield f"{memory} Double Bit Isolated Pages Count", chip.ecc_isolated_pages if mine else 0
        if node.product.family != "910":
            yield f"{memory} Single Bit Next-Isolated Pages Count", 0
            yield f"{memory} Double Bit Next-Isolated Pages Count", 0


def _usages(node: Node, chip: Chip) -> Iterator[Pair]:
    family = node.product.family
    used, total = node.product.hugepages
    busy = node.aicore_pct(chip)
    yield from [("DDR Capacity(MB)", chip.mem_total_mb), ("DDR Usage Rate(%)", _ddr_pct(node, chip))]
    yield from [("DDR Hugepages Total(page)", total), ("DDR Hugepages Usage Rate(%)", 100 * used // (total or 1))]
    if chip.hbm_total_mb:
        yield from [("HBM Capacity(MB)", chip.hbm_total_mb), ("HBM Usage Rate(%)", _hbm_pct(node, chip))]
    yield "Aicore Usage Rate(%)", busy
    if family in ("A2", "A3"):
        yield "Aivector Usage Rate(%)", busy // 2
    yield from [("Aicpu Usage Rate(%)", 0), ("Ctrlcpu Usage Rate(%)", 1)]
    if family == "310P":
        yield "Vectorcore Usage Rate(%)", 0
    yield "DDR Bandwidth Usage Rate(%)", 0
    if chip.hbm_total_mb:
        yield "HBM Bandwidth Usage Rate(%)", busy // 3
    if family == "310P":
        parts = ("VDEC", "VPC", "VENC", "JPEGE", "JPEGD")
        yield from ((f"DVPP {part} Usage Rate(%)", 0) for part in parts)
    if family in ("A2", "A3"):
        yield "NPU Utilization(%)", busy


def _common_page(node: Node, chips: list[Chip]) -> str:
    """Of an NPU alone: the number of a chip is before its values, which are zeros for one that does not answer."""
    text = page_of([("NPU ID", chips[0].npu), ("Chip Count", len(chips))])
    for chip in chips:
        pairs = [("Chip ID", chip.chip), *((key, 0 if chip.silent else value) for key, value in _common(node, chip))]
        text += "\n" + page_of(pairs)
    return text + ("\n" + page_of([("Chip Name", "mcu"), ("Temperature(C)", 38)]) if node.product.has_mcu else "")


def _common(node: Node, chip: Chip) -> Iterator[Pair]:
    busy = node.aicore_pct(chip)
    yield "Memory Usage Rate(%)", _ddr_pct(node, chip)
    if chip.hbm_total_mb:
        yield "HBM Usage Rate(%)", _hbm_pct(node, chip)
    yield from [("Aicore Usage Rate(%)", busy), ("Aicore Freq(MHZ)", node.product.aicore_mhz[0])]
    at_work = node.product.aicore_mhz[0] if chip.busy_mhz is None else chip.busy_mhz
    yield "Aicore curFreq(MHZ)", (max(chip.aicore_mhz, at_work) if busy else chip.aicore_mhz)
    if chip.hbm_total_mb:
        yield "Aicore Count", node.product.aicore_count
    yield "Temperature(C)", chip.temp_c
    if chip.hbm_total_mb:
        yield "NPU Real-time Power(W)", _power(chip)


def _power(chip: Chip) -> str:
    return "0.0" if chip.power_w is None else f"{chip.power_w:.1f}"


def _memory(_: Node, chip: Chip) -> Iterator[Pair]:
    yield from [("DDR Capacity(MB)", chip.mem_total_mb), ("DDR Clock Speed(MHz)", 2400 if chip.mem_total_mb else 0)]
    if chip.hbm_total_mb:
        yield from [("HBM Capacity(MB)", chip.hbm_total_mb), ("HBM Clock Speed(MHz)", 1600)]
        yield from [("HBM Temperature(C)", chip.hbm_temp_c), ("HBM Manufacturer ID", "0x56")]


def _process_memory(node: Node, chip: Chip) -> str:
    rows = [
        f"\tProcess id:{process.pid:<7} Process name:{process.name:<17} Process memory(MB):{memory}\n"
        for process, memory in node.holders(chip)
    ]
    return "".join(rows) or "\tNo process in device.\n"


def _temperature(_: Node, chip: Chip) -> Iterator[Pair]:
    yield "NPU Temperature (C)", chip.temp_c


def _sensors(node: Node, chip: Chip) -> Iterator[Pair]:
    yield "Soc Max Temperature (C)", chip.temp_c
    if node.product.family != "310P":
        yield from [("SFP Temperature (C)", "NA"), ("NDIE Temperature (C)", chip.temp_c)]
        yield "HBM Temperature (C)", chip.hbm_temp_c


def _superpod(_: Node, chip: Chip) -> Iterator[Pair]:
    yield from [("SDID", 131072 * chip.npu + chip.chip), ("Super Pod Size", 384)]
    yield from [("Super Pod ID", 0), ("Server Index", 0)]


def _pcie_errors(_: Node, __: Chip) -> Iterator[Pair]:
    yield from ((f"{name} Count", 0) for name in ("TX Error", "RX Error", "Lcrc Error", "Ecrc Error", "Retry"))


def _hbm_pct(node: Node, chip: Chip) -> int:
    return 100 * node.hbm_used_mb(chip) // chip.hbm_total_mb if chip.hbm_total_mb else 0


def _ddr_pct(node: Node, chip: Chip) -> int:
    return 100 * node.mem_used_mb(chip) // chip.mem_total_mb if chip.mem_total_mb else 0


_PER_CHIP: dict[str, Callable[[Node, Chip], Iterator[Pair] | str]] = {
    "health": _health,
    "diagnosis": _diagnosis,
    "ecc": _ecc,
    "usages": _usages,
    "memory": _memory,
    "proc-mem": _process_memory,
    "pcie-err": _pcie_errors,
    "temp": _temperature,
    "power": lambda _, chip: iter([("NPU Real-time Power(W)", _power(chip))]),
    "volt": lambda _, __: iter([("Voltage(V)", "0.86")]),
    "sensors": _sensors,
    "sys-time": lambda _, __: iter([("System Time(local)", "Sat Nov 21 10:10:44 2026")]),
    "sio-info": lambda _, __: "\tTX Error Count : 0\n\tRX Error Count : 0\n",
    "spod-info": _superpod,
}
_WIDTH = {"ecc": 40}
_MCU = {
    "health": page_of([("Health", "OK")]),
    "temp": f"\t{'LM75_1':<8}{' (C)':<22} : 38\n\t{'LM75_2':<8}{' (C)':<22} : 36\n",
    "power": page_of([("Power Dissipation(W)", "168.4")]),
}
_OF_A_CHIP = ("sensors", "sys-time", "sio-info", "spod-info")
_OF_A3 = ("sio-info", "spod-info")
KINDS = ("board", "common", *(kind for kind in _PER_CHIP if kind != "diagnosis"))
