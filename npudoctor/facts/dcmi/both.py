"""The pages that both the driver's library and the tools give, read from both, for profile full alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor.facts.dcmi.answer import NPU_SMI, LibraryAnswer
from npudoctor.facts.hccn import per_port
from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.npu_smi import NpuSmiInfo, per_chip
from npudoctor.records import record, replace
from npudoctor.sdk import Host, NotApplicable, Options, Unavailable, probe

OF_CHIPS = ("health", "ecc", "boards", "memory", "chip_numbers")
OF_PORTS = ("ip", "net_health")

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
                    yield page.query, subject, ours.by_subject[subject], theirs.by_subject[subject]


def _of_ports(host: Host, options: Options, tools: Options, devices: NetworkDevices | None) -> Iterator[Pair]:
    for query in OF_PORTS if devices is not None else ():
        assert devices is not None
        try:
            ours = per_port.ask(host, options, devices, query)
            theirs = per_port.ask(host, tools, devices, query) if ours.sources else ours
        except Unavailable:
            continue
        for device in ours.sources:
            if device in ours.by_device and device in theirs.by_device:
                yield query, devices.subjects[device], ours.by_device[device], theirs.by_device[device]
