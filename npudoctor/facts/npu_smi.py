"""What npu-smi prints, as facts: one name for its parsers, whichever module reads which output."""

from npudoctor.facts.npu_smi_failure import NpuSmiFailure, parse_failure
from npudoctor.facts.npu_smi_pages import (
    Board,
    ListedNpu,
    MapRow,
    NpuList,
    NpuMap,
    ToolVersion,
    parse_board,
    parse_fields,
    parse_list,
    parse_map,
    parse_tool_version,
)
from npudoctor.facts.npu_smi_table import Chip, NpuProcess, NpuSmiInfo, parse_info
from npudoctor.facts.npu_smi_topology import Topology, parse_topology

__all__ = [
    "Board",
    "Chip",
    "ListedNpu",
    "MapRow",
    "NpuList",
    "NpuMap",
    "NpuProcess",
    "NpuSmiFailure",
    "NpuSmiInfo",
    "ToolVersion",
    "Topology",
    "parse_board",
    "parse_failure",
    "parse_fields",
    "parse_info",
    "parse_list",
    "parse_map",
    "parse_tool_version",
    "parse_topology",
]
