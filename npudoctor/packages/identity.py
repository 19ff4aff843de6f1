"""One package out of what its name and its header say; where they contradict each other, the file is not used."""

from __future__ import annotations

import posixpath
import re

from npudoctor import knowledge
from npudoctor.facts.driver.version_files import parse_entries
from npudoctor.facts.node.staged_packages import OtherFile, Package
from npudoctor.host import ParseError
from npudoctor.packages.headers import Header
from npudoctor.packages.names import ARCHES, Named, parse_name
from npudoctor.records import record

_KINDS = {
    "run": ("run",),
    "zip": ("zip",),
    "hpm": ("tar", "zip", "run"),
    "rpm": ("rpm",),
    "deb": ("deb",),
    "whl": ("wheel", "zip"),
    "conda": ("conda", "zip"),
    "tar.gz": ("tar",),
    "tgz": ("tar",),
    "tar.bz2": ("tar",),
    "tar.xz": ("tar",),
}
"""The kinds of content that go with an ending."""
_LABEL_WORDS = (
    ("firmware", "firmware"),
    ("driver", "driver"),
    ("toolkit", "toolkit"),
    ("nnal", "nnal"),
    ("kernels", "kernels"),
)
_TORCH = re.compile(r"torch(?:\(?==([^;,)]+)\)?)?(?:;|$)", re.I)


@record(frozen=True, kw_only=True)
class Said:
    """What the header says: None is what it does not."""

    component: str | None = None
    title: str | None = None
    version: str | None = None
    arch: str | None = None
    tag: str | None = None
    accepts: str | None = None


def combine(path: str, named: Named | None, header: Header | None, size: int) -> Package | OtherFile:
    """The package at a path, or what the file is instead."""
    name = posixpath.basename(path)
    said = _read_header(header) if header is not None else Said()
    if named is None:
        return _by_header(path, name, header, said, size)
    problem = _contradiction(named, header, said)
    families = named.families or _families(said.tag)
    remarks = list(named.remarks)
    if named.tag and not families:
        remarks.append(f"chips {named.tag!r} are not in the table")
    if named.custom:
        remarks.append("repacked on a site: it has modules for one kernel")
    confirmed = header is not None and header.problem is None and said.component is not None
    holds = header.names if header is not None and header.kind in ("zip", "conda") else ()
    return Package(
        path=path,
        name=name,
        format=named.format,
        component=named.component,
        title=named.title,
        told_by="name and header" if confirmed else "name",
        size_bytes=size,
        version=named.version or said.version,
        arch=named.arch or said.arch,
        families=families,
        tag=named.tag or said.tag,
        os=named.os,
        python=named.python,
        abi=named.abi,
        glibc=named.glibc,
        patch=named.patch,
        signature="in it" if any(inner.lower().endswith((".cms", ".p7s", ".asc")) for inner in holds) else None,
        label=header.label if header is not None else None,
        accepts=said.accepts,
        requires_torch=_required_torch(header) if named.component == "torch_npu" else None,
        holds=holds,
        problem=problem,
        remarks=tuple(remarks),
    )


def _by_header(path: str, name: str, header: Header | None, said: Said, size: int) -> Package | OtherFile:
    """A file whose name says nothing."""
    if header is None:
        return OtherFile(path, "not a package: neither its name nor its content is one that npudoctor knows")
    if header.problem is not None and said.component is None:
        return OtherFile(path, header.problem)
    if said.component is None and header.kind in ("rpm", "deb") and header.name:
        version, arch = header.version or "?", header.arch or "?"
        return OtherFile(path, f"a package of the operating system: {header.name} {version} ({arch})")
    if said.component is None:
        label = f" ({header.label})" if header.label else ""
        return OtherFile(path, f"an archive of another kind{label}")
    problem = header.problem or (None if said.version else "renamed: its header names no version")
    return Package(
        path=path,
        name=name,
        format={"wheel": "whl", "tar": "tar.gz"}.get(header.kind, header.kind),
        component=said.component,
        title=said.title or header.label or said.component,
        told_by="header",
        size_bytes=size,
        version=said.version,
        arch=said.arch,
        families=_families(said.tag),
        tag=said.tag,
        label=header.label,
        accepts=said.accepts,
        requires_torch=_required_torch(header),
        holds=header.names if header.kind == "zip" else (),
        problem=problem or ("renamed: pip needs the published name" if header.kind == "wheel" else None),
        remarks=("renamed: told by its header alone",),
    )


def _families(tag: str | None) -> tuple[str, ...]:
    family = knowledge.install().family(tag) if tag else None
    return (family,) if family else ()


def _contradiction(named: Named, header: Header | None, said: Said) -> str | None:
    """Why the file cannot be used, in one line."""
    if header is None:
        return f"its content is not a {named.format} package"
    if header.kind in ("empty", "unread", "script"):
        return header.problem
    if header.kind not in _KINDS.get(named.format, (header.kind,)):
        return f"its name ends in .{named.format}, its content is {header.kind}"
    if named.format == "whl" and header.kind == "zip":
        return header.problem or "its archive has no METADATA of a wheel"
    pairs = (
        (named.component if named.component != "other" else None, said.component, "component"),
        (named.version, said.version, "version"),
        (named.arch, said.arch, "architecture"),
        (next(iter(named.families), None), next(iter(_families(said.tag)), None), "chip"),
    )
    for one, other, what in pairs:
        if one and other and not _same(one, other, what):
            return f"renamed: {what} {one} by its name, {other} by its header"
    return header.problem


def _same(one: str, other: str, what: str) -> bool:
    if what != "version":
        return one == other
    names, says = (re.split(r"[._+~-]+", text.lower().removeprefix("v")) for text in (one, other))
    shorter = min(len(names), len(says))
    return names[:shorter] == says[:shorter]


def _read_header(header: Header) -> Said:
    """What a header says of the package."""
    if header.kind in ("rpm", "deb"):
        named = _by_stem(header.name or "")
        arch = ARCHES.get((header.arch or "").lower())
        version = re.sub(r"[_~]", "-", header.version or "").partition("-1")[0] or None
        return Said(
            component=named.component if named else None,
            title=header.name,
            version=version,
            arch=arch,
            tag=named.tag if named else None,
        )
    if header.kind == "wheel":
        name = re.sub(r"[-_.]+", "_", header.name or "").lower()
        return Said(component=name if name in ("torch", "torch_npu") else "wheel", title=name, version=header.version)
    if header.kind == "zip":
        return _said_by_names(header.names)
    return _said_by_run(header) if header.kind in ("run", "tar") else Said()


def _by_stem(name: str) -> Named | None:
    """The component that a package is called after, without a version."""
    return parse_name(f"{name}_0_linux.run") if name else None


def _said_by_names(names: tuple[str, ...]) -> Said:
    """A zip file of the vendor holds other packages under their names."""
    inside = [found for name in names if (found := parse_name(posixpath.basename(name))) is not None]
    components = {found.component for found in inside}
    if {"driver", "firmware"} <= components:
        driver = next(found for found in inside if found.component == "driver")
        return Said(component="hdk_bundle", arch=driver.arch, tag=driver.tag)
    if len(inside) == 1 and inside[0].component != "other":
        only = inside[0]
        return Said(component=only.component, title=only.title, version=only.version, arch=only.arch, tag=only.tag)
    return Said()


def _said_by_run(header: Header) -> Said:
    """The label, and the files in the archive that name package, version and architecture."""
    component = title = version = arch = tag = accepts = None
    label = (header.label or "").lower()
    if (named := _by_stem(header.label or "")) is not None and named.component != "other":
        component, title, tag = named.component, named.title, named.tag
    elif found := next((id for word, id in _LABEL_WORDS if word in label), None):
        component = found
    if tag is None and (chip := re.search(r"ascend[ -]?(?:hdk-)?([0-9]{3}(?:_93|[a-z])?)\b", label)):
        tag = chip[1]
    for name, text in header.infos:
        try:
            entries = parse_entries(text)
        except ParseError:
            continue
        base, depth = posixpath.basename(name), name.count("/")
        if base == "scene.info":
            arch = arch or ARCHES.get((entries.get("arch") or "").lower())
        elif base.endswith("_install.info"):
            inner = _by_stem(entries.get("package_name") or "")
            if inner is not None and inner.component != "other":
                component, title, tag = inner.component, inner.title, inner.tag or tag
                version = entries.get("version") or version
            arch = ARCHES.get((entries.get("arch") or "").lower(), arch)
        elif base == "version.info" and depth <= 1:
            own = (
                "driver"
                if "compatible_version_fw" in entries
                else "firmware"
                if "compatible_version_drv" in entries
                else None
            )
            if own is not None:
                component = own
                accepts = entries.get("compatible_version_fw") or entries.get("compatible_version_drv")
            if component in ("driver", "firmware"):
                version = version or entries.get("version")
    return Said(component=component, title=title, version=version, arch=arch, tag=tag, accepts=accepts)


def _required_torch(header: Header | None) -> str | None:
    for text in header.requires if header is not None else ():
        if (found := _TORCH.match("".join(text.split()))) and found[1]:
            return found[1]
    return None
