"""Which parser reads which output, by the names that `npudoctor parse` takes, and facts as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from npudoctor.control_characters import visible, visible_lines
from npudoctor.facts.versions import Version
from npudoctor.sdk import ParseError


def to_json(fact: Any) -> Any:
    """A fact in the types of JSON: fields by name, enumerations by value, versions by their text, texts as shown."""
    if isinstance(fact, Version):
        return visible(str(fact))
    if isinstance(fact, Enum):
        return to_json(fact.value)
    if is_dataclass(fact) and not isinstance(fact, type):
        return {field.name: to_json(getattr(fact, field.name)) for field in fields(fact)}
    if isinstance(fact, Mapping):
        return {str(to_json(key)): to_json(value) for key, value in fact.items()}
    if isinstance(fact, Set):
        return sorted(map(to_json, fact), key=str)
    if isinstance(fact, (list, tuple)):
        return [to_json(item) for item in fact]
    return fact if fact is None or isinstance(fact, (int, float)) else visible_lines(str(fact))


def _parser(module: str, name: str) -> Callable[[str], object]:
    """The parser as a function from text to JSON, imported when it is first used."""

    def parse(text: str) -> object:
        fact = getattr(importlib.import_module(f"npudoctor.facts.{module}"), name)(text)
        if fact is None:
            raise ParseError("the text contains no failure message")
        return to_json(fact)

    return parse


KINDS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {
        "npu-smi-info": _parser("npu_smi", "parse_info"),
        "npu-smi-info-mangled": _parser("npu_smi", "parse_info"),
        "npu-smi-topo": _parser("npu_smi", "parse_topology"),
        "npu-smi-list": _parser("npu_smi", "parse_list"),
        "npu-smi-map": _parser("npu_smi", "parse_map"),
        "npu-smi-board": _parser("npu_smi", "parse_board"),
        "npu-smi-health": _parser("npu_smi", "parse_health"),
        "npu-smi-ecc": _parser("npu_smi", "parse_ecc"),
        "npu-smi-usages": _parser("npu_smi", "parse_usages"),
        "npu-smi-memory": _parser("npu_smi", "parse_memory"),
        "npu-smi-common": _parser("npu_smi", "parse_common"),
        "npu-smi-proc-mem": _parser("npu_smi", "parse_process_memory"),
        "npu-smi-pcie-err": _parser("npu_smi", "parse_pcie_errors"),
        "npu-smi-hccs": _parser("npu_smi", "parse_hccs"),
        "npu-smi-phyid-remap": _parser("npu_smi", "parse_phyid_remap"),
        "npu-smi-flash": _parser("npu_smi", "parse_flash"),
        "npu-smi-version": _parser("npu_smi", "parse_tool_version"),
        "npu-smi-error": _parser("npu_smi", "parse_failure"),
        "hccn-link": _parser("hccn", "parse_link"),
        "hccn-ip": _parser("hccn", "parse_ip"),
        "hccn-vnic": _parser("hccn", "parse_vnic"),
        "hccn-gateway": _parser("hccn", "parse_gateway"),
        "hccn-net-health": _parser("hccn", "parse_net_health"),
        "hccn-netdetect": _parser("hccn", "parse_netdetect"),
        "hccn-tls": _parser("hccn", "parse_tls"),
        "hccn-speed": _parser("hccn", "parse_speed"),
        "hccn-fec": _parser("hccn", "parse_fec"),
        "hccn-link-stat": _parser("hccn", "parse_link_stat"),
        "hccn-stat": _parser("hccn", "parse_stat"),
        "hccn-hw-stats": _parser("hccn", "parse_hw_stats"),
        "hccn-lldp": _parser("hccn", "parse_lldp"),
        "hccn-optical": _parser("hccn", "parse_optical"),
        "hccn-route": _parser("hccn", "parse_route"),
        "hccn-ping": _parser("hccn", "parse_ping"),
        "hccn-status": _parser("hccn", "parse_status"),
        "hccn-conf": _parser("hccn", "parse_conf"),
        "hccn-error": _parser("hccn", "parse_failure"),
        "version-driver": _parser("driver.version_files", "parse_driver"),
        "version-firmware": _parser("driver.version_files", "parse_firmware"),
        "ascend-install-info": _parser("driver.version_files", "parse_install_record"),
        "cann-install-info": _parser("driver.version_files", "parse_cann_package"),
        "cann-version-cfg": _parser("driver.version_files", "parse_version_cfg"),
        "env-report": _parser("python.env_report", "parse_env_report"),
    }
)
"""From the name of an output to a function that reads it: text in, the types of JSON out, ParseError otherwise."""
