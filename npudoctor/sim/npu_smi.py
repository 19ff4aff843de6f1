"""The tables that npu-smi draws: `info` in the widths of its families, and `info -t topo`.

A layout is a list of column widths; the layouts differ by product line and driver, not by what they tell.
"""

from __future__ import annotations

from npudoctor.records import record, replace
from npudoctor.sim.node import Chip, Node
from npudoctor.sim.npu_smi_pages import UNFINISHED
from npudoctor.sim.releases import release_of

_HUGEPAGES = "Hugepages-Usage(page)"


@record(frozen=True, kw_only=True)
class Layout:
    """Widths of a family. `outer` are those of the three cells, `id` of the first word in a row, the others of columns.

    `used` is the width of a number before the slash, in the hugepages column; `tool` that of npu-smi's version.
    """

    outer: tuple[int, int, int]
    id: int
    tool: int
    load: int
    middle: int
    used: int = 5
    processes: tuple[tuple[str, int], ...]
    space: str = ""
    blank_before_processes: bool = False


_PIDS = (("Process id", 14), ("Process name", 25), ("Process memory(MB)", 24))
_PIDS_IN_CONTAINER = (
    ("Process id", 14),
    ("Process name", 19),
    ("Process memory(MB)", 22),
    ("Process id in container", 24),
)
WIDE = Layout(outer=(27, 15, 52), id=6, tool=25, load=12, middle=18, processes=_PIDS)
NARROW = Layout(outer=(22, 15, 52), id=6, tool=25, load=12, middle=18, processes=_PIDS, blank_before_processes=True)
NARROW_22 = replace(NARROW, tool=26)
WIDEST = Layout(outer=(27, 15, 70), id=6, tool=36, load=21, middle=24, processes=_PIDS_IN_CONTAINER)
DDR_ONLY = Layout(
    outer=(31, 17, 54),
    id=8,
    tool=41,
    load=13,
    middle=18,
    used=6,
    processes=(("Process id", 16), ("Process name", 25), ("Process memory(MB)", 26)),
    space=" ",
)


def layout_of(node: Node) -> Layout:
    """The family of table that this product's npu-smi draws."""
    release = release_of(node.driver.version)
    if node.product.family == "310P":
        return DDR_ONLY
    if release >= (26,):
        return WIDEST
    if node.product.family == "910" and release < (23, 0, 5):
        return NARROW if release >= (23,) else NARROW_22
    return WIDE


def info(node: Node) -> str:
    """The table of `npu-smi info`."""
    layout = layout_of(node)
    inner = sum(layout.outer) + 2
    tool = node.scenario.driver.tool or node.driver.version
    rule, double = _rule(layout, "-"), _rule(layout, "=")
    lines = [
        f"+{'-' * inner}+",
        f"|{f' npu-smi {tool:<{layout.tool}}Version: {node.driver.version}':<{inner}}|",
        rule,
        *_titles(node, layout),
        double,
    ]
    between = f"+{'-' * inner}+" if node.product.family == "A3" else rule
    for chips in node.cards().values():
        for place, chip in enumerate(chips):
            lines += [between] if place else []
            lines += [_card_row(node, layout, chip), _chip_row(node, layout, chip)]
        lines.append(double)
    if node.scenario.driver.processes and release_of(node.driver.version) >= (23,):
        lines += [""] if layout.blank_before_processes else []
        lines += [rule, *_process_table(node, layout, inner)]
    if not (node.scenario.driver.finished or node.scenario.container or layout is DDR_ONLY):
        lines.append(UNFINISHED)
    return "\n".join(lines) + "\n"


def _rule(layout: Layout, mark: str) -> str:
    return "+" + "+".join(mark * width for width in layout.outer) + "+"


def _row(layout: Layout, first: str, second: str, third: str) -> str:
    cells = (f" {cell}" for cell in (first, second, third))
    return "|" + "|".join(f"{cell:<{width}}" for cell, width in zip(cells, layout.outer, strict=True)) + "|"


def _titles(node: Node, layout: Layout) -> tuple[str, str]:
    number = {"A3": "Phy-ID", "310P": "Device"}.get(node.product.family, "")
    load = f"{'AICore(%)':<{layout.load}}{'Memory-Usage(MB)':<{layout.middle}}"
    return (
        _row(
            layout,
            f"{'NPU':<{layout.id}}Name",
            "Health",
            f"{'Power(W)':<{layout.load}}{'Temp(C)':<{layout.middle}}{_HUGEPAGES}",
        ),
        _row(
            layout,
            f"{'Chip':<{layout.id}}{number}",
            "Bus-Id",
            load if layout is DDR_ONLY else f"{load}HBM-Usage(MB)",
        ),
    )


def _card_row(node: Node, layout: Layout, chip: Chip) -> str:
    used, total = (0, 0) if chip.silent else node.product.hugepages
    power = ("-" if chip.chip else "NA") if chip.power_w is None else f"{0.0 if chip.silent else chip.power_w:.1f}"
    power = "NA" if node.product.family == "310P" and chip.power_w is None else power
    return _row(
        layout,
        f"{chip.npu:<{layout.id}}{node.product.chip}{chip.suffix}",
        "OK" if chip.silent else chip.health,
        f"{power:<{layout.load}}{0 if chip.silent else chip.temp_c:<{layout.middle}}{used:<{layout.used}}/ {total}",
    )


def _chip_row(node: Node, layout: Layout, chip: Chip) -> str:
    number = str(chip.phy_id) if node.product.family in ("A3", "310P") else ""
    answers = not chip.silent
    memory = f"{answers * node.mem_used_mb(chip):<5}/ {answers * chip.mem_total_mb}"
    load = f"{answers * node.aicore_pct(chip):<{layout.load}}{memory:<{layout.middle}}"
    hbm = "" if layout is DDR_ONLY else f"{answers * node.hbm_used_mb(chip):<5}/ {answers * chip.hbm_total_mb}"
    return _row(layout, f"{chip.chip:<{layout.id}}{number}", chip.bus_id.upper(), load + hbm)


def _process_table(node: Node, layout: Layout, inner: int) -> list[str]:
    first, double = layout.outer[0], _rule(layout, "=")

    def row(npu: str, chip: str, *cells: str) -> str:
        columns = zip(cells, layout.processes, strict=True)
        rest = "".join(f"| {cell:<{width}}" for cell, (_, width) in columns)
        return f"|{f' {npu:<8}{chip}':<{first}}{rest}|"

    lines = [row("NPU", "Chip", *(title for title, _ in layout.processes)), double]
    for npu, chips in node.cards().items():
        rows = []
        for chip in chips:
            for process, memory in node.holders(chip):
                cells = [str(process.pid), process.name[:15], str(memory)]
                cells += ["NA"] * (len(layout.processes) - len(cells))
                rows.append(row(str(npu), str(chip.chip), *cells))
        lines += rows or [f"|{f' No running processes found in NPU {npu}':<{inner}}|"]
        lines.append(double)
    return lines


_LEGEND = (
    ("X", "Self"),
    ("SYS", "Path traversing PCIe and NUMA nodes. Nodes are connected through SMP, such as QPI, UPI."),
    ("PHB", "Path traversing PCIe and the PCIe host bridge of a CPU."),
    ("PIX", "Path traversing a single PCIe switch"),
    ("PXB", "Path traversing multipul PCIe switches"),
    ("HCCS", "Connection traversing HCCS."),
    ("NA", "Unknown relationship."),
)
_LEGEND_A3 = (("SIO", "Path traversing the SIO bus"), ("HCCS_SW", "Connection traversing HCCS through a switch"))


def topology(node: Node) -> str:
    """The matrix of `npu-smi info -t topo` with its legend."""
    said = node.scenario.topology
    chips = node.chips_at("npu-smi")
    names = [_name(node, chip) for chip in chips]
    with_affinity = any(chip.affinity for chip in chips)
    nics = range(4) if release_of(node.driver.version) >= (26,) else ()
    title = "".join(f"{name:<11}" for name in names) + "".join(f"NIC{number:<9}" for number in nics)
    title += "CPU Affinity" if with_affinity else ""
    lines = ["", title.rstrip()] if said.form == "pasted" else ["\t   " + title.rstrip()]
    for chip, name in zip(chips, names, strict=True):
        cells = [name, *(link(node, chip, other) for other in chips), *("NA" for _ in nics)]
        lines.append(("".join(f"{cell:<11}" for cell in cells) + (chip.affinity or "")[:31]).rstrip())
    for nic in nics:
        cells = [f"NIC{nic}", *("NA" for _ in chips), *("X" if nic == other else "NA" for other in nics)]
        lines.append("".join(f"{cell:<11}" for cell in cells))
    lines += ["", *(f"NIC{nic}: " for nic in nics)] if nics else []
    lines += ["", "", "Legend:"] if said.form == "pasted" else ["", "Legend:", ""]
    legend = [*_LEGEND[:-1], *(_LEGEND_A3 if node.product.family == "A3" else ()), _LEGEND[-1]]
    lines += [f"  {word:<4} = {meaning}" for word, meaning in legend]
    return "\n".join(lines) + "\n"


def _name(node: Node, chip: Chip) -> str:
    return f"Phy-ID{chip.phy_id}" if node.product.family == "A3" else f"NPU{chip.npu}"


def link(node: Node, one: Chip, other: Chip) -> str:
    """How two chips are joined, in npu-smi's word."""
    if one is other:
        return "X"
    low, high = sorted((one.phy_id, other.phy_id))
    if changed := node.scenario.topology.links.get(f"{low}-{high}"):
        return changed
    if node.product.family == "A3":
        return "SIO" if one.npu == other.npu else "HCCS_SW"
    if node.product.family == "950":
        return "UB"
    if node.product.family == "910" and one.phy_id // 4 != other.phy_id // 4:
        return "SYS" if one.numa_node != other.numa_node else "PHB"
    return "HCCS"
