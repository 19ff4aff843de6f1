"""The inventory of a report as rows, and as a section of Markdown or HTML."""

from __future__ import annotations

from collections import Counter
from html import escape

from npudoctor.findings import Inventory
from npudoctor.report import markup


def rows(inventory: Inventory | None) -> list[tuple[str, str]]:
    """The inventory as names and values; equal NPUs share a row but for their serial numbers."""
    if inventory is None:
        return []
    named = (
        ("product", " ".join(filter(None, (inventory.vendor, inventory.product)))),
        ("BIOS", inventory.bios),
        ("BMC", inventory.bmc),
        ("system", " ".join(filter(None, (inventory.os, inventory.machine)))),
        ("kernel", inventory.kernel),
        ("driver", inventory.driver),
        ("firmware", inventory.firmware),
        ("CANN", inventory.cann),
        ("Python", inventory.python),
        ("torch", inventory.torch),
        ("torch_npu", inventory.torch_npu),
    )
    found = [(name, value) for name, value in named if value]
    for npu in inventory.npus:
        chips = ", ".join(dict.fromkeys(chip.name for chip in npu.chips if chip.name))
        parts = (
            f"{len(npu.chips)} × {chips}" if chips and len(npu.chips) > 1 else chips,
            f"board {npu.board}" if npu.board else "",
            f"firmware {npu.firmware}" if npu.firmware and npu.firmware != inventory.firmware else "",
            f"serial number {npu.serial_number}" if npu.serial_number else "",
        )
        found.append((npu.subject, ", ".join(filter(None, parts)) or "no more is known"))
    return found


def short(inventory: Inventory | None) -> list[str]:
    """What a colleague asks first: the chips by name and number, driver, CANN, torch_npu and torch."""
    if inventory is None:
        return []
    counts = Counter(chip.name for npu in inventory.npus for chip in npu.chips if chip.name)
    versions = (
        ("driver", inventory.driver),
        ("CANN", inventory.cann),
        ("torch_npu", inventory.torch_npu),
        ("torch", inventory.torch),
    )
    return [
        *(f"{count} × {name}" for name, count in counts.items()),
        *(f"{name} {version.partition(' (')[0]}" for name, version in versions if version),
    ]


def markdown(inventory: Inventory | None) -> list[str]:
    """A section with a table; nothing without an inventory."""
    found = rows(inventory)
    if not found:
        return []
    cells = [(name, markup.cell(value)) for name, value in found]
    return [
        "",
        "## Inventory",
        "",
        "| part | found |",
        "| --- | --- |",
        *(f"| {name} | {text} |" for name, text in cells),
    ]


def html(inventory: Inventory | None) -> list[str]:
    """A section with a table; nothing without an inventory."""
    found = rows(inventory)
    cells = "".join(f"<tr><td>{escape(name)}<td>{escape(value)}</tr>" for name, value in found)
    return [f'<h2>Inventory</h2><table class="inventory">{cells}</table>'] if found else []
