"""How the NPUs are connected to the host: their PCIe links, and the CPUs near them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.npu_smi import NpuSmiInfo, Topology
from npudoctor.facts.system.cpu import Cpu, parse_cpus
from npudoctor.facts.system.pci import DEVICES, PciCards, normal_address
from npudoctor.facts.system.pcie import PcieLink, PcieLinks
from npudoctor.sdk import Because, Evidence, Finding, NotApplicable, ParseError, Unavailable, check

from ._together import by_fault, on
from .messages import npu_links as messages
from .npu import BEHIND_NPU_SMI
from .npu_topology import COMMAND, subject_of_label


@check("npu.pcie", after=("npu.present", "container.devices"))
def pcie_links_are_whole(
    links: PcieLinks, info: NpuSmiInfo | None, cards: Chips | None, container: Container | None
) -> Iterator[Finding]:
    """PCIe links of NPUs at full speed and width.

    A link with fewer lanes or at a lower speed slows loading, checkpoints and offloading of its NPU; the usual cause is
    a bad contact. Where the links of all NPUs are equal, the server is built so.
    """
    names = _names(info, cards)
    shown = [link for link in links.links if container is None or info is None or link.slot in names]
    slow = [link for link in shown if link.is_slow]
    alike = len(slow) == len(shown) > 1 and len({_state(link) for link in slow}) == 1
    if alike:
        now, most = _state(slow[0])
        yield messages.ALL_LINKS_SLOW.finding(now=now, most=most, **_about_speed(slow[:1]))
    else:
        for group in by_fault(slow, len(shown), _state):
            yield _slow(group, names)
    broken = [link for link in shown if link.fatal_errors and (alike or link not in slow)]
    for group in by_fault(broken, len(shown)):
        yield _broken_finding(group, names)


def _names(info: NpuSmiInfo | None, cards: Chips | None) -> dict[str, str]:
    """The subject of the NPU in a slot; one of several chips by its number only."""
    if info is not None:
        return {normal_address(chip.bus_id): f"npu:{chip.npu_id}" for chip in info.npus if chip.bus_id}
    return {card.bus_id: card.subject for card in cards.chips if card.bus_id} if cards is not None else {}


def _state(link: PcieLink) -> tuple[str, str]:
    return _describe(link.current_speed_gts, link.current_width), _describe(
        link.attainable_speed, link.attainable_width
    )


def _describe(speed: float | None, width: int | None) -> str:
    return f"{f'{speed:g} GT/s' if speed else '?'} x{width or '?'}"


def _about_speed(links: Sequence[PcieLink]) -> dict[str, Any]:
    """The commands and the evidence of slow links; fatal errors of such a link have the same cause."""
    now, most = _state(links[0])
    slots = [link.slot for link in links]
    return {
        "commands": tuple(f"lspci -vv -s {slot} | grep -e LnkCap -e LnkSta" for slot in slots[:4]),
        "evidence": (
            *(
                Evidence(source=f"{DEVICES}/{slot}/current_link_speed, _width", expected=most, actual=now)
                for slot in slots
            ),
            *(_fatal_evidence(link) for link in links if link.fatal_errors),
        ),
    }


def _fatal_evidence(link: PcieLink) -> Evidence:
    return Evidence(source=f"{DEVICES}/{link.slot}/aer_dev_fatal", expected="0", actual=str(link.fatal_errors))


def _slow(links: Sequence[PcieLink], names: Mapping[str, str]) -> Finding:
    now, most = _state(links[0])
    about = _about_speed(links)
    about["evidence"] += (Evidence(source=messages.OTHER_NPUS.text(), expected=most),)
    return messages.SLOW_LINK.finding(
        **on(_subjects(links, names)),
        slot=", ".join(link.slot for link in links),
        now=now,
        most=most,
        count=len(links),
        **about,
    )


def _subjects(links: Sequence[PcieLink], names: Mapping[str, str]) -> list[str]:
    known = [names[link.slot] for link in links if link.slot in names]
    return known if len(known) == len(links) else ["host"]


def _broken_finding(links: Sequence[PcieLink], names: Mapping[str, str]) -> Finding:
    slots = [link.slot for link in links]
    return messages.FATAL_ERRORS.finding(
        **on(_subjects(links, names)),
        count=sum(link.fatal_errors or 0 for link in links),
        slot=", ".join(slots),
        slots=len(slots),
        commands=(
            f"dmesg -T | grep -i {' '.join(f'-e {slot}' for slot in slots)} -e AER",
            *(f"cat {DEVICES}/{slot}/aer_dev_fatal" for slot in slots[:4]),
        ),
        evidence=tuple(map(_fatal_evidence, links)),
    )


@check("npu.affinity", profile="standard", after=BEHIND_NPU_SMI)
def cards_are_near_processors(
    topology: Topology, cpu: Cpu, info: NpuSmiInfo, cards: Chips | None, pci: PciCards | None
) -> Iterator[Finding]:
    """CPU affinity of NPUs.

    A rank that runs far from its NPU sends all data across the CPUs: loading and launching get slower. An A3 with Arm
    processors, whose dies are equally far from all CPUs, shows none.
    """
    if not topology.cpu_affinity:
        family = knowledge.hardware().family(cards.family or "") if cards is not None else None
        if family is not None and family.prints_affinity is False:
            raise NotApplicable(messages.AFFINITY_NOT_PRINTED.text(series=family.series))
        raise Unavailable(messages.AFFINITY_NOT_SHOWN.text())
    near = dict(_sets(topology.cpu_affinity))
    without = [device for device in topology.devices if device not in near]
    if without:
        yield _none_near(without, info)
    yield from _out_of_reach(near, cpu, info)
    yield from _all_in_one_place(near, cpu, pci)


_LONGEST_AFFINITY = 31
"""npu-smi prints no more characters of a list of CPUs than these; the range that they end in may be cut."""


def _sets(affinity: Mapping[str, str]) -> Iterator[tuple[str, frozenset[int]]]:
    for device, text in affinity.items():
        whole = text.rpartition(",")[0] if len(text) == _LONGEST_AFFINITY and "," in text else text
        try:
            yield device, parse_cpus("".join(whole.split()))
        except ParseError as problem:
            raise Unavailable(
                messages.AFFINITY_NOT_READ.text(device=device, problem=str(problem)), because=Because.FAILED
            ) from None


def _none_near(devices: Sequence[str], info: NpuSmiInfo) -> Finding:
    return messages.NO_AFFINITY.finding(
        **on([subject_of_label(device, info) for device in devices]),
        commands=(COMMAND, "cat /sys/bus/pci/devices/*/numa_node"),
        evidence=tuple(
            Evidence(source=f"{COMMAND}, {device}", expected=messages.CPU_RANGE.text(), actual=messages.NONE.text())
            for device in devices
        ),
    )


def _out_of_reach(near: dict[str, frozenset[int]], cpu: Cpu, info: NpuSmiInfo) -> Iterator[Finding]:
    """NPUs none of whose near CPUs a job may use, while it may use other CPUs."""
    if not cpu.allowed:
        return
    far = [device for device, cpus in near.items() if not cpus & cpu.allowed]
    if not far:
        return
    everywhere = len(far) == len(near) > 1
    message = messages.NO_CPUS_ALLOWED if everywhere else messages.CPUS_NOT_ALLOWED
    yield message.finding(
        **on(["host"] if everywhere else [subject_of_label(device, info) for device in far]),
        commands=(COMMAND, "taskset -cp $$"),
        evidence=(
            *(Evidence(source=f"{COMMAND}, {device}", actual=_ranges(near[device])) for device in far[:4]),
            Evidence(
                source=messages.CPUS_OF_PROCESS.text(),
                expected=messages.SOME_OF_THEM.text(),
                actual=_ranges(cpu.allowed),
            ),
        ),
    )


def _all_in_one_place(near: dict[str, frozenset[int]], cpu: Cpu, pci: PciCards | None) -> Iterator[Finding]:
    """All NPUs report the same few near CPUs, while the bus has them on several NUMA nodes."""
    places = Counter(near.values())
    cpus, count = places.most_common(1)[0]
    nodes = {card.numa_node for card in pci.cards if card.numa_node is not None} if pci is not None else set()
    if len(near) < 4 or count < len(near) or len(cpu.numa_nodes) < 2 or (cpu.logical or 0) <= len(cpus):
        return
    message = messages.AFFINITY_CONTRADICTS_BUS if len(nodes) > 1 else messages.AFFINITY_CROWDED
    yield message.finding(
        count=len(near),
        cpu_count=len(cpus),
        cpus=_ranges(cpus),
        commands=(COMMAND, "cat /sys/bus/pci/devices/*/numa_node"),
        evidence=(
            Evidence(source=COMMAND, expected=messages.CPUS_OF_SEVERAL_NODES.text(), actual=_ranges(cpus)),
            *([Evidence(source=f"{DEVICES}/*/numa_node", actual=", ".join(map(str, sorted(nodes))))] if nodes else []),
        ),
    )


def _ranges(cpus: frozenset[int]) -> str:
    """Numbers as the kernel writes them: 0-23,48."""
    spans: list[list[int]] = []
    for number in sorted(cpus):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
