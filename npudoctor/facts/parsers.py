"""Which parser reads which output, by the names that `npudoctor parse` takes, and facts as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from npudoctor.control_characters import escape, visible_lines
from npudoctor.facts import hccn, npu_smi
from npudoctor.facts.driver import version_files
from npudoctor.facts.hccn import per_port
from npudoctor.facts.npu_smi import per_chip, readings
from npudoctor.facts.python import env_report
from npudoctor.facts.versions import Version
from npudoctor.sdk import ParseError


def to_json(fact: Any) -> Any:
    """A fact in the types of JSON: fields by name, enumerations by value, versions by their text, texts as shown."""
    if isinstance(fact, Version):
        return escape(str(fact))
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


def _as_json(parse: Callable[[str], object]) -> Callable[[str], object]:
    """The parser as a function from text to JSON."""

    def parse_text(text: str) -> object:
        fact = parse(text)
        if fact is None:
            raise ParseError("the text contains no failure message")
        return to_json(fact)

    return parse_text


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "npu-smi-info": npu_smi.parse_info,
    "npu-smi-info-mangled": npu_smi.parse_info,
    "npu-smi-topo": npu_smi.parse_topology,
    "npu-smi-list": npu_smi.parse_list,
    "npu-smi-map": npu_smi.parse_map,
    **{f"npu-smi-{page.query}": page.parse for page in per_chip.PAGES},
    **{f"npu-smi-{query}": parse for query, parse in readings.READ_WHERE_GIVEN.items()},
    "npu-smi-version": npu_smi.parse_tool_version,
    "npu-smi-error": npu_smi.parse_failure,
    **{f"hccn-{page.query.replace('_', '-')}": page.parse for page in per_port.PAGES},
    "hccn-hw-stats": hccn.parse_hw_stats,
    "hccn-ping": hccn.parse_ping,
    "hccn-status": hccn.parse_status,
    "hccn-conf": hccn.parse_conf,
    "hccn-error": hccn.parse_failure,
    "version-driver": version_files.parse_driver,
    "version-firmware": version_files.parse_firmware,
    "ascend-install-info": version_files.parse_install_record,
    "cann-install-info": version_files.parse_cann_package,
    "cann-version-cfg": version_files.parse_version_cfg,
    "env-report": env_report.parse_env_report,
}
KINDS = MappingProxyType({kind: _as_json(parse) for kind, parse in _PARSERS.items()})
"""From the name of an output to a function that reads it: text in, the types of JSON out, ParseError otherwise."""
