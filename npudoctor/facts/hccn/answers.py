"""Short answers of hccn_tool: link, addresses, gateway, health, detection, speed, FEC, ping.

One answer fills the fields of its record. Where a text holds the answers of several devices, as a loop over them
prints, they fill a field of the plural; nothing in such a text but the order says whose they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from npudoctor.facts.cells import integer, lines_of, parse_decimal, word
from npudoctor.facts.hccn.lines import is_elided, not_an_answer, pairs_of, parse_failure, rows_of
from npudoctor.records import record

_HEALTHY = "Success"


@record(frozen=True, kw_only=True)
class Link:
    """`-link`: UP or DOWN; 950 also PARTIAL LINK, and then `ports` by number. `statuses` of several devices."""

    status: str | None = None
    ports: Mapping[str, str] | None = None
    statuses: tuple[str, ...] | None = None


@record(frozen=True, kw_only=True)
class Address:
    """`-ip`. `cards` holds the addresses of several devices by their place, None where a device has none.

    `addresses` holds them where their places are not known. An address may be masked before it was pasted.
    """

    ipaddr: str | None = None
    netmask: str | None = None
    cards: Mapping[str, str | None] | None = None
    addresses: tuple[str, ...] | None = None


@record(frozen=True, kw_only=True)
class Vnic:
    """`-vnic`: the port to the fabric of a SuperPoD; `cards` as in an `Address`."""

    link_status: str | None = None
    ipaddr: str | None = None
    netmask: str | None = None
    cards: Mapping[str, str | None] | None = None
    addresses: tuple[str, ...] | None = None
    link_statuses: tuple[str, ...] | None = None


@record(frozen=True, kw_only=True)
class Gateway:
    """`-gateway`, with the device's own interface; `cards` as in an `Address`."""

    default_gateway: str | None = None
    iface: str | None = None
    cards: Mapping[str, str | None] | None = None
    addresses: tuple[str, ...] | None = None


@record(frozen=True, kw_only=True)
class NetHealth:
    """`-net_health`: Success, Init (no detect address is set), Fault, Receive timeout and others.

    `healthy` holds where every answer is Success.
    """

    status: str | None = None
    healthy: bool
    statuses: tuple[str, ...] | None = None


@record(frozen=True, kw_only=True)
class NetDetect:
    """`-netdetect`: the address that a device pings to know its health; 0.0.0.0 where none is set."""

    address: str | None = None
    addresses: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class PortSpeed:
    """One port of 950 by its die: Mbit/s, lanes that it has and uses (X4), `normal` or `downgraded`."""

    npu: int | None = None
    udie: int | None = None
    port: int | None = None
    speed_mbps: int | None = None
    cap: str | None = None
    width: str | None = None
    status: str | None = None


@record(frozen=True, kw_only=True)
class Speed:
    """`-speed` in Mbit/s; None where the tool does not know it. 950 has a row for each of its `ports`."""

    speed_mbps: int | None = None
    speeds_mbps: tuple[int | None, ...] | None = None
    ports: tuple[PortSpeed, ...] | None = None


@record(frozen=True, kw_only=True)
class PortFec:
    """One port of 950 by its die: its mode (Bypass, 128 T2, 128 T4), whether it changes by itself, its interleaving."""

    npu: int | None = None
    udie: int | None = None
    port: int | None = None
    rs_mode: str | None = None
    auto_change_mode: str | None = None
    itlv_mode: str | None = None


@record(frozen=True, kw_only=True)
class Fec:
    """`-fec`: the error correction of the port as the tool words it: rs, no, auto FEC mode; of 950 its `ports`."""

    fec_mode: str | None = None
    fec_modes: tuple[str, ...] | None = None
    ports: tuple[PortFec, ...] | None = None


@record(frozen=True, kw_only=True)
class Ping:
    """`-ping` or `-hccs_ping`: packets, their loss in percent, and the milliseconds of those that came back."""

    device: int | None = None
    target: str | None = None
    transmitted: int
    received: int
    loss_pct: float | None = None
    times_ms: tuple[float, ...] = ()


def _answers(text: str, key: str, shape: str) -> list[str]:
    """The values of a key that have this shape, in order."""
    return [pair.value for pair in pairs_of(text) if pair.key == key and re.fullmatch(shape, pair.value)]


_LINK = "UP|DOWN|PARTIAL (?:LINK|UP)|INITIAL|NA"


def parse_link(text: str) -> Link:
    """Read `hccn_tool -link -g`."""
    found = _answers(text, "link status", _LINK)
    ports = {
        key: pair.value
        for pair in pairs_of(text)
        if (key := pair.key.removeprefix("port ")) != pair.key and re.fullmatch(_LINK, pair.value)
    }
    if not found:
        raise not_an_answer("link", text)
    if len(found) > 1:
        return Link(statuses=tuple(found))
    return Link(status=word(found[0]), ports=ports or None)


_ADDRESS = r"[0-9A-Za-z*][0-9A-Za-z*.:]*(?:/[0-9]{1,3})?"
_IP_KEYS = ("ipaddr", "ip address", "ipaddress", "ipv6 addr", "ipv6addr", "ipv6 address")
_MASK_KEYS = ("netmask", "ipv6 netmask", "prefixlen", "prefix length", "prefix")


def _in_turn(text: str, keys: Sequence[str]) -> list[str | None]:
    """The addresses of the devices in the order of their answers; None for a device that says that it has none."""
    found: list[str | None] = []
    for line in lines_of(text):
        for pair in pairs_of(line):
            value = pair.value.partition(",")[0].strip()
            if pair.key in keys and re.fullmatch(_ADDRESS, value):
                found.append(word(value))
        failure = parse_failure(line)
        if failure is not None and failure.cause == "not_configured":
            found.append(None)
    return found


def _several(text: str, answers: Sequence[str | None]) -> tuple[dict[str, str | None] | None, tuple[str, ...] | None]:
    """The answers of several devices by their place, or only in their order where lines are missing."""
    if is_elided(text):
        return None, tuple(address for address in answers if address is not None)
    return {str(place): address for place, address in enumerate(answers)}, None


def _only(text: str, keys: Sequence[str]) -> str | None:
    """The value of a key that has one value; None where it has none or several."""
    found = [pair.value for pair in pairs_of(text) if pair.key in keys]
    return word(found[0]) if len(found) == 1 else None


def parse_ip(text: str) -> Address:
    """Read `hccn_tool -ip -g`, with `-inet6` too."""
    answers = _in_turn(text, _IP_KEYS)
    if not any(answers):
        raise not_an_answer("ip", text)
    if len(answers) == 1:
        return Address(ipaddr=answers[0], netmask=_only(text, _MASK_KEYS))
    cards, addresses = _several(text, answers)
    return Address(cards=cards, addresses=addresses)


def parse_vnic(text: str) -> Vnic:
    """Read `hccn_tool -vnic -g`."""
    states = _answers(text, "vnic link status", _LINK)
    answers = _in_turn(text, ("vnic ipaddr",))
    if not states and not any(answers):
        raise not_an_answer("vnic", text)
    if len(answers) < 2 and len(states) < 2:
        return Vnic(
            link_status=word(states[0]) if states else None,
            ipaddr=answers[0] if answers else None,
            netmask=_only(text, ("vnic netmask",)),
        )
    cards, addresses = _several(text, answers)
    return Vnic(cards=cards, addresses=addresses, link_statuses=tuple(states))


_GATEWAY_KEYS = ("default gateway", "ipv6 default gateway", "gateway")


def parse_gateway(text: str) -> Gateway:
    """Read `hccn_tool -gateway -g`; 950 names no interface."""
    answers = _in_turn(text, _GATEWAY_KEYS)
    if not any(answers):
        raise not_an_answer("gateway", text)
    if len(answers) == 1:
        iface = re.search(r"\bIface\s*:\s*([\w.-]+)", text)
        return Gateway(default_gateway=answers[0], iface=iface[1] if iface else None)
    cards, addresses = _several(text, answers)
    return Gateway(cards=cards, addresses=addresses)


def parse_net_health(text: str) -> NetHealth:
    """Read `hccn_tool -net_health -g`."""
    found = _answers(text, "net health status", r"[A-Za-z][A-Za-z ]{0,40}")
    if not found:
        raise not_an_answer("net_health", text)
    healthy = all(status == _HEALTHY for status in found)
    if len(found) > 1:
        return NetHealth(healthy=healthy, statuses=tuple(found))
    return NetHealth(status=found[0], healthy=healthy)


def parse_netdetect(text: str) -> NetDetect:
    """Read `hccn_tool -netdetect -g`."""
    found = tuple(filter(None, _in_turn(text, ("netdetect address", "netdetect addr"))))
    if not found:
        raise not_an_answer("netdetect", text)
    return NetDetect(address=found[0] if len(found) == 1 else None, addresses=found)


_GIGABITS = 1000


def _mbps(speed: str | None) -> int | None:
    """A speed in Mbit/s from `400 G`, as 950 prints it."""
    found = re.fullmatch(r"([0-9]{1,6})\s*G(?:bps|b/s)?", speed or "")
    return int(found[1]) * _GIGABITS if found else None


def parse_speed(text: str) -> Speed:
    """Read `hccn_tool -speed -g`, of 950 with `-u UDIE -p PORT`."""
    ports = tuple(
        PortSpeed(
            npu=integer(row["npu"]),
            udie=integer(row["udie"]),
            port=integer(row["port"]),
            speed_mbps=_mbps(row["speed"]),
            cap=word(row.get("cap")),
            width=word(row.get("width")),
            status=word(row.get("status")),
        )
        for row in rows_of(text)
        if "speed" in row
    )
    found = [
        integer(value.removesuffix("Mb/s").rstrip())
        for value in _answers(text, "speed", r"[0-9]{1,9}\s*Mb/s|Unknown!?")
        if "Settings for" not in text
    ]
    found += [port.speed_mbps for port in ports]
    if not found:
        raise not_an_answer("speed", text)
    if len(found) == 1:
        return Speed(speed_mbps=found[0], ports=ports or None)
    return Speed(speeds_mbps=tuple(found), ports=ports or None)


def parse_fec(text: str) -> Fec:
    """Read `hccn_tool -fec -g`, of 950 with `-u UDIE -p PORT`."""
    ports = tuple(
        PortFec(
            npu=integer(row["npu"]),
            udie=integer(row["udie"]),
            port=integer(row["port"]),
            rs_mode=word(row["rs_mode"]),
            auto_change_mode=word(row.get("auto_change_mode")),
            itlv_mode=word(row.get("itlv_mode")),
        )
        for row in rows_of(text)
        if "rs_mode" in row
    )
    found = _answers(text, "fec mode", r"\w[\w ()-]{0,40}")
    modes = [*found, *(port.rs_mode for port in ports if port.rs_mode)]
    if not modes:
        raise not_an_answer("fec", text)
    if len(modes) == 1:
        return Fec(fec_mode=modes[0], ports=ports or None)
    return Fec(fec_modes=tuple(modes), ports=ports or None)


_PACKETS = r"\s*([0-9]{1,9}) packets transmitted, ([0-9]{1,9}) received,\s*([0-9.]{1,9})% packet loss\s*"


def parse_ping(text: str) -> Ping:
    """Read `hccn_tool -ping -g address X` or `-hccs_ping`; raises ParseError where its last line is missing."""
    lines = lines_of(text)
    packets = next((found for line in lines if (found := re.fullmatch(_PACKETS, line))), None)
    if packets is None:
        raise not_an_answer("ping", text)
    head = next((found for line in lines if (found := re.match(r"\s*device ([0-9]{1,5}) \w*PING6? (\S+)", line))), None)
    times = (re.match(r"\s*recv seq=[0-9]+,\s*time=([0-9.]{1,12})ms", line) for line in lines)
    return Ping(
        device=int(head[1]) if head else None,
        target=head[2] if head else None,
        transmitted=int(packets[1]),
        received=int(packets[2]),
        loss_pct=parse_decimal(packets[3]),
        times_ms=tuple(ms for time in times if time and (ms := parse_decimal(time[1])) is not None),
    )
