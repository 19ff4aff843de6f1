"""What `npu-smi info -t` measures: temp, power, volt, sensors, sys-time; and sio-info, spod-info, current-fault-event.

A page of one chip fills the fields of its record; where a page reports several, each is in `chips`, the MCU of the
NPU by its `chip_name`. `failure` is what the tool prints in place of values.

No check asks for these pages, but for fault events of 950: `npudoctor parse` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from npudoctor.facts.cells import integer, lines_of, parse_decimal, word
from npudoctor.facts.npu_smi.blocks import Titles, check_page, normalise, pairs_of, read_blocks, titles
from npudoctor.facts.npu_smi.failure import failure_of_page, not_a_page
from npudoctor.facts.npu_smi.pages import fields_of
from npudoctor.records import field, record


@record(frozen=True, kw_only=True)
class Temperature:
    """A page of `-t temp`: degrees Celsius of each chip, and of the MCU's own sensors by the names that it has."""

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    chip_name: str | None = None
    temp_c: int | None = None
    mcu_temps_c: Mapping[str, int | None] = field(default_factory=dict)
    failure: str | None = None
    chips: tuple[Temperature, ...] = ()


@record(frozen=True, kw_only=True)
class Power:
    """A page of `-t power`: watts that a chip draws, on 310 its rated ones; of 310P only the MCU of the NPU tells."""

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    chip_name: str | None = None
    power_w: float | None = None
    rated_power_w: float | None = None
    failure: str | None = None
    chips: tuple[Power, ...] = ()


@record(frozen=True, kw_only=True)
class Voltage:
    """A page of `-t volt`: volts; None where the chip does not tell."""

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    chip_name: str | None = None
    volts: float | None = None
    failure: str | None = None
    chips: tuple[Voltage, ...] = ()


@record(frozen=True, kw_only=True)
class Sensors:
    """A page of `-t sensors`: degrees Celsius of parts of a chip and of its optical module (SFP)."""

    npu_id: int | None = None
    soc_temp_c: int | None = None
    sfp_temp_c: int | None = None
    ndie_temp_c: int | None = None
    hbm_temp_c: int | None = None
    failure: str | None = None


@record(frozen=True)
class SystemTime:
    """A page of `-t sys-time`: the clock of the chip in the host's time zone, as printed; None where it is not told."""

    time: str | None


@record(frozen=True, kw_only=True)
class SioErrors:
    """A page of `-t sio-info`: errors on the bus between the two dies of an NPU."""

    tx_error_count: int | None = None
    rx_error_count: int | None = None


@record(frozen=True, kw_only=True)
class SuperPod:
    """A page of `-t spod-info`: where the chip is in its SuperPoD. 950 has no `sdid`, some have a chassis."""

    sdid: int | None = None
    super_pod_size: int | None = None
    super_pod_id: int | None = None
    server_index: int | None = None
    chassis_id: int | None = None
    super_pod_type: int | None = None


@record(frozen=True, kw_only=True)
class FaultEvent:
    """A fault that is active; `event_id` in capitals and without 0x, as fault codes are written."""

    event_id: str
    severity: int | None = None
    node_type_ex: int | None = None
    node_id: int | None = None
    sub_node_type_ex: int | None = None
    sub_node_id: int | None = None


@record(frozen=True, kw_only=True)
class FaultEvents:
    """A page of `-t current-fault-event`, which 950 has."""

    count: int | None = None
    events: tuple[FaultEvent, ...] = ()


_Measured = TypeVar("_Measured", Power, Voltage)
_POWER = titles(
    {
        "NPU Real-time Power(W)": "power_w",
        "Power Dissipation(W)": "power_w",
        "Rated Power Dissipation(W)": "rated_power_w",
    },
    parse_decimal,
)
_VOLTAGE = titles({"Voltage(V)": "volts"}, parse_decimal)
_TEMPERATURE = titles({"NPU Temperature (C)": "temp_c", "Temperature (C)": "temp_c"})
_SENSOR = r"(\S{1,8})\s+\(C\)"


def _read(kind: type[_Measured], text: str, known: Titles, page: str) -> _Measured:
    pairs = pairs_of(text)
    if "temperature(c)" in {title for title, _ in pairs}:
        raise not_a_page(f"this is not a page of npu-smi info -t {page}", text)
    check_page(pairs, known, page, text)
    card, chips = read_blocks(pairs, known)
    card["failure"] = failure_of_page(text)
    if len(chips) < 2:
        found: dict[str, Any] = {**card, **(chips[0] if chips else {})}
        return kind(**found)
    return kind(**card, chips=tuple(kind(**chip) for chip in chips))


def parse_power(text: str) -> Power:
    """Read a page of `npu-smi info -t power`."""
    return _read(Power, text, _POWER, "power")


def parse_voltage(text: str) -> Voltage:
    """Read a page of `npu-smi info -t volt`."""
    return _read(Voltage, text, _VOLTAGE, "volt")


def parse_temperature(text: str) -> Temperature:
    """Read a page of `npu-smi info -t temp`; the sensors of the MCU are before its name."""
    said = [(title, lines[0]) for title, lines in fields_of(text)]
    sensors = {found[1]: integer(value) for title, value in said if (found := re.fullmatch(_SENSOR, title))}
    pairs = pairs_of(text)
    there = {title for title, _ in pairs}
    if not (there & _TEMPERATURE.keys() or sensors) or "memoryusagerate(%)" in there or "chiplogicid" in there:
        raise not_a_page("this is not a page of npu-smi info -t temp", text)
    card, chips = read_blocks([pair for pair in pairs if pair[0] != "chipname"], _TEMPERATURE)
    mcu = next((word(value) for title, value in pairs if title == "chipname"), None)
    card["failure"] = failure_of_page(text)
    blocks = [Temperature(**chip) for chip in chips]
    if sensors or mcu:
        blocks.append(Temperature(chip_name=mcu, mcu_temps_c=sensors))
    if len(blocks) < 2:
        one: dict[str, Any] = {**card, **(chips[0] if chips else {"chip_name": mcu, "mcu_temps_c": sensors})}
        return Temperature(**one)
    return Temperature(**card, chips=tuple(blocks))


_SENSORS = {
    "Soc Max Temperature (C)": "soc_temp_c",
    "SFP Temperature (C)": "sfp_temp_c",
    "NDIE Temperature (C)": "ndie_temp_c",
    "HBM Temperature (C)": "hbm_temp_c",
}


def _first(text: str) -> dict[str, str]:
    page: dict[str, str] = {}
    for title, value in pairs_of(text):
        page.setdefault(title, value)
    return page


def parse_sensors(text: str) -> Sensors:
    """Read a page of `npu-smi info -t sensors`."""
    page = _first(text)
    told = [normalise(title) for title in _SENSORS]
    if not set(told[:3]) & page.keys() and not page.keys() <= {told[3], "npuid", "chipid"}:
        raise not_a_page("this is not a page of npu-smi info -t sensors", text)
    if not set(told) & page.keys():
        raise not_a_page("this is not a page of npu-smi info -t sensors", text)
    values = {name: integer(page.get(normalise(title))) for title, name in _SENSORS.items()}
    return Sensors(npu_id=integer(page.get("npuid")), failure=failure_of_page(text), **values)


def parse_system_time(text: str) -> SystemTime:
    """Read a page of `npu-smi info -t sys-time`."""
    page = _first(text)
    if (title := normalise("System Time(local)")) not in page:
        raise not_a_page("this is not a page of npu-smi info -t sys-time", text)
    time = word(page[title])
    return SystemTime(None if time is None else " ".join(time.split()))


def parse_sio_errors(text: str) -> SioErrors:
    """Read a page of `npu-smi info -t sio-info`; a page of PCIe errors has more counts."""
    page = _first(text)
    tx, rx = page.get(normalise("TX Error Count")), page.get(normalise("RX Error Count"))
    if (tx is None and rx is None) or normalise("Retry Count") in page or normalise("Lcrc Error Count") in page:
        raise not_a_page("this is not a page of npu-smi info -t sio-info", text)
    return SioErrors(tx_error_count=integer(tx), rx_error_count=integer(rx))


_SUPERPOD = {
    "SDID": "sdid",
    "Super Pod Size": "super_pod_size",
    "Super Pod ID": "super_pod_id",
    "Server Index": "server_index",
    "Chassis ID": "chassis_id",
    "Super Pod Type": "super_pod_type",
}


def parse_superpod(text: str) -> SuperPod:
    """Read a page of `npu-smi info -t spod-info`."""
    page = _first(text)
    check_page(page.items(), ("SDID", "Super Pod Size", "Super Pod ID"), "spod-info", text)
    return SuperPod(**{name: integer(page.get(normalise(title))) for title, name in _SUPERPOD.items()})


_EVENT = r"\bevent id=0x([0-9A-Fa-f]{1,8})\b(.*)"


def parse_fault_events(text: str) -> FaultEvents:
    """Read a page of `npu-smi info -t current-fault-event`; each event has a line."""
    page = _first(text)
    count = page.get(normalise("Fault Event Count"))
    if count is None and normalise("Fault Event Information") not in page:
        raise not_a_page("this is not a page of npu-smi info -t current-fault-event", text)
    found = [event for line in lines_of(text) if (event := re.search(_EVENT, line))]
    return FaultEvents(count=integer(count), events=tuple(_event(event[1], event[2]) for event in found))


def _event(event_id: str, rest: str) -> FaultEvent:
    numbers = dict(re.findall(r", ([a-z ]{1,20})=([0-9]{1,10})(?![0-9A-Za-z])", rest))
    return FaultEvent(
        event_id=event_id.upper(),
        severity=integer(numbers.get("severity")),
        node_type_ex=integer(numbers.get("node type ex")),
        node_id=integer(numbers.get("node id")),
        sub_node_type_ex=integer(numbers.get("sub node type ex")),
        sub_node_id=integer(numbers.get("sub node id")),
    )


READ_WHERE_GIVEN: Mapping[str, Callable[[str], object]] = {
    "temp": parse_temperature,
    "power": parse_power,
    "volt": parse_voltage,
    "sensors": parse_sensors,
    "sys-time": parse_system_time,
    "sio-info": parse_sio_errors,
    "spod-info": parse_superpod,
}
"""How the other pages are read, by what `npu-smi info -t` is asked for; as facts they cost a call for each chip."""
