"""The Ascend accelerators on the PCI bus; Huawei's network cards, disks and on-chip engines are none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.records import record
from npudoctor.sdk import Because, Host, Unavailable, probe

DEVICES = "/sys/bus/pci/devices"


@record(frozen=True, kw_only=True)
class PciCard:
    """One accelerator. `slot` is its address in lower case, `device` and `subsystem` are ids as sysfs spells them."""

    slot: str
    device: str
    family: str
    subsystem: str | None = None
    numa_node: int | None = None
    driver: str | None = None


@record(frozen=True)
class PciCards:
    """The accelerators that the kernel has found, by address. In a container these are the host's."""

    cards: tuple[PciCard, ...]


def parse_rows(rows: Iterable[Mapping[str, Any]]) -> PciCards:
    """Keep the accelerators of the `pci` rows of a recording."""
    found = {}
    for row in rows:
        device, vendor = str(row.get("device") or ""), str(row.get("vendor") or "")
        family = knowledge.hardware().family_by_pci(device, vendor) if device and vendor else None
        if family is not None and row.get("slot"):
            numa = row.get("numa_node")
            card = PciCard(
                slot=normal_address(str(row["slot"])),
                device=device.lower(),
                family=family.id,
                subsystem=row.get("subsystem_device"),
                numa_node=numa if isinstance(numa, int) and numa >= 0 else None,
                driver=row.get("driver"),
            )
            found[card.slot] = card
    return PciCards(tuple(found[slot] for slot in sorted(found)))


def normal_address(address: str) -> str:
    """An address as it is compared: lower case, the domain in four digits or more without leading zeros beyond."""
    domain, colon, rest = address.strip().lower().partition(":")
    if not colon or ":" not in rest:
        return f"0000:{address.strip().lower()}"
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


@probe
def pci_cards(host: Host) -> PciCards:
    """From the kernel's list of the bus."""
    rows = None
    with contextlib.suppress(Unavailable):
        rows = host.measure("pci")
    if rows is None:
        rows = list(_from_sysfs(host))
    found = parse_rows(rows)
    return PciCards(tuple(_with_subsystem(host, card) for card in found.cards))


def _from_sysfs(host: Host) -> Iterator[dict[str, str]]:
    try:
        slots = host.list_dir(DEVICES)
    except Unavailable as why:
        if why.because is Because.ABSENT:
            raise Unavailable(f"no PCI bus: {why.reason}") from why
        raise
    for slot in slots:
        with contextlib.suppress(Unavailable):
            names = ("vendor", "device")
            yield {"slot": slot, **{name: host.read(f"{DEVICES}/{slot}/{name}").strip() for name in names}}


def _with_subsystem(host: Host, card: PciCard) -> PciCard:
    if card.subsystem is not None:
        return card
    with contextlib.suppress(Unavailable):
        subsystem = host.read(f"{DEVICES}/{card.slot}/subsystem_device").strip().lower()
        return PciCard(
            slot=card.slot,
            device=card.device,
            family=card.family,
            subsystem=subsystem or None,
            numa_node=card.numa_node,
            driver=card.driver,
        )
    return card
