"""What a node is made of, in its report."""

from __future__ import annotations

from npudoctor.models import Line, Model


class InventoryChip(Model):
    """One chip: its device number (N of /dev/davinciN), name, family, PCI address and memory in MB."""

    subject: Line
    device: int | None = None
    name: Line | None = None
    family: Line | None = None
    bus_id: Line | None = None
    memory_mb: int | None = None


class InventoryNpu(Model):
    """One NPU, which is a board: its serial number, product name and firmware, and its chips."""

    subject: Line
    serial_number: Line | None = None
    board: Line | None = None
    firmware: Line | None = None
    chips: tuple[InventoryChip, ...] = ()


class Inventory(Model):
    """What a node is made of; None for what the run did not learn."""

    vendor: Line | None = None
    product: Line | None = None
    bios: Line | None = None
    bmc: Line | None = None
    machine: Line | None = None
    os: Line | None = None
    kernel: Line | None = None
    driver: Line | None = None
    firmware: Line | None = None
    cann: Line | None = None
    python: Line | None = None
    torch: Line | None = None
    torch_npu: Line | None = None
    npus: tuple[InventoryNpu, ...] = ()
