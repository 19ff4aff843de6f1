"""The addresses of the NPUs of this node, for a rank table that names them."""

from __future__ import annotations

from collections.abc import Mapping

from npudoctor.facts.by_chip import PerPort
from npudoctor.facts.hccn.answers import Address as PortAddress
from npudoctor.facts.hccn.conf import CONF_PATH
from npudoctor.facts.hccn.per_port import ask, source_of
from npudoctor.facts.hccn.probes import NetworkDevices, PortSettings
from npudoctor.facts.network.interfaces import Address, parse_address
from npudoctor.facts.network.rank_table import RankTableFile
from npudoctor.records import record
from npudoctor.sdk import Host, Options, Unavailable, probe


@record(frozen=True)
class TableAddresses:
    """The address of each device and the command or file that says so: what is in force, else what is wanted."""

    by_device: Mapping[int, tuple[Address, str]]


@probe(of_the_moment=True)
def table_addresses(
    host: Host,
    options: Options,
    file: RankTableFile,  # noqa: ARG001 - without a rank table no address is asked for
    devices: NetworkDevices | None,
    settings: PortSettings | None,
) -> TableAddresses:
    """From the library or `hccn_tool -ip -g`, else /etc/hccn.conf."""
    found: dict[int, tuple[Address, str]] = {}
    for number, setting in settings.by_device.items() if settings is not None else ():
        if (address := parse_address(setting.get("address", ""))) is not None:
            found[number] = address, CONF_PATH
    if devices is not None:
        try:
            answers: PerPort[PortAddress] = ask(host, options, devices, "ip")
        except Unavailable:
            return TableAddresses(found)
        for number, answer in answers.by_device.items():
            found.pop(number, None)
            if (address := parse_address(answer.ipaddr or "")) is not None:
                found[number] = address, source_of(answers, number, devices.subjects[number], "ip")
    return TableAddresses(found)
