"""For which chips custom operators were built, by the files of the builds; nothing is imported.

What tells the chip of a build:

- `_build_info.py` of vllm-ascend (its setup.py: `__soc_version__`, later `__device_type__`);
- the folders below op_impl/ai_core/tbe/kernel of a package of operators, named after chips (ascend910b). CANN loads
  such packages from opp/vendors, those that load_priority in its config.ini lists, and from ASCEND_CUSTOM_OPP_PATH;
  deep_ep and vllm-ascend bring theirs;
- the sections of a shared library that holds kernels: `.ascend.kernel.ascend910b1.NAME`, as ascendc.cmake of CANN
  names them (cann/asc-devkit; libvllm_ascend_kernels.so, libsgl_kernel_npu.so). When such a library is loaded, it
  compares its chip with that of the device (AscendCheckSoCVersion); chips of A2 and A3 count as one there.

A library whose kernels are in a section `.aicore_binary`, or that holds none, names no chip.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator

from npudoctor.facts.cann import elf
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.target_python import TargetPython, package_folders
from npudoctor.records import record
from npudoctor.sdk import Host, ParseError, Unavailable, probe

_KERNELS = ("op_impl/ai_core/tbe/kernel", "op_impl/ai_core/tbe/kernel/config")
_PACKAGES = {"vllm_ascend": "vllm-ascend", "sgl_kernel_npu": "sgl-kernel-npu", "deep_ep": "deep-ep"}
"""Python packages with operators of their own, by their folder."""

_VENDORS = ("vendors", "_cann_ops_custom/vendors")
_LIBRARY_FOLDERS = ("", "/lib")
_MOST_LIBRARIES = 32
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

_ALIKE = ("A2", "A3")
"""Families that the check of a library with kernels takes for one."""

_FIRST_910 = ("ascend910a", "ascend910proa", "ascend910prob", "ascend910premiuma")
_AMBIGUOUS = ("ascend910b",)
"""As the whole name of a chip in a library, it is of the 910; as the name of a folder, of A2."""

_MAPPED = re.compile(r"['\"](\w{1,60})['\"]: ?['\"](/[^'\"\n]{1,400})['\"]")
"""A package and its folder in the finder of an installation with `pip install -e` (setuptools)."""

_LOAD_PRIORITY = re.compile(r"^[ \t]{0,20}load_priority[ \t]{0,20}=(.{0,2000})", re.MULTILINE)


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
def operator_builds(
    host: Host, python: TargetPython, environment: JobEnvironment | None, cann: Cann | None
) -> OperatorBuilds:
    """From the packages of the target Python, CANN's opp/vendors, and the folders that ASCEND_CUSTOM_OPP_PATH names."""
    found: list[OperatorBuild] = []
    for folder in package_folders(host, python.path):
        elsewhere = _editable(host, folder)
        for name, package in _PACKAGES.items():
            found += _of_package(host, package, elsewhere.get(name, f"{folder}/{name}"))
    for path in _vendors(host, cann, environment):
        found += _of_vendor(host, posixpath.basename(path), path)
    known = {(build.package, build.families or build.path): build for build in reversed(found) if build.chips}
    if found and not known:
        named = ", ".join(dict.fromkeys(build.package for build in found))
        raise Unavailable(f"no file of the custom operators of {named} names a chip")
    return OperatorBuilds(tuple(reversed(known.values())))


def _editable(host: Host, folder: str) -> dict[str, str]:
    """The folders of packages that were installed with `pip install -e`, as in the images of vllm-ascend: setuptools
    writes them into __editable___NAME_finder.py, or the folder above them into __editable__.NAME.pth."""
    found: dict[str, str] = {}
    for name in _names_in(host, folder):
        if not name.startswith("__editable__"):
            continue
        with contextlib.suppress(Unavailable):
            text = host.read(f"{folder}/{name}")
            above = [line for line in text.splitlines() if line.startswith("/")] if name.endswith(".pth") else []
            mapped = dict(_MAPPED.findall(text))
            for package in _PACKAGES:
                place = mapped.get(package) or (f"{above[0].rstrip()}/{package}" if above else None)
                if place is not None and host.exists(place):
                    found[package] = place
    return found


def _vendors(host: Host, cann: Cann | None, environment: JobEnvironment | None) -> Iterator[str]:
    """The folders of packages of operators that CANN loads; each is named like its package."""
    root = cann.chosen.root if cann is not None and cann.chosen is not None else None
    if root is not None:
        folder = f"{root}/opp/vendors"
        listed = _load_priority(host, folder)
        for name in _names_in(host, folder):
            if "." not in name and (listed is None or name in listed):
                yield f"{folder}/{name}"
    named = environment.non_empty(_CUSTOM_PATHS) if environment is not None else None
    for path in (named or "").split(":"):
        if path.startswith("/"):
            yield posixpath.normpath(path)


def _load_priority(host: Host, vendors: str) -> frozenset[str] | None:
    """The packages that config.ini lists; None where it is missing, or says nothing that is understood."""
    with contextlib.suppress(Unavailable):
        path = f"{vendors}/config.ini"
        if host.exists(path) and (said := _LOAD_PRIORITY.search(host.read(path))):
            return frozenset(name.strip() for name in said[1].split(","))
    return None


def _names_in(host: Host, folder: str) -> tuple[str, ...]:
    try:
        return host.list_dir(folder) if host.exists(folder) else ()
    except Unavailable:
        return ()


def _of_package(host: Host, package: str, folder: str) -> Iterator[OperatorBuild]:
    info = f"{folder}/_build_info.py"
    with contextlib.suppress(Unavailable):
        if host.exists(info) and (chip := re.search(_BUILT_FOR, host.read(info))):
            yield _build(package, info, (chip[1],))
    for vendors in _VENDORS:
        for vendor in _names_in(host, f"{folder}/{vendors}"):
            yield from _of_vendor(host, package, f"{folder}/{vendors}/{vendor}")
    for below in _LIBRARY_FOLDERS:
        libraries = [name for name in _names_in(host, folder + below) if name.endswith(".so")]
        for name in libraries[:_MOST_LIBRARIES]:
            yield _of_library(host, package, f"{folder}{below}/{name}")


def _of_library(host: Host, package: str, path: str) -> OperatorBuild:
    """A library, without chips where it names none, or cannot be read."""
    chips: tuple[str, ...] = ()
    with contextlib.suppress(Unavailable, ParseError):
        chips = elf.parse(elf.reader(host, path), with_chips=True).chips
    families: dict[str, None] = {}
    for chip in chips:
        name = chip.lower()
        family = "910" if name in (*_FIRST_910, *_AMBIGUOUS) else family_of(name)
        families |= dict.fromkeys(_ALIKE if family in _ALIKE else (family,) if family is not None else ())
    return OperatorBuild(package, path, chips, tuple(families))


def _of_vendor(host: Host, package: str, folder: str) -> Iterator[OperatorBuild]:
    for below in _KERNELS:
        kernels = f"{folder}/{below}"
        chips = tuple(name for name in _names_in(host, kernels) if name.startswith("ascend"))
        if chips:
            yield _build(package, kernels, chips)
            return


def _build(package: str, path: str, chips: tuple[str, ...]) -> OperatorBuild:
    families = dict.fromkeys(family for chip in chips if (family := family_of(chip)) is not None)
    return OperatorBuild(package, path, chips, tuple(families))
