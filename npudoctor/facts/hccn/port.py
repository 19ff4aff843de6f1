"""Long answers of hccn_tool about a port: its optical module, its neighbour, its routes, its settings."""

from __future__ import annotations

import re

from npudoctor.facts.cells import integer, lines_of, parse_decimal, word
from npudoctor.facts.hccn.lines import not_an_answer, pairs_of
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Optical:
    """`-optical`: the module in the port. What the tool cannot read is None, or missing from a list of lanes.

    Powers in mW and currents in mA, a value for each lane; temperature in degrees Celsius, supply in mV; signal to
    noise in dB; `*_flag` are bits as printed. `present` False may come with readings that mean nothing.
    """

    present: bool | None = None
    temperature_c: int | None = None
    vendor: str | None = None
    part_number: str | None = None
    serial_number: str | None = None
    identifier: str | None = None
    vcc_mv: float | None = None
    tx_power_mw: tuple[float | None, ...] = ()
    rx_power_mw: tuple[float | None, ...] = ()
    tx_bias_ma: tuple[float | None, ...] = ()
    host_snr_db: tuple[float | None, ...] = ()
    media_snr_db: tuple[float | None, ...] = ()
    tx_power_low_mw: float | None = None
    tx_power_high_mw: float | None = None
    rx_power_low_mw: float | None = None
    rx_power_high_mw: float | None = None
    temperature_high_c: int | None = None
    tx_los_flag: str | None = None
    rx_los_flag: str | None = None
    tx_lol_flag: str | None = None
    rx_lol_flag: str | None = None


def parse_optical(text: str) -> Optical:
    """Read `hccn_tool -optical -g`."""
    page: dict[str, str] = {}
    for pair in pairs_of(text):
        page.setdefault(pair.key, pair.value)
    if not {"optical info", "present", "vendor name"} & page.keys() or len(page) < 2:
        raise not_an_answer("optical", text)
    return Optical(
        present=_PRESENT.get(page.get("present", "")),
        temperature_c=integer(_number(page.get("temperature"), "C")),
        vendor=word(page.get("vendor name")),
        part_number=word(page.get("vendor part number")),
        serial_number=word(page.get("vendor serial number")),
        identifier=word(page.get("xsfp identifier")),
        vcc_mv=parse_decimal(_number(page.get("vcc"), "mV")),
        tx_power_mw=_lanes(page, "tx power", "mW"),
        rx_power_mw=_lanes(page, "rx power", "mW"),
        tx_bias_ma=_lanes(page, "tx bias", "mA"),
        host_snr_db=_lanes(page, "host snr lane", "dB"),
        media_snr_db=_lanes(page, "media snr lane", "dB"),
        tx_power_low_mw=parse_decimal(_number(page.get("txpower low thres"), "mW")),
        tx_power_high_mw=parse_decimal(_number(page.get("txpower high thres"), "mW")),
        rx_power_low_mw=parse_decimal(_number(page.get("rxpower low thres"), "mW")),
        rx_power_high_mw=parse_decimal(_number(page.get("rxpower high thres"), "mW")),
        temperature_high_c=integer(_number(page.get("temp high thres"), "C")),
        tx_los_flag=_flag(page.get("tx los flag")),
        rx_los_flag=_flag(page.get("rx los flag")),
        tx_lol_flag=_flag(page.get("tx lol flag")),
        rx_lol_flag=_flag(page.get("rx lol flag")),
    )


def parse_pfc(text: str) -> tuple[int, ...]:
    """Read `hccn_tool -pfc -g`: the priorities with flow control, from a row of flags or from a bitmap."""
    flags = re.search(
        r"^[ \t]*(?:enabled|(?:pfc )?bitmap)\b[ \t:]*((?:[01][ \t,]*){8})$", text.replace("\r", ""), re.M | re.I
    )
    if flags is None:
        raise not_an_answer("pfc", text)
    return tuple(place for place, flag in enumerate(re.findall("[01]", flags[1])) if flag == "1")


_PRESENT = {"present": True, "not present": False}


def _number(value: str | None, unit: str) -> str | None:
    """The number of a reading that has this unit."""
    found = re.fullmatch(rf"(-?[0-9.]+)\s*{unit}", value or "")
    return found[1] if found else None


def _flag(value: str | None) -> str | None:
    return value if value is not None and re.fullmatch("0x[0-9a-fA-F]{1,8}", value) else None


def _lanes(page: dict[str, str], key: str, unit: str) -> tuple[float | None, ...]:
    """The readings of a key for lane 0 and on, or the one that has no lane."""
    if key in page:
        return (parse_decimal(_number(page[key], unit)),)
    found: list[float | None] = []
    while (value := page.get(f"{key}{len(found)}")) is not None:
        found.append(parse_decimal(_number(value, unit)))
    return tuple(found)


@record(frozen=True, kw_only=True)
class Lldp:
    """`-lldp`: what the switch at the other end says of itself; a peer called AscendNPU is another NPU.

    `system_description` is its first line. `port_ifnames` of several devices, where only these lines are there.
    """

    chassis_id_mac: str | None = None
    port_ifname: str | None = None
    system_name: str | None = None
    system_description: str | None = None
    management_ipv4: str | None = None
    max_frame_size: int | None = None
    port_ifnames: tuple[str, ...] | None = None


def parse_lldp(text: str) -> Lldp:
    """Read `hccn_tool -lldp -g`, or its lines `Ifname` alone."""
    section = ""
    said: dict[str, list[str]] = {}
    for line in lines_of(text):
        if title := re.fullmatch(r"\s*([A-Za-z][A-Za-z ]{2,40}) TLV\s*", line):
            section = title[1].lower()
        elif line.strip():
            said.setdefault(section, []).append(line.strip())
    ports = [found for lines in said.values() for line in lines if (found := _after("Ifname", [line]))]
    if not (said.keys() - {""}) and not ports:
        raise not_an_answer("lldp", text)
    return Lldp(
        chassis_id_mac=_after("MAC", said.get("chassis id", [])),
        port_ifname=ports[0] if len(ports) == 1 else None,
        system_name=next(iter(said.get("system name", [])), None),
        system_description=next(iter(said.get("system description", [])), None),
        management_ipv4=_after("IPv4", said.get("management address", [])),
        max_frame_size=integer(next(iter(said.get("maximum frame size", [])), None)),
        port_ifnames=tuple(ports) if len(ports) > 1 else None,
    )


def _after(key: str, lines: list[str]) -> str | None:
    found = (re.fullmatch(rf"{key}\s*:\s*(\S.*)", line) for line in lines)
    return next((word(match[1]) for match in found if match), None)


@record(frozen=True, kw_only=True)
class Routes:
    """`-route`: `routes` is how many rows there are, `iface` that of the default route, else of the first row."""

    default_gateway: str | None = None
    iface: str | None = None
    routes: int = 0


_ANYWHERE = ("default", "0.0.0.0")  # noqa: S104 - a destination, nothing is bound


def parse_route(text: str) -> Routes:
    """Read `hccn_tool -route -g`."""
    rows: list[list[str]] | None = None
    for line in lines_of(text):
        words = line.split()
        if words[:2] == ["Destination", "Gateway"]:
            rows = rows or []
        elif rows is not None and len(words) == 8 and re.fullmatch("[0-9A-Fa-f.*:/]+|default", words[0]):
            rows.append(words)
    if rows is None:
        raise not_an_answer("route", text)
    default = next((row for row in rows if row[0] in _ANYWHERE), None)
    first = default or (rows[0] if rows else None)
    return Routes(default_gateway=default[1] if default else None, iface=first[-1] if first else None, routes=len(rows))


@record(frozen=True, kw_only=True)
class PortStatus:
    """`-status`: the port as ethtool shows it; `speed` as printed, with its unit."""

    iface: str | None = None
    speed: str | None = None
    duplex: str | None = None
    port: str | None = None
    link_detected: bool | None = None
    fec_modes: tuple[str, ...] = ()


def parse_status(text: str) -> PortStatus:
    """Read `hccn_tool -status -g`."""
    iface = re.search(r"\bSettings for ([\w.-]+):", text)
    if iface is None:
        raise not_an_answer("status", text)
    page: dict[str, str] = {}
    for pair in pairs_of(text):
        page.setdefault(pair.key, pair.value)
    return PortStatus(
        iface=iface[1],
        speed=word(page.get("speed")),
        duplex=word(page.get("duplex")),
        port=word(page.get("port")),
        link_detected={"yes": True, "no": False}.get(page.get("link detected", "")),
        fec_modes=tuple(page.get("supported fec modes", "").split()),
    )
