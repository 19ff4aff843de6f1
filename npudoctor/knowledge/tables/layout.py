"""Where things live on a node and in a container: the typed form of layout.json."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from npudoctor.knowledge import table
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Place:
    """A path, with `<prefix>`, `<root>`, `<arch>` and `$NAME` to fill in.

    `kind` is prefix, root, record, set_env, version, libraries, tools, configuration, log or cache. `since` and
    `until` are the first and last CANN that has it.
    """

    path: str
    what: str
    kind: str
    since: str | None = None
    until: str | None = None
    confidence: str = "high"


@record(frozen=True)
class DeviceNode:
    """A device node (N stands for an NPU's number) and who needs it."""

    path: str
    what: str
    needed: str


@record(frozen=True, kw_only=True)
class Mount:
    """What a container needs of its host: with plain Docker (`plain`), and what the ascend runtime mounts by itself.

    `several_nodes`: needed only where a job spans nodes.
    """

    host: str
    container: str
    what: str
    plain: bool = True
    runtime: bool = False
    several_nodes: bool = False


@record(frozen=True)
class CompilerPackage:
    """A Python module that CANN's operator compiler imports, and the distribution that brings it."""

    module: str
    distribution: str
    essential: bool = True


@record(frozen=True, kw_only=True)
class WrittenFolder:
    """A folder that the programs of a job write to, and create: the first of `variables` that is set names it, else it
    is `home` below the home directory, or nothing is known of it. With the variable `unless`, `home` does not count."""

    variables: tuple[str, ...]
    what: str
    home: str | None = None
    unless: str | None = None
    sources: tuple[str, ...] = ()


@record(frozen=True, kw_only=True)
class CudaPackage:
    """A Python distribution whose kernels run on CUDA alone; a `*` in its name stands for any text.

    `note` is a sentence: who imports it, or what is used on an NPU. A `harmless` one is imported by no library that
    runs on an NPU. A release with the text in `but`, in small letters, is a build for NPUs.
    """

    distribution: str
    note: str | None = None
    harmless: bool = False
    but: str | None = None
    sources: tuple[str, ...] = ()

    def find_in(self, versions: Mapping[str, str]) -> dict[str, str]:
        """The installed distributions that it is of, by name, each with its version."""
        if "*" in self.distribution:
            found = [name for name in versions if fnmatchcase(name, self.distribution)]
        else:
            found = [self.distribution] if self.distribution in versions else []
        return {name: versions[name] for name in found if self.but is None or self.but not in versions[name].lower()}


@record(frozen=True, kw_only=True)
class Package:
    """The file name of an installer, with `<version>`, `<arch>` and `<chip>` to fill in."""

    what: str
    name: str
    since: str | None = None
    until: str | None = None


@record(frozen=True, kw_only=True)
class Layout:
    """The whole table; `more` holds the facts without a type of their own, by their key in layout.json."""

    as_of: str
    cann: tuple[Place, ...]
    driver: tuple[Place, ...]
    logs: tuple[Place, ...]
    written_folders: tuple[WrittenFolder, ...]
    device_nodes: tuple[DeviceNode, ...]
    mounts: tuple[Mount, ...]
    compiler_packages: tuple[CompilerPackage, ...]
    cuda_packages: tuple[CudaPackage, ...]
    packages: tuple[Package, ...]
    device_group: str
    more: Mapping[str, Any]

    def places(self, kind: str) -> tuple[str, ...]:
        """The paths of this kind, CANN's first, in the order in which to look."""
        return tuple(place.path for place in (*self.cann, *self.driver, *self.logs) if place.kind == kind)


def load() -> Layout:
    """Read layout.json."""
    return table.record_of(Layout, table.read("layout"))
