"""What a container has of its host's driver: which files and folders are there, and from where they were mounted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from npudoctor import knowledge
from npudoctor.facts.node.container import Container
from npudoctor.records import field, record
from npudoctor.sdk import Because, Host, NotApplicable, Unavailable, probe

if TYPE_CHECKING:  # the table brings its module with it when it is asked for
    from npudoctor.knowledge.tables.layout import Mount

MOUNT_INFO = "/proc/self/mountinfo"
LIBRARIES = "/usr/local/Ascend/driver/lib64"
NPU_SMI = "/usr/local/bin/npu-smi"
ELSEWHERE = {NPU_SMI: ("/usr/local/sbin/npu-smi", "/usr/bin/npu-smi")}
"""Where else something may lie that some releases put there."""

INSIDE = {LIBRARIES: ("driver/libascend_hal.so", "common/libc_sec.so"), "/usr/local/dcmi": ("libdcmi.so",)}
"""What a folder holds that was mounted from the right place."""


@record(frozen=True, kw_only=True)
class Mounted:
    """One thing of the driver. `kind` is file or dir, None where it is missing; `source` the path on the file system
    that it was mounted from, None where it belongs to the container itself. `lacks` is what a folder should hold."""

    mount: Mount
    path: str
    kind: str | None = None
    source: str | None = None
    lacks: tuple[str, ...] = ()

    @property
    def is_folder(self) -> bool:
        """Whether it ought to be a folder: what has an extension, and a tool, is a file."""
        return self.path in INSIDE or self.path.endswith(("/include", "/queue_schedule"))

    @property
    def is_misplaced(self) -> bool:
        """Whether it is there and is something else: Docker makes a folder of what the host does not have."""
        return self.kind is not None and (self.kind == "dir") != self.is_folder

    @property
    def is_of_another_place(self) -> bool:
        """Whether it was mounted from a path that ends otherwise: the folder above, or below, the right one."""
        if self.source is None or self.is_misplaced:
            return False
        ends = {path.split("/")[-1] for path in (self.path, *ELSEWHERE.get(self.path, ()))}
        return self.source.rstrip("/").split("/")[-1] not in ends


@record(frozen=True)
class ContainerMounts:
    """All that the knowledge names as mounted from a host, by its path in the container."""

    by_path: Mapping[str, Mounted] = field(default_factory=dict)

    @property
    def lack_libraries(self) -> bool:
        """Whether the driver's libraries are missing, or the folder is not theirs."""
        found = self.by_path.get(LIBRARIES)
        return found is not None and (found.kind is None or bool(found.lacks) or found.is_misplaced)


def parse_mounts(text: str) -> dict[str, str]:
    """The mount points of a mountinfo with the path, on its own file system, that each shows."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 6 and fields[4].startswith("/"):
            found[_plain(fields[4])] = _plain(fields[3])
    return found


def _plain(path: str) -> str:
    """A path without the kernel's octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path)


@probe
def container_mounts(host: Host, container: Container | None) -> ContainerMounts:
    """From the files themselves and /proc/self/mountinfo."""
    if container is None:
        raise NotApplicable("this is not a container")
    sources: dict[str, str] = {}
    with contextlib.suppress(Unavailable):
        sources = parse_mounts(host.read(MOUNT_INFO))
    found = {}
    for mount in knowledge.layout().mounts:
        path = next(
            (path for path in (mount.container, *ELSEWHERE.get(mount.container, ())) if _kind(host, path)),
            mount.container,
        )
        kind = _kind(host, path)
        found[mount.container] = Mounted(
            mount=mount,
            path=path,
            kind=kind,
            source=sources.get(path),
            lacks=tuple(name for name in INSIDE.get(path, ()) if kind == "dir" and not _kind(host, f"{path}/{name}")),
        )
    return ContainerMounts(found)


def _kind(host: Host, path: str) -> str | None:
    try:
        return host.stat(path).kind
    except Unavailable as why:
        if why.because is Because.ABSENT:
            return None
        raise
