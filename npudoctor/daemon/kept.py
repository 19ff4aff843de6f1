"""What the daemon keeps over time: readings of the chips of a day, and the NPUs of the node by serial number."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from npudoctor.findings import Inventory

if TYPE_CHECKING:
    from npudoctor.daemon.answers import Card

SCHEMA = """
CREATE TABLE IF NOT EXISTS samples (
    at INTEGER NOT NULL, chip TEXT NOT NULL, temp REAL, power REAL, hbm REAL, aicore REAL, ecc REAL,
    PRIMARY KEY (at, chip)
) WITHOUT ROWID;
"""
KEPT_S = 86_400
"""Readings of so many seconds are kept: of 16 chips each minute, some 23,000 rows, 1 MB."""

_NODE = ("product", "bios", "driver", "firmware", "cann")


def add(connection: sqlite3.Connection, cards: Iterable[Card], at: float) -> None:
    """Keep the readings of all chips; what is not known stays unknown. `at` is in seconds since 1970."""
    rows = [(int(at), card.subject, *_values(card)) for card in cards]
    connection.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    connection.execute("DELETE FROM samples WHERE at < ? OR at > ?", (int(at) - KEPT_S, int(at)))


def _values(card: Card) -> tuple[float | None, ...]:
    """Temperature in °C, power in W, HBM and AI Core in percent, bit errors since the driver was loaded."""
    used, total = card.memory_used_bytes, card.memory_total_bytes
    counts = [count for one in card.ecc for count in (one.single, one.double)]
    known = [count for count in counts if count is not None]
    return (
        card.temperature_celsius,
        card.power_watts,
        100 * used / total if used is not None and total else None,
        card.ai_core_percent,
        sum(known) if known else None,
    )


def describe(inventory: Inventory | None) -> dict[str, Any] | None:
    """What is compared between two runs; None where not every NPU has told its serial number."""
    if inventory is None or not inventory.npus or not all(npu.serial_number for npu in inventory.npus):
        return None
    npus = {str(one.serial_number): {"at": one.subject, "firmware": one.firmware} for one in inventory.npus}
    return {"npus": npus, "node": {name: getattr(inventory, name) for name in _NODE}}


def changes(before: str | None, now: dict[str, Any]) -> Iterator[str]:
    """What differs from the inventory of before, which is JSON, in sentences; nothing at the first time."""
    try:
        old = json.loads(before) if before else None
    except ValueError:
        old = None
    if not isinstance(old, dict):
        return
    had, has = old.get("npus", {}), now["npus"]
    for serial, npu in has.items():
        was = had.get(serial)
        if was is None:
            yield f"NPU with serial number {serial} is new, at {npu['at']}"
            continue
        if was["at"] != npu["at"]:
            yield f"NPU with serial number {serial} moved from {was['at']} to {npu['at']}"
        if was["firmware"] and npu["firmware"] and was["firmware"] != npu["firmware"]:
            yield f"firmware of the NPU with serial number {serial} changed: {was['firmware']} → {npu['firmware']}"
    for serial, was in had.items():
        if serial not in has:
            yield f"NPU with serial number {serial} is gone, it was at {was['at']}"
    for name, value in now["node"].items():
        was_value = old.get("node", {}).get(name)
        if value and was_value and value != was_value:
            yield f"{name} changed: {was_value} → {value}"
