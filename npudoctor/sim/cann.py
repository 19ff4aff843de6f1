"""A CANN on the simulated node: where it lies, what is in it, and what its set_env.sh does to an environment."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.cann.elf import Elf, build
from npudoctor.host.simulated.tree import Content
from npudoctor.sim import releases
from npudoctor.sim.node import Node

GENERATIONS = ("15", "17", "18", "19", "20", "21", "22", "23", "25")
LIBRARIES = (
    "acl_op_compiler",
    "acl_tdt_channel",
    "ascend_protobuf",
    "ascendalog",
    "ascendcl",
    "c_sec",
    "error_manager",
    "ge_executor",
    "ge_runner",
    "graph",
    "graph_base",
    "hccl",
    "hccl_alg",
    "hccl_plf",
    "mmpa",
    "msprofiler",
    "nnopbase",
    "opapi",
    "platform",
    "profapi",
    "register",
    "runtime",
    "tsdclient",
)
PLUGINS = ("nnengine/libengine", "opskernel/libaicpu_ascend_engine", "opskernel/libfe", "opskernel/libge_local_engine")
COMPONENTS = ("runtime", "compiler", "hccl", "opp", "toolkit")
OPERATORS = ("add", "cast", "mat_mul", "softmax_v2")
NEEDS = {
    "ascendcl": ("libruntime.so", "libmmpa.so", "libc_sec.so", "libascendalog.so", "libc.so.6"),
    "hccl": ("libhccl_plf.so", "libascendalog.so", "libc_sec.so", "libc.so.6"),
    "ge_runner": ("libgraph.so", "libregister.so", "libc_sec.so", "libstdc++.so.6"),
    "runtime": ("libascend_hal.so", "libc_sec.so", "libc.so.6"),
}
"""What some of them ask for by name; libascend_hal.so is the driver's."""


def elf(machine: str, needed: tuple[str, ...] = ()) -> bytes:
    """The smallest library that says what machine it is for and what it needs."""
    return build(Elf(machine=machine, end=0, needed=needed)).ljust(256, b"\0")


class Layout:
    """The paths of one CANN: `root` is the release's own folder, `home` what its set_env.sh calls it."""

    def __init__(self, node: Node) -> None:
        prefix, version = node.scenario.cann.prefix, node.cann.version
        self.prefix = prefix
        self.is_new = node.cann.is_new_layout
        self.root = f"{prefix}/cann-{version}" if self.is_new else f"{prefix}/ascend-toolkit/{version}"
        self.home = self.root if self.is_new else f"{prefix}/ascend-toolkit/latest"
        self.arch = f"{self.root}/{node.machine}-linux"
        self.compiler = "tools/ccec_compiler" if self.is_new else "compiler/ccec_compiler"
        self.tiling = f"opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{node.machine}"

    @property
    def scripts(self) -> tuple[str, ...]:
        """Where set_env.sh lies, the one to use first."""
        old = f"{self.prefix}/ascend-toolkit/set_env.sh"
        return (f"{self.root}/set_env.sh", old) if self.is_new else (old,)


def environment(node: Node, path: str) -> dict[str, str]:
    """The variables after set_env.sh (and nnal's) was sourced over a given PATH."""
    at = Layout(node)
    home = at.home
    libraries = [
        *(f"{home}/{folder}" for folder in ("tools/aml/lib64", "tools/aml/lib64/plugin", "lib64")),
        *(f"{home}/{folder}" for folder in ("lib64/plugin/opskernel", "lib64/plugin/nnengine", at.tiling)),
        *(f"/usr/local/Ascend/driver/lib64{folder}" for folder in ("", "/common", "/driver")),
    ]
    variables = {
        "ASCEND_TOOLKIT_HOME": home,
        "ASCEND_HOME_PATH": home,
        "ASCEND_AICPU_PATH": home,
        "ASCEND_OPP_PATH": f"{home}/opp",
        "TOOLCHAIN_HOME": f"{home}/toolkit",
        "PATH": f"{home}/bin:{home}/{at.compiler}/bin:{path}",
        "PYTHONPATH": f"{home}/python/site-packages:{home}/opp/built-in/op_impl/ai_core/tbe",
    }
    if node.scenario.cann.nnal:
        atb = f"{at.prefix}/nnal/atb/latest/atb/cxx_abi_{int(node.scenario.python.cxx11_abi)}"
        variables["ATB_HOME_PATH"] = atb
        libraries.insert(0, f"{atb}/lib")
    return {**variables, "LD_LIBRARY_PATH": ":".join(libraries)}


def set_env(node: Node) -> str:
    """The text of set_env.sh."""
    at = Layout(node)
    tbe = "opp/built-in/op_impl/ai_core/tbe"
    libraries = ["lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine", f"{tbe}/op_tiling/lib/linux/$(arch)"]
    driver = ("lib64", "lib64/common", "lib64/driver")

    def put_before(variable: str, *folders: str) -> str:
        return f"export {variable}={':'.join(folders)}:${variable}"

    return "\n".join(
        [
            "#!/bin/bash",
            f"# CANN {node.cann.version}: to be sourced by bash or sh",
            put_before("LD_LIBRARY_PATH", *(f"/usr/local/Ascend/driver/{folder}" for folder in driver)),
            f"export ASCEND_TOOLKIT_HOME={at.home}",
            put_before("LD_LIBRARY_PATH", *(f"${{ASCEND_TOOLKIT_HOME}}/{folder}" for folder in libraries)),
            put_before(
                "LD_LIBRARY_PATH",
                *(f"${{ASCEND_TOOLKIT_HOME}}/{folder}" for folder in ("tools/aml/lib64", "tools/aml/lib64/plugin")),
            ),
            put_before("PYTHONPATH", "${ASCEND_TOOLKIT_HOME}/python/site-packages", f"${{ASCEND_TOOLKIT_HOME}}/{tbe}"),
            put_before("PATH", "${ASCEND_TOOLKIT_HOME}/bin", f"${{ASCEND_TOOLKIT_HOME}}/{at.compiler}/bin"),
            "export ASCEND_AICPU_PATH=${ASCEND_TOOLKIT_HOME}",
            "export ASCEND_OPP_PATH=${ASCEND_TOOLKIT_HOME}/opp",
            "export TOOLCHAIN_HOME=${ASCEND_TOOLKIT_HOME}/toolkit",
            "export ASCEND_HOME_PATH=${ASCEND_TOOLKIT_HOME}",
            "",
        ]
    )


def links(node: Node) -> dict[str, str]:
    """The symbolic links of an installation."""
    at = Layout(node)
    linked = node.scenario.cann.linked or node.cann.version
    found = {f"{at.root}/lib64": f"{node.machine}-linux/lib64"}
    if at.is_new:
        found[f"{at.prefix}/cann"] = f"cann-{linked}"
        found[f"{at.prefix}/ascend-toolkit/latest"] = f"../cann-{linked}"
    else:
        found[f"{at.prefix}/ascend-toolkit/latest"] = linked
    if node.scenario.cann.nnal:
        found[f"{at.prefix}/nnal/atb/latest"] = node.scenario.cann.nnal
    return found


def files(node: Node) -> Iterator[tuple[str, Content]]:
    """Every file of an installation."""
    at = Layout(node)
    binary = elf(node.machine)
    yield "/etc/Ascend/ascend_cann_install.info", f"version=1.0\nInstall_Path={at.prefix}\n"
    for script in at.scripts:
        yield script, set_env(node)
    yield f"{at.arch}/ascend_toolkit_install.info", _record(node, "Ascend-cann-toolkit", node.cann.version, at.arch)
    for name in LIBRARIES:
        yield f"{at.arch}/lib64/lib{name}.so", elf(node.machine, NEEDS[name]) if name in NEEDS else binary
    for name in PLUGINS:
        yield f"{at.arch}/lib64/plugin/{name}.so", binary
    for path in ("bin/atc", f"{at.compiler}/bin/ccec", "tools/aml/lib64/libaml_fwk_detect.so"):
        yield f"{at.root}/{path}", binary
    yield f"{at.root}/tools/aml/lib64/plugin/libaml_plugin.so", binary
    for package in ("acl", "hccl", "te", "tbe", "tbe/common", "te_fusion"):
        yield f"{at.root}/python/site-packages/{package}/__init__.py", ""
    yield f"{at.root}/{at.tiling}/liboptiling.so", binary
    yield f"{at.root}/opp/built-in/op_impl/ai_core/tbe/impl/add.py", "# the operator's implementation\n"
    yield f"{at.root}/version.cfg", _version_cfg(node, at)
    component = f"Version={node.cann.build}\nversion_dir={node.cann.version}\n"
    for name in ("toolkit", "opp", *(() if at.is_new else ("runtime", "compiler", "hccl"))):
        yield f"{at.root}/{name}/version.info", component
    for name in COMPONENTS if at.is_new else ():
        yield f"{at.root}/share/info/{name}/version.info", f"Version={node.cann.version}\n"
    yield from _operators(node, at)
    if node.scenario.cann.nnal:
        yield from _nnal(node, at)


def _operators(node: Node, at: Layout) -> Iterator[tuple[str, Content]]:
    """The kernels: the record of their package, and a few of them, for the chip that they were made for."""
    chip = node.scenario.cann.ops if node.scenario.cann.ops is not None else node.product.ops
    if not chip:
        return
    release = releases.cann(node.scenario.cann.ops_version or node.cann.version)
    kernels = {"a3": "ascend910_93", "910": "ascend910", "310p": "ascend310p"}.get(chip, f"ascend{chip}")
    tbe = f"{at.root}/opp/built-in/op_impl/ai_core/tbe"
    if at.is_new:
        package, record = f"Ascend-cann-{chip}-ops", f"{at.arch}/ascend_ops_install.info"
    else:
        package = "Atlas-A3-cann-kernels" if chip == "a3" else f"Ascend-cann-kernels-{chip}"
        record = f"{at.root}/opp_kernel/ascend_kernels_install.info"
        version = f"Version={release.build}\nversion_dir={release.version}\n"
        yield f"{at.root}/opp_kernel/version.info", version
        yield f"{at.root}/opp_kernel/scene.info", f"os=linux\narch={node.machine}\n"
    yield record, _record(node, package, release.version, record.rpartition("/")[0], release.inner)
    yield f"{tbe}/config/{kernels}/aic-{kernels}-ops-info.json", "{}\n"
    yield f"{tbe}/kernel/config/{kernels}/binary_info_config.json", '{"Add": {"dynamicRankSupport": true}}\n'
    for name in OPERATORS:
        stem = f"{tbe}/kernel/{kernels}/{name}/{name.title().replace('_', '')}_5d1c9a70"
        yield f"{stem}.json", f'{{"binFileName": "{name}_5d1c9a70", "binFileSuffix": ".o", "coreType": "AiCore"}}\n'
        yield f"{stem}.o", elf(node.machine)


def _nnal(node: Node, at: Layout) -> Iterator[tuple[str, Content]]:
    version = node.scenario.cann.nnal
    root = f"{at.prefix}/nnal/atb/{version}"
    yield f"{at.prefix}/nnal/atb/set_env.sh", f"#!/bin/bash\nexport ATB_HOME_PATH={root}/atb/cxx_abi_1\n"
    yield f"{root}/version.info", f"Ascend-cann-atb version : {version}\n"
    for abi in (0, 1):
        yield f"{root}/atb/cxx_abi_{abi}/lib/libatb.so", elf(node.machine)


def _record(node: Node, package: str, version: str, path: str, inner: str | None = None) -> str:
    own = inner or node.cann.inner
    fits = ",".join(f"[V100R001C{number}]" for number in GENERATIONS)
    return (
        f"package_name={package}\nversion={version}\ninnerversion={own}\ncompatible_version={fits}\n"
        f"arch={node.machine}\nos=linux\npath={path}\n"
    )


def _version_cfg(node: Node, at: Layout) -> str:
    own = f"[{node.cann.build}:{node.cann.version}]"
    parts = dict.fromkeys((*COMPONENTS, "aoe", "ncs"), own)
    if not at.is_new and node.scenario.cann.ops != "":
        operators = releases.cann(node.scenario.cann.ops_version or node.cann.version)
        parts["opp_kernel"] = f"[{operators.build}:{operators.version}]"
    lines = [
        f"{name}_{state}_version={value}"
        for state in ("running", "upgrade", "installed")
        for name, value in parts.items()
    ]
    return "\n".join(["# version: 1.0", *lines, ""])
