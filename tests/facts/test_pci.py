"""The accelerators on the PCI bus."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.facts.system.pci import PciCards, normal_address, parse_rows, pci_cards
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Because, Unavailable

ROWS: list[dict[str, Any]] = [
    {"slot": "0000:C1:00.0", "vendor": "0x19e5", "device": "0xd802", "numa_node": 6, "driver": "devdrv_device_driver"},
    {"slot": "0000:01:00.0", "vendor": "0x19E5", "device": "0xD802", "numa_node": -1},
    {"slot": "0000:3d:00.0", "vendor": "0x19e5", "device": "0x0222"},  # a network card
    {"slot": "0000:76:00.0", "vendor": "0x19e5", "device": "0xa250"},  # the CPU's own ZIP engine
    {"slot": "0000:84:00.0", "vendor": "0x10de", "device": "0xd802"},  # somebody else's
    {"slot": None, "vendor": "0x19e5", "device": "0xd802"},
]


def cards(host: FakeHost) -> PciCards:
    found = pci_cards.function(host)
    assert isinstance(found, PciCards)
    return found


def test_only_accelerators_count_in_the_order_of_their_slots() -> None:
    found = parse_rows(ROWS).cards
    assert [(card.slot, card.family, card.numa_node) for card in found] == [
        ("0000:01:00.0", "A2", None),
        ("0000:c1:00.0", "A2", 6),
    ]


@pytest.mark.parametrize(
    ("spelled", "normal"),
    [
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("c1:00.0", "0000:c1:00.0"),
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
    ],
)
def test_spellings_of_one_address_are_one(spelled: str, normal: str) -> None:
    assert normal_address(spelled) == normal


def test_without_the_measure_sysfs_is_read_with_the_board() -> None:
    base = "/sys/bus/pci/devices"
    files = {
        f"{base}/0000:81:00.0/vendor": "0x19e5\n",
        f"{base}/0000:81:00.0/device": "0xd803\n",
        f"{base}/0000:81:00.0/subsystem_device": "0x3003\n",
        f"{base}/0000:00:00.0/vendor": "0x8086\n",
        f"{base}/0000:00:00.0/device": "0x2020\n",
        f"{base}/0000:00:1f.0/vendor": "0x8086\n",
    }
    found = cards(FakeHost(files=files)).cards
    assert [(card.slot, card.family, card.subsystem) for card in found] == [("0000:81:00.0", "A3", "0x3003")]


def test_an_empty_bus_is_known_to_be_empty() -> None:
    assert cards(FakeHost(measures={"pci": []})) == PciCards(())


def test_a_machine_without_a_bus_and_a_recording_without_one_differ() -> None:
    for unrecorded, because in (("absent", Because.ABSENT), ("unknown", Because.NOT_RECORDED)):
        with pytest.raises(Unavailable) as caught:
            cards(FakeHost(unrecorded=unrecorded))
        assert caught.value.because is because
