"""What a file name says of a package. The stems come from the table of installation; what follows is one grammar:

    STEM_VERSION[_PATCH][_OS[-ARCH]][-custom].run     makeself and zip files of the vendor
    STEM-VERSION-RELEASE.ARCH.rpm, STEM_VERSION[_ARCH].deb
    NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl, NAME-VERSION-BUILD.conda

Names are compared without case, and so they are found for versions and chips that no list has.
"""

from __future__ import annotations

import re
from functools import cache
from urllib.parse import unquote

from npudoctor import knowledge
from npudoctor.records import record, replace

ARCHES = {
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "x86_64": "x86_64",
    "x86-64": "x86_64",
    "amd64": "x86_64",
    "x64": "x86_64",
}
"""The spellings of the two architectures."""

UNFINISHED = (".part", ".crdownload", ".download", ".aria2", ".filepart", ".tmp", ".partial", ".!ut")
FORMATS = (".run", ".zip", ".hpm", ".rpm", ".deb", ".whl", ".conda", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_COPY = re.compile(
    r"( ?\(\d{1,3}\)| - copy(?: \(\d+\))?|_copy)(?=\.[a-z.0-9]{2,8}$)|(?<=\.(?:run|zip|whl|rpm|deb))\.\d{1,2}$", re.I
)
_ARCH = "aarch64|arm64|x86_64|x86-64|amd64|x64"
_VERSION = r"v?[0-9][0-9A-Za-z]*(?:[.\-][0-9A-Za-z]+)*?"
_VENDOR = re.compile(
    rf"_(?P<version>{_VERSION})(?:_(?P<patch>sph[0-9]+))?"
    rf"(?:_(?P<os>[a-z][a-z0-9.]*?(?:[-_][a-z0-9.]+)*?))?(?:[-_.](?P<arch>{_ARCH}))?(?P<custom>-custom)?",
    re.I,
)
_RPM = re.compile(
    rf"-(?P<version>{_VERSION}(?:[_~^][0-9A-Za-z.]+)?)-(?P<release>[0-9A-Za-z._]+?)\.(?P<arch>{_ARCH}|noarch|src)", re.I
)
_DEB = re.compile(
    rf"[_-](?P<version>{_VERSION}(?:[~+][0-9A-Za-z.~+]+)?)(?:_(?P<os>(?!(?:{_ARCH}|all)$)[a-z][a-z0-9.]*?))?(?:[-_](?P<arch>{_ARCH}|all))?",
    re.I,
)
_WHEEL = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[0-9][0-9A-Za-z.!+_]*)(?:-(?P<build>[0-9][0-9A-Za-z_]*))?"
    r"-(?P<python>[A-Za-z0-9_.]+)-(?P<abi>[A-Za-z0-9_.]+)-(?P<platform>[A-Za-z0-9_.]+)"
)
_CONDA = re.compile(
    r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*?)-(?P<version>[0-9][0-9A-Za-z_.!+]*)-(?P<build>[0-9A-Za-z_.]+)"
)
_SOURCE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*?)-(?P<version>[0-9]+(?:\.[0-9A-Za-z]+)+(?:\+[0-9a-z.]+)?)")
LONGEST = 255
"""Longer names exist on no usual file system, and are not compared with any pattern."""


@record(frozen=True, kw_only=True)
class Named:
    """What a name says; None is what it does not. `tag` is how it calls the chips, `arch` None where it is for any."""

    component: str
    title: str
    format: str
    version: str | None = None
    arch: str | None = None
    tag: str | None = None
    os: str | None = None
    patch: str | None = None
    python: str | None = None
    abi: str | None = None
    glibc: str | None = None
    custom: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def families(self) -> tuple[str, ...]:
        """The chip families that the tag means; empty where it is in no table, or there is none."""
        family = knowledge.install().family(self.tag) if self.tag else None
        return (family,) if family else ()


def parse_name(name: str) -> Named | None:
    """The package that a file name speaks of; None for any other name."""
    if len(name) > LONGEST:
        return None
    usual, remarks = _usual(name)
    format = format_of(usual)
    if format is None:
        return None
    stem = usual[: -len(format)]
    kind = format.removeprefix(".")
    if format == ".whl":
        found = _wheel(stem)
    elif format in (".conda", ".tar.bz2"):
        found = _conda(stem, kind)
    else:
        found = _vendor(stem, kind)
        if found is None and format in (".tar.gz", ".tgz") and (source := _SOURCE.fullmatch(stem)):
            found = Named(component="source", title=source["name"], format=kind, version=source["version"])
    return replace(found, remarks=remarks) if found is not None and remarks else found


def format_of(name: str) -> str | None:
    """The ending by which a package is known, `.run` or `.tar.gz`; None for another."""
    lower = name.lower()
    return next((ending for ending in FORMATS if lower.endswith(ending)), None)


def is_partial_download(name: str) -> bool:
    """Whether a browser or a downloader calls files so that it has not finished."""
    return name.lower().endswith(UNFINISHED)


def _usual(name: str) -> tuple[str, tuple[str, ...]]:
    """The name as it was published, and what was done to it on the way here."""
    remarks = []
    usual = unquote(name) if re.search("%[0-9A-Fa-f]{2}", name) else name
    if usual != name:
        remarks.append("its name was changed by a download; pip does not find it so")
    without = _COPY.sub("", usual)
    if without != usual:
        remarks.append(f"a copy of {without}, by its name")
    return without, tuple(remarks)


@cache
def _stems() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = knowledge.install().components
    return tuple(
        (row.id, re.compile(stem, re.I)) for row in rows for stem in row.stems if not row.id.startswith("torch")
    )


def _vendor(stem: str, kind: str) -> Named | None:
    """A name of the vendor's grammar, also as rpm and deb spell it."""
    rests = {"rpm": (_RPM,), "deb": (_DEB,)}.get(kind, (_VENDOR,))
    for component, pattern in _stems():
        for rest in rests:
            whole = re.fullmatch(f"(?P<stem>{pattern.pattern}){rest.pattern}", stem, re.I)
            if whole is not None:
                return _of_vendor(component, whole, kind)
    return None


def _of_vendor(component: str, found: re.Match[str], kind: str) -> Named:
    groups = found.groupdict()
    arch = (groups.get("arch") or "").lower()
    tag = next((groups[name] for name in ("chip", "series", "plain", "legacy") if groups.get(name)), None)
    version = groups["version"]
    os = (groups.get("os") or "").lower()
    return Named(
        component=component,
        title=found["stem"],
        format=kind,
        version=version.replace("_", "-").replace("~", "-") if kind in ("rpm", "deb") else version,
        arch=ARCHES.get(arch),
        tag=tag.lower() if tag else None,
        os=os if os and not re.fullmatch("linux(-rt)?", os) else None,
        patch=groups.get("patch"),
        custom=bool(groups.get("custom")),
    )


def _wheel(stem: str) -> Named | None:
    found = _WHEEL.fullmatch(stem)
    if found is None:
        return None
    name, version = found["name"].replace("-", "_").lower(), found["version"].lower()
    if name == "torch" and version.endswith((".cpu", "_cpu")):
        version = f"{version[:-4]}+cpu"  # some unpackers write a dot for the plus
    python = re.fullmatch(r"cp(\d)(\d{1,2})", found["python"], re.I)
    arch = re.search(_ARCH, found["platform"], re.I)
    floor = sorted((int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)", found["platform"], re.I))
    glibc = (
        floor[0]
        if floor
        else {"manylinux2014": (2, 17), "manylinux2010": (2, 12)}.get(found["platform"].partition("_")[0].lower())
    )
    return Named(
        component=name if name in ("torch", "torch_npu") else "wheel",
        title=name,
        format="whl",
        version=version,
        arch=ARCHES[arch[0].lower()] if arch else None,
        python=f"{python[1]}.{python[2]}" if python else None,
        abi=found["abi"].lower(),
        glibc=f"{glibc[0]}.{glibc[1]}" if glibc else None,
    )


def _conda(stem: str, kind: str) -> Named | None:
    found = _CONDA.fullmatch(stem)
    if found is None:
        return None
    name = found["name"].lower()
    ops = re.fullmatch(r"cann-([0-9]{3}[a-z]?|a[2-9])-ops", name)
    component = "toolkit" if name == "cann-toolkit" else "nnal" if name == "cann-nnal" else "ops" if ops else "conda"
    return Named(component=component, title=name, format=kind, version=found["version"], tag=ops[1] if ops else None)
