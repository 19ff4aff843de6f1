"""How the cards sit in the host: their PCIe links, and the processors near them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.npu_smi import NpuSmiInfo, Topology
from npudoctor.facts.system.cpu import Cpu, parse_cpus
from npudoctor.facts.system.pci import DEVICES, PciCards, normal_address
from npudoctor.facts.system.pcie import PcieLink, PcieLinks
from npudoctor.sdk import Because, Evidence, Finding, NotApplicable, ParseError, Severity, Unavailable, check

from .npu import BEHIND_NPU_SMI
from .npu_topology import COMMAND, subject_of_label


@check("npu.pcie", after=("npu.present", "container.devices"))
def pcie_links_are_whole(
    links: PcieLinks, info: NpuSmiInfo | None, cards: Chips | None, container: Container | None
) -> Iterator[Finding]:
    """Every card's PCIe link has the speed and the width that it can have.

    A link that came up with fewer lanes or at a lower speed slows loading, checkpoints and offloading of its card, and
    mostly tells of a bad contact. What all cards of a node show alike is how the server is built.
    """
    names = _names(info, cards)
    shown = [link for link in links.links if container is None or info is None or link.slot in names]
    slow = [link for link in shown if link.is_slow]
    alike = len(slow) == len(shown) > 1 and len({_state(link) for link in slow}) == 1
    for link in slow[:1] if alike else slow:
        yield _slow(link, names.get(link.slot, "host"), alike=alike)
    for link in shown:
        if link.fatal_errors:
            yield _broken(link, names.get(link.slot, "host"))


def _names(info: NpuSmiInfo | None, cards: Chips | None) -> dict[str, str]:
    """What findings call the card in a slot; a card of several chips by its number alone."""
    if info is not None:
        return {normal_address(chip.bus_id): f"npu:{chip.npu_id}" for chip in info.npus if chip.bus_id}
    return {card.bus_id: card.subject for card in cards.chips if card.bus_id} if cards is not None else {}


def _state(link: PcieLink) -> tuple[str, str]:
    return _described(link.current_speed_gts, link.current_width), _described(
        link.attainable_speed, link.attainable_width
    )


def _described(speed: float | None, width: int | None) -> str:
    return f"{f'{speed:g} GT/s' if speed else '?'} x{width or '?'}"


def _slow(link: PcieLink, subject: str, *, alike: bool) -> Finding:
    now, most = _state(link)
    return Finding(
        subject="host" if alike else subject,
        severity=Severity.INFO if alike else Severity.WARNING,
        summary=("the PCIe links of all cards run" if alike else f"the PCIe link of the card in slot {link.slot} runs")
        + f" at {now} of {most}",
        detail="All are alike: the slots of this server, or a setting of its BIOS, give no more."
        if alike
        else "Loading data, checkpoints and offloading are slower on this card, and a job waits for it.",
        hint="Compare with the data sheet of the server."
        if alike
        else "Reboot once, so that the link is trained again; then reseat the card, or its riser.",
        commands=(f"lspci -vv -s {link.slot} | grep -e LnkCap -e LnkSta",),
        evidence=(
            Evidence(source=f"{DEVICES}/{link.slot}/current_link_speed, _width", expected=most, actual=now),
            *([Evidence(source="the same of the other cards", expected=most)] if not alike else []),
        ),
    )


def _broken(link: PcieLink, subject: str) -> Finding:
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        summary=f"the kernel has counted {link.fatal_errors} fatal errors on the PCIe link in slot {link.slot}",
        detail="A fatal error means that the link was lost and had to be made again: what ran on the card then failed.",
        hint="Read what the kernel wrote; a card that does it again needs to be reseated or replaced.",
        commands=(f"dmesg -T | grep -i -e {link.slot} -e AER", f"cat {DEVICES}/{link.slot}/aer_dev_fatal"),
        evidence=(
            Evidence(source=f"{DEVICES}/{link.slot}/aer_dev_fatal", expected="0", actual=str(link.fatal_errors)),
        ),
        pitfall="P052",
    )


@check("npu.affinity", profile="standard", after=BEHIND_NPU_SMI)
def cards_are_near_processors(
    topology: Topology, cpu: Cpu, info: NpuSmiInfo, cards: Chips | None, pci: PciCards | None
) -> Iterator[Finding]:
    """Every card has processors near it, which a job here may use.

    A rank that runs far from its card sends all data across the processors: loading and launching get slower. An A3,
    whose dies are equally far from all, shows none.
    """
    family = knowledge.hardware().family(cards.family or "") if cards is not None else None
    if family is not None and family.prints_affinity is False:
        raise NotApplicable(f"npu-smi shows no CPU affinity for {family.series}")
    if not topology.cpu_affinity:
        raise Unavailable("npu-smi shows no CPU affinity of any card")
    near = dict(_sets(topology.cpu_affinity))
    for device in topology.devices:
        if device not in near:
            yield _none_near(device, info)
    yield from _out_of_reach(near, cpu, info)
    yield from _all_in_one_place(near, cpu, pci)


def _sets(affinity: Mapping[str, str]) -> Iterator[tuple[str, frozenset[int]]]:
    for device, text in affinity.items():
        try:
            yield device, parse_cpus("".join(text.split()))
        except ParseError as problem:
            raise Unavailable(
                f"the CPU affinity of {device} is not understood: {problem}", because=Because.FAILED
            ) from None


def _none_near(device: str, info: NpuSmiInfo) -> Finding:
    return Finding(
        subject=subject_of_label(device, info),
        severity=Severity.WARNING,
        summary="npu-smi shows no processors near the card, though it does for the others",
        detail="Launchers that bind ranks by affinity leave the rank of this card unbound.",
        hint="See on which NUMA node the card sits, and whether its slot is listed with the others.",
        commands=(COMMAND, "cat /sys/bus/pci/devices/*/numa_node"),
        evidence=(Evidence(source=f"{COMMAND}, {device}", expected="a range of processors", actual="none"),),
    )


def _out_of_reach(near: dict[str, frozenset[int]], cpu: Cpu, info: NpuSmiInfo) -> Iterator[Finding]:
    """Cards none of whose processors a job may use, while it may use some processors near other cards or nowhere."""
    if not cpu.allowed:
        return
    far = [device for device, cpus in near.items() if not cpus & cpu.allowed]
    everywhere = len(far) == len(near)
    for device in far[:1] if everywhere and len(far) > 1 else far:
        yield Finding(
            subject="host" if everywhere and len(far) > 1 else subject_of_label(device, info),
            severity=Severity.WARNING,
            summary="this process may use no processor near "
            + ("any card" if everywhere and len(far) > 1 else "the card"),
            detail="The processors of a job started here are limited to others: by taskset, by the container's cpuset, "
            "or by the batch system.",
            hint="Give the job processors near its cards, or cards near its processors.",
            commands=(COMMAND, "taskset -cp $$"),
            evidence=(
                Evidence(source=f"{COMMAND}, {device}", actual=_ranges(near[device])),
                Evidence(source="processors of this process", expected="some of them", actual=_ranges(cpu.allowed)),
            ),
        )


def _all_in_one_place(near: dict[str, frozenset[int]], cpu: Cpu, pci: PciCards | None) -> Iterator[Finding]:
    """Every card is said to be near the same few processors, while the bus has them on several NUMA nodes."""
    places = Counter(near.values())
    cpus, count = places.most_common(1)[0]
    nodes = {card.numa_node for card in pci.cards if card.numa_node is not None} if pci is not None else set()
    if len(near) < 4 or count < len(near) or len(cpu.numa_nodes) < 2 or (cpu.logical or 0) <= len(cpus):
        return
    contradicted = len(nodes) > 1
    yield Finding(
        severity=Severity.WARNING if contradicted else Severity.INFO,
        summary=f"all {len(near)} cards are near the same {len(cpus)} processors ({_ranges(cpus)})",
        detail="Ranks that are bound by affinity then crowd on these processors"
        + (
            ", though the cards sit on several NUMA nodes." if contradicted else " and leave the rest of the host idle."
        ),
        hint="Bind ranks yourself, by the NUMA nodes of the cards."
        if contradicted
        else "Where the server has several sockets, spread its cards over them.",
        commands=(COMMAND, "cat /sys/bus/pci/devices/*/numa_node"),
        evidence=(
            Evidence(source=COMMAND, expected="processors of several NUMA nodes", actual=_ranges(cpus)),
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
