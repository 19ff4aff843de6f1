"""For which chips the custom operators of frameworks were built, by the files of the builds; nothing is imported.

vllm-ascend writes `_build_info.py` (setup.py of vllm-project/vllm-ascend: `__soc_version__`, later `__device_type__`).
A package of custom operators has a folder for each chip below op_impl/ai_core/tbe/kernel, as CANN's opp/vendors has.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator

from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.target_python import TargetPython, package_folders
from npudoctor.records import record
from npudoctor.sdk import Host, Unavailable, probe

_KERNELS = "op_impl/ai_core/tbe/kernel"
_CUSTOM_PATHS = "ASCEND_CUSTOM_OPP_PATH"
_BUILT_FOR = r"(?m)^__(?:soc_version|device_type)__\s*=\s*['\"]([A-Za-z0-9_-]{1,40})['\"]"
_FAMILIES = {
    "ascend910_93": "A3",
    "ascend910_95": "950",
    "ascend910b": "A2",
    "ascend910": "910",
    "ascend950": "950",
    "ascend310p": "310P",
    "ascend310b": "310B",
    "a2": "A2",
    "a3": "A3",
    "a5": "950",
    "310p": "310P",
    "_310p": "310P",
}
"""Names of chips as builds spell them, longest first, with the family; a build may add a digit (ascend910b1)."""


@record(frozen=True)
class OperatorBuild:
    """One build: whose it is, the file or folder that says so, the chips as written there, and their families."""

    package: str
    path: str
    chips: tuple[str, ...]
    families: tuple[str, ...]


@record(frozen=True)
class OperatorBuilds:
    """All builds that were found; empty where no framework with operators of its own is installed."""

    builds: tuple[OperatorBuild, ...]


def family_of(chip: str) -> str | None:
    """The family of a chip's name in a build: A2 for ascend910b1; None for a name that is not known."""
    name = chip.strip().lower()
    return next((family for prefix, family in _FAMILIES.items() if name.startswith(prefix)), None)


@probe
def operator_builds(host: Host, python: TargetPython, environment: JobEnvironment | None) -> OperatorBuilds:
    """From the packages of the target Python, and the folders that ASCEND_CUSTOM_OPP_PATH names."""
    found: list[OperatorBuild] = []
    for folder in package_folders(host, python.path):
        with contextlib.suppress(Unavailable):
            if host.exists(f"{folder}/vllm_ascend"):
                found += _of_vllm_ascend(host, f"{folder}/vllm_ascend")
    named = environment.non_empty(_CUSTOM_PATHS) if environment is not None else None
    for path in (named or "").split(":"):
        if path.startswith("/"):
            found += _of_vendor(host, posixpath.basename(path.rstrip("/")), path.rstrip("/"))
    unique = {build.path: build for build in found}
    return OperatorBuilds(tuple(unique.values()))


def _of_vllm_ascend(host: Host, folder: str) -> Iterator[OperatorBuild]:
    info = f"{folder}/_build_info.py"
    with contextlib.suppress(Unavailable):
        if host.exists(info) and (chip := re.search(_BUILT_FOR, host.read(info))):
            yield _build("vllm-ascend", info, (chip[1],))
    vendors = f"{folder}/_cann_ops_custom/vendors"
    with contextlib.suppress(Unavailable):
        for vendor in host.list_dir(vendors) if host.exists(vendors) else ():
            yield from _of_vendor(host, "vllm-ascend", f"{vendors}/{vendor}")


def _of_vendor(host: Host, package: str, folder: str) -> Iterator[OperatorBuild]:
    kernels = f"{folder}/{_KERNELS}"
    with contextlib.suppress(Unavailable):
        chips = tuple(name for name in host.list_dir(kernels) if name.startswith("ascend"))
        if chips:
            yield _build(package, kernels, chips)


def _build(package: str, path: str, chips: tuple[str, ...]) -> OperatorBuild:
    families = dict.fromkeys(family for chip in chips if (family := family_of(chip)) is not None)
    return OperatorBuild(package, path, chips, tuple(families))
