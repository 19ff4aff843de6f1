"""The PCIe links of the NPUs: what each runs at, what it can run at, and the errors that the kernel has counted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TypeVar

from npudoctor.facts.system.pci import DEVICES, PciCards
from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

N = TypeVar("N", int, float)


@record(frozen=True, kw_only=True)
class PcieLink:
    """The link of one NPU, by its PCI address; None is what the kernel does not show.

    Speeds in GT/s of a lane, widths in lanes; `port_` is what the slot that the NPU sits in can give. Errors since the
    NPU was found: `correctable_errors` were repaired by the hardware, `nonfatal_errors` lost a packet, `fatal_errors`
    the link.
    """

    slot: str
    current_speed_gts: float | None = None
    max_speed_gts: float | None = None
    current_width: int | None = None
    max_width: int | None = None
    port_max_speed_gts: float | None = None
    port_max_width: int | None = None
    correctable_errors: int | None = None
    nonfatal_errors: int | None = None
    fatal_errors: int | None = None

    @property
    def attainable_speed(self) -> float | None:
        """The speed that NPU and slot can both have."""
        return min((one for one in (self.max_speed_gts, self.port_max_speed_gts) if one is not None), default=None)

    @property
    def attainable_width(self) -> int | None:
        """The width that NPU and slot can both have."""
        return min((one for one in (self.max_width, self.port_max_width) if one is not None), default=None)

    @property
    def is_slow(self) -> bool:
        """Whether it is known to run below what NPU and slot can."""
        speeds = self.current_speed_gts, self.attainable_speed
        widths = self.current_width, self.attainable_width
        return any(now is not None and most is not None and now < most for now, most in (speeds, widths))


@record(frozen=True)
class PcieLinks:
    """The links of the NPUs on the bus; in a container the host's."""

    links: tuple[PcieLink, ...]


def parse_speed(text: str) -> float | None:
    """Read current_link_speed or max_link_speed: `16.0 GT/s PCIe`; None where the kernel writes that it is unknown."""
    found = re.match(r"\s*([0-9]{1,4}(?:\.[0-9]{1,3})?)\s*GT/s", text)
    if found is None and not re.match(r"\s*Unknown", text, re.IGNORECASE):
        raise ParseError("not a PCIe link speed", line_number=1, line=text[:80])
    return float(found[1]) if found else None


def parse_width(text: str) -> int | None:
    """Read current_link_width or max_link_width; 0 and 255 stand for unknown."""
    if not re.fullmatch(r"[0-9]{1,3}", text.strip()):
        raise ParseError("not a PCIe link width", line_number=1, line=text[:80])
    width = int(text)
    return width if 0 < width < 255 else None


def parse_errors(text: str) -> int:
    """Read aer_dev_correctable, aer_dev_nonfatal or aer_dev_fatal: their total, else the sum of their rows."""
    counts = {
        row[1]: int(row[2]) for line in text.splitlines() if (row := re.fullmatch(r"\s*(\w+)\s+([0-9]{1,18})\s*", line))
    }
    if not counts:
        raise ParseError("not a count of PCIe errors", line_number=1, line=text[:80])
    return next((count for name, count in counts.items() if name.startswith("TOTAL_")), sum(counts.values()))


@probe
def pcie_links(host: Host, cards: PciCards) -> PcieLinks:
    """From the folders of the NPUs below /sys/bus/pci/devices."""
    if not cards.cards:
        raise Unavailable("no Ascend NPU on the PCI bus")
    links = tuple(_link(host, f"{DEVICES}/{card.slot}", card.slot) for card in cards.cards)
    if all(link == PcieLink(slot=link.slot) for link in links):
        path = f"{DEVICES}/{links[0].slot}/current_link_speed"
        raise Unavailable(f"no link state in {path}: {host.read(path).strip()[:80]}", because=Because.FAILED)
    return PcieLinks(links)


def _link(host: Host, folder: str, slot: str) -> PcieLink:
    port = _port(host, folder)
    return PcieLink(
        slot=slot,
        current_speed_gts=_number_or_none(host, f"{folder}/current_link_speed", parse_speed),
        max_speed_gts=_number_or_none(host, f"{folder}/max_link_speed", parse_speed),
        current_width=_number_or_none(host, f"{folder}/current_link_width", parse_width),
        max_width=_number_or_none(host, f"{folder}/max_link_width", parse_width),
        port_max_speed_gts=_number_or_none(host, f"{port}/max_link_speed", parse_speed) if port else None,
        port_max_width=_number_or_none(host, f"{port}/max_link_width", parse_width) if port else None,
        correctable_errors=_number_or_none(host, f"{folder}/aer_dev_correctable", parse_errors),
        nonfatal_errors=_number_or_none(host, f"{folder}/aer_dev_nonfatal", parse_errors),
        fatal_errors=_number_or_none(host, f"{folder}/aer_dev_fatal", parse_errors),
    )


def _port(host: Host, folder: str) -> str | None:
    """The folder of the port above an NPU: sysfs links each device to its place in the tree of buses."""
    with contextlib.suppress(Unavailable):
        above = (host.read_link(folder) or "").split("/")[-2:-1]
        if above and re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", above[0]):
            return f"{DEVICES}/{above[0]}"
    return None


def _number_or_none(host: Host, path: str, parse: Callable[[str], N | None]) -> N | None:
    """The number in a file; None where there is no file, or no number that is understood."""
    with contextlib.suppress(Unavailable, ParseError):
        return parse(host.read(path))
    return None
