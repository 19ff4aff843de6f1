"""Which devices have a network port, and what /etc/hccn.conf sets for them."""

from __future__ import annotations

from collections.abc import Mapping

from npudoctor import knowledge
from npudoctor.facts.hccn.conf import CONF_PATH, parse_conf
from npudoctor.facts.node.chips import Chips, subject_of
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.slices import NO_HCCL
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.records import record
from npudoctor.sdk import Host, NotApplicable, ParseError, Unavailable, probe


@record(frozen=True)
class NetworkDevices:
    """The devices that have a network port: what findings call them, by the number that hccn_tool wants."""

    subjects: Mapping[int, str]


@probe(of_the_moment=True)
def network_devices(info: NpuSmiInfo | None, nodes: DeviceNodes | None, cards: Chips) -> NetworkDevices:
    """From the numbers in npu-smi's table, else from /dev, in the order of the table."""
    if cards.only_slices:
        raise NotApplicable(NO_HCCL)
    families = [knowledge.hardware().family(id) for id in cards.families]
    if families and all(family is not None and family.device_nic is False for family in families):
        raise NotApplicable(f"NPUs of the family {' and '.join(cards.families)} have no network port")
    chips = info.npus if info is not None else ()
    numbers = [_own_number(chip) for chip in chips]
    if chips and None not in numbers and len(set(numbers)) == len(chips):
        return NetworkDevices(
            {number: subject_of(chip, chips) for number, chip in zip(numbers, chips, strict=True) if number is not None}
        )
    here = nodes.numbers if nodes is not None else ()
    if not here:
        raise Unavailable("device ids unknown: no NPU in npu-smi or /dev")
    if len(here) == len(chips):
        return NetworkDevices({number: subject_of(chip, chips) for number, chip in zip(here, chips, strict=True)})
    return NetworkDevices({number: f"npu:{number}" for number in here})


def _own_number(chip: Chip) -> int | None:
    return chip.phy_id if chip.phy_id is not None else chip.device_id


@record(frozen=True)
class PortSettings:
    """What /etc/hccn.conf sets for each device by its number: address, netmask, gateway, netdetect and others."""

    by_device: Mapping[int, Mapping[str, str]]


@probe
def settings(host: Host) -> PortSettings:
    """From /etc/hccn.conf; one that sets nothing names no device."""
    text = host.read(CONF_PATH)
    try:
        cards = parse_conf(text).cards
    except ParseError:
        if any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
            raise
        cards = {}
    return PortSettings({int(device): set_here for device, set_here in cards.items()})
