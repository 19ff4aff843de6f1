"""What is installed beside CANN's toolkit: the operators (kernels up to 8.3, ops from 8.5) and NNAL with ATB."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator

from npudoctor.facts.cann.toolkits import Cann, CannInstall
from npudoctor.facts.driver import version_files
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.versions import CannVersion
from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe, real_path

KERNELS_BELOW = "opp/built-in/op_impl/ai_core/tbe/kernel"
"""Where the compiled kernels lie; the folder above it comes with the toolkit."""

_VERSION_DIR = r"(?mi)^[ \t]*version_dir[ \t]*=[ \t]*(\S+)"
_TAG = r"(?i)kernels-(\w+)|cann-(\w+)-ops|atlas-(a\d)"
_TAG_BY_SOC = {
    "ascend310": "310",
    "ascend310b": "310b",
    "ascend310p": "310p",
    "ascend910": "910",
    "ascend910b": "910b",
    "ascend910_93": "a3",
    "ascend910_95": "950",
    "ascend950": "950",
}
"""Folders of compiled kernels, and the chip as package names spell it."""
_OTHER_TAGS = {"910_93": "a3", "910c": "a3"}


@record(frozen=True, kw_only=True)
class CannOps:
    """The operators of the CANN in use. `chip` is the tag of the package's name (910b, a3, 310p, …), `compiled_for` the
    tags of the chips that have compiled kernels.

    `version` is None where no file says one; `source` is the file that was read, or that is missing. `emptied`: the
    package is recorded, and no kernel is where they lie.
    """

    install: CannInstall
    installed: bool
    source: str
    package: str | None = None
    stated: str | None = None
    version: CannVersion | None = None
    emptied: bool = False
    chip: str | None = None
    compiled_for: tuple[str, ...] = ()

    @property
    def chips(self) -> tuple[str, ...]:
        """All chips that the package or its kernels name, each once."""
        return tuple(dict.fromkeys(filter(None, (self.chip, *self.compiled_for))))

    def serves(self, tag: str) -> bool:
        """Whether nothing speaks against these operators on the chip of this tag."""
        return self.chip in (None, tag) and (not self.compiled_for or tag in self.compiled_for)


@probe
def cann_ops(host: Host, cann: Cann) -> CannOps:
    """From the package's install record, its version file, and the folders of compiled kernels."""
    install = cann.chosen
    if install is None:
        raise Unavailable("CANN not installed", blocked_by="cann.installed")
    socs = tuple(_kernel_folders(host, install.root))
    package, stated, source = None, None, None
    for path in _records(host, install.root):
        with contextlib.suppress(Unavailable, ParseError):
            info = version_files.parse_cann_package(host.read(path))
            package, stated, source = info.package, info.version, path
            break
    version_file = f"{install.root}/opp_kernel/version.info"
    if stated is None:
        with contextlib.suppress(Unavailable):
            said = re.search(_VERSION_DIR, host.read(version_file))
            stated, source = said[1] if said else None, version_file
    named = re.search(_TAG, package or "")
    chip = next((tag for tag in named.groups() if tag), "").lower() if named else ""
    folder = f"{install.root}/{KERNELS_BELOW}"
    return CannOps(
        install=install,
        installed=bool(source or socs),
        source=source or (folder if socs else _expected_record(install, host.about.machine)),
        emptied=bool(source) and not socs and _exists(host, posixpath.dirname(folder)),
        package=package,
        stated=stated,
        version=_version(stated),
        chip=_OTHER_TAGS.get(chip, chip) or None,
        compiled_for=tuple(dict.fromkeys(_TAG_BY_SOC[soc] for soc in socs)),
    )


def _exists(host: Host, path: str) -> bool:
    with contextlib.suppress(Unavailable):
        return host.exists(path)
    return False


def _records(host: Host, root: str) -> Iterator[str]:
    with contextlib.suppress(Unavailable):
        for name in host.list_dir(root):
            if name.endswith("-linux"):
                yield f"{root}/{name}/ascend_ops_install.info"
    yield f"{root}/ascend_ops_install.info"
    yield f"{root}/opp_kernel/ascend_kernels_install.info"


def _expected_record(install: CannInstall, machine: str) -> str:
    if install.version is not None and install.version < CannVersion.parse("8.5.0.alpha001"):
        return f"{install.root}/opp_kernel/version.info"
    return f"{install.root}/{machine}-linux/ascend_ops_install.info"


def _kernel_folders(host: Host, root: str) -> Iterator[str]:
    """The chips with compiled kernels; an empty folder is what an uninstall leaves."""
    folder = f"{root}/{KERNELS_BELOW}"
    try:
        for name in host.list_dir(folder):
            if name in _TAG_BY_SOC and host.list_dir(f"{folder}/{name}"):
                yield name
    except Unavailable as why:
        if why.because not in (Because.ABSENT, Because.FAILED):
            raise


def _version(text: str | None) -> CannVersion | None:
    with contextlib.suppress(ParseError):
        return CannVersion.parse(text) if text else None
    return None


@record(frozen=True, kw_only=True)
class Nnal:
    """The NNAL package with ATB. `abis` are the C++ ABIs that it brings (0, 1); `in_force`: a job would use it."""

    root: str
    version: CannVersion | None = None
    abis: tuple[int, ...] = ()
    in_force: bool = False
    set_env: str | None = None


@probe
def nnal(host: Host, cann: Cann, environment: JobEnvironment | None) -> Nnal:
    """From ATB_HOME_PATH, else from below the prefix of the CANN in use."""
    named = environment.get("ATB_HOME_PATH", "").rstrip("/") if environment else ""
    roots = [posixpath.dirname(posixpath.dirname(named))] if named else []
    if cann.chosen is not None:
        prefixes = [posixpath.dirname(cann.chosen.root), posixpath.dirname(posixpath.dirname(cann.chosen.root))]
        roots += [f"{prefix}/nnal/atb/latest" for prefix in (*prefixes, *cann.looked_in)]
    for root in roots:
        with contextlib.suppress(Unavailable):
            if not host.exists(root):
                continue
            return Nnal(
                root=real_path(host, root),
                version=_atb_version(host, root),
                abis=tuple(abi for abi in (0, 1) if host.exists(f"{root}/atb/cxx_abi_{abi}")),
                in_force=bool(named),
                set_env=next(
                    filter(host.exists, (f"{posixpath.dirname(root)}/set_env.sh", f"{root}/set_env.sh")), None
                ),
            )
    raise Unavailable("NNAL not installed")


def _atb_version(host: Host, root: str) -> CannVersion | None:
    with contextlib.suppress(Unavailable):
        said = re.search(r"version\s*[:=]\s*(\d\S*)", host.read(f"{root}/version.info"), re.I)
        return _version(said[1]) if said else None
    return None
