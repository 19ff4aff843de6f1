"""The CANN toolkits of this node, in both layouts, and which of them a job uses.

Up to 8.3 a toolkit is PREFIX/ascend-toolkit/VERSION with a link `latest`; from 8.5 on it is PREFIX/cann-VERSION with a
link `cann`, and ascend-toolkit/latest stays for old scripts.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator, Mapping

from npudoctor.facts.driver import version_files
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.target_python import TargetPython, package_folders
from npudoctor.facts.versions import CannVersion
from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe, real_path

HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
INSTALL_RECORD = "/etc/Ascend/ascend_cann_install.info"

_VERSIONED = r"(?i)(cann-)?v?\d+\.\d+.*"
_INSTALL_INFO = ("ascend_toolkit_install.info", "ascend_nnae_install.info")
_MARKS = ("version.cfg", "toolkit/version.info", "opp/version.info", "share/info")


@record(frozen=True, kw_only=True)
class CannInstall:
    """One CANN on disk. `root` is free of links, `names` are all paths that lead there, the usual one first.

    `stated` is the version as its files spell it; `version` is None where no file says one that is understood.
    `set_env` is the script to source for it.
    """

    root: str
    names: tuple[str, ...]
    stated: str | None = None
    version: CannVersion | None = None
    innerversion: str | None = None
    arch: str | None = None
    set_env: str | None = None
    info_path: str | None = None

    @property
    def title(self) -> str:
        """How it is called in a sentence: CANN 8.2.RC1 in /usr/local/Ascend/ascend-toolkit/8.2.RC1."""
        return f"CANN {self.stated or 'of unknown version'} in {self.root}"

    @property
    def is_default(self) -> bool:
        """Whether the usual name of its prefix (`cann`, `latest`) leads to it."""
        return any(posixpath.basename(name) in ("cann", "latest") for name in self.names)


@record(frozen=True)
class DeadLink:
    """A link that promises a CANN and leads nowhere."""

    path: str
    target: str


@record(frozen=True, kw_only=True)
class Cann:
    """Every CANN that was found, in the order of the places. `active` is the one that the job's variables name.

    `named_in_vain` are variables whose path is no CANN; `unreadable` are places that this user may not look into.
    """

    installs: tuple[CannInstall, ...] = ()
    active: CannInstall | None = None
    dead_links: tuple[DeadLink, ...] = ()
    named_in_vain: Mapping[str, str]
    unreadable: tuple[str, ...] = ()
    looked_in: tuple[str, ...] = ()

    @property
    def chosen(self) -> CannInstall | None:
        """The active one, else the one that should be sourced: the first default of a prefix, else the first at all."""
        defaults = (install for install in self.installs if install.is_default)
        return self.active or next(defaults, self.installs[0] if self.installs else None)

    def holding(self, path: str) -> CannInstall | None:
        """The install that a path without links is in."""
        return next((one for one in self.installs if path == one.root or path.startswith(f"{one.root}/")), None)


@probe
def cann(host: Host, environment: JobEnvironment | None, python: TargetPython | None) -> Cann:
    """From the files below the usual prefixes and below those that variables, records and environments name."""
    search = _Search(host)
    variables: Mapping[str, str] = environment or {}
    named = {name: variables[name].rstrip("/") for name in HOME_VARIABLES if variables.get(name, "").startswith("/")}
    in_vain = {}
    active = None
    for name, path in named.items():
        root = search.enter(path)
        active = active or root
        if root is None:
            in_vain[name] = path
    prefixes = tuple(_prefixes(host, variables, python))
    for prefix in prefixes:
        search.look_below(prefix)
    installs = tuple(search.installs())
    if not installs and search.unknown and not search.dead_links:
        raise search.unknown
    return Cann(
        installs=installs,
        active=next((install for install in installs if install.root == active), None),
        dead_links=tuple(dict.fromkeys(search.dead_links)),
        named_in_vain=in_vain,
        unreadable=tuple(dict.fromkeys(search.unreadable)),
        looked_in=prefixes,
    )


def _prefixes(host: Host, variables: Mapping[str, str], python: TargetPython | None) -> Iterator[str]:
    """Where installs may lie, each once: the record, the usual places, then those of the target Python."""
    found = []
    with contextlib.suppress(Unavailable):
        record = re.search(r"^[ \t]*install_path[ \t]*[=:][ \t]*(/\S+)", host.read(INSTALL_RECORD), re.I | re.M)
        found += [record[1]] if record else []
    homes = [variables.get("HOME", ""), _home_of(host, variables.get("SUDO_USER") or host.user.name)]
    found += ["/usr/local/Ascend", *(f"{home}/Ascend" for home in homes), "/opt/Ascend"]
    conda = variables.get("CONDA_PREFIX", "")
    found += [f"{conda}/Ascend"] if conda else []
    if python is not None and python.path.startswith("/"):
        found.append(f"{posixpath.dirname(posixpath.dirname(python.path))}/Ascend")
        found += [f"{folder}/ascend" for folder in package_folders(host, python.path)]
    yield from dict.fromkeys(prefix.rstrip("/") for prefix in found if prefix.startswith("/"))


def _home_of(host: Host, user: str) -> str:
    with contextlib.suppress(Unavailable):
        for line in host.read("/etc/passwd").splitlines():
            fields = line.split(":")
            if fields[0] == user and len(fields) >= 6:
                return fields[5]
    return ""


class _Search:
    """Collects roots and what went wrong on the way."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.roots: dict[str, dict[str, None]] = {}
        self.dead_links: list[DeadLink] = []
        self.unreadable: list[str] = []
        self.unknown: Unavailable | None = None

    def look_below(self, prefix: str) -> None:
        for folder, usual in ((prefix, "cann"), (f"{prefix}/ascend-toolkit", "latest"), (f"{prefix}/nnae", "latest")):
            names = self._names(folder)
            versions = sorted((name for name in names if re.fullmatch(_VERSIONED, name)), reverse=True)
            for name in [usual, *versions] if usual in names else versions:
                if folder != prefix or name == usual or name.startswith("cann-"):
                    self.enter(f"{folder}/{name}")

    def enter(self, path: str) -> str | None:
        """Note the CANN that a path leads to; its root, None where there is none."""
        target = self.host.read_link(path)
        if not self._exists(path):
            if target is not None:
                self.dead_links.append(DeadLink(path, target))
            return None
        root = real_path(self.host, path)
        if posixpath.basename(root).endswith("-linux"):
            root = posixpath.dirname(root)
        folder = self._machine_folder(root)
        if folder and posixpath.dirname(real := real_path(self.host, f"{root}/{folder}")) != root:
            root = posixpath.dirname(real)  # `latest` is a folder full of links in some layouts
        if not (folder or any(self._exists(f"{root}/{mark}") for mark in (*_INSTALL_INFO, *_MARKS))):
            return None
        self.roots.setdefault(root, {})[path] = None
        return root

    def _machine_folder(self, root: str) -> str | None:
        folders = [name for name in self._names(root) if name.endswith("-linux")]
        return next((name for name in folders if any(self._exists(f"{root}/{name}/{i}") for i in _INSTALL_INFO)), None)

    def _names(self, folder: str) -> tuple[str, ...]:
        try:
            return self.host.list_dir(folder)
        except Unavailable as why:
            self._note(why, folder)
            return ()

    def _exists(self, path: str) -> bool:
        try:
            return self.host.exists(path)
        except Unavailable as why:
            self._note(why, path)
            return False

    def _note(self, why: Unavailable, path: str) -> None:
        if why.because is Because.NO_RIGHT:
            self.unreadable.append(path)
        elif why.because is Because.NOT_RECORDED:
            self.unknown = self.unknown or why

    def installs(self) -> Iterator[CannInstall]:
        for root, names in self.roots.items():
            usual = sorted(names, key=lambda name: posixpath.basename(name) not in ("cann", "latest"))
            yield self._install(root, tuple(usual))

    def _install(self, root: str, names: tuple[str, ...]) -> CannInstall:
        folder = self._machine_folder(root)
        places = [f"{root}/{folder}"] if folder else []
        for path in (f"{place}/{name}" for place in (*places, root) for name in _INSTALL_INFO):
            with contextlib.suppress(Unavailable, ParseError):
                info = version_files.parse_cann_package(self.host.read(path))
                return CannInstall(
                    root=root,
                    names=names,
                    stated=info.version,
                    version=_version(info.version),
                    innerversion=info.innerversion,
                    arch=info.arch,
                    set_env=self._set_env(root, names, folder),
                    info_path=path,
                )
        stated = self._stated_elsewhere(root)
        set_env = self._set_env(root, names, folder)
        return CannInstall(root=root, names=names, stated=stated, version=_version(stated), set_env=set_env)

    def _stated_elsewhere(self, root: str) -> str | None:
        with contextlib.suppress(Unavailable, ParseError):
            if running := version_files.parse_version_cfg(self.host.read(f"{root}/version.cfg")).running:
                return running
        for path in ("share/info/toolkit/version.info", "toolkit/version.info", "runtime/version.info"):
            with contextlib.suppress(Unavailable):
                said = re.search(r"^[ \t]*version_dir[ \t]*=[ \t]*(\S+)", self.host.read(f"{root}/{path}"), re.M)
                said = said or re.search(r"^[ \t]*Version[ \t]*=[ \t]*(\S+)", self.host.read(f"{root}/{path}"), re.M)
                if said and _version(said[1]):
                    return said[1]
        name = posixpath.basename(root).removeprefix("cann-")
        return name if _version(name) else None

    def _set_env(self, root: str, names: tuple[str, ...], folder: str | None) -> str | None:
        """The script of the usual name first, because that is what people have in their profiles."""
        candidates = []
        for name in names:
            above, base = posixpath.split(name)
            if base == "latest":
                candidates.append(f"{above}/set_env.sh")
            candidates.append(f"{name}/set_env.sh")
        candidates.append(f"{root}/set_env.sh")
        candidates += [f"{place}/bin/setenv.bash" for place in (f"{root}/{folder}", root)]
        return next((path for path in candidates if self._exists(path)), None)


def _version(text: str | None) -> CannVersion | None:
    with contextlib.suppress(ParseError):
        return CannVersion.parse(text) if text else None
    return None
