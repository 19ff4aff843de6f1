"""What hccn_tool says of the network port of each chip: a fact for each query, asked only where somebody wants it.

hccn_tool wants the number of the device as the driver has it, not npu-smi's, and mostly root: a refusal that a lack of
rights explains is one of rights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from npudoctor import knowledge
from npudoctor.facts import hccn
from npudoctor.facts.node.chips import Chips, subject_of
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo
from npudoctor.records import dataclass
from npudoctor.sdk import Because, Completed, Host, NotApplicable, Options, ParseError, Unavailable, ask_each, probe

TOOL = "hccn_tool"
UNSET = 13
"""The exit status of hccn_tool for a setting that is not made; older ones print nothing and end with 0."""
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class NetworkDevices:
    """The devices that have a network port: what findings call them, by the number that hccn_tool wants."""

    subjects: Mapping[int, str]


@probe
def network_devices(info: NpuSmiInfo | None, nodes: DeviceNodes | None, cards: Chips) -> NetworkDevices:
    """From the numbers in npu-smi's table, else from /dev, in the order of the table."""
    families = [knowledge.hardware().family(id) for id in cards.families]
    if families and all(family is not None and family.device_nic is False for family in families):
        raise NotApplicable(f"cards of the family {' and '.join(cards.families)} have no network port")
    chips = info.npus if info is not None else ()
    numbers = [_own_number(chip) for chip in chips]
    if chips and None not in numbers and len(set(numbers)) == len(chips):
        return NetworkDevices(
            {number: subject_of(chip, chips) for number, chip in zip(numbers, chips, strict=True) if number is not None}
        )
    here = nodes.numbers if nodes is not None else ()
    if not here:
        raise Unavailable("the numbers of the devices are not known: neither npu-smi nor /dev shows a card")
    if len(here) == len(chips):
        return NetworkDevices({number: subject_of(chip, chips) for number, chip in zip(here, chips, strict=True)})
    return NetworkDevices({number: f"npu:{number}" for number in here})


def _own_number(chip: Chip) -> int | None:
    return chip.phy_id if chip.phy_id is not None else chip.device_id


@dataclass(frozen=True, slots=True)
class PortLinks:
    """The answers of `-link` by the number of the device, and why the others gave none."""

    by_device: Mapping[int, hccn.Link]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortAddresses:
    """Of `-ip`; an address that is not set is None."""

    by_device: Mapping[int, hccn.Address]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortVnics:
    """Of `-vnic`: the addresses inside a SuperPoD."""

    by_device: Mapping[int, hccn.Vnic]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortGateways:
    """Of `-gateway`; a gateway that is not set is None."""

    by_device: Mapping[int, hccn.Gateway]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortHealth:
    """Of `-net_health`."""

    by_device: Mapping[int, hccn.NetHealth]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortDetection:
    """Of `-netdetect`; a detect address that is not set is None."""

    by_device: Mapping[int, hccn.NetDetect]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortTls:
    """Of `-tls`; without a line the switch is off."""

    by_device: Mapping[int, hccn.Tls]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortSpeeds:
    """Of `-speed`."""

    by_device: Mapping[int, hccn.Speed]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortFec:
    """Of `-fec`."""

    by_device: Mapping[int, hccn.Fec]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortChanges:
    """Of `-link_stat`."""

    by_device: Mapping[int, hccn.LinkStat]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Of `-stat`: counters by name."""

    by_device: Mapping[int, Mapping[str, int]]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortNeighbours:
    """Of `-lldp`."""

    by_device: Mapping[int, hccn.Lldp]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortOptics:
    """Of `-optical`: the module in each port."""

    by_device: Mapping[int, hccn.Optical]
    failed: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PortRoutes:
    """Of `-route`."""

    by_device: Mapping[int, hccn.Routes]
    failed: Mapping[int, str]


def _ask(
    host: Host,
    options: Options,
    devices: NetworkDevices,
    query: str,
    parse: Callable[[str], A],
    unset: A | None = None,
) -> tuple[dict[int, A], dict[int, str]]:
    """The answer of every device; `unset` stands for one that says that nothing is set."""
    if options.profile == "quick":
        raise NotApplicable("profile quick asks no card by itself")
    found: dict[int, A] = {}
    failed: dict[int, str] = {}
    first: Unavailable | None = None
    commands = [(TOOL, "-i", str(device), f"-{query}", "-g") for device in devices.subjects]
    answers = _answers(host, options, commands)
    for device, command, answer in zip(devices.subjects, commands, answers, strict=True):
        try:
            if isinstance(answer, Unavailable):
                raise answer
            found[device] = _answer(host, answer, " ".join(command), parse, unset)
        except Unavailable as why:
            failed[device] = why.reason
            first = first or why
    if first is not None and not found:
        raise first
    return found, failed


def _answers(host: Host, options: Options, commands: Sequence[Sequence[str]]) -> list[Completed | Unavailable]:
    """The answer of every device; where the first is refused for lack of rights nobody else is asked."""
    first = ask_each(host, commands[:1], timeout=options.tool_timeout_s)
    if len(first) == 1 and _refused(host, first[0]):
        return first * len(commands)
    return first + ask_each(host, commands[1:], timeout=options.tool_timeout_s)


def _refused(host: Host, answer: Completed | Unavailable) -> bool:
    if isinstance(answer, Unavailable):
        return answer.because in (Because.NO_RIGHT, Because.ABSENT)
    failure = hccn.parse_failure(answer.stdout + answer.stderr) if answer.returncode else None
    return failure is not None and (
        failure.cause == "permission_denied" or (host.user.uid != 0 and failure.cause == "command_failed")
    )


def _answer(host: Host, done: Completed, command: str, parse: Callable[[str], A], unset: A | None) -> A:
    if done.timed_out:
        raise Unavailable(f"`{command}` did not answer within {done.seconds:.3g} s", because=Because.TIMED_OUT)
    text = done.stdout + done.stderr
    try:
        return parse(done.stdout)
    except ParseError as problem:
        failure = hccn.parse_failure(text)
        said = next((line.strip()[:160] for line in reversed(text.splitlines()) if line.strip()), "")
        cause = failure.cause if failure is not None else None
        if unset is not None and (cause == "not_configured" or (not said and done.returncode in (0, UNSET))):
            return unset
        if cause == "not_supported":
            raise NotApplicable(f"`{command}` is not answered by this product: {said}") from None
        if cause == "permission_denied" or (host.user.uid != 0 and (cause == "command_failed" or not said)):
            raise Unavailable(
                f"`{command}` needs root: {said or 'it printed nothing'}", because=Because.NO_RIGHT
            ) from None
        if failure is not None or not said:
            raise Unavailable(f"`{command}` failed: {said or 'it printed nothing'}", because=Because.FAILED) from None
        raise Unavailable(
            f"`{command}` printed what npudoctor does not understand: {problem}", because=Because.FAILED
        ) from None


@probe
def links(host: Host, options: Options, devices: NetworkDevices) -> PortLinks:
    """From `hccn_tool -link -g` for every device."""
    return PortLinks(*_ask(host, options, devices, "link", hccn.parse_link))


@probe
def addresses(host: Host, options: Options, devices: NetworkDevices) -> PortAddresses:
    """From `hccn_tool -ip -g`."""
    return PortAddresses(*_ask(host, options, devices, "ip", hccn.parse_ip, hccn.Address()))


@probe
def vnics(host: Host, options: Options, devices: NetworkDevices) -> PortVnics:
    """From `hccn_tool -vnic -g`."""
    return PortVnics(*_ask(host, options, devices, "vnic", hccn.parse_vnic))


@probe
def gateways(host: Host, options: Options, devices: NetworkDevices) -> PortGateways:
    """From `hccn_tool -gateway -g`."""
    return PortGateways(*_ask(host, options, devices, "gateway", hccn.parse_gateway, hccn.Gateway()))


@probe
def net_health(host: Host, options: Options, devices: NetworkDevices) -> PortHealth:
    """From `hccn_tool -net_health -g`."""
    return PortHealth(*_ask(host, options, devices, "net_health", hccn.parse_net_health))


@probe
def detection(host: Host, options: Options, devices: NetworkDevices) -> PortDetection:
    """From `hccn_tool -netdetect -g`."""
    return PortDetection(*_ask(host, options, devices, "netdetect", hccn.parse_netdetect, hccn.NetDetect()))


@probe
def tls(host: Host, options: Options, devices: NetworkDevices) -> PortTls:
    """From `hccn_tool -tls -g`; root is shown nothing where no certificate was ever installed."""
    unset = hccn.Tls(()) if host.user.uid == 0 else None
    return PortTls(*_ask(host, options, devices, "tls", hccn.parse_tls, unset))


@probe
def speeds(host: Host, options: Options, devices: NetworkDevices) -> PortSpeeds:
    """From `hccn_tool -speed -g`."""
    return PortSpeeds(*_ask(host, options, devices, "speed", hccn.parse_speed))


@probe
def fec(host: Host, options: Options, devices: NetworkDevices) -> PortFec:
    """From `hccn_tool -fec -g`."""
    return PortFec(*_ask(host, options, devices, "fec", hccn.parse_fec))


@probe
def changes(host: Host, options: Options, devices: NetworkDevices) -> PortChanges:
    """From `hccn_tool -link_stat -g`."""
    return PortChanges(*_ask(host, options, devices, "link_stat", hccn.parse_link_stat))


@probe
def counters(host: Host, options: Options, devices: NetworkDevices) -> PortCounters:
    """From `hccn_tool -stat -g`."""
    return PortCounters(*_ask(host, options, devices, "stat", hccn.parse_stat))


@probe
def neighbours(host: Host, options: Options, devices: NetworkDevices) -> PortNeighbours:
    """From `hccn_tool -lldp -g`."""
    return PortNeighbours(*_ask(host, options, devices, "lldp", hccn.parse_lldp))


@dataclass(frozen=True, slots=True)
class PortSettings:
    """What /etc/hccn.conf sets for each device by its number: address, netmask, gateway, netdetect and others."""

    by_device: Mapping[int, Mapping[str, str]]


@probe
def settings(host: Host) -> PortSettings:
    """From /etc/hccn.conf; one that sets nothing names no device."""
    text = host.read(hccn.CONF_PATH)
    try:
        cards = hccn.parse_conf(text).cards
    except ParseError:
        if any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
            raise
        cards = {}
    return PortSettings({int(device): set_here for device, set_here in cards.items()})


@probe
def optics(host: Host, options: Options, devices: NetworkDevices) -> PortOptics:
    """From `hccn_tool -optical -g`."""
    return PortOptics(*_ask(host, options, devices, "optical", hccn.parse_optical))


@probe
def routes(host: Host, options: Options, devices: NetworkDevices) -> PortRoutes:
    """From `hccn_tool -route -g`."""
    return PortRoutes(*_ask(host, options, devices, "route", hccn.parse_route))
