"""The folders that the programs of a job write caches and logs to, as its variables name them, or in its home."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.working_folder import job_process, why_not_writable
from npudoctor.facts.system.storage import Mounts
from npudoctor.records import record
from npudoctor.sdk import Because, Host, NotApplicable, Unavailable, probe, real_path

HOME = "HOME"
_NAMESPACE = "/proc/{}/ns/mnt"

_LONGEST, _DEEPEST = 4096, 64
"""Bytes of a path from which Linux takes none, and folders above one that are checked."""


@record(frozen=True, kw_only=True)
class CacheFolder:
    """A folder that a variable names by its `value`, or that is below HOME, and what is written there.

    A folder that is missing is created, so that the nearest one above it counts: `judged` is the one that exists.
    `why_not` is None where the user of the job may write there, else `read-only`, `owner`, or `file` for no directory.
    """

    variable: str
    value: str
    what: str
    judged: str
    why_not: str | None = None


@record(frozen=True)
class CacheFolders:
    """The folders of the job of the process `pid`; `user` is a number (uid)."""

    pid: int
    user: int
    folders: tuple[CacheFolder, ...]


@probe(of_the_moment=True)
def cache_folders(
    host: Host, environment: JobEnvironment, container: Container | None, mounts: Mounts | None
) -> CacheFolders:
    """Of the process that --environment names, else of a pod; never those of npudoctor itself."""
    pid = job_process(environment, container)
    if _has_other_mounts(host, pid):
        raise NotApplicable(f"process {pid} is in a container, whose paths are not those of this node")
    try:
        user = host.stat(f"/proc/{pid}").uid
    except Unavailable as why:
        raise Unavailable(f"user of process {pid} unknown: {why.reason}", because=why.because) from why
    found = []
    unknown: Unavailable | None = None
    for variable, value, path, what in _folders_of(environment):
        try:
            judged, why_not = _judge(host, path, user, mounts)
        except Unavailable as why:
            unknown = why
            continue
        found.append(CacheFolder(variable=variable, value=value, what=what, judged=judged, why_not=why_not))
    if not found:
        raise unknown or NotApplicable("no variable names a folder for caches, and HOME is not set")
    return CacheFolders(pid, user, tuple(found))


def _folders_of(environment: JobEnvironment) -> Iterator[tuple[str, str, str, str]]:
    """Variable, its value, the folder that it leads to, and what is written there."""
    for row in knowledge.layout().written_folders:
        variable = next((name for name in row.variables if environment.non_empty(name)), None)
        if variable is None and (row.home is None or (row.unless is not None and environment.non_empty(row.unless))):
            continue
        value = environment.get(variable or HOME, "").strip()
        if value.startswith("/") and len(value) < _LONGEST and value.isprintable():
            path = value if variable else posixpath.join(value, row.home or "")
            yield variable or HOME, posixpath.normpath(value), posixpath.normpath(path), row.what


def _has_other_mounts(host: Host, pid: int) -> bool:
    try:
        own, other = (host.read_link(_NAMESPACE.format(one)) for one in ("self", pid))
    except Unavailable:
        return False
    return None not in (own, other) and own != other


def _judge(host: Host, path: str, user: int, mounts: Mounts | None) -> tuple[str, str | None]:
    """The folder that has to be written to, and what keeps this user from it."""
    there, failed = _existing(host, real_path(host, path))
    try:
        found = host.stat(there)
    except Unavailable as why:
        if why.because is Because.NO_RIGHT and user == host.user.uid:
            return there, "owner"
        raise
    if found.kind != "dir":
        return there, "file"
    if failed is not None:
        raise failed
    return there, why_not_writable(host, there, user, mounts) or _why_not_reachable(host, there, user)


def _existing(host: Host, path: str) -> tuple[str, Unavailable | None]:
    """The deepest folder of a path that is there, found by bisection, and what failed below it."""
    parts = [part for part in path.split("/") if part]
    failed: Unavailable | None = None
    least, most = 0, len(parts)
    while least < most:
        middle = (least + most + 1) // 2
        try:
            host.stat("/" + "/".join(parts[:middle]))
            least = middle
        except Unavailable as why:
            if why.because is Because.NO_RIGHT:
                return "/" + "/".join(parts[:middle]), None
            if why.because is Because.FAILED:
                failed = why  # below a file, or the file system does not answer
            elif why.because is not Because.ABSENT:
                raise
            most = middle - 1
    return "/" + "/".join(parts[:least]), failed


def _why_not_reachable(host: Host, path: str, user: int) -> str | None:
    """`owner` where a folder above this one is closed to all but its owner, who is another user."""
    above = posixpath.dirname(path)
    for _ in range(_DEEPEST):
        if user == 0 or above == "/":
            return None
        try:
            found = host.stat(above)
        except Unavailable:
            return None
        if found.uid != user and found.mode & 0o011 == 0:
            return "owner"
        above = posixpath.dirname(above)
    return None
