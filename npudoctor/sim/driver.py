"""A driver on the simulated node: its files, its kernel modules as they are installed and as they run, its devices."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.host.simulated.tree import Content, Overlay
from npudoctor.sim import hccn
from npudoctor.sim.cann import elf
from npudoctor.sim.node import Node
from npudoctor.sim.releases import digest

PREFIX = "/usr/local/Ascend"
MODULES = (
    "drv_vascend",
    "drv_pcie_vnic_host",
    "drv_dp_proc_mng_host",
    "drv_soft_fault",
    "drv_pcie_hdc_host",
    "drv_devmm_host_agent",
    "drv_devmm_host",
    "drv_devmng_host",
    "drv_virtmng_host",
    "drv_pcie_host",
    "drv_davinci_intf_host",
    "drv_seclib_host",
)
"""The modules of the driver, the last loaded first, as lsmod lists them."""

OTHER_MODULES = (("nf_conntrack", 172032, 1), ("nvme", 57344, 4))
MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
LIBRARIES = (
    "lib64/libascend_rdma_lite",
    "lib64/common/libascendalog",
    "lib64/common/libc_sec",
    "lib64/common/libmmpa",
    "lib64/driver/libascend_hal",
    "lib64/driver/libdcmi",
    "lib64/driver/libdrvdsmi_host",
)
MOUNTED = (
    f"{PREFIX}/driver/lib64",
    f"{PREFIX}/driver/version.info",
    f"{PREFIX}/driver/tools/hccn_tool",
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/etc/ascend_install.info",
    "/etc/hccn.conf",
)
"""What a container needs of the driver and has from its host."""


def managers(node: Node) -> tuple[str, ...]:
    """The nodes beside those of the chips; 950 has no devmm_svm."""
    return tuple(name for name in MANAGERS if node.product.family != "950" or name != "devmm_svm")


def source_version(module: str, version: str) -> str:
    """The checksum by which the kernel tells two builds of a module apart."""
    return f"{digest(f'{module} {version}'):012X}5C3D2E1F0B9"[:23]


def loaded_version(node: Node) -> str:
    """The version of the modules that run."""
    return node.scenario.driver.loaded or node.driver.version


def modules(node: Node) -> list[tuple[str, int, int]]:
    """The loaded modules: name, size in bytes, how many use them."""
    if not node.has_driver:
        return list(OTHER_MODULES)
    return [*((name, 65536 + 16384 * place, place) for place, name in enumerate(MODULES)), *OTHER_MODULES]


def modinfo(node: Node, field: str, module: str) -> tuple[str, str, int]:
    """`modinfo [-F FIELD] MODULE`: stdout, stderr, exit status."""
    if not node.has_driver or module not in MODULES:
        return "", f"modinfo: ERROR: Module {module} not found.\n", 1
    version = node.driver.version
    values = {
        "filename": f"/lib/modules/{node.kernel}/updates/{module}.ko",
        "version": version,
        "license": "GPL",
        "srcversion": source_version(module, version),
        "depends": "" if module == "drv_seclib_host" else "drv_seclib_host",
        "name": module,
        "vermagic": f"{node.kernel} SMP mod_unload modversions {node.machine}",
    }
    if not field:
        return "".join(f"{key + ':':<15} {value}\n" for key, value in values.items()), "", 0
    return (f"{values[field]}\n" if field in values else ""), "", 0


def files(node: Node) -> Iterator[tuple[str, Content]]:
    """Every file of the driver and the firmware, and what the kernel shows of the modules."""
    binary = elf(node.machine)
    box = node.scenario.container
    if box is None or box.driver_files:
        yield "/usr/local/bin/npu-smi", binary
        yield f"{PREFIX}/driver/tools/hccn_tool", binary
        yield f"{PREFIX}/driver/version.info", version_info(node)
        for name in LIBRARIES:
            yield f"{PREFIX}/driver/{name}.so", binary
        yield "/usr/local/dcmi/libdcmi.so", binary
        yield "/etc/ascend_install.info", install_info(node)
        yield "/etc/hccn.conf", hccn.configuration(node)
    yield (
        "/etc/ld.so.conf.d/ascend_driver_so.conf",
        "".join(f"{PREFIX}/driver/{folder}\n" for folder in ("lib64", "lib64/common", "lib64/driver")),
    )
    if box is None:
        yield f"{PREFIX}/driver/tools/upgrade-tool", binary
        yield f"{PREFIX}/firmware/version.info", firmware_info(node)
    for module in MODULES:
        if box is None:
            yield f"/lib/modules/{node.kernel}/updates/{module}.ko", binary
        yield f"/sys/module/{module}/version", f"{loaded_version(node)}\n"
        yield f"/sys/module/{module}/srcversion", f"{source_version(module, loaded_version(node))}\n"
        yield f"/sys/module/{module}/initstate", "live\n"


def version_info(node: Node) -> str:
    """The driver's version.info."""
    release = node.driver
    parts = {"ascendhal": "7.35.23", "aicpu": "1.0", "tdt": "1.0", "log": "1.0", "prof": "2.0", "dvppkernels": "1.1"}
    lines = [f"Version={release.version}", *(f"{name}_version={value}" for name, value in parts.items())]
    lines += ["tsfw_version=1.0", f"Innerversion={release.inner}"]
    lines += ["compatible_version=[V100R001C13],[V100R001C15],[V100R001C17],[V100R001C18],[V100R001C19],[V100R001C20]"]
    lines += [
        f"compatible_version_fw=[{release.accepts[0]},{release.accepts[1]}]",
        f"package_version={release.version}",
    ]
    return "".join(f"{line}\n" for line in lines)


def firmware_info(node: Node) -> str:
    """The firmware's version.info."""
    version = node.driver.version
    return (
        f"Version={node.firmware_version}\nfirmware_version=1.0\npackage_version={version}\n"
        f"compatible_version_drv=[{version},{version}.]\n"
    )


def install_info(node: Node) -> str:
    """The record of the driver's installer."""
    for_all = "yes" if node.scenario.driver.for_all else "no"
    finished = "Driver_Install_Status=complete\n" if node.scenario.driver.finished else ""
    return (
        "UserName=HwHiAiUser\nUserGroup=HwHiAiUser\nFirmware_Install_Type=full\n"
        f"Firmware_Install_Path_Param={PREFIX}\nDriver_Install_Type=full\nDriver_Install_Path_Param={PREFIX}\n"
        f"Driver_Install_For_All={for_all}\nDriver_Install_Mode=normal\n{finished}"
    )


def devices(node: Node) -> dict[str, Overlay]:
    """The device nodes with mode, owner and number."""
    box = node.scenario.container
    seen = [chip.phy_id if chip.slice_number is None else chip.slice_number for chip in node.chips_at("device-node")]
    numbers = {f"/dev/davinci{number}": f"236:{number}" for number in seen}
    if box is None:
        there = [number for chip in node.chips_at("device-node") for number in chip.slice_numbers]
        numbers |= {f"/dev/vdavinci{number}": f"235:{number}" for number in there}
    if box is None or box.managers:
        numbers |= {f"/dev/{name}": f"{237 + place}:0" for place, name in enumerate(managers(node))}
    mode, group = int(node.scenario.node_mode, 8), node.scenario.node_group
    return {path: Overlay(kind="char", mode=mode, uid=1000, gid=group, rdev=number) for path, number in numbers.items()}
