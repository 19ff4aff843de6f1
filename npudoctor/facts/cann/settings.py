"""The variables that a job needs for its CANN, and where the dynamic linker looks without any variable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from npudoctor.facts.cann.set_env import PATH_LISTS, Exports, read_exports, split_paths
from npudoctor.facts.cann.toolkits import Cann, CannInstall
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.versions import CannVersion
from npudoctor.records import record
from npudoctor.sdk import Host, Unavailable, probe, real_path

FIRST_OF_THE_NEW_LAYOUT = CannVersion.parse("8.5.0.alpha001")

_SINGLE = {
    "ASCEND_TOOLKIT_HOME": "",
    "ASCEND_HOME_PATH": "",
    "ASCEND_AICPU_PATH": "",
    "ASCEND_OPP_PATH": "/opp",
    "TOOLCHAIN_HOME": "/toolkit",
}
_LISTS = {
    "LD_LIBRARY_PATH": (
        "lib64",
        "lib64/plugin/opskernel",
        "lib64/plugin/nnengine",
        "opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{machine}",
    ),
    "PYTHONPATH": ("python/site-packages", "opp/built-in/op_impl/ai_core/tbe"),
    "PATH": ("bin", "{compiler}/bin"),
}


@record(frozen=True)
class PathEntry:
    """One entry of a path list as written, and where it leads on disk; `there` whether something is there."""

    text: str
    real: str
    there: bool


@record(frozen=True, kw_only=True)
class CannSettings:
    """What sourcing the right script gives a job. `single` are plain variables, `lists` the entries of path lists.

    `script` is None where the install has none; `as_read` is False where the usual set of the release replaces
    what the script was not understood to say.
    """

    install: CannInstall
    script: str | None
    single: Mapping[str, PathEntry]
    lists: Mapping[str, tuple[PathEntry, ...]]
    as_read: bool


@record(frozen=True)
class JobPaths:
    """Where the variables of a job lead: path lists entry by entry, and the ASCEND_ variables that hold a path."""

    entries: Mapping[str, tuple[PathEntry, ...]]

    def real(self, name: str) -> frozenset[str]:
        """The places on disk that the entries of one variable lead to."""
        return frozenset(entry.real for entry in self.entries.get(name, ()))


def usual_exports(install: CannInstall, machine: str) -> Exports:
    """What the script of such a release usually exports."""
    root = install.names[0]
    old = install.version is not None and install.version < FIRST_OF_THE_NEW_LAYOUT
    words = {"machine": machine, "compiler": "compiler/ccec_compiler" if old else "tools/ccec_compiler"}
    found = {name: root + below for name, below in _SINGLE.items()}
    for name, places in _LISTS.items():
        found[name] = ":".join(f"{root}/{place.format_map(words)}" for place in places)
    return Exports(found)


@probe(of_the_moment=True)
def cann_settings(host: Host, cann: Cann) -> CannSettings:
    """From set_env.sh read as text; what it was not understood to say is filled up from the usual set."""
    install = cann.chosen
    if install is None:
        raise Unavailable("CANN not installed", blocked_by="cann.installed")
    usual = usual_exports(install, host.about.machine)
    said = Exports({}, complete=False)
    if install.set_env:
        with contextlib.suppress(Unavailable):
            said = read_exports(
                host.read(install.set_env),
                path=install.set_env,
                machine=host.about.machine,
                read=host.read,
                real=lambda path: real_path(host, path),
            )
    as_read = said.complete and all(name in said.variables for name in ("ASCEND_HOME_PATH", *PATH_LISTS))
    variables = dict(said.variables) if as_read else {**usual.variables, **said.variables}
    lists = {name: said.entries(name) for name in PATH_LISTS}
    if not as_read:
        lists = {name: tuple(dict.fromkeys([*lists[name], *usual.entries(name)])) for name in PATH_LISTS}
    return CannSettings(
        install=install,
        script=install.set_env,
        single={name: entry_of(host, variables[name]) for name in _SINGLE if name in variables},
        lists={name: tuple(entry_of(host, entry) for entry in lists[name]) for name in PATH_LISTS},
        as_read=as_read,
    )


def entry_of(host: Host, text: str) -> PathEntry:
    """One entry, with its links followed; what this user or this recording cannot show counts as not there."""
    there = False
    with contextlib.suppress(Unavailable):
        there = host.exists(text)
    return PathEntry(text, real_path(host, text).rstrip("/") or "/", there)


@probe(of_the_moment=True)
def job_paths(host: Host, environment: JobEnvironment) -> JobPaths:
    """From the variables of a job; relative entries lead nowhere that could be judged and are left out."""
    found = {}
    for name, value in environment.items():
        if name in PATH_LISTS or (name.startswith("ASCEND_") and value.startswith("/")) or name == "TOOLCHAIN_HOME":
            found[name] = tuple(entry_of(host, part) for part in split_paths(value) if part.startswith("/"))
    return JobPaths(found)


@record(frozen=True)
class LinkerFolders:
    """The folders of /etc/ld.so.conf and what it includes, free of links."""

    folders: tuple[str, ...]


def missing_entries(
    name: str, settings: CannSettings, paths: JobPaths, linker: LinkerFolders | None
) -> tuple[PathEntry, ...]:
    """The entries of a path list that exist on disk and that the job does not have under any name."""
    have = set(paths.real(name))
    if name == "LD_LIBRARY_PATH" and linker is not None:
        have.update(linker.folders)
    return tuple(entry for entry in settings.lists[name] if entry.there and entry.real not in have)


def is_optional(entry: PathEntry) -> bool:
    """Whether a job runs without this entry: tools for developers."""
    return "/tools/aml/" in entry.text


@probe
def linker_folders(host: Host) -> LinkerFolders:
    """From /etc/ld.so.conf.d, where the driver notes its libraries; the cache itself is not read."""
    found = [folder for path in _configuration(host) for folder in _folders(host, path)]
    return LinkerFolders(tuple(dict.fromkeys(real_path(host, folder).rstrip("/") for folder in found)))


def _configuration(host: Host) -> Iterator[str]:
    yield "/etc/ld.so.conf"
    with contextlib.suppress(Unavailable):
        for name in host.list_dir("/etc/ld.so.conf.d"):
            if name.endswith(".conf"):
                yield f"/etc/ld.so.conf.d/{name}"


def _folders(host: Host, path: str) -> Iterator[str]:
    with contextlib.suppress(Unavailable):
        for line in host.read(path).splitlines():
            folder = line.partition("#")[0].strip()
            if folder.startswith("/"):
                yield folder
