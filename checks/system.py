"""The host of the NPUs: memory, shared memory, limits, free space on the file systems."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import Presence
from npudoctor.facts.node.current_user import Asker
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.limits import UNLIMITED, Limit, Limits
from npudoctor.facts.system.memory import HugePages, Memory
from npudoctor.facts.system.storage import SHARED_MEMORY, Disk, Disks, LogFolder, Mounts, SharedMemory, log_path
from npudoctor.sdk import (
    Because,
    Evidence,
    Finding,
    FixOffer,
    Message,
    Options,
    Severity,
    Threshold,
    Unavailable,
    check,
)

from ._places import Change, start_again
from ._quantities import count_text, size_text
from .messages import places
from .messages import system as messages

GIB = 1 << 30
READ_ONLY_SINCE = "dmesg -T | grep -i -e 'remounting filesystem read-only' -e 'I/O error' -e 'aborted journal'"
OUR_LIMITS = "/etc/security/limits.d/99-npudoctor.conf"
_MANY_HUGE_PAGES = 0.25
"""The share of the memory from which unused huge pages are worth a finding."""
UNCHANGING = frozenset({"squashfs", "iso9660", "erofs", "cramfs", "rootfs", "ramfs", "devtmpfs", "proc", "sysfs"})
"""File systems that are always full, or never."""


AVAILABLE = Threshold(
    "memory_available_percent", 5, "%", "below it the next large allocation makes the kernel kill a process"
)
SHM_LEAST = Threshold(
    "shm_min_gib",
    lambda: float(knowledge.layout().more["shm_min_gib"]),
    "GiB",
    "what the data-loading workers of one NPU need; a container has 64 MiB by default",
)
SHM_SEVERAL = Threshold("shm_several_cards_gib", 8, "GiB", "workers and ranks of several NPUs share it")
FILES = Threshold("open_files_min", 65535, "files", "every rank opens connections and files for all others (P075)")
TASKS = Threshold("tasks_per_chip", 200, "tasks", "a rank has 80 to 150 threads, and loads data besides (P094)")
LOCKED = Threshold("locked_memory_min_gib", 32, "GiB", "device networking pins the buffers of all ranks of a node")
DISK_FULL = Threshold("disk_full_gib", 1, "GiB", "one job's logs and compiled operators need this much")
DISK_LOW = Threshold("disk_low_gib", 10, "GiB", "a day of jobs, or the installation of CANN, needs this much")
DISK_SHARE = Threshold("disk_free_percent", 1, "%", "of bytes and of inodes: a file system is full for users first")
MANY_LOGS = Threshold("logs_many_gib", 5, "GiB", "logs of jobs that have ended can be removed")
TOO_MANY_LOGS = Threshold("logs_too_many_gib", 10, "GiB", "at that size they, or a debug level, fill a system disk")


def _used_for_cards(found: Presence | None) -> bool:
    """Whether jobs can run here; without an NPU (an image being built) their requirements are no finding."""
    return found is None or found.cards


@check("system.memory", thresholds=(AVAILABLE,))
def host_memory_is_enough(
    memory: Memory,
    huge: HugePages | None,
    cards: Chips | None,
    container: Container | None,
    found: Presence | None,
    options: Options,
) -> Iterator[Finding]:
    """Host memory available.

    Data loading, checkpoints and offloading use host memory; when it runs out the kernel kills the job.
    """
    available, usable = memory.available_bytes, memory.usable_bytes
    least = AVAILABLE.of(options)
    low = available * 100 < usable * least
    if huge is not None and huge.free_bytes >= usable * _MANY_HUGE_PAGES and container is None:
        yield _in_huge_pages(memory, huge, Severity.WARNING if low and _used_for_cards(found) else Severity.INFO)
    elif low and _used_for_cards(found):
        expected = messages.LEAST_AVAILABLE.text(size=size_text(usable * least / 100), share=least)
        yield messages.MEMORY_LOW.finding(
            available=size_text(available),
            usable=size_text(usable),
            commands=("ps -eo pid,user,rss,args --sort=-rss | head", "dmesg -T | grep -i 'out of memory'"),
            evidence=(Evidence(source="/proc/meminfo", expected=expected, actual=size_text(available)),),
            of_live_job=True,
        )
    total_mb = sum(card.memory_mb or 0 for card in cards.chips) if cards else 0
    if total_mb << 20 > usable:
        yield messages.MEMORY_BELOW_CHIPS.finding(
            usable=size_text(usable),
            chips=size_text(total_mb << 20),
            evidence=(
                Evidence(source="/proc/meminfo", actual=size_text(memory.total_bytes)),
                *(
                    [Evidence(source=messages.MEMORY_LIMIT.text(), actual=size_text(memory.limit_bytes))]
                    if memory.limit_bytes
                    else []
                ),
            ),
        )


def _in_huge_pages(memory: Memory, huge: HugePages, severity: Severity) -> Finding:
    used = huge.total_bytes - huge.free_bytes
    return messages.MEMORY_IN_HUGE_PAGES.finding(
        severity=severity,
        free=size_text(huge.free_bytes),
        available=size_text(memory.available_bytes),
        total=size_text(memory.total_bytes),
        commands=(
            "grep Huge /proc/meminfo",
            "sysctl vm.nr_hugepages",
            "grep -rn hugepages /etc/sysctl.d /proc/cmdline",
        ),
        evidence=(
            Evidence(
                source="/proc/meminfo",
                expected=messages.FEW_HUGE_PAGES.text(),
                actual=messages.HUGE_PAGES.text(total=size_text(huge.total_bytes), used=size_text(used)),
            ),
        ),
    )


@check("system.shm", fix="system.shm", thresholds=(SHM_LEAST, SHM_SEVERAL))
def shared_memory_is_enough(
    shared: SharedMemory, cards: Chips | None, container: Container | None, found: Presence | None, options: Options
) -> Iterator[Finding]:
    """Shared memory (/dev/shm) large enough for data loading.

    Workers pass batches through it, and the ranks of a node communicate through it; when it is full a job ends with a
    bus error. Docker gives a container 64 MiB by default.
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
    hint = None
    if container is not None:
        request = places.SEND_SHM.text(size=size_text(shared.total_bytes))
        change = start_again(container, "--shm-size=16g", pod=places.POD_SHM.text(), request=request)
        hint, commands = change.hint or messages.SHM_OF_CONTAINER.text(), change.commands
    severity = severity if _used_for_cards(found) else Severity.INFO
    expected = messages.SHM_SIZES.text(least=size_text(least), several=size_text(SHM_SEVERAL.of(options) * GIB))
    if not shared.mounted:
        yield messages.SHM_NOT_MOUNTED.finding(
            path=SHARED_MEMORY,
            severity=severity,
            hint=hint,
            commands=commands,
            evidence=(Evidence(source=SHARED_MEMORY, expected=expected, actual=messages.NOT_MOUNTED.text()),),
        )
        return
    yield messages.SHM_SMALL.finding(
        path=SHARED_MEMORY,
        size=size_text(shared.total_bytes),
        severity=severity,
        hint=hint,
        commands=commands,
        evidence=(Evidence(source=SHARED_MEMORY, expected=expected, actual=size_text(shared.total_bytes)),),
        fix=FixOffer(id="system.shm", params={"size": f"{max(16, math.ceil(enough / GIB))}g"})
        if container is None
        else None,
    )


@check("system.limits", fix="system.limits", thresholds=(FILES, TASKS, LOCKED))
def limits_are_high_enough(
    limits: Limits,
    cards: Chips | None,
    cluster: Cluster | None,
    container: Container | None,
    user: Asker | None,
    found: Presence | None,
    options: Options,
) -> Iterator[Finding]:
    """ulimits (nofile, nproc, memlock) high enough.

    Every rank opens connections to all others and starts a hundred threads: with low limits the job fails from some
    number of ranks on with `Too many open files` or `Resource temporarily unavailable`.
    """
    worst = Severity.WARNING if _used_for_cards(found) else Severity.INFO
    locked = worst if cluster is not None and cluster.several else Severity.INFO
    tasks = int(TASKS.of(options)) * max(1, cards.count if cards else 1)
    files, lockable = int(FILES.of(options)), int(LOCKED.of(options) * GIB)
    if limits.nofile is not None and not limits.nofile.allows(files):
        yield _low(messages.NOFILE_LOW, "nofile", limits.nofile, files, worst, container, user)
    if limits.nproc is not None and not limits.nproc.allows(tasks):
        yield _low(messages.NPROC_LOW, "nproc", limits.nproc, tasks, worst, container, user)
    if limits.memlock is not None and not limits.memlock.allows(lockable):
        yield _low(messages.MEMLOCK_LOW, "memlock", limits.memlock, lockable, locked, container, user)
    if limits.pids_max is not None and limits.pids_max < tasks:
        expected = messages.AT_LEAST.text(least=tasks)
        change = Change(None, (messages.SERVICE_LIMIT.text(),))
        if container is not None:
            request = places.SEND_LIMIT.text(name="pids.max", value=tasks, limit=limits.pids_max)
            change = start_again(container, "--pids-limit=-1", pod=places.POD_PIDS.text(), request=request)
        yield messages.PIDS_LOW.finding(
            limit=limits.pids_max,
            least=tasks,
            severity=worst,
            hint=change.hint,
            commands=change.commands,
            evidence=(Evidence(source="pids.max", expected=expected, actual=str(limits.pids_max)),),
        )


def _low(
    message: Message,
    name: str,
    limit: Limit,
    wanted: int,
    severity: Severity,
    container: Container | None,
    user: Asker | None,
) -> Finding:
    in_bytes = name == "memlock"
    value = "unlimited" if in_bytes else str(max(1 << 20, wanted))
    # pam_limits(8): the line of `*` does not apply to root, who needs one of his own.
    who = "root" if user is None or user.user.uid == 0 else "*"
    change = Change(None, (f"echo '{who} - {name} {value}' | sudo tee -a {OUR_LIMITS}  # then log in again",))
    if container is not None:
        wanted_text = size_text(wanted) if in_bytes else str(wanted)
        change = start_again(
            container,
            f"--ulimit {name}={UNLIMITED if in_bytes else value}",
            pod=places.POD_LIMIT.text(setting=f"Limit{name.upper()}"),
            request=places.SEND_LIMIT.text(
                name=name, value=wanted_text, limit=size_text(limit.hard) if in_bytes else limit.hard
            ),
        )
    hint = change.hint or (messages.RESTART_WITH_LIMIT.text() if container is not None else None)
    soft, hard, least = (size_text(number) if in_bytes else str(number) for number in (limit.soft, limit.hard, wanted))
    expected, actual = messages.AT_LEAST.text(least=least), messages.SOFT_AND_HARD.text(soft=soft, hard=hard)
    return message.finding(
        limit=hard,
        least=least,
        severity=severity,
        hint=hint,
        commands=change.commands,
        evidence=(Evidence(source=f"ulimit {name}", expected=expected, actual=actual),),
        fix=FixOffer(id="system.limits", params={"limits": {name: value}}) if container is None else None,
    )


@check("system.disk", fix="system.clean-logs", thresholds=(DISK_FULL, DISK_LOW, DISK_SHARE, MANY_LOGS, TOO_MANY_LOGS))
def disks_have_room(
    disks: Disks,
    mounts: Mounts | None,
    environment: JobEnvironment | None,
    logs: LogFolder | None,
    container: Container | None,
    options: Options,
) -> Iterator[Finding]:
    """Free space on the file systems that jobs write to.

    Logs below ~/ascend/log and compiled operators grow with every job; on a full disk a job ends at any point.
    """
    places = _places(environment)
    by_mount: dict[str, tuple[Disk, list[str]]] = {}
    for what, path in places.items():
        disk = disks.holding(path)
        if disk is not None and disk.fstype not in UNCHANGING:
            by_mount.setdefault(disk.mount, (disk, []))[1].append(what)
    if not by_mount:
        raise Unavailable(messages.DISKS_NOT_RECORDED.text(), because=Because.NOT_RECORDED)
    for disk, uses in by_mount.values():
        if finding := _read_only(disk, uses, mounts, container):
            yield finding
            continue
        yield from _room(disk, uses, logs if logs and disks.holding(logs.path) == disk else None, options)
    if logs is not None and logs.size_bytes >= MANY_LOGS.of(options) * GIB:
        yield from _large_logs(logs, disks.holding(logs.path), TOO_MANY_LOGS.of(options) * GIB)


def _read_only(disk: Disk, uses: list[str], mounts: Mounts | None, container: Container | None) -> Finding | None:
    """What jobs write to and may not; a system may be read-only as it was built."""
    mount = mounts.at(disk.mount) if mounts is not None else None
    written = [use for use in uses if use != messages.SYSTEM_FILES.text()]
    if mount is None or "ro" not in mount.options or not written:
        return None
    inside = container is not None
    return messages.DISK_READ_ONLY.finding(
        path=disk.mount,
        uses=written,
        severity=Severity.WARNING if inside else None,
        hint=messages.READ_ONLY_IN_CONTAINER.text() if inside else None,
        commands=(f"findmnt {disk.mount}",) if inside else (f"findmnt {disk.mount}", READ_ONLY_SINCE),
        evidence=(Evidence(source=disk.mount, expected="rw", actual=",".join(mount.options[:4])),),
    )


def _places(environment: JobEnvironment | None) -> dict[str, str]:
    """What jobs write, and where."""
    variables: Mapping[str, str] = environment or {}
    places = {messages.SYSTEM_FILES.text(): "/"}
    home = variables.get("HOME", "")
    if home.startswith("/"):
        places[messages.HOME_FOLDER.text()] = home
    logs = log_path(variables)
    if logs and logs.startswith("/"):
        places[messages.LOGS.text()] = logs
    cache = variables.get("ASCEND_CACHE_PATH") or variables.get("ACL_OP_COMPILER_CACHE_DIR")
    cache = cache or (posixpath.join(home, "atc_data") if home else "")
    if cache.startswith("/"):
        places[messages.COMPILED_OPERATORS.text()] = cache
    return places


def _room(disk: Disk, uses: list[str], logs: LogFolder | None, options: Options) -> Iterator[Finding]:
    total, free = disk.total_bytes, disk.free_bytes
    share, low, full = DISK_SHARE.of(options) / 100, DISK_LOW.of(options) * GIB, DISK_FULL.of(options) * GIB
    few_inodes = disk.files_total and disk.files_free is not None and disk.files_free < disk.files_total * share
    if total and free is not None and (free < low or free < total * share):
        severe = free < full or free < total * share or few_inodes
        severity = Severity.ERROR if severe else Severity.WARNING
        message, of = messages.DISK_SPACE_LOW, (size_text(free), size_text(total))
        actual = messages.FREE_OF.text(free=of[0], total=of[1])
    elif few_inodes:
        severity = Severity.ERROR
        message, of = messages.INODES_LOW, (count_text(disk.files_free or 0), count_text(disk.files_total or 0))
        actual = messages.FREE_INODES_OF.text(free=of[0], total=of[1])
    else:
        return
    big = logs is not None and logs.size_bytes >= GIB
    commands = [f"df -h {disk.mount}", f"df -i {disk.mount}", f"du -xh --max-depth=2 {disk.mount} | sort -h | tail"]
    yield message.finding(
        path=disk.mount,
        uses=uses,
        free=of[0],
        total=of[1],
        severity=severity,
        hint=messages.REMOVE_LOGS_FIRST.text() if big else None,
        commands=(*commands, *([f"du -sh {logs.path}"] if logs and big else [])),
        evidence=(
            Evidence(
                source=disk.mount,
                expected=messages.SPACE_WANTED.text(size=size_text(low), percent=100 * share),
                actual=actual,
            ),
            *([Evidence(source=logs.path, actual=size_text(logs.size_bytes))] if logs and big else []),
        ),
        fix=FixOffer(id="system.clean-logs", params={"folder": logs.path}) if logs and big else None,
    )


def _large_logs(logs: LogFolder, disk: Disk | None, most_bytes: float) -> Iterator[Finding]:
    total = disk.total_bytes if disk else None
    heavy = total is not None and logs.size_bytes >= max(most_bytes, total // 10)
    size = size_text(logs.size_bytes)
    yield messages.LOGS_LARGE.finding(
        path=logs.path,
        size=messages.MORE_THAN.text(size=size) if logs.at_least else size,
        severity=None if heavy else Severity.INFO,
        commands=(f"find {logs.path} -type f -mtime +7 -delete",),
        evidence=(Evidence(source=logs.path, actual=messages.FILES_AND_SIZE.text(count=logs.files, size=size)),),
        fix=FixOffer(id="system.clean-logs", params={"folder": logs.path}),
    )
