"""The pages of npu-smi and hccn_tool, made of what the library reported of a chip; None where it told too little.

A page is whole or not given: then the tool is asked, so that nothing is called OK that was not seen. Where npu-smi
shows a value differently from how the library gives it, it is shown as npu-smi does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.dcmi.answer import DCMI, LIBRARY, NOT_PERMITTED, NOT_SUPPORTED, LibraryAnswer, LibraryChip, meaning
from npudoctor.facts.hccn.answers import Address, Gateway, NetHealth
from npudoctor.facts.node.slices import whole_name
from npudoctor.facts.npu_smi.chip_pages import Common, CommonChip, Ecc, NpuMemory
from npudoctor.facts.npu_smi.health import Health
from npudoctor.facts.npu_smi.links import HeldMemory, PhyIdRemap, ProcessMemory
from npudoctor.facts.npu_smi.pages import Board
from npudoctor.facts.npu_smi.table import Chip, NpuProcess, NpuSmiInfo
from npudoctor.sdk import Because, Unavailable

HEALTH = ("OK", "Warning", "Alarm", "Critical")
NET_HEALTH = (
    *("Success", "Socket fail", "Receive timeout", "Unreachable", "Time exceeded", "Fault", "Init", "Thread error"),
    "Detect ip set",
)
NONE_32 = 0xFFFFFFFF
BEYOND = 0x7FFFFFFF
MOST_CELSIUS = 1000
"""The library gives 0x7FFD, 0x7FFF where a sensor is missing."""
MIB = 1 << 20
UNSET = -8023
NO_GATEWAY = -8008
"""What the library says of a port without a gateway; its address it would refuse with UNSET."""


class LibraryTable(NpuSmiInfo):
    """The table of chips from the library; the version of the tool npu-smi is not in it."""

    @property
    def source(self) -> str:
        """Which source it is from."""
        return DCMI

    @property
    def shown_by(self) -> str:
        """What findings name as the source of a value."""
        return LIBRARY


def table(answer: LibraryAnswer) -> LibraryTable:
    """What `npu-smi info` shows; raises Unavailable where it would not be whole."""
    if answer.problem or not answer.chips:
        raise Unavailable(answer.problem or "libdcmi.so lists no chip", because=Because.FAILED)
    chips = [_chip(one) for one in answer.chips]
    processes = [process for one in answer.chips for process in _processes(one)]
    busy = {process.npu_id for process in processes}
    told = all("processes" in one.told for one in answer.chips)
    return LibraryTable(
        driver_version=answer.driver_version,
        npus=tuple(chips),
        processes=tuple(processes),
        idle_npus=tuple(dict.fromkeys(one.npu_id for one in chips if one.npu_id not in busy)) if told else None,
    )


_ESSENTIAL = ("chip_info", "health")
_SHOWN = ("pcie", "temperature", "power", "hbm", "memory", "aicore_use", "processes")


def _chip(one: LibraryChip) -> Chip:
    told = one.told
    missing = [name for name in _ESSENTIAL if name not in told]
    missing += [name for name in _SHOWN if not one.has_answered(name)]
    word = told.get("health")
    if missing or not isinstance(word, int) or not 0 <= word < len(HEALTH):
        name = missing[0] if missing else "health"
        why = one.lost.get(name) or f"libdcmi.so: the question {name} to npu:{one.npu_id} failed: " + (
            meaning(one.refused[name]) if name in one.refused else f"it told {word}"
        )
        raise Unavailable(why, because=Because.FAILED)
    hbm, memory = told.get("hbm"), told.get("memory")
    family = _family(one)
    no_memory = 0 if one.refused.get("memory") == NOT_SUPPORTED and hbm else None
    known = memory is not None and memory["utiliza"] != NONE_32
    return Chip(
        npu_id=one.npu_id,
        chip_id=one.chip_id,
        device_id=told.get("logic_id") if family in ("310", "310P", "310B") else None,
        phy_id=told.get("phy_id"),
        name=told["chip_info"].get("chip_name") or None,
        health=HEALTH[word],
        power_w=_power(one, family),
        temp_c=_celsius(told.get("temperature")),
        hugepages_used=memory["hugepages_total"] - memory["hugepages_free"] if memory else no_memory,
        hugepages_total=memory["hugepages_total"] if memory else no_memory,
        bus_id=_bus(told.get("pcie")),
        aicore_pct=_percent(told.get("aicore_use")),
        mem_used_mb=memory["memory_size"] - memory["memory_available"] if known and memory else no_memory,
        mem_total_mb=memory["memory_size"] if memory else no_memory,
        hbm_used_mb=hbm["memory_usage"] if hbm else None,
        hbm_total_mb=hbm["memory_size"] if hbm else None,
    )


def _family(one: LibraryChip) -> str | None:
    info, hbm, memory = one.told.get("chip_info") or {}, one.told.get("hbm") or {}, one.told.get("memory") or {}
    found = knowledge.hardware().family_by_name(
        whole_name(info.get("chip_name")) or "",
        hbm_total_mb=hbm.get("memory_size"),
        memory_total_mb=memory.get("memory_size"),
    )
    return found.id if found else None


def _power(one: LibraryChip, family: str | None) -> float | None:
    """Watts; 310P does not measure it, and of an A3 package its first chip tells."""
    power = one.told.get("power")
    if not isinstance(power, int) or not 0 <= power < BEYOND or family == "310P" or (family == "A3" and one.chip_id):
        return None
    return power / 10


def _celsius(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < MOST_CELSIUS else None


def _percent(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= 100 else None


def _bus(pcie: Mapping[str, int] | None) -> str | None:
    if pcie is None:
        return None
    return f"{pcie['domain'] & 0xFFFF:04X}:{pcie['bus']:02X}:{pcie['device']:02X}.{pcie['function']:X}"


def _processes(one: LibraryChip) -> list[NpuProcess]:
    names = one.told.get("names") or ()
    rows = one.told.get("processes") or ()
    return [
        NpuProcess(
            npu_id=one.npu_id,
            chip_id=one.chip_id,
            pid=row["pid"],
            name=names[at] if at < len(names) else None,
            memory_mb=row["bytes"] // MIB,
        )
        for at, row in enumerate(rows)
    ]


_COUNTS = (
    *("single", "double", "single_aggregate", "double_aggregate"),
    *("single_isolated_pages", "double_isolated_pages"),
)


def ecc(one: LibraryChip) -> Ecc | None:
    """`-t ecc`, of the memories that the chip has."""
    found: dict[str, Any] = {}
    for memory in ("ddr", "hbm"):
        counts = one.told.get(f"ecc_{memory}")
        if counts is None:
            if one.refused.get(f"ecc_{memory}") != NOT_SUPPORTED:
                return None
            continue
        if counts["single"] == NONE_32 or counts["double"] == NONE_32:
            return None
        found |= {f"{memory}_{name}": counts[name] for name in _COUNTS if counts[name] != NONE_32}
        if not one.has_answered(f"ecc_{memory}_addresses"):
            return None
        faulty = one.told.get(f"ecc_{memory}_addresses")
        if faulty is not None and f"{memory}_double_isolated_pages" in found:
            found[f"{memory}_single_next_isolated_pages"] = 0
            waiting = max(0, len(faulty) - found[f"{memory}_double_isolated_pages"])
            found[f"{memory}_double_next_isolated_pages"] = waiting
    return Ecc(npu_id=one.npu_id, chip_id=one.chip_id, **found) if found else None


_VERDICTS = {1: "OK", 2: "NOK", 3: "UNKNOWN"}


def board(chips: Sequence[LibraryChip], answer: LibraryAnswer) -> Board | None:
    """`-t board` of an NPU: without product name and serial number, which its MCU alone knows."""
    one = chips[0]
    if _family(one) in (None, "310", "910"):  # these ask another component for the firmware
        return None
    told = one.told.get("board")
    if told is None or told["board_id"] == NONE_32 or not one.has_answered("firmware", "compatibility"):
        return None
    verdict = one.told.get("compatibility")
    untold = "NOT SUPPORT" if one.refused.get("compatibility") in (NOT_PERMITTED, NOT_SUPPORTED) else None
    return Board(
        npu_id=one.npu_id,
        board_id=f"0x{told['board_id']:02x}",
        slot_id=str(told["slot_id"]),
        pcie_bus=_bus(one.told.get("pcie")),
        software_version=answer.driver_version,
        firmware_version=one.told.get("firmware") or None,
        compatibility=_VERDICTS.get(verdict) if isinstance(verdict, int) else untold,
        chip_count=len(chips),
    )


def common(chips: Sequence[LibraryChip], _: LibraryAnswer) -> Common | None:
    """`-t common` of an NPU: clocks, use, heat and power of its chips."""
    rows = []
    for one in chips:
        rated, clock = one.told.get("rated_clock"), one.told.get("clock")
        if not (rated and clock) or rated >= BEYOND or clock >= BEYOND:
            return None
        info = one.told.get("chip_info") or {}
        rows.append(
            CommonChip(
                chip_id=one.chip_id,
                aicore_pct=_percent(one.told.get("aicore_use")),
                aicore_freq_mhz=rated,
                aicore_cur_freq_mhz=clock,
                aicore_count=info.get("aicore_cnt") or None,
                temp_c=_celsius(one.told.get("temperature")),
                power_w=_power(one, _family(one)),
            )
        )
    return Common(npu_id=chips[0].npu_id, chip_count=len(chips), chips=tuple(rows))


def memory(one: LibraryChip) -> NpuMemory | None:
    """`-t memory` of a chip with HBM."""
    hbm = one.told.get("hbm")
    if hbm is None:
        return None
    heat = _celsius(hbm["temp"])
    return NpuMemory(
        npu_id=one.npu_id,
        chip_id=one.chip_id,
        hbm_capacity_mb=hbm["memory_size"],
        hbm_clock_mhz=hbm["freq"],
        hbm_temp_c=heat if heat is not None and heat >= 0 else None,
    )


def health(one: LibraryChip) -> Health | None:
    """`-t health` of a chip, its fault codes and their texts."""
    word, codes = one.told.get("health"), one.told.get("error_codes")
    if not isinstance(word, int) or not 0 <= word < len(HEALTH) or codes is None or not one.has_answered("error_texts"):
        return None
    texts = [text for text in one.told.get("error_texts") or () if text]
    return Health(
        npu_id=one.npu_id,
        chip_id=one.chip_id,
        health=HEALTH[word],
        error_codes=tuple(dict.fromkeys(f"{code:X}" for code in codes)),
        error_info="\n".join(texts) or None,
        error_info_count=len(texts),
    )


def numbers(one: LibraryChip) -> PhyIdRemap | None:
    """`-t phyid-remap` of a chip."""
    phy_id = one.told.get("phy_id")
    if phy_id is None or one.told.get("logic_id") is None:
        return None
    return PhyIdRemap(phy_id=phy_id, logic_id=one.told["logic_id"], npu_id=one.npu_id, chip_id=one.chip_id)


def process_memory(chips: Sequence[LibraryChip], _: LibraryAnswer) -> ProcessMemory | None:
    """`-t proc-mem` of an NPU."""
    if not all("processes" in one.told for one in chips):
        return None
    held = [
        HeldMemory(pid=row.pid, name=row.name, memory_mb=row.memory_mb, chip_id=row.chip_id)
        for one in chips
        for row in _processes(one)
    ]
    return ProcessMemory(npu_id=chips[0].npu_id, chip_count=len(chips), processes=tuple(held))


def _text(address: Mapping[str, Any]) -> str:
    return ".".join(map(str, address["bytes"][:4]))


def _is_unset(one: LibraryChip) -> bool:
    """Whether the port has no address."""
    return one.refused.get("address") == UNSET


def address(one: LibraryChip) -> Address | None:
    """`-ip`: the address and mask of the port."""
    if _is_unset(one):
        return Address()
    told = one.told.get("address")
    return Address(ipaddr=_text(told[0]), netmask=_text(told[1])) if told and any(told[0]["bytes"][:4]) else None


def gateway(one: LibraryChip) -> Gateway | None:
    """`-gateway`, without the interface, which hccn_tool alone knows."""
    if one.refused.get("gateway") in (UNSET, NO_GATEWAY) and ("address" in one.told or _is_unset(one)):
        return Gateway()
    told = one.told.get("gateway")
    return Gateway(default_gateway=_text(told)) if told and any(told["bytes"][:4]) else None


def net_health(one: LibraryChip) -> NetHealth | None:
    """`-net_health`."""
    number = one.told.get("network_health")
    if not isinstance(number, int) or not 0 <= number < len(NET_HEALTH):
        return None
    return NetHealth(status=NET_HEALTH[number], healthy=number == 0)


OF_PORTS: Mapping[str, Callable[[LibraryChip], Any]] = {"ip": address, "net_health": net_health}
"""What of the queries of hccn_tool the library answers as a whole."""

__all__ = [
    "OF_PORTS",
    "LibraryTable",
    "address",
    "board",
    "common",
    "ecc",
    "gateway",
    "health",
    "memory",
    "numbers",
    "table",
]
