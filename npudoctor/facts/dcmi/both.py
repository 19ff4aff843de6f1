"""The pages that both the driver's library and the tools give, read from both, for profile full alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from npudoctor.facts.by_chip import PerPort
from npudoctor.facts.dcmi.answer import NPU_SMI, LibraryAnswer
from npudoctor.facts.hccn import per_port
from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.npu_smi import NpuSmiInfo, per_chip
from npudoctor.facts.npu_smi.chip_pages import Common
from npudoctor.records import record, replace
from npudoctor.sdk import Host, NotApplicable, Options, Unavailable, probe

OF_CHIPS = ("health", "ecc", "boards", "memory", "common", "chip_numbers")
OF_PORTS: Mapping[str, Callable[..., PerPort[Any]]] = {
    "ip": partial(per_port.ask, query="ip"),
    "net_health": partial(per_port.ask, query="net_health"),
    "gateway": per_port.default_gateways,
}
"""How each is asked for, which the library gives but for the interface of a gateway."""

Pair = tuple[str, str, Any, Any]
"""The page by the word that asks for it, the subject, what the library tells, what the tool tells."""


@record(frozen=True)
class ToolPages:
    """The pages of chips and ports that were read twice; one that a source does not give is left out."""

    pairs: tuple[Pair, ...]


@probe(of_the_moment=True)
def tool_pages(
    host: Host, options: Options, info: NpuSmiInfo, devices: NetworkDevices | None, _: LibraryAnswer
) -> ToolPages:
    """From libdcmi.so, and from npu-smi and hccn_tool, which profile full asks for the same once more."""
    if options.profile != "full" or options.chips_from == NPU_SMI:
        raise NotApplicable("only profile full compares the driver's library with the tools")
    tools = replace(options, chips_from=NPU_SMI)
    return ToolPages((*_of_chips(host, options, tools, info), *_of_ports(host, options, tools, devices)))


def _of_chips(host: Host, options: Options, tools: Options, info: NpuSmiInfo) -> Iterator[Pair]:
    for page in per_chip.PAGES:
        if page.name in OF_CHIPS:
            probe = per_chip.PROBES[page.name].function
            try:
                ours = probe(host, options, info)
                theirs = probe(host, tools, info) if ours.sources else ours
            except Unavailable:
                continue
            for subject in ours.sources:
                if subject in ours.by_subject and subject in theirs.by_subject:
                    for place, one, other in _each_chip(subject, ours.by_subject[subject], theirs.by_subject[subject]):
                        yield page.query, place, one, other


def _each_chip(subject: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    """The chips of a page of clocks, by their numbers; any other page as it is."""
    if not isinstance(ours, Common):
        yield subject, ours, theirs
        return
    others = {chip.chip_id: chip for chip in theirs.chips if chip.chip_name is None}
    for chip in ours.chips:
        if chip.chip_id in others:
            place = subject if len(ours.chips) == 1 else f"{subject}/chip:{chip.chip_id}"
            yield place, chip, others[chip.chip_id]


def _of_ports(host: Host, options: Options, tools: Options, devices: NetworkDevices | None) -> Iterator[Pair]:
    for query, ask in OF_PORTS.items() if devices is not None else ():
        assert devices is not None
        try:
            ours = ask(host, options, devices)
            theirs = ask(host, tools, devices) if ours.sources else ours
        except Unavailable:
            continue
        for device in ours.sources:
            if device in ours.by_device and device in theirs.by_device:
                yield query, devices.subjects[device], ours.by_device[device], theirs.by_device[device]
