"""What npu-smi prints of 950: an NPU is one chip without a number, `-c` is refused, and fault codes are on its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npudoctor.sim.node import Chip, Node
from npudoctor.sim.npu_smi_pages import UNFINISHED, Pair, answer_unsupported, page_of
from npudoctor.sim.releases import digest

_CELLS = (8, 18, 15, 53)
_PROCESS_CELLS = (27, 15, 26, 26)


def info(node: Node) -> str:
    """The table of `npu-smi info`."""
    inner = sum(_CELLS) + len(_CELLS) - 1
    tool = node.scenario.driver.tool or node.driver.version
    rule, double = (_rule(_CELLS, mark) for mark in "-=")
    lines = [f"+{'-' * inner}+", f"|{f' npu-smi {tool:<32}Version: {node.driver.version}':<{inner}}|", rule]
    lines.append(_row(_CELLS, "NPU ID", "Name", "Health", _columns("Power(W)", "Temp(C)", "Hugepages-Usage(page)")))
    lines.append(_row(_CELLS, "", "", "Bus-Id", _columns("NPU Util(%)", "Memory-Usage(MB)", "HBM-Usage(MB)")))
    lines.append(double)
    for chip in node.chips_at("npu-smi"):
        answers = not chip.silent
        power, celsius = f"{answers * (chip.power_w or 0):.1f}", str(answers * chip.temp_c)
        hbm = f"{answers * node.hbm_used_mb(chip):<6}/ {answers * chip.hbm_total_mb}"
        health = chip.health if answers else "OK"
        lines.append(_row(_CELLS, str(chip.npu), node.product.chip, health, _columns(power, celsius, "0     / 0")))
        load = _columns(str(answers * node.aicore_pct(chip)), "0     / 0", hbm)
        lines += [_row(_CELLS, "", "", chip.bus_id.upper(), load), double]
    if node.scenario.driver.processes:
        lines += [rule, *_processes(node, inner, double)]
    if not (node.scenario.driver.finished or node.scenario.container):
        lines.append(UNFINISHED)
    return "\n".join(lines) + "\n"


def _processes(node: Node, inner: int, double: str) -> Iterator[str]:
    yield _row(_PROCESS_CELLS, "NPU ID", "Process id", "Process name", "Process memory(MB)")
    yield double
    for chip in node.chips_at("npu-smi"):
        for process, memory in node.holders(chip):
            yield _row(_PROCESS_CELLS, str(chip.npu), str(process.pid), process.name[:15], str(memory))
        if not node.holders(chip):
            yield f"|{f' No running processes found in NPU {chip.npu}':<{inner}}|"
        yield double


def _rule(cells: tuple[int, ...], mark: str) -> str:
    return "+" + "+".join(mark * width for width in cells) + "+"


def _row(cells: tuple[int, ...], *texts: str) -> str:
    return "|" + "|".join(f"{f' {text}':<{width}}" for text, width in zip(texts, cells, strict=True)) + "|"


def _columns(first: str, second: str, third: str) -> str:
    return f"{first:<12}{second:<18}{third}"


def listing(node: Node) -> str:
    """`npu-smi info -l`: no number of chips, but the product and its serial number."""
    chips = node.chips_at("npu-smi")
    blocks = [page_of([("Total Count", len(chips) + len(node.lost_npus()))])]
    for chip in chips:
        serial = f"sn-{digest(node.scenario.hostname + chip.bus_id) % 10**6:06}"
        blocks.append(page_of([("NPU ID", chip.npu), ("Product Name", "A5 PCIe Card"), ("Serial Number", serial)]))
    return "\n".join(blocks)


def mapping(node: Node) -> str:
    """`npu-smi info -m`: with slots, and without logic ids and MCUs."""
    titles = ("NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name")
    numbers = ((chip.npu, chip.npu + 1, 0, chip.phy_id, node.product.chip) for chip in node.chips_at("npu-smi"))
    rows: list[tuple[object, ...]] = [titles, *numbers]
    return "".join("\t" + "".join(f"{cell:<31}" for cell in row).rstrip() + "\n" for row in rows)


def page(node: Node, kind: str, npu: int, chip: int | None) -> tuple[str, int]:
    """`npu-smi info -t KIND -i NPU`, of an NPU that there is: its text and exit status."""
    if chip is not None:
        return "This device does not support input parameter of -c.\n", 0
    one = next(one for one in node.chips_at("npu-smi") if one.npu == npu)
    if kind not in _PAGES:
        return answer_unsupported(kind)
    head = page_of([("NPU ID", npu)], _WIDTH.get(kind, 30))
    if one.silent and kind != "board":
        return f'{head}Failed to query "{kind}" info.\n', 210
    made = _PAGES[kind](node, one)
    return head + (made if isinstance(made, str) else page_of(made, _WIDTH.get(kind, 30))), 0


def _board(node: Node, chip: Chip) -> Iterator[Pair]:
    yield from [("Product Name", "A5 PCIe Card"), ("NPU Name", node.product.chip), ("Chip Name", node.product.chip)]
    yield from [("Chip Version", "V2"), ("Software Version", node.driver.version)]
    yield "Firmware Version", node.firmware_version
    verdict = node.scenario.firmware.says or ("OK" if node.scenario.firmware.fits else "NOK")
    yield "Compatibility", "NOT SUPPORT" if node.user.uid else verdict
    yield from [("Board ID", node.product.board_id), ("Main Board ID", "0x68(1P)")]
    yield from [("PCIe Bus Info", chip.bus_id.upper()), ("Slot ID", chip.npu + 1), ("Chip Count", 1)]


def _health(_: Node, chip: Chip) -> str:
    codes = [code.removeprefix("0x").upper() for code in chip.codes]
    words = [f"node type=SoC, sensor type=Fault, event state={code}" for code in codes] or ["NA"]
    text = page_of([("Health Status", chip.health), ("Error Code", " ".join(codes) or "NA")])
    return text + "\n".join(page_of([("" if place else "Error Information", one)]) for place, one in enumerate(words))


def _events(_: Node, chip: Chip) -> Iterator[Pair]:
    yield "Fault Event Count", len(chip.codes)
    for place, code in enumerate(chip.codes or ("",)):
        event = f"event id=0x{code.removeprefix('0x').upper()}, severity=2, node type ex=215, node id=0"
        yield (
            "" if place else "Fault Event Information",
            f"{event}, sub node type ex=0, sub node id=0" if code else "NA",
        )


def _ecc(_: Node, chip: Chip) -> Iterator[Pair]:
    yield from [("HBM Single Bit Error Count", chip.ecc_single), ("HBM Double Bit Error Count", chip.ecc_double)]
    yield "HBM Single Bit Aggregate Total Err Cnt", chip.ecc_single
    yield "HBM Double Bit Aggregate Total Err Cnt", chip.ecc_double + chip.ecc_double_old
    yield from [("HBM Pending Retire Page Count", 0), ("HBM Isolated Page Count", chip.ecc_isolated_pages)]


def _usages(node: Node, chip: Chip) -> Iterator[Pair]:
    busy = node.aicore_pct(chip)
    yield from [("DDR Capacity(MB)", 0), ("DDR Usage Rate(%)", "NA"), ("HBM Capacity(MB)", chip.hbm_total_mb)]
    yield "HBM Usage Rate(%)", 100 * node.hbm_used_mb(chip) // chip.hbm_total_mb
    yield from [("Ctrlcpu Usage Rate(%)", 1), ("NPU Utilization(%)", busy), ("Aicube Usage Rate(%)", busy)]


def _process_memory(node: Node, chip: Chip) -> str:
    rows = [
        f"\tProcess id:{process.pid:<7} Process name:{process.name:<17} Process memory(MB):{memory}\n"
        for process, memory in node.holders(chip)
    ]
    return "".join(rows) or "\tNo process in device.\n"


_PAGES: dict[str, Callable[[Node, Chip], Iterator[Pair] | str]] = {
    "board": _board,
    "health": _health,
    "current-fault-event": _events,
    "ecc": _ecc,
    "usages": _usages,
    "proc-mem": _process_memory,
    "temp": lambda _, chip: iter([("NPU Temperature (C)", chip.temp_c)]),
    "power": lambda _, chip: iter([("NPU Real-time Power(W)", f"{chip.power_w or 0:.1f}")]),
}
_WIDTH = {"ecc": 40}
KINDS = tuple(_PAGES)
