"""The inventory of a node from the facts of a run: what a ticket asks first. What is not known is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.driver.install import DriverInstall, FirmwareInstall
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.npu_smi import Board
from npudoctor.facts.npu_smi.table import NpuSmiInfo
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.machine import Machine
from npudoctor.facts.system.platform import Platform
from npudoctor.findings import Inventory, InventoryChip, InventoryNpu

FACTS = (Machine, Platform, Chips, PerChip[Board], DriverInstall, FirmwareInstall, Cann, PythonEnvironment)
"""The facts that an inventory is made of."""

Fact = TypeVar("Fact")


def of(values: Mapping[Any, Any]) -> Inventory:
    """The inventory from the facts that are known, by their type."""

    def fact_or_none(fact: type[Fact]) -> Fact | None:
        value = values.get(fact)
        return value if isinstance(value, fact) else None

    machine, platform, driver = fact_or_none(Machine), fact_or_none(Platform), fact_or_none(DriverInstall)
    info, firmware, cann = fact_or_none(NpuSmiInfo), fact_or_none(FirmwareInstall), fact_or_none(Cann)
    python = fact_or_none(PythonEnvironment)
    boards = values.get(PerChip[Board])
    toolkit = cann.chosen if cann else None
    told = driver.file.version if driver and driver.file else None
    return Inventory(
        vendor=machine.vendor if machine else None,
        product=machine.product if machine else None,
        bios=machine.bios if machine else None,
        bmc=machine.bmc if machine else None,
        machine=platform.machine if platform else None,
        os=platform.os if platform else None,
        kernel=platform.kernel if platform else None,
        driver=told or (info.driver_version if info else None),
        firmware=firmware.file.version if firmware else None,
        cann=(str(toolkit.version) if toolkit.version else toolkit.stated) if toolkit else None,
        python=python.version if python else None,
        torch=_version(python, "torch"),
        torch_npu=_version(python, "torch-npu"),
        npus=_npus(fact_or_none(Chips), boards if isinstance(boards, PerChip) else None),
    )


def _version(python: PythonEnvironment | None, name: str) -> str | None:
    found = python.distributions.get(name) if python else None
    return found.version if found else None


def _npus(chips: Chips | None, boards: PerChip[Board] | None) -> tuple[InventoryNpu, ...]:
    """The NPUs with their chips, in the order of npu-smi."""
    members: dict[str, list[InventoryChip]] = {}
    for chip in chips.chips if chips else ():
        members.setdefault(chip.subject.partition("/")[0], []).append(
            InventoryChip(
                subject=chip.subject,
                device=chip.device,
                name=chip.name,
                family=chip.family,
                bus_id=chip.bus_id,
                memory_mb=chip.memory_mb,
            )
        )
    pages: dict[str, Board] = {}
    for subject, page in boards.by_subject.items() if boards else ():
        pages.setdefault(subject.partition("/")[0], page)
    return tuple(_npu(subject, members.get(subject, []), pages.get(subject)) for subject in {**members, **pages})


def _npu(subject: str, chips: list[InventoryChip], page: Board | None) -> InventoryNpu:
    return InventoryNpu(
        subject=subject,
        serial_number=page.serial_number if page else None,
        board=page.product_name if page else None,
        firmware=page.firmware_version if page else None,
        chips=tuple(chips),
    )
