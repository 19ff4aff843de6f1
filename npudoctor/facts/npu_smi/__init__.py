"""What npu-smi prints, as facts: one name for its parsers, whichever module reads which output."""

from typing import TYPE_CHECKING

from npudoctor.facts.faces import lazily
from npudoctor.facts.npu_smi.failure import NpuSmiFailure, parse_failure
from npudoctor.facts.npu_smi.pages import (
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
from npudoctor.facts.npu_smi.table import Chip, NpuProcess, NpuSmiInfo, parse_info
from npudoctor.facts.npu_smi.topology import Topology, parse_topology

if TYPE_CHECKING:
    from npudoctor.facts.npu_smi.chip_pages import (
        Common,
        CommonChip,
        Ecc,
        NpuMemory,
        Usages,
        parse_common,
        parse_ecc,
        parse_memory,
        parse_usages,
    )
    from npudoctor.facts.npu_smi.health import Health, parse_health
    from npudoctor.facts.npu_smi.links import (
        Flash,
        FlashPart,
        HccsLinks,
        HeldMemory,
        PcieErrors,
        PhyIdRemap,
        ProcessMemory,
        parse_flash,
        parse_hccs,
        parse_pcie_errors,
        parse_phyid_remap,
        parse_process_memory,
    )
else:
    __getattr__ = lazily(
        __name__,
        {
            "npudoctor.facts.npu_smi.chip_pages": (
                "Common CommonChip Ecc NpuMemory Usages parse_common parse_ecc parse_memory parse_usages"
            ),
            "npudoctor.facts.npu_smi.health": "Health parse_health",
            "npudoctor.facts.npu_smi.links": (
                "Flash FlashPart HccsLinks HeldMemory PcieErrors PhyIdRemap ProcessMemory parse_flash "
                "parse_hccs parse_pcie_errors parse_phyid_remap parse_process_memory"
            ),
        },
    )

__all__ = [
    "Board",
    "Chip",
    "Common",
    "CommonChip",
    "Ecc",
    "Flash",
    "FlashPart",
    "HccsLinks",
    "Health",
    "HeldMemory",
    "ListedNpu",
    "MapRow",
    "NpuList",
    "NpuMap",
    "NpuMemory",
    "NpuProcess",
    "NpuSmiFailure",
    "NpuSmiInfo",
    "PcieErrors",
    "PhyIdRemap",
    "ProcessMemory",
    "ToolVersion",
    "Topology",
    "Usages",
    "parse_board",
    "parse_common",
    "parse_ecc",
    "parse_failure",
    "parse_fields",
    "parse_flash",
    "parse_hccs",
    "parse_health",
    "parse_info",
    "parse_list",
    "parse_map",
    "parse_memory",
    "parse_pcie_errors",
    "parse_phyid_remap",
    "parse_process_memory",
    "parse_tool_version",
    "parse_topology",
    "parse_usages",
]
