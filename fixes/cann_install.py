"""CANN from package files: toolkit, operators of these chips and NNAL, beside the versions that are there."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.facts.system.pci import PciCards
from npudoctor.facts.system.platform import Platform
from npudoctor.facts.versions import CannVersion
from npudoctor.knowledge.patterns import canonical_version
from npudoctor.records import record
from npudoctor.sdk import (
    Host,
    InstallPackage,
    MakeFolder,
    Note,
    Parameters,
    ParseError,
    Refused,
    Step,
    fix,
    untrusted_writer,
    verified_signature,
)

from . import messages

PARTS = ("toolkit", "kernels", "ops", "nnal")
CHUNK = 4 << 20
INSTALL_RECORD = "/etc/Ascend/ascend_cann_install.info"
_FOLDER_KNOWN = r"(?i)\d+\.\d+(\.\d+)?(\.rc\d+)?(\.alpha\d+)?"
_PREFIX = r"(/[A-Za-z0-9_][\w.-]*)+"
_ARCHES = {"arm64": "aarch64", "amd64": "x86_64"}


@record(frozen=True)
class Install(Parameters):
    """`cann` is the version, where the folder has several. `prefix` is /usr/local/Ascend for root and ~/Ascend for
    others. `default` lets the usual link lead to it, where it leads to another version now. `signed_by` is a file with
    the certificates or keys of those who may sign the packages; each then has to be signed."""

    cann: str = ""
    prefix: str = ""
    default: bool = False
    signed_by: str = ""


@fix("cann.install", resolves=("cann.installed",))
def install(
    asked: Install, host: Host, staged: StagedPackages, platform: Platform, cards: PciCards | None
) -> Iterator[Step | Note]:
    """Install CANN from a folder of packages.

    Toolkit, operators of these chips and NNAL, from the folder named with --packages, beside the versions that are
    there; the usual link stays where it is. Each package is copied into a folder of npudoctor and run from there, if
    its SHA-256 is that of the preview. What is installed is read from the records that the packages write. Undo runs
    the packages' own uninstallers.
    """
    arch = _ARCHES.get(platform.machine, platform.machine)
    families = {card.family for card in cards.cards} if cards else set()
    fitting = [one for one in staged.usable if _fits(one, arch, families)]
    version = _version(asked.cann, fitting)
    prefix = asked.prefix or ("/usr/local/Ascend" if host.user.uid == 0 else f"{host.environ.get('HOME', '')}/Ascend")
    if not re.fullmatch(_PREFIX, prefix):
        raise Refused(messages.NOT_A_PATH.text(path=prefix))
    parts = _one_each([one for one in fitting if canonical_version(one.version or "") == canonical_version(version)])
    is_new = CannVersion.parse(version).release[:2] >= (8, 5)
    root = f"{prefix}/cann-{version}" if is_new else f"{prefix}/ascend-toolkit/{version}"
    made = [_step(one, asked, host, prefix, root, arch, is_new) for one in parts]
    toolkit = next((step for one, step in zip(parts, made, strict=True) if one.component == "toolkit"), None)
    if toolkit is None and not host.exists(_record_of("toolkit", prefix, root, arch, version)):
        raise Refused(
            messages.TOOLKIT_MISSING.text(version=version, published=_published_file("toolkit", version, arch))
        )
    if toolkit is not None and not toolkit.holds(host) and host.exists(root):
        raise Refused(messages.CANN_LEFTOVER.text(path=root))
    if families and not any(one.component in ("kernels", "ops") for one in parts):
        yield Note(messages.WITHOUT_OPERATORS.text(version=version))
    yield Note(messages.LICENCE.text())
    for one in parts:
        if one.signature is None and not asked.signed_by:
            yield Note(messages.NO_SIGNATURE.text(name=one.name))
        else:
            yield Note(
                messages.SIGNATURE.text(name=one.name, said=verified_signature(host, one.path, asked.signed_by or None))
            )
    shared = [prefix, f"{prefix}/ascend-toolkit"]
    if any(one.component == "nnal" for one in parts):
        shared += [f"{prefix}/nnal", f"{prefix}/nnal/atb"]
    for folder in shared:
        yield MakeFolder(folder)
    yield from made


def _fits(one: Package, arch: str, families: set[str]) -> bool:
    of_chips = not one.families or not families or bool(families & set(one.families))
    return one.component in PARTS and one.format == "run" and one.arch in (None, arch) and of_chips


def _version(asked: str, fitting: Sequence[Package]) -> str:
    """The version to install; refused where the folder leaves a choice, or where its folder is not known."""
    known = {canonical_version(one.version): one.version for one in fitting if one.version}
    found = known.get(canonical_version(asked)) if asked else next(iter(known.values())) if len(known) == 1 else None
    if not known:
        raise Refused(messages.NO_CANN.text())
    if found is None:
        raise Refused(messages.CHOOSE_CANN.text(known=sorted(known.values())), instead="--set cann=VERSION")
    try:
        CannVersion.parse(found)
    except ParseError as problem:
        raise Refused(messages.NOT_A_VERSION.text(version=found)) from problem
    if not re.fullmatch(_FOLDER_KNOWN, found):
        raise Refused(messages.CANN_FOLDER_UNKNOWN.text(version=found))
    return found


def _one_each(packages: Sequence[Package]) -> list[Package]:
    """The packages in the vendor's order; refused where two files are the same part."""
    found = []
    for part in PARTS:
        names = [one for one in packages if one.component == part]
        if len(names) > 1:
            raise Refused(messages.TWO_PACKAGES.text(part=part, names=[one.path for one in names]))
        found += names
    return found


def _step(one: Package, asked: Install, host: Host, prefix: str, root: str, arch: str, is_new: bool) -> InstallPackage:
    if host.user.uid == 0 and (problem := untrusted_writer(host, one.path, only_root=True)):
        raise Refused(messages.PACKAGE_NOT_TRUSTED.text(problem=problem))
    version = one.version or ""
    options = ["--quiet", "--install"]
    options += ["--type=toolkit"] if one.component == "kernels" else []
    options += ["--install-for-all"] if host.user.uid == 0 else []
    options += [f"--install-path={prefix}"] if asked.prefix else []
    nnal = f"{prefix}/nnal/atb/{version}"
    usual = {
        "toolkit": [*([f"{prefix}/cann"] if is_new else []), f"{prefix}/ascend-toolkit/latest"],
        "nnal": [f"{prefix}/nnal/atb/latest"],
    }.get(one.component, [])
    texts = [f"{prefix}/ascend-toolkit/set_env.sh", *([INSTALL_RECORD] if host.user.uid == 0 else [])]
    if one.component == "nnal":
        texts = [f"{prefix}/nnal/atb/set_env.sh"]
    made = root if one.component != "nnal" else nnal
    before = {link: host.read_link(link) or "" for link in usual}
    return InstallPackage(
        package=one.path,
        sha256=_sha256(host, one.path),
        options=tuple(options),
        proof=_record_of(one.component, prefix, root, arch, version),
        version=version,
        uninstaller=_uninstaller(one.component, host, prefix, root, arch, version, is_new),
        makes="" if host.exists(made) else made,
        links=tuple(before.items()),
        texts=tuple((path, host.read(path) if host.exists(path) else None) for path in texts),
        default=asked.default or not any(before.values()),
        script=f"{root if is_new else posixpath.dirname(root)}/set_env.sh" if one.component == "nnal" else "",
    )


def _record_of(part: str, prefix: str, root: str, arch: str, version: str) -> str:
    return {
        "toolkit": f"{root}/{arch}-linux/ascend_toolkit_install.info",
        "ops": f"{root}/{arch}-linux/ascend_ops_install.info",
        "kernels": f"{root}/opp_kernel/ascend_kernels_install.info",
        "nnal": f"{prefix}/nnal/atb/{version}/version.info",
    }[part]


def _uninstaller(part: str, host: Host, prefix: str, root: str, arch: str, version: str, is_new: bool) -> str:
    """The script of one version; the one for the whole NNAL only where no other version of NNAL is there."""
    if part == "nnal":
        own = f"{prefix}/nnal/atb/{version}/scripts/uninstall.sh"
        folder = f"{prefix}/nnal/atb"
        others = [name for name in (host.list_dir(folder) if host.exists(folder) else ()) if name[:1].isdigit()]
        return f"{prefix}/nnal/nnal_uninstall.sh" if is_new and not set(others) - {version} else own
    return {
        "toolkit": f"{root}/{arch}-linux/script/uninstall.sh",
        "ops": f"{root}/{arch}-linux/script/ops_uninstall.sh",
        "kernels": f"{root}/opp_kernel/script/uninstall.sh",
    }[part]


def _sha256(host: Host, path: str) -> str:
    digest, place = hashlib.sha256(), 0
    while piece := host.read_part(path, place, CHUNK):
        digest.update(piece)
        place += len(piece)
    return digest.hexdigest()


def _published_file(part: str, version: str, arch: str) -> str:
    return (knowledge.install().component(part).published or part).format(version=version, arch=arch)
