"""The links between the chips."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.npu_smi import NpuSmiInfo, Topology
from npudoctor.records import record
from npudoctor.sdk import Evidence, Finding, check

from .messages import npu_links as messages
from .npu import BEHIND_NPU_SMI

if TYPE_CHECKING:  # the table brings its module with it when it is asked for
    from npudoctor.knowledge.tables.hardware import LinkPlan

COMMAND = "npu-smi info -t topo"

_OVER_THE_HOST = frozenset({"PIX", "PXB", "PHB", "SYS"})
_SHARE_OF_A_RULE = 0.7


@record(frozen=True)
class OddPair:
    """Two devices whose link is not what it should be."""

    one: str
    other: str
    link: str
    expected: str


@check("npu.topology", profile="standard", after=BEHIND_NPU_SMI)
def links_are_those_of_the_product(topology: Topology, info: NpuSmiInfo, cards: Chips | None) -> Iterator[Finding]:
    """Links between chips as expected for the product.

    A pair that communicates over PCIe or across the CPUs instead of a direct link slows every collective down.
    """
    uneven = list(_uneven_pairs(topology))
    if uneven:
        yield messages.ASYMMETRIC.finding(
            count=len(uneven),
            pairs=_name_pairs(uneven),
            commands=(COMMAND, "dmesg | grep -i hccs"),
            evidence=tuple(_evidence(pair) for pair in uneven[:8]),
        )
    plan = _plan(topology, cards)
    odd = [pair for pair in _odd(topology, plan) if pair not in uneven]
    if odd:
        yield _slow_links(odd, topology, info, plan)


def _uneven_pairs(topology: Topology) -> Iterator[OddPair]:
    for one, other in combinations(topology.devices, 2):
        there, back = topology.link(one, other), topology.link(other, one)
        if there and back and there != back and "NA" not in (there, back):
            yield OddPair(one, other, back, there)


def _plan(topology: Topology, cards: Chips | None) -> LinkPlan | None:
    """The links that this product should have; None for a product or a board that the table does not know."""
    if cards is None or cards.family is None:
        return None
    boards = {card.subsystem for card in cards.chips}
    board = next(iter(boards)) if len(boards) == 1 else None
    return knowledge.hardware().link_plan(cards.family, len(topology.devices), board)


def _odd(topology: Topology, plan: LinkPlan | None) -> list[OddPair]:
    if plan is None:
        return list(_against_the_majority(topology))
    found = []
    for one, other in combinations(topology.devices, 2):
        link, right = topology.link(one, other), plan.expected_links(_number(one), _number(other))
        if link in _OVER_THE_HOST and right and not _OVER_THE_HOST.intersection(right):
            found.append(OddPair(one, other, link, " or ".join(right)))
    return found


def _number(device: str) -> int:
    return int(re.sub(r"\D", "", device) or 0)


def _against_the_majority(topology: Topology) -> Iterator[OddPair]:
    """On an unknown board: the slower links where most pairs are linked directly, or where most devices are alike."""
    links = {device: _links_of(topology, device) for device in topology.devices}
    usual_links = _usual_links(links)
    for one, other in combinations(topology.devices, 2):
        link = links[one].get(other)
        if usual_links and link and link not in usual_links and link in _OVER_THE_HOST:
            yield OddPair(one, other, link, " or ".join(sorted(usual_links)))


def _usual_links(links: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
    """The links that are right by the node's own rule; empty where there is none."""
    if len(links) < 4:
        return frozenset()
    pairs = Counter(link for known in links.values() for link in known.values())
    word, count = pairs.most_common(1)[0] if pairs else ("", 0)
    if word not in _OVER_THE_HOST and count >= _SHARE_OF_A_RULE * pairs.total():
        return frozenset(pairs) - _OVER_THE_HOST
    profiles = Counter(tuple(sorted(Counter(known.values()).items())) for known in links.values())
    usual, alike = profiles.most_common(1)[0]
    return frozenset(link for link, _ in usual) if alike >= _SHARE_OF_A_RULE * len(links) else frozenset()


def _links_of(topology: Topology, device: str) -> dict[str, str]:
    return {
        other: link
        for other in topology.devices
        if other != device and (link := topology.link(device, other)) and link != "NA"
    }


def _slow_links(odd: list[OddPair], topology: Topology, info: NpuSmiInfo, plan: LinkPlan | None) -> Finding:
    involved = Counter(device for pair in odd for device in (pair.one, pair.other))
    culprit, pairs = involved.most_common(1)[0]
    alone = pairs == len(odd) and len(odd) > 1 and len(topology.devices) > 2
    message = messages.NO_DIRECT_LINK if plan is not None else messages.FEW_WITHOUT_DIRECT_LINK
    return message.finding(
        subject=subject_of_label(culprit, info) if alone else "host",
        count=len(odd),
        pairs=_name_pairs(odd),
        as_of=str(knowledge.hardware().as_of),
        commands=(COMMAND, "dmesg | grep -i hccs"),
        evidence=tuple(_evidence(pair) for pair in odd[:8]),
    )


def _name_pairs(pairs: list[OddPair]) -> list[str]:
    more = [messages.MORE.text(count=len(pairs) - 4)] if len(pairs) > 4 else []
    return [*(f"{pair.one}–{pair.other}" for pair in pairs[:4]), *more]


def _evidence(pair: OddPair) -> Evidence:
    return Evidence(source=f"{COMMAND}, {pair.one}–{pair.other}", expected=pair.expected, actual=pair.link)


def subject_of_label(device: str, info: NpuSmiInfo) -> str:
    """The NPU of a label: NPU3 is npu-smi's own number, Phy-ID3 is a chip's."""
    number = _number(device)
    if device.startswith("NPU"):
        return f"npu:{number}"
    chip = next((chip for chip in info.npus if chip.phy_id == number), None)
    return f"npu:{chip.npu_id}/chip:{chip.chip_id}" if chip is not None and chip.chip_id is not None else "host"
