"""The answers of hccn_tool about the network port of each chip: one row of `PAGES` is one fact.

A row makes the fact `hccn.NAME`, a `PerPort` of its record, and the kind `hccn-QUERY` of `npudoctor parse`. hccn_tool
requires the device number of the driver, not npu-smi's, and mostly root: a refusal that missing permissions explain is
one of rights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from npudoctor.facts.by_chip import PerPort, collect
from npudoctor.facts.dcmi.answer import DCMI, LIBRARY, LibraryChip, answer_or_none
from npudoctor.facts.dcmi.pages import OF_PORTS, gateway
from npudoctor.facts.hccn.answers import (
    Address,
    Fec,
    Gateway,
    Link,
    NetDetect,
    NetHealth,
    Speed,
    Vnic,
    parse_fec,
    parse_gateway,
    parse_ip,
    parse_link,
    parse_net_health,
    parse_netdetect,
    parse_speed,
    parse_vnic,
)
from npudoctor.facts.hccn.counters import LinkStat, parse_link_stat, parse_stat
from npudoctor.facts.hccn.lines import parse_failure
from npudoctor.facts.hccn.port import Lldp, Optical, Routes, parse_lldp, parse_optical, parse_route
from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.hccn.tls import Tls, parse_tls
from npudoctor.sdk import Because, Completed, Host, NotApplicable, Options, ParseError, Probe, Unavailable, ask_each

TOOL = "hccn_tool"
UNSET = 13
"""The exit status of hccn_tool for a setting that is not made; older ones print nothing and end with 0."""


class Page(NamedTuple):
    """A row: the name of the fact, what hccn_tool is asked for (`-QUERY -g`), and how the answer is read.

    `unset` stands for a setting that is not made; `silent_to_users`: only root can tell that from a refusal.
    """

    name: str
    query: str
    parse: Callable[[str], Any]
    record: Any
    unset: object = None
    silent_to_users: bool = False
    of_the_moment: bool = False

    def probe(self) -> Probe:
        """The probe that asks for this page."""

        def page(host: Host, options: Options, devices: NetworkDevices) -> PerPort[Any]:
            return ask(host, options, devices, self.query)

        page.__name__ = self.name
        page.__doc__ = f"From `hccn_tool -{self.query} -g` for every device."
        return Probe(page, cast(Any, PerPort)[self.record], of_the_moment=self.of_the_moment)


PAGES = (
    Page("links", "link", parse_link, Link),
    Page("addresses", "ip", parse_ip, Address, unset=Address()),
    Page("vnics", "vnic", parse_vnic, Vnic),
    Page("gateways", "gateway", parse_gateway, Gateway, unset=Gateway(), of_the_moment=True),
    Page("net_health", "net_health", parse_net_health, NetHealth),
    Page("detection", "netdetect", parse_netdetect, NetDetect, unset=NetDetect(), of_the_moment=True),
    Page("tls", "tls", parse_tls, Tls, unset=Tls(()), silent_to_users=True),
    Page("speeds", "speed", parse_speed, Speed),
    Page("fec", "fec", parse_fec, Fec),
    Page("changes", "link_stat", parse_link_stat, LinkStat, of_the_moment=True),
    Page("counters", "stat", parse_stat, dict[str, int], of_the_moment=True),
    Page("neighbours", "lldp", parse_lldp, Lldp, of_the_moment=True),
    Page("optics", "optical", parse_optical, Optical),
    Page("routes", "route", parse_route, Routes),
)
PROBES = {page.name: page.probe() for page in PAGES}


def ask(host: Host, options: Options, devices: NetworkDevices, query: str) -> PerPort[Any]:
    """The answer of every device to a query of the table; Unavailable where none has one."""
    return _ask(host, options, devices, query, OF_PORTS.get(query))


def default_gateways(host: Host, options: Options, devices: NetworkDevices) -> PerPort[Gateway]:
    """The default gateway of every device; from the library it comes without its interface."""
    return _ask(host, options, devices, "gateway", gateway)


def source_of(pages: PerPort[Any], device: int, subject: str, query: str) -> str:
    """What evidence names as the source of a device's answer to a query."""
    return f"{LIBRARY}, {subject}" if device in pages.sources else f"{TOOL} -i {device} -{query} -g"


def _ask(
    host: Host, options: Options, devices: NetworkDevices, query: str, of_library: Callable[[LibraryChip], Any] | None
) -> PerPort[Any]:
    """The answer of every device, by `of_library` from the answer of the driver's library, else from hccn_tool."""
    if options.profile == "quick":
        raise NotApplicable("profile quick reads no per-chip pages")
    page = next(page for page in PAGES if page.query == query)
    known = _from_library(host, options, devices, of_library) if of_library else {}
    left = [device for device in devices.subjects if device not in known]
    commands = {device: (TOOL, "-i", str(device), f"-{query}", "-g") for device in left}
    told = dict(zip(commands, _answers(host, options, list(commands.values())), strict=True))

    def read(device: int, done: Any) -> Any:
        return _answer(host, done, " ".join(commands[device]), page) if device in commands else done

    answers = [known[device] if device in known else told[device] for device in devices.subjects]
    return PerPort(*collect(devices.subjects, answers, read), sources=dict.fromkeys(known, DCMI))


def _from_library(
    host: Host, options: Options, devices: NetworkDevices, of_library: Callable[[LibraryChip], Any]
) -> dict[int, Any]:
    """What the driver's library reports of the ports, by device."""
    answer = answer_or_none(host, options)
    found = {}
    for device, subject in devices.subjects.items() if answer is not None else ():
        assert answer is not None
        one = answer.chip(subject)
        if one is not None and one.told.get("phy_id") == device and (page := of_library(one)) is not None:
            found[device] = page
    return found


def _answers(host: Host, options: Options, commands: Sequence[Sequence[str]]) -> list[Completed | Unavailable]:
    """The answer of every device; where the first is refused for missing permissions no other device is asked."""
    first = ask_each(host, commands[:1], timeout=options.tool_timeout_s)
    if len(first) == 1 and _is_refused(host, first[0]):
        return first * len(commands)
    return first + ask_each(host, commands[1:], timeout=options.tool_timeout_s)


_WANTS_A_DIE = r"Option -[up] is required"
"""What 950 answers where it has counters for each port of each die alone."""


def _is_refused(host: Host, answer: Completed | Unavailable) -> bool:
    if isinstance(answer, Unavailable):
        return answer.because in (Because.NO_RIGHT, Because.ABSENT)
    failure = parse_failure(answer.stdout + answer.stderr) if answer.returncode else None
    return failure is not None and (
        failure.cause == "permission_denied" or (host.user.uid != 0 and failure.cause == "command_failed")
    )


def _answer(host: Host, done: Completed, command: str, page: Page) -> Any:
    """What a device said; a setting that is not made is an answer, too."""
    unset = page.unset if host.user.uid == 0 or not page.silent_to_users else None
    if done.timed_out:
        raise Unavailable(f"`{command}` did not answer within {done.seconds:.3g} s", because=Because.TIMED_OUT)
    text = done.stdout + done.stderr
    try:
        return page.parse(done.stdout)
    except ParseError as problem:
        failure = parse_failure(text)
        said = next((line.strip()[:160] for line in reversed(text.splitlines()) if line.strip()), "")
        cause = failure.cause if failure is not None else None
        if unset is not None and (cause == "not_configured" or (not said and done.returncode in (0, UNSET))):
            return unset
        if cause == "command_invalid" and re.search(_WANTS_A_DIE, text):
            raise NotApplicable(f"`{command}` asks for a die and a port on this product (-u, -p)") from None
        if cause == "not_supported":
            raise NotApplicable(f"`{command}` is not supported by this product: {said}") from None
        if cause == "permission_denied" or (host.user.uid != 0 and (cause == "command_failed" or not said)):
            raise Unavailable(
                f"`{command}` needs root: {said or 'it printed nothing'}", because=Because.NO_RIGHT
            ) from None
        if failure is not None or not said:
            raise Unavailable(f"`{command}` failed: {said or 'it printed nothing'}", because=Because.FAILED) from None
        raise Unavailable(f"`{command}` printed unexpected output: {problem}", because=Because.FAILED) from None
