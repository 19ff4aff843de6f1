"""The host under the cards: memory, shared memory, limits, room on the file systems."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import Presence
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.limits import UNLIMITED, Limit, Limits
from npudoctor.facts.system.memory import Memory
from npudoctor.facts.system.storage import SHARED_MEMORY, Disk, Disks, LogFolder, SharedMemory, log_path
from npudoctor.sdk import Because, Evidence, Finding, FixOffer, Options, Severity, Threshold, Unavailable, check

GIB = 1 << 30
OUR_LIMITS = "/etc/security/limits.d/99-npudoctor.conf"
UNCHANGING = frozenset({"squashfs", "iso9660", "erofs", "cramfs", "rootfs", "ramfs", "devtmpfs", "proc", "sysfs"})
"""File systems that are always full, or never."""


AVAILABLE = Threshold("memory_available_percent", 5, "%", "below it the next large allocation makes the kernel kill")
SHM_LEAST = Threshold(
    "shm_min_gib",
    lambda: float(knowledge.layout().more["shm_min_gib"]),
    "GiB",
    "what the data-loading workers of one card need; a container has 64 MiB by default",
)
SHM_SEVERAL = Threshold("shm_several_cards_gib", 8, "GiB", "workers and ranks of several cards share it")
FILES = Threshold("open_files_min", 65535, "files", "every rank holds connections and files for all others (P075)")
TASKS = Threshold("tasks_per_chip", 200, "tasks", "a rank has 80 to 150 threads, and loads data besides (P094)")
LOCKED = Threshold("locked_memory_min_gib", 32, "GiB", "device networking pins the buffers of all ranks of a node")
DISK_FULL = Threshold("disk_full_gib", 1, "GiB", "one job's logs and compiled operators take that much")
DISK_LOW = Threshold("disk_low_gib", 10, "GiB", "a day of jobs, or the installation of a CANN, takes that much")
DISK_SHARE = Threshold("disk_free_percent", 1, "%", "of bytes and of inodes: a file system is full for users first")
MANY_LOGS = Threshold("logs_many_gib", 5, "GiB", "logs of jobs that have ended are of use to nobody")
TOO_MANY_LOGS = Threshold("logs_too_many_gib", 10, "GiB", "at that size they, or a debug level, fill a system disk")


def _used_for_cards(found: Presence | None) -> bool:
    """Whether jobs can run here; where there is no card (an image being built) their requirements are no finding."""
    return found is None or found.cards


def _size(number: float) -> str:
    """Bytes for a person."""
    for unit, size in (("TiB", 1 << 40), ("GiB", GIB), ("MiB", 1 << 20)):
        if number >= size:
            return f"{number / size:.1f} {unit}".replace(".0 ", " ")
    return f"{number / 1024:.0f} KiB"


@check("system.memory", thresholds=(AVAILABLE,))
def host_memory_is_enough(
    memory: Memory, cards: Chips | None, found: Presence | None, options: Options
) -> Iterator[Finding]:
    """The host has memory for the jobs on its cards, and some is free.

    Data loading, checkpoints and offloading use host memory; when it runs out the kernel kills the job.
    """
    available, usable = memory.available_bytes, memory.usable_bytes
    least = AVAILABLE.of(options)
    if available * 100 < usable * least and _used_for_cards(found):
        yield Finding(
            severity=Severity.WARNING,
            summary=f"only {_size(available)} of {_size(usable)} of host memory is available",
            detail="When it runs out, the kernel kills the largest process: a job that ends without a message.",
            hint="See who uses it.",
            commands=("ps -eo pid,user,rss,args --sort=-rss | head", "dmesg -T | grep -i 'out of memory'"),
            evidence=(
                Evidence(source="/proc/meminfo", expected=f"{least:g} % or more available", actual=_size(available)),
            ),
            of_live_job=True,
        )
    total_mb = sum(card.memory_mb or 0 for card in cards.chips) if cards else 0
    if total_mb << 20 > usable:
        yield Finding(
            severity=Severity.INFO,
            summary=f"host memory ({_size(usable)}) is less than that of all cards together ({_size(total_mb << 20)})",
            hint="Enough for many jobs; checkpoints and offloading of large models may need more.",
            evidence=(
                Evidence(source="/proc/meminfo", actual=_size(memory.total_bytes)),
                *(
                    [Evidence(source="limit of the control group", actual=_size(memory.limit_bytes))]
                    if memory.limit_bytes
                    else []
                ),
            ),
        )


@check("system.shm", fix="system.shm", thresholds=(SHM_LEAST, SHM_SEVERAL))
def shared_memory_is_enough(
    shared: SharedMemory, cards: Chips | None, container: Container | None, found: Presence | None, options: Options
) -> Iterator[Finding]:
    """Shared memory (/dev/shm) is large enough for data loading.

    Workers hand batches over in it, and the ranks of a node talk through it; when it is full a job ends with a bus
    error. Docker gives a container 64 MiB unless told otherwise.
    """
    several = cards is not None and cards.count > 1
    least = SHM_LEAST.of(options) * GIB
    enough = SHM_SEVERAL.of(options) * GIB if several else least
    if shared.total_bytes >= enough:
        return
    severity = Severity.ERROR if shared.total_bytes < least else Severity.WARNING
    commands: tuple[str, ...] = (f"sudo mount -o remount,size=16g {SHARED_MEMORY}",)
    if not shared.mounted:
        commands = (f"sudo mkdir -p {SHARED_MEMORY}", f"sudo mount -t tmpfs -o size=16g tmpfs {SHARED_MEMORY}")
    hint = "Make it larger; it takes memory only as far as it is used."
    if container is not None and (container.orchestrator == "Kubernetes" or container.runtime == "kubernetes"):
        hint = "Give the pod an emptyDir with medium: Memory on /dev/shm."
        commands = ()
    elif container is not None:
        hint = "Start the container again with more."
        commands = (f"{'podman' if container.runtime == 'podman' else 'docker'} run --shm-size=16g …",)
    yield Finding(
        severity=severity if _used_for_cards(found) else Severity.INFO,
        summary=f"{SHARED_MEMORY} has only {_size(shared.total_bytes)}"
        if shared.mounted
        else f"nothing is mounted on {SHARED_MEMORY}",
        detail="A job with data-loading workers ends with a bus error, or with `unable to open shared memory object`.",
        hint=hint,
        commands=commands,
        evidence=(
            Evidence(
                source=SHARED_MEMORY,
                expected=f"{_size(least)}; {_size(SHM_SEVERAL.of(options) * GIB)} for several cards",
                actual=_size(shared.total_bytes) if shared.mounted else "not mounted",
            ),
        ),
        fix=FixOffer(id="system.shm", params={"size": "16g"}) if shared.mounted else None,
        pitfall="P062",
    )


@check("system.limits", fix="system.limits", thresholds=(FILES, TASKS, LOCKED))
def limits_are_high_enough(
    limits: Limits,
    cards: Chips | None,
    cluster: Cluster | None,
    container: Container | None,
    found: Presence | None,
    options: Options,
) -> Iterator[Finding]:
    """A job may open enough files, start enough threads and lock enough memory.

    Every rank holds connections to all others and starts a hundred threads: with low limits the job fails at some
    number of ranks with `Too many open files` or `Resource temporarily unavailable`.
    """
    worst = Severity.WARNING if _used_for_cards(found) else Severity.INFO
    locked = worst if cluster is not None and cluster.several else Severity.INFO
    tasks = int(TASKS.of(options)) * max(1, cards.count if cards else 1)
    files, lockable = int(FILES.of(options)), int(LOCKED.of(options) * GIB)
    if limits.nofile is not None and not limits.nofile.allows(files):
        yield _low("nofile", "open files", limits.nofile, files, worst, container)
    if limits.nproc is not None and not limits.nproc.allows(tasks):
        yield _low("nproc", "processes and threads", limits.nproc, tasks, worst, container)
    if limits.memlock is not None and not limits.memlock.allows(lockable):
        yield _low("memlock", "locked memory", limits.memlock, lockable, locked, container)
    if limits.pids_max is not None and limits.pids_max < tasks:
        yield Finding(
            severity=worst,
            summary=f"the control group allows {limits.pids_max} processes and threads; the cards here need {tasks}",
            detail="Starting a thread then fails with `Resource temporarily unavailable`.",
            hint="Raise the limit of the service, the pod or the container.",
            commands=("docker run --pids-limit=-1 …",) if container is not None else (),
            evidence=(Evidence(source="pids.max", expected=f"{tasks} or more", actual=str(limits.pids_max)),),
            pitfall="P094",
        )


def _low(name: str, what: str, limit: Limit, wanted: int, severity: Severity, container: Container | None) -> Finding:
    in_bytes = name == "memlock"
    value = "unlimited" if in_bytes else str(1 << 20)
    hint = "Raise the hard limit; it takes effect at a new login."
    if container is not None:
        hint = "Start the container again with a higher limit."
        command = f"docker run --ulimit {name}={UNLIMITED if in_bytes else value} …"
    else:
        command = f"echo '* - {name} {value}' | sudo tee -a {OUR_LIMITS}  # then log in again"
    soft, hard, least = (_size(number) if in_bytes else str(number) for number in (limit.soft, limit.hard, wanted))
    return Finding(
        severity=severity,
        summary=f"the limit on {what} is {hard}, and cannot be raised to {least} by a job",
        hint=hint,
        commands=(command,),
        evidence=(Evidence(source=f"ulimit {name}", expected=f"{least} or more", actual=f"{soft} soft, {hard} hard"),),
        fix=FixOffer(id="system.limits", params={"limits": {name: value}}),
        pitfall={"nofile": "P075", "nproc": "P094"}.get(name),
    )


@check("system.disk", fix="system.clean-logs", thresholds=(DISK_FULL, DISK_LOW, DISK_SHARE, MANY_LOGS, TOO_MANY_LOGS))
def disks_have_room(
    disks: Disks, environment: JobEnvironment | None, logs: LogFolder | None, options: Options
) -> Iterator[Finding]:
    """The file systems that jobs write to have room.

    Logs below ~/ascend/log and compiled operators grow with every job; on a full disk a job ends in the middle of
    something else.
    """
    places = _places(environment)
    by_mount: dict[str, tuple[Disk, list[str]]] = {}
    for what, path in places.items():
        disk = disks.holding(path)
        if disk is not None and disk.fstype not in UNCHANGING:
            by_mount.setdefault(disk.mount, (disk, []))[1].append(what)
    if not by_mount:
        raise Unavailable("no file system that jobs write to is known", because=Because.NOT_RECORDED)
    for disk, uses in by_mount.values():
        yield from _room(disk, uses, logs if logs and disks.holding(logs.path) == disk else None, options)
    if logs is not None and logs.size_bytes >= MANY_LOGS.of(options) * GIB:
        yield from _large_logs(logs, disks.holding(logs.path), TOO_MANY_LOGS.of(options) * GIB)


def _places(environment: JobEnvironment | None) -> dict[str, str]:
    """What jobs write, and where."""
    variables: Mapping[str, str] = environment or {}
    places = {"the system": "/"}
    home = variables.get("HOME", "")
    if home.startswith("/"):
        places["the home folder"] = home
    logs = log_path(variables)
    if logs and logs.startswith("/"):
        places["the logs"] = logs
    cache = variables.get("ASCEND_CACHE_PATH") or variables.get("ACL_OP_COMPILER_CACHE_DIR")
    cache = cache or (posixpath.join(home, "atc_data") if home else "")
    if cache.startswith("/"):
        places["compiled operators"] = cache
    return places


def _room(disk: Disk, uses: list[str], logs: LogFolder | None, options: Options) -> Iterator[Finding]:
    total, free, severity = disk.total_bytes, disk.free_bytes, Severity.ERROR
    share, low, full = DISK_SHARE.of(options) / 100, DISK_LOW.of(options) * GIB, DISK_FULL.of(options) * GIB
    few_inodes = disk.files_total and disk.files_free is not None and disk.files_free < disk.files_total * share
    if total and free is not None and (free < low or free < total * share):
        severe = free < full or free < total * share or few_inodes
        severity = Severity.ERROR if severe else Severity.WARNING
        problem = f"{_size(free)} of {_size(total)} free"
    elif few_inodes:
        problem = f"{disk.files_free} of {disk.files_total} inodes free"
    else:
        return
    big = logs is not None and logs.size_bytes >= GIB
    commands = [f"df -h {disk.mount}", f"df -i {disk.mount}", f"du -xh --max-depth=2 {disk.mount} | sort -h | tail"]
    yield Finding(
        severity=severity,
        summary=f"{disk.mount} has only {problem}",
        detail=f"It holds {', '.join(uses)}. Once full, jobs end with `No space left on device`, 107010, 100004.",
        hint="Make room; old logs of CANN are the first to go." if big else "Make room.",
        commands=(*commands, *([f"du -sh {logs.path}"] if logs and big else [])),
        evidence=(
            Evidence(
                source=disk.mount, expected=f"{_size(low)}, and {share:.0%} of bytes and inodes, free", actual=problem
            ),
            *([Evidence(source=logs.path, actual=_size(logs.size_bytes))] if logs and big else []),
        ),
        fix=FixOffer(id="system.clean-logs", params={"folder": logs.path}) if logs and big else None,
        pitfall="P065",
    )


def _large_logs(logs: LogFolder, disk: Disk | None, most_bytes: float) -> Iterator[Finding]:
    total = disk.total_bytes if disk else None
    heavy = total is not None and logs.size_bytes >= max(most_bytes, total // 10)
    yield Finding(
        severity=Severity.WARNING if heavy else Severity.INFO,
        summary=f"the logs below {logs.path} take {'more than ' if logs.at_least else ''}{_size(logs.size_bytes)}",
        hint="Remove those of jobs that have ended.",
        commands=(f"find {logs.path} -type f -mtime +7 -delete",),
        evidence=(Evidence(source=logs.path, actual=f"{logs.files} files, {_size(logs.size_bytes)}"),),
        fix=FixOffer(id="system.clean-logs", params={"folder": logs.path}),
        pitfall="P057",
    )
