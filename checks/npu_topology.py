"""The links between the cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.npu_smi import NpuSmiInfo, Topology
from npudoctor.records import dataclass
from npudoctor.sdk import Evidence, Finding, Severity, check

from .npu import BEHIND_NPU_SMI

if TYPE_CHECKING:  # the table brings its module with it when it is asked for
    from npudoctor.knowledge.tables.hardware import LinkPlan

COMMAND = "npu-smi info -t topo"

_OVER_THE_HOST = frozenset({"PIX", "PXB", "PHB", "SYS"})
_SHARE_OF_A_RULE = 0.7


@dataclass(frozen=True, slots=True)
class OddPair:
    """Two devices whose link is not what it should be."""

    one: str
    other: str
    link: str
    expected: str


@check("npu.topology", profile="standard", after=BEHIND_NPU_SMI)
def links_are_those_of_the_product(topology: Topology, info: NpuSmiInfo, cards: Chips | None) -> Iterator[Finding]:
    """The links between the cards are those that the product has, in both directions.

    A pair that talks over PCIe or across the CPUs where it should have a direct link slows every collective down to
    its own pace.
    """
    uneven = list(_uneven(topology))
    if uneven:
        yield Finding(
            severity=Severity.WARNING,
            summary=f"npu-smi shows {_counted(uneven)} with another link in one direction than in the other",
            detail="The matrix is not symmetric: the driver sees a link that is half there.",
            hint="Read the kernel log for link errors; a reboot trains the links again.",
            commands=(COMMAND, "dmesg | grep -i hccs"),
            evidence=tuple(_evidence(pair) for pair in uneven[:8]),
        )
    plan = _plan(topology, cards)
    odd = [pair for pair in _odd(topology, plan) if pair not in uneven]
    if odd:
        yield _slow_links(odd, topology, info, plan)


def _uneven(topology: Topology) -> Iterator[OddPair]:
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
        link, right = topology.link(one, other), plan.expected(_number(one), _number(other))
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
    return Finding(
        subject=subject_of_label(culprit, info) if alone else "host",
        severity=Severity.WARNING,
        summary=f"{_counted(odd)} without the direct link that "
        + ("this product has" if plan is not None else "most cards here have"),
        detail=_by_the_majority(plan)
        + "These cards talk over PCIe or across the CPUs; collectives that include them run at that pace.",
        hint="Read the kernel log for link errors and reboot once; a card that keeps a slow link needs service. Until "
        "then, jobs of fewer cards can leave it out.",
        commands=(COMMAND, "dmesg | grep -i hccs"),
        evidence=tuple(_evidence(pair) for pair in odd[:8]),
    )


def _by_the_majority(plan: LinkPlan | None) -> str:
    if plan is not None:
        return ""
    as_of = knowledge.hardware().as_of
    return (
        f"The links of this board are not in the hardware table (as of {as_of}): most of its own cards set the rule. "
    )


def _counted(pairs: list[OddPair]) -> str:
    named = ", ".join(f"{pair.one}–{pair.other}" for pair in pairs[:4])
    more = f" and {len(pairs) - 4} more" if len(pairs) > 4 else ""
    return f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} of cards ({named}{more})"


def _evidence(pair: OddPair) -> Evidence:
    return Evidence(source=f"{COMMAND}, {pair.one}–{pair.other}", expected=pair.expected, actual=pair.link)


def subject_of_label(device: str, info: NpuSmiInfo) -> str:
    """The card behind a label: NPU3 is npu-smi's own number, Phy-ID3 is a chip's."""
    number = _number(device)
    if device.startswith("NPU"):
        return f"npu:{number}"
    chip = next((chip for chip in info.npus if chip.phy_id == number), None)
    return f"npu:{chip.npu_id}/chip:{chip.chip_id}" if chip is not None and chip.chip_id is not None else "host"
