"""The working directory of a job: CANN's operator compiler writes kernel_meta there unless a variable names a place."""

from __future__ import annotations

from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.storage import Mounts
from npudoctor.records import record
from npudoctor.sdk import Host, NotApplicable, Unavailable, probe

INSTEAD = ("ASCEND_WORK_PATH", "ASCEND_CACHE_PATH")
"""Where one of these is set, nothing is written to the working directory; `cache_folders` judges what they name."""


@record(frozen=True)
class WorkingFolder:
    """The working directory of a process and whether its user may write there; `user` is a number (uid).

    `why_not` is None, `read-only` or `owner`; `instead` is the variable that names another place.
    """

    path: str
    pid: int
    user: int
    why_not: str | None = None
    instead: str | None = None


@probe(of_the_moment=True)
def working_folder(
    host: Host, environment: JobEnvironment | None, container: Container | None, mounts: Mounts | None
) -> WorkingFolder:
    """Of the process that --environment names, else of a pod's first process; never that of npudoctor itself."""
    pid = job_process(environment, container)
    try:
        path, user = host.read_link(f"/proc/{pid}/cwd"), host.stat(f"/proc/{pid}").uid
    except Unavailable as why:
        raise Unavailable(f"working directory of process {pid} unknown: {why.reason}", because=why.because) from why
    if not path or not path.startswith("/"):
        raise Unavailable(f"working directory of process {pid} unknown")
    instead = next((name for name in INSTEAD if environment is not None and environment.non_empty(name)), None)
    return WorkingFolder(path, pid, user, why_not_writable(host, path, user, mounts), instead)


def job_process(environment: JobEnvironment | None, container: Container | None) -> int:
    """The process that --environment names, else a pod's first one; raises NotApplicable where there is neither."""
    whose = environment.whose if environment is not None else "process"
    if whose.startswith("pid:") and whose[4:].isdigit():
        return int(whose[4:])
    if container is not None and container.orchestrator == "Kubernetes":
        return 1
    raise NotApplicable("no job named by --environment pid:N, and not in a pod")


def why_not_writable(host: Host, path: str, user: int, mounts: Mounts | None) -> str | None:
    """What keeps a user (uid) from writing into a folder: `read-only`, `owner`, or None for nothing that is known."""
    below = [one for one in mounts.mounts if _holds(one.mount, path)] if mounts is not None else []
    if below and "ro" in max(reversed(below), key=lambda one: len(one.mount)).options:
        return "read-only"
    found = host.stat(path)
    if user == 0 or (found.uid == user and found.mode & 0o300 == 0o300) or found.mode & 0o003 == 0o003:
        return None
    if user == host.user.uid:
        return None if {"w", "x"} <= set(found.access) else "owner"
    return None if found.mode & 0o030 == 0o030 else "owner"  # which groups the job has is not known


def _holds(mount: str, path: str) -> bool:
    return mount == "/" or path == mount or path.startswith(f"{mount}/")
