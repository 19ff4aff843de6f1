"""What libdcmi answers on a simulated node, the one for which `sim tools` renders npu-smi, as text for the stub.

Which chip answers which call, the codes of those that do not, and the units are those of the driver's public source.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from npudoctor import sim
from npudoctor.host import Completed
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sim import machine
from npudoctor.sim import scenario as scenarios
from npudoctor.sim.node import Chip, Node
from npudoctor.sim.npu_smi import link
from npudoctor.sim.releases import digest
from tests.fake_dcmi import interface

NOT_PERMITTED, INNER, TIME_OUT, NOT_EXIST = -8002, -8005, -8006, -8008
OCCUPIED, NOT_SET, NOT_SUPPORTED = -8020, -8023, -8255
DDR, HBM, NPU, MCU, CPU = 0, 2, 0, 1, 2
LINKS = ("X", "SYS", "PHB", "HCCS", "PXB", "PIX", "SIO", "HCCS_SW", "NA")
NET_HEALTH = (
    *("Success", "Socket fail", "Receive timeout", "Unreachable", "Time exceeded", "Fault", "Init", "Thread error"),
    "Detect ip set",
)
HEALTH = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN")
_WITH_HBM = ("910", "A2", "A3", "950")
_SIZES = {"char": 1, "short": 2, "int": 4, "float": 4, "long": 8, "double": 8}
_TABLE = interface.load()

V2_NAMES = {
    "dcmi_get_device_chip_info_v2": "dcmiv2_get_device_chip_info",
    "dcmi_get_device_pcie_info_v2": "dcmiv2_get_device_pcie_info",
    "dcmi_get_device_errorcode_v2": "dcmiv2_get_device_error_code_list",
    "dcmi_get_device_errorcode_string": "dcmiv2_get_device_error_info",
    "dcmi_get_device_resource_info": "dcmiv2_get_device_proc_mem_info",
    "dcmi_get_affinity_cpu_info_by_device_id": "dcmiv2_get_affinity_cpu_info_by_dev_id",
    "dcmi_get_multi_ecc_record_info_v2": "dcmiv2_get_multi_ecc_record_info",
}
"""Calls that have another name in the V2 family; the rest only take its prefix."""


@dataclass(frozen=True)
class Answers:
    """Answers to calls, and what goes wrong with them. `faults` are lines of README.md: `CALL CARD DEVICE KIND VALUE`.

    `processes` are added to those on each chip. `trace` writes every call down beside the library.
    """

    said: Mapping[str, tuple[int, dict[int, bytes]]]
    init: int = 0
    is_v2: bool = False
    faults: tuple[str, ...] = ()
    delay_ms: int = 0
    trace: bool = True

    def but(self, *faults: str, **changes: Any) -> Answers:
        """The same with more faults, or with other fields."""
        return replace(self, faults=(*self.faults, *faults), **changes)

    def saying(self, call: str, *ins: int, rc: int = 0, **outs: Any) -> Answers:
        """The same with another answer to one call."""
        key, answer = _answer(call, ins, rc, outs)
        return replace(self, said={**self.said, key: answer})

    def text(self) -> str:
        """The file beside the library."""
        lines = [f"api {'v2' if self.is_v2 else 'v1'}", f"init {self.init}", f"delay {self.delay_ms}"]
        lines += ["trace"] * self.trace + [f"fault {fault}" for fault in self.faults]
        for key in sorted(self.said):
            rc, outs = self.said[key]
            cells = "".join(f"{' ' if place else ''}{which}:{outs[which].hex()}" for place, which in enumerate(outs))
            lines.append(f"={key}\t{rc}" + (f"\t{cells}" if cells else ""))
        return "\n".join(lines) + "\n"


def of(name: str, **changes: Any) -> Answers:
    """The answers on a simulated node, by its name or the path of a .toml file; `changes` as of `of_node`."""
    return _of_host(sim.simulate(name), changes)


def of_scenario(said: Mapping[str, Any], **changes: Any) -> Answers:
    """The answers on a simulated node, by the tables of a scenario."""
    return _of_host(machine.build(scenarios.parse(dict(said), "test"), "test"), changes)


def _of_host(host: SimulatedHost, changes: Mapping[str, Any]) -> Answers:
    node: Node = host._machine._node  # type: ignore[attr-defined]
    found = of_node(node, host.commands.get("npu-smi info"), **changes)
    return as_950(found) if node.product.family == "950" else found


def of_node(node: Node, npu_smi: Completed | None, *, cpus: bool = False, more_processes: int = 0) -> Answers:
    """The answers on a node. Where `npu_smi`, the answer to `npu-smi info`, is a failure, the library has the same."""
    book = _Book()
    for call in (_lists(node, cpus), _versions(node), _topology(node)):
        book.put(call)
    for number, chip in enumerate(node.chips_at("npu-smi")):
        book.put(_identity(node, chip, number))
        book.put(_silent(node, chip) if chip.silent else _readings(node, chip, more_processes))
    init, faults = _as_npu_smi(npu_smi)
    return Answers(book.said, init=init, faults=faults)


def as_950(answers: Answers) -> Answers:
    """The same node as the V2 family would tell it: one id per chip, no card, and other names of the calls."""
    ids = {  # card and device by logic id, as the V1 family says
        tuple(key.split(" ")[1:]): str(struct.unpack("<i", outs[0])[0])
        for key, (_, outs) in answers.said.items()
        if key.startswith("dcmi_get_device_logic_id ")
    }
    book: dict[str, tuple[int, dict[int, bytes]]] = {}
    for key, (rc, outs) in answers.said.items():
        call, *ins = key.split(" ")
        name = V2_NAMES.get(call, call.replace("dcmi_", "dcmiv2_", 1))
        if name not in _TABLE["functions"]:
            continue
        if tuple(ins[:2]) in ids:
            ins = [ids[ins[0], ins[1]], *ins[2:]]
            if call.startswith("dcmi_get_topo"):
                ins = [ins[0], ids[ins[1], ins[2]]]
        elif any(parameter == "dev_id" for _, parameter, _ in _TABLE["functions"][name]):
            continue  # an MCU
        before = [n for _, n, _ in _TABLE["functions"][call]]
        after = [n for _, n, _ in _TABLE["functions"][name]]
        shift = len(after) - len(before)
        book[" ".join([name, *ins])] = (rc, {which + shift: value for which, value in outs.items()})
    for (card, device), logic in ids.items():
        _, outs = answers.said[f"dcmi_get_device_phyid_from_logicid {logic}"]
        book[f"dcmiv2_get_chip_phy_id_by_dev_id {logic}"] = (0, {1: outs[1]})
        rc, outs = answers.said[f"dcmi_get_device_chip_info_v2 {card} {device}"]
        assert not rc
        names = _pack("struct dcmi_chip_info_v2", {"chip_type": "Ascend", "chip_name": "Ascend950PR", "chip_ver": "V1"})
        book[f"dcmiv2_get_device_chip_info {logic}"] = (0, {1: names[:96] + outs[2][96:100] + b"9579".ljust(32, b"\0")})
    numbers = sorted(map(int, ids.values()))
    key, answer = _answer("dcmiv2_get_device_list", (), 0, {"device_list": numbers, "device_cnt": len(numbers)})
    return replace(answers, said={**book, key: answer}, is_v2=True)


class _Book:
    def __init__(self) -> None:
        self.said: dict[str, tuple[int, dict[int, bytes]]] = {}

    def put(self, calls: Iterable[_Call]) -> None:
        for call in calls:
            key, answer = _answer(call.name, call.ins, call.rc, call.outs)
            self.said[key] = answer


@dataclass(frozen=True)
class _Call:
    name: str
    ins: tuple[int, ...]
    rc: int
    outs: dict[str, Any]


def _says(name: str, *ins: int, rc: int = 0, **outs: Any) -> _Call:
    return _Call(name, ins, rc, outs)


def _answer(
    name: str, ins: tuple[int, ...], rc: int, outs: Mapping[str, Any]
) -> tuple[str, tuple[int, dict[int, bytes]]]:
    parameters = _TABLE["functions"][name]
    places = {called: (place, kind) for place, (kind, called, _) in enumerate(parameters)}
    packed = {places[called][0]: _encode(places[called][1], value) for called, value in outs.items()}
    return " ".join(map(str, (name, *ins))), (rc, packed)


def _encode(kind: str, value: Any) -> bytes:
    kind = kind.removeprefix("const ").removesuffix("*").strip()
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode() + b"\0"
    if kind.startswith(("struct ", "union ")):
        return b"".join(_pack(kind, one) for one in (value if isinstance(value, list) else [value]))
    return b"".join(_scalar(kind, one) for one in (value if isinstance(value, list) else [value]))


def _scalar(kind: str, value: float) -> bytes:
    size = 4 if kind.startswith("enum") else _SIZES[kind.split(" ")[-1]]
    if "float" in kind or "double" in kind:
        return struct.pack("<f" if size == 4 else "<d", value)
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _pack(kind: str, values: Mapping[str, Any]) -> bytes:
    said = _TABLE["structs"][kind.split(" ")[-1]]
    buffer = bytearray(said["size"])
    known = {name: (inner, length, offset) for name, inner, length, offset in said["fields"]}
    for name, value in values.items():
        inner, length, offset = known[name]
        if isinstance(value, str):
            content = value.encode()[: length - 1]
        elif inner.startswith(("struct", "union")):
            content = _pack(inner, value)
        else:
            content = b"".join(_scalar(inner, one) for one in (value if isinstance(value, (list, tuple)) else [value]))
        buffer[offset : offset + len(content)] = content
    return bytes(buffer)


def _as_npu_smi(answer: Completed | None) -> tuple[int, tuple[str, ...]]:
    """What init says where npu-smi, which starts with it, fails."""
    if answer is None:
        return 0, ()
    if answer.timed_out:
        return 0, ("dcmi_init * * hang",)
    code = answer.returncode or 0
    if code < 0:
        return 0, ("dcmi_init * * segv",)
    return {187: INNER, 172: OCCUPIED, 211: INNER}.get(code, 0), ()


def _lists(node: Node, cpus: bool) -> Iterator[_Call]:
    cards = node.cards()
    listed = [*cards, *(-1 for _ in node.lost_npus())]
    for name in ("dcmi_get_card_list", "dcmi_get_card_num_list"):
        yield _says(name, card_num=len(listed), card_list=listed)
    yield _says("dcmi_get_all_device_count", all_device_count=sum(map(len, cards.values())))
    if node.lost_npus():
        yield _says("dcmi_get_device_num_in_card", -1, device_num=0)
        yield _says("dcmi_get_device_id_in_card", -1, device_id_max=0, mcu_id=-1, cpu_id=-1)
    for card, chips in cards.items():
        count = len(chips)
        mcu = count if node.product.has_mcu else -1
        cpu = count + node.product.has_mcu if cpus else -1
        yield _says("dcmi_get_device_num_in_card", card, device_num=count)
        yield _says("dcmi_get_device_id_in_card", card, device_id_max=count, mcu_id=mcu, cpu_id=cpu)
        yield _says("dcmi_get_fault_device_num_in_card", card, device_num=0)
        yield _says("dcmi_get_card_pcie_slot", card, pcie_slot=card)
        yield from (_says("dcmi_get_device_type", card, chip.chip, device_type=NPU) for chip in chips)
        if mcu >= 0:
            yield from _mcu(node, card, mcu)
        if cpu >= 0:
            yield _says("dcmi_get_device_type", card, cpu, device_type=CPU)
            yield _says("dcmi_get_device_health", card, cpu, health=0)


def _mcu(node: Node, card: int, mcu: int) -> Iterator[_Call]:
    """The controller of a board: it has a place among the chips, a temperature and a health."""
    yield _says("dcmi_get_device_type", card, mcu, device_type=MCU)
    yield _says("dcmi_get_device_temperature", card, mcu, temperature=38)
    yield _says("dcmi_get_device_health", card, mcu, health=0)
    yield _says("dcmi_get_device_errorcode_v2", card, mcu, error_count=0, error_code_list=[])
    board = {"board_id": int(node.product.board_id, 16), "pcb_id": 1, "bom_id": 1, "slot_id": card}
    yield _says("dcmi_get_card_board_info", card, board_info=board)
    yield _says("dcmi_get_device_board_info", card, mcu, board_info={**board, "slot_id": mcu})
    yield _says("dcmi_get_device_chip_info_v2", card, mcu, chip_info={"chip_type": "mcu", "chip_name": "mcu"})
    if node.product.family == "310P":
        yield _says("dcmi_mcu_get_power_info", card, power=1684)


def _versions(node: Node) -> Iterator[_Call]:
    yield _says("dcmi_get_dcmi_version", dcmi_ver="26.0.1")
    yield _says("dcmi_get_driver_version", driver_ver=node.driver.version)
    yield _says("dcmi_get_driver_health", health=0)
    yield _says("dcmi_get_driver_errorcode", error_count=0, error_code_list=[])


def _topology(node: Node) -> Iterator[_Call]:
    if node.product.family not in ("A2", "A3"):
        return
    chips = node.chips_at("npu-smi")
    for one in chips:
        for other in chips:
            kind = LINKS.index(link(node, one, other))
            ids = (one.npu, one.chip, other.npu, other.chip)
            yield _says("dcmi_get_topo_info_by_device_id", *ids, topo_type=kind)


def _identity(node: Node, chip: Chip, number: int) -> Iterator[_Call]:
    """What the tables and the PCI bus tell, also of a chip that does not answer."""
    card, device, product = chip.npu, chip.chip, node.product
    domain, bus, rest = chip.bus_id.split(":")
    slot, _, function = rest.partition(".")
    yield _says("dcmi_get_device_logic_id", card, device, device_logic_id=number)
    yield _says("dcmi_get_device_phyid_from_logicid", number, phyid=chip.phy_id)
    yield _says("dcmi_get_device_logicid_from_phyid", chip.phy_id, logicid=number)
    yield _says("dcmi_get_card_id_device_id_from_logicid", number, card_id=card, device_id=device)
    yield _says("dcmi_get_card_id_device_id_from_phyid", chip.phy_id, card_id=card, device_id=device)
    yield _says("dcmi_get_device_chip_slot", card, device, chip_pos_id=chip.phy_id)
    ids = {"venderid": 0x19E5, "subvenderid": 0x19E5, "deviceid": int(product.device_id, 16)}
    ids |= {"subdeviceid": int(product.subsystem_id, 16), "domain": int(domain, 16), "bdf_busid": int(bus, 16)}
    ids |= {"bdf_deviceid": int(slot, 16), "bdf_funcid": int(function, 16)}
    yield _says("dcmi_get_device_pcie_info_v2", card, device, pcie_info=ids)
    yield _says("dcmi_get_device_pcie_info", card, device, pcie_info={k: v for k, v in ids.items() if k != "domain"})
    family_a3 = product.family == "A3"
    named = product.soc.partition("_")[2] if family_a3 else product.chip
    names: dict[str, Any] = {"chip_type": "Ascend", "chip_name": f"{product.chip}{chip.suffix}", "chip_ver": "V1"}
    names["aicore_cnt"] = product.aicore_count
    yield _says("dcmi_get_device_chip_info_v2", card, device, chip_info={**names, "npu_name": named})
    yield _says("dcmi_get_device_chip_info", card, device, chip_info=names)
    yield _says("dcmi_get_device_share_enable", card, device, enable_flag=0)
    if family_a3:
        yield _says("dcmi_get_mainboard_id", card, device, mainboard_id=0x1C)


_MESSAGES: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    *(
        (f"dcmi_get_device_{what}", ((),))
        for what in ("health", "power_info", "temperature", "hbm_info", "aicore_info")
    ),
    *((f"dcmi_get_device_{what}", ((),)) for what in ("memory_info_v3", "memory_info_v2", "resource_info", "voltage")),
    *((f"dcmi_get_device_{what}", ((),)) for what in ("network_health", "multi_utilization_rate", "board_info")),
    ("dcmi_get_device_utilization_rate", tuple((number,) for number in range(1, 15))),
    ("dcmi_get_device_frequency", tuple((number,) for number in (1, 2, 6, 7, 9, 12))),
    ("dcmi_get_device_ecc_info", ((DDR,), (HBM,))),
    ("dcmi_get_device_sensor_info", ((11,), (12,), (13,), (14,))),
    ("dcmi_get_device_component_static_version", ((8,), (18,))),
    ("dcmi_get_device_compatibility", ((),)),
    ("dcmi_get_device_ip", ((0, 0), (1, 0))),
    ("dcmi_get_device_gateway", ((1, 0),)),
    ("dcmi_get_netdev_pkt_stats_info", ((0,),)),
    ("dcmi_get_device_info", ((12, 1), (16, 0), (16, 1), (16, 3), (16, 5), (55, 1), (56, 0))),
    ("dcmi_get_device_die_v2", ((0,), (1,))),
    ("dcmi_get_device_hbm_product_info", ((),)),
    ("dcmi_get_multi_ecc_record_info_v2", ((1, DDR), (1, HBM), (2, DDR), (2, HBM))),
)
"""Calls that send a message to a chip, with their further arguments."""


def _silent(node: Node, chip: Chip) -> Iterator[_Call]:
    """A chip whose messages are not answered: what a call writes before it fails, its caller may not read."""
    answered = {(call.name, call.ins) for call in _readings(node, chip, 0)}
    for name, each in _MESSAGES:
        for more in each:
            ins = (chip.npu, chip.chip, *more)
            if (name, ins) not in answered:
                continue
            written = {"health": 4} if name == "dcmi_get_device_health" else {}
            yield _says(name, *ins, rc=TIME_OUT, **written)
    yield _says("dcmi_get_device_errorcode_v2", chip.npu, chip.chip, rc=INNER)


def _readings(node: Node, chip: Chip, more_processes: int) -> Iterator[_Call]:
    parts = (_health, _load, _memory, _errors, _board, _network, _links)
    for part in parts[:3] if chip.template else parts:  # a vNPU refuses the others
        yield from part(node, chip)
    yield from _processes(node, chip, more_processes)


def _health(node: Node, chip: Chip) -> Iterator[_Call]:
    at = (chip.npu, chip.chip)
    codes = [int(code, 16) for code in chip.codes]
    yield _says("dcmi_get_device_health", *at, health=HEALTH.index(chip.health))
    yield _says("dcmi_get_device_errorcode_v2", *at, error_count=len(codes), error_code_list=codes)
    for code, said in zip(codes, chip.codes, strict=True):
        words = f"node type=SoC, sensor type=Fault, event state={said.removeprefix('0x').upper()}"
        yield _says("dcmi_get_device_errorcode_string", *at, code, error_info=words)
    yield _says("dcmi_get_device_temperature", *at, temperature=chip.temp_c)
    if chip.power_w is not None:
        yield _says("dcmi_get_device_power_info", *at, power=round(chip.power_w * 10))
    elif node.product.family == "A3":  # npu-smi shows that of the first die alone, which carries the package
        yield _says("dcmi_get_device_power_info", *at, power=0)
    elif node.product.family == "310P":  # npu-smi shows NA whatever comes
        yield _says("dcmi_get_device_power_info", *at, power=128)
    yield _says("dcmi_get_device_voltage", *at, voltage=86)
    if node.product.family != "310P":
        sensors = {11: chip.temp_c.to_bytes(1, "little"), 13: _scalar("int", chip.temp_c)}
        sensors[14] = _scalar("int", chip.hbm_temp_c)
        for number, value in sensors.items():
            yield _says("dcmi_get_device_sensor_info", *at, number, sensor_info=value.ljust(64, b"\0"))
        yield _says("dcmi_get_device_sensor_info", *at, 12, rc=NOT_EXIST)


def _load(node: Node, chip: Chip) -> Iterator[_Call]:
    at, family = (chip.npu, chip.chip), node.product.family
    busy = node.aicore_pct(chip)
    rates: dict[int, int] = {2: busy, 3: 0, 4: 1}
    if family in ("A2", "A3"):
        rates |= {12: busy // 2, 13: busy}
    if family in _WITH_HBM:
        rates |= {6: _share(node.hbm_used_mb(chip), chip.hbm_total_mb), 10: busy // 3}
    if family in ("910", "310P"):
        rates |= {1: _share(node.mem_used_mb(chip), chip.mem_total_mb), 5: 0}
    if family == "310P":
        rates |= {12: 0}
    for number in range(1, 15):
        rc = 0 if number in rates else NOT_SUPPORTED
        yield _says("dcmi_get_device_utilization_rate", *at, number, rc=rc, utilization_rate=rates.get(number, 0))
    if family in ("A2", "A3"):
        shares = {"aic_util": busy, "aiv_util": busy // 2, "aicore_util": busy, "npu_util": busy}
        yield _says("dcmi_get_device_multi_utilization_rate", *at, util_info=shares)
    rated = node.product.aicore_mhz[0]
    at_work = rated if chip.busy_mhz is None else chip.busy_mhz
    current = max(chip.aicore_mhz, at_work) if busy else chip.aicore_mhz
    yield _says("dcmi_get_device_aicore_info", *at, aicore_info={"freq": rated, "cur_freq": current})
    clocks = {2: 2000, 7: current, 9: rated}
    clocks |= {6: 1600} if family in ("A2", "A3", "910") else {}
    clocks |= {1: 2400} if family in ("910", "310P") else {}
    clocks |= {12: current} if family == "310P" else {}
    for number, mhz in clocks.items():
        yield _says("dcmi_get_device_frequency", *at, number, frequency=mhz)


def _memory(node: Node, chip: Chip) -> Iterator[_Call]:
    at = (chip.npu, chip.chip)
    if node.product.family in _WITH_HBM:
        hbm = {"memory_size": chip.hbm_total_mb, "freq": 1600, "memory_usage": node.hbm_used_mb(chip)}
        hbm |= {"temp": chip.hbm_temp_c, "bandwith_util_rate": node.aicore_pct(chip) // 3}
        yield _says("dcmi_get_device_hbm_info", *at, hbm_info=hbm)
        yield _says("dcmi_get_device_hbm_product_info", *at, hbm_product_info={"manufacturer_id": 0x56})
    if node.product.family in ("910", "310P"):
        used, total = node.mem_used_mb(chip), chip.mem_total_mb
        pages_used, pages = node.product.hugepages
        ddr = {"memory_size": total, "memory_available": total - used, "freq": 2400, "utiliza": _share(used, total)}
        pages_said = {"hugepagesize": 2048, "hugepages_total": pages, "hugepages_free": pages - pages_used}
        yield _says("dcmi_get_device_memory_info_v3", *at, memory_info={**ddr, **pages_said})
        del ddr["memory_available"]
        yield _says("dcmi_get_device_memory_info_v2", *at, memory_info=ddr)


def _errors(node: Node, chip: Chip) -> Iterator[_Call]:
    at = (chip.npu, chip.chip)
    for kind in {"910": (DDR, HBM), "310P": (DDR,)}.get(node.product.family, (HBM,)):
        mine = (kind == HBM) == bool(chip.hbm_total_mb)
        single, double, old = (chip.ecc_single, chip.ecc_double, chip.ecc_double_old) if mine else (0, 0, 0)
        isolated = chip.ecc_isolated_pages if mine else 0
        counts = {"enable_flag": 1, "single_bit_error_cnt": single, "double_bit_error_cnt": double}
        counts |= {"total_single_bit_error_cnt": single, "total_double_bit_error_cnt": double + old}
        counts |= {"single_bit_isolated_pages_cnt": 0, "double_bit_isolated_pages_cnt": isolated}
        yield _says("dcmi_get_device_ecc_info", *at, kind, device_ecc_info=counts)
        if node.product.family != "910":
            yield _says("dcmi_get_multi_ecc_record_info_v2", *at, 2, kind, ecc_count=isolated, ecc_common_data_s=[])
            yield _says("dcmi_get_multi_ecc_record_info_v2", *at, 1, kind, ecc_count=0, ecc_common_data_s=[])
    if node.product.family == "310P":
        yield _says("dcmi_get_device_pcie_error_cnt", *at, pcie_err_code_info={})
    if node.product.family == "A2":
        yield from _info(at, 55, 1, "dcmi_pcie_link_error_info", {})


def _info(at: tuple[int, int], main: int, sub: int, buffer: str, values: Mapping[str, Any]) -> Iterator[_Call]:
    content = _pack(f"struct {buffer}", values)
    yield _says("dcmi_get_device_info", *at, main, sub, buf=content, size=len(content))


def _board(node: Node, chip: Chip) -> Iterator[_Call]:
    at = (chip.npu, chip.chip)
    board = {"board_id": int(node.product.board_id, 16), "pcb_id": 0, "bom_id": 0, "slot_id": chip.npu}
    yield _says("dcmi_get_device_board_info", *at, board_info=board)
    firmware = 8 if node.product.family == "910" else 18
    verdict = {"": 1 if node.scenario.firmware.fits else 2, "UNKNOWN": 3}[node.scenario.firmware.says]
    if node.user.uid:
        yield _says("dcmi_get_device_component_static_version", *at, firmware, rc=NOT_PERMITTED)
        yield _says("dcmi_get_device_compatibility", *at, rc=NOT_PERMITTED)
        yield _says("dcmi_get_device_boot_status", *at, rc=NOT_PERMITTED)
    else:
        version = node.firmware_version
        yield _says("dcmi_get_device_component_static_version", *at, firmware, version_str=version)
        yield _says("dcmi_get_device_compatibility", *at, compatibility=verdict)
        yield _says("dcmi_get_device_boot_status", *at, boot_status=16)
    words = digest(f"{node.scenario.hostname} {chip.phy_id} VDie ID") ** 4 % (1 << 160)
    die = [words >> shift & 0xFFFFFFFF for shift in range(128, -1, -32)]
    yield _says("dcmi_get_device_die_v2", *at, 1, die_id={"soc_die": die})


def _network(node: Node, chip: Chip) -> Iterator[_Call]:
    at = (chip.npu, chip.chip)
    if not node.product.has_nic:
        return
    from npudoctor.sim.hccn import gateway_of

    health = chip.net_health if chip.link == "UP" else "Fault"
    yield _says("dcmi_get_device_network_health", *at, result=NET_HEALTH.index(health))
    if chip.address:
        yield _says("dcmi_get_device_ip", *at, 1, 0, ip=_address(chip.address), mask=_address("255.255.255.0"))
    else:
        yield _says("dcmi_get_device_ip", *at, 1, 0, rc=NOT_SET)
    if chip.address and gateway_of(chip):
        yield _says("dcmi_get_device_gateway", *at, 1, 0, gateway=_address(gateway_of(chip)))
    else:  # unlike an address, an unset gateway has no code of its own
        yield _says("dcmi_get_device_gateway", *at, 1, 0, rc=NOT_EXIST)
    if node.product.family == "A3":
        vnic = f"192.168.{100 + chip.phy_id // 8}.{1 + chip.phy_id % 8}"
        yield _says("dcmi_get_device_ip", *at, 0, 0, ip=_address(vnic), mask=_address("255.255.0.0"))
    if node.product.family in ("A2", "A3"):
        counted = {"roce_rx_err_pkt_num": chip.roce_errors}
        yield _says("dcmi_get_netdev_pkt_stats_info", *at, 0, network_pkt_stats_info=counted)


def _address(said: str) -> dict[str, Any]:
    return {"u_addr": {"ip4": [int(part) for part in said.split(".")]}, "ip_type": 0}


def _links(node: Node, chip: Chip) -> Iterator[_Call]:
    at, family = (chip.npu, chip.chip), node.product.family
    if family in ("A2", "A3"):
        if chip.affinity:
            text = chip.affinity
            yield _says("dcmi_get_affinity_cpu_info_by_device_id", *at, affinity_cpu=text, length=len(text))
        yield from _info(at, 16, 0, "dcmi_hccs_statues", {"pcs_status": 0, "hdlc_status": 3})
        ports = {"hccs_port_pcs_bitmap": 0xFE, "pcs_lane_bitmap": [0x41F] * 7}
        yield from _info(at, 16, 1, "dcmi_hccs_lane_info", ports)
        yield from _info(at, 16, 3, "dcmi_hccs_statistic_info", {})
        yield from _info(at, 16, 5, "dcmi_hccs_statistic_info_u64", {})
    if family == "A3":
        pod = {"sdid": 131072 * chip.npu + chip.chip, "super_pod_size": 384, "super_pod_id": 0, "server_index": 0}
        yield from _info(at, 12, 1, "dcmi_spod_info", pod)
        yield from _info(at, 56, 0, "dcmi_sio_crc_err_statistics_info", {})


def _processes(node: Node, chip: Chip, more: int) -> Iterator[_Call]:
    rows = [{"proc_id": one.pid, "proc_mem_usage": memory << 20} for one, memory in node.holders(chip)]
    rows += [{"proc_id": 700000 + number, "proc_mem_usage": 1 << 20} for number in range(more)]
    yield _says("dcmi_get_device_resource_info", chip.npu, chip.chip, proc_info=rows, proc_num=len(rows))


def _share(used: int, total: int) -> int:
    return 100 * used // total if total else 0
