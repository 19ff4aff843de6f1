"""The libraries of CANN and of the driver as the dynamic linker would find them for a job; none of them is loaded.

The linker takes the first library of a name that is for this machine: from the folders that the asking library names
itself, then from LD_LIBRARY_PATH, then from /etc/ld.so.conf, then from the system's folders.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator

from npudoctor.facts.cann import elf
from npudoctor.facts.cann.settings import JobPaths, LinkerFolders
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.driver.install import DriverInstall
from npudoctor.facts.python.target_python import PythonEnvironment, package_folders
from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe, real_path

CORE = ("libascendcl.so", "libhccl.so", "libge_runner.so")
OF_THE_DRIVER = "libascend_hal.so"
OF_TORCH_NPU = "torch_npu/lib/libtorch_npu.so"
MOST_LIBRARIES = 64

_NOT_OURS = ("libtorch", "libc10", "libshm", "libpython", "libgomp", "libstdc++", "libgcc", "libc.", "libm.")


@record(frozen=True, kw_only=True)
class Library:
    """One library that was searched for. `asked_by` is the library that needs it, None for those of CORE.

    `path` is where the linker finds it, None where it does not; `real` the same without links. `problem` is a clause
    that says why it cannot be loaded; `passed_over` are those of its name for another machine, which the linker skips.
    """

    name: str
    asked_by: str | None = None
    path: str | None = None
    real: str | None = None
    problem: str | None = None
    passed_over: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class CannLibraries:
    """Every library that was searched for, CORE's first. `stubs` are the folders of CANN's devlib that the linker
    would search before the real libraries."""

    libraries: tuple[Library, ...]
    stubs: tuple[str, ...] = ()

    def library(self, name: str) -> Library | None:
        """The library of this name."""
        return next((one for one in self.libraries if one.name == name), None)


@probe
def cann_libraries(
    host: Host,
    cann: Cann,
    paths: JobPaths,
    linker: LinkerFolders | None,
    driver: DriverInstall | None,
    python: PythonEnvironment | None,
) -> CannLibraries:
    """From the headers of the libraries, beginning with those that every job loads, and what these need."""
    if cann.chosen is None:
        raise Unavailable("CANN not installed", blocked_by="cann.installed")
    linking = _Linking(host, paths, linker)
    wanted: list[tuple[str, str | None, tuple[str, ...]]] = [(name, None, ()) for name in CORE]
    if driver is not None and driver.libraries:
        wanted.append((OF_THE_DRIVER, None, ()))
    found: dict[str, Library] = {}
    if python is not None:
        wanted += linking.needs_of_package(python, OF_TORCH_NPU)
    while wanted and len(found) < MOST_LIBRARIES:
        name, asked_by, own = wanted.pop(0)
        if name not in found:
            found[name], needs = linking.look_up(name, asked_by, own)
            wanted += needs
    if OF_THE_DRIVER in found and (driver is None or not driver.libraries):
        del found[OF_THE_DRIVER]  # where no driver is, its library is not missing
    return CannLibraries(libraries=tuple(found.values()), stubs=linking.stubs())


class _Linking:
    """The dynamic linker's search, with what it asks a node remembered."""

    def __init__(self, host: Host, paths: JobPaths, linker: LinkerFolders | None) -> None:
        self.host = host
        self.listed = [entry.text for entry in paths.entries.get("LD_LIBRARY_PATH", ()) if entry.there]
        machine = host.about.machine
        system = ("/lib64", "/usr/lib64", f"/lib/{machine}-linux-gnu", f"/usr/lib/{machine}-linux-gnu")
        self.folders = [*self.listed, *(linker.folders if linker is not None else ()), *system, "/lib", "/usr/lib"]

    def look_up(
        self, name: str, asked_by: str | None, own: tuple[str, ...]
    ) -> tuple[Library, list[tuple[str, str | None, tuple[str, ...]]]]:
        """The library that the linker takes for a name, and what that one needs."""
        passed_over = []
        for folder in dict.fromkeys([*own, *self.folders]):
            path = f"{folder.rstrip('/')}/{name}"
            if not self._there(path):
                continue
            real = real_path(self.host, path)
            problem, headers = self._headers(path)
            if headers is not None and headers.machine != self.host.about.machine:
                passed_over.append(f"{path} ({headers.machine})")
                continue
            library = Library(
                name=name, asked_by=asked_by, path=path, real=real, problem=problem, passed_over=tuple(passed_over)
            )
            return library, self._needs(name, real, headers) if headers is not None and problem is None else []
        return Library(name=name, asked_by=asked_by, passed_over=tuple(passed_over)), []

    def needs_of_package(self, python: PythonEnvironment, below: str) -> list[tuple[str, str | None, tuple[str, ...]]]:
        """What a library in the target's packages needs of CANN; nothing where it cannot be read."""
        for folder in package_folders(self.host, python.executable):
            path = f"{folder}/{below}"
            with contextlib.suppress(Unavailable):
                if self.host.exists(path):
                    _, headers = self._headers(path)
                    return self._needs(posixpath.basename(below), path, headers) if headers is not None else []
        return []

    def stubs(self) -> tuple[str, ...]:
        """The folders of devlib before the first folder that holds the real libhccl.so."""
        before = []
        for folder in self.listed:
            if "devlib" in real_path(self.host, folder).split("/"):
                before.append(folder)
            elif self._there(f"{folder}/{CORE[1]}"):
                return tuple(before)
        return tuple(before)

    def _there(self, path: str) -> bool:
        try:
            return self.host.exists(path)
        except Unavailable as why:
            if why.because is Because.NOT_RECORDED:
                raise
            return False

    def _headers(self, path: str) -> tuple[str | None, elf.Elf | None]:
        """Why the linker could not load a file, and what its headers say; None where they say nothing."""
        try:
            size = self.host.stat(path).size
            headers = elf.parse(elf.reader(self.host, path))
        except ParseError as problem:
            return problem.problem, None
        except Unavailable as why:
            if why.because is Because.NOT_RECORDED:
                raise
            return why.reason, None
        if headers.is_cut(size):
            return f"truncated: {size} bytes of {headers.end}", headers
        return None, headers

    def _needs(self, name: str, real: str, headers: elf.Elf) -> list[tuple[str, str | None, tuple[str, ...]]]:
        """The libraries without a version in their name, as those of CANN and the driver are all called."""
        origin = posixpath.dirname(real)
        own = tuple(
            posixpath.normpath(part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)) for part in headers.runpath
        )
        return [
            (needed, name, own)
            for needed in headers.needed or ()
            if needed.endswith(".so") and not needed.startswith(_NOT_OURS)
        ]


def roots(cann: Cann, libraries: CannLibraries) -> Iterator[tuple[Library, str]]:
    """Those of CORE that were found, each with the CANN that it is in, or its folder where it is in none."""
    for name in CORE:
        library = libraries.library(name)
        if library is not None and library.real is not None:
            install = cann.holding(library.real)
            yield library, install.root if install is not None else posixpath.dirname(library.real)
