"""The containers that run on this host and use its NPUs, from what the kernel shows of their processes.

No daemon is asked for what a container has: its control group has its id and its processes, /proc/PID/mountinfo what is
mounted into it, and /proc/PID/root/dev, where a tmpfs is mounted there, its device nodes. A container cannot change the
first two. The last is a folder that only its runtime and its root can fill: it is listed, and nothing in it is opened
or followed.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping

from npudoctor.facts.node.container import Container
from npudoctor.facts.node.container_mounts import parse_mounts
from npudoctor.records import record, replace
from npudoctor.sdk import Because, Completed, Host, NotApplicable, Unavailable, probe

DRIVER = "/usr/local/Ascend/driver"
MOST = 64
"""How many containers are examined on one host."""

PODS = "/var/log/pods"
NAMES: Mapping[str, tuple[str, ...]] = {
    "docker": ("docker", "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}"),
    "isulad": ("isula", "ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}"),
}
"""What names a container that belongs to no pod, by its runtime."""

GROUPS = "/sys/fs/cgroup"
_OF_VERSION_1 = ("devices", "memory", "pids")
_ID = r"(?:[a-z-]{1,40}-)?([0-9a-f]{64})(?:\.scope)?"
_LEADING = (
    r"(?:system|machine|kubelet|kubepods[\w-]*)\.slice|kubepods|besteffort|burstable|guaranteed|pod[0-9a-f-]{32,36}"
    r"|docker|isulad|lxc|libpod_parent|containerd|default|k8s\.io|actions_job"
)
"""Control groups that have those of containers below them."""

_DEEPEST = 5
_POD = r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_RUNTIMES = ("docker", "cri-containerd", "containerd", "crio", "libpod", "isulad")
_USUAL_NAMES = {"cri-containerd": "containerd", "crio": "cri-o", "libpod": "podman"}
_OF_PODS = r"/pods/[^/]+/containers/([^/]+)/"
_NODE = r"v?davinci[0-9]{1,4}|davinci_manager(?:_docker)?|devmm_svm|hisi_hdc"
_IN_MEMORY = ("tmpfs", "devtmpfs")


@record(frozen=True, kw_only=True)
class RunningContainer:
    """One container. `pid` is its first process; `name` is None where only its `id` is known; `pod` is namespace/name.

    `devices` are the NPU device nodes in its /dev, None where that could not be listed; `mounts` the mount points with
    the path on their own file system that each shows.
    """

    id: str
    runtime: str
    pid: int
    name: str | None = None
    pod: str | None = None
    devices: tuple[str, ...] | None = None
    mounts: Mapping[str, str]

    @property
    def title(self) -> str:
        """How a person knows it: pod and container, else the name, else the first twelve digits of its id."""
        name = self.name or self.id[:12]
        return f"{self.pod} ({name})" if self.pod else name

    @property
    def cards(self) -> tuple[str, ...]:
        """The device nodes of its NPUs, whole or sliced."""
        return tuple(path for path in self.devices or () if re.fullmatch(r"/dev/v?davinci[0-9]{1,4}", path))

    @property
    def uses_npus(self) -> bool:
        """Whether it has a device node of an NPU, or files of the driver."""
        return bool(self.devices) or any(point.startswith(DRIVER) for point in self.mounts)

    def has(self, path: str) -> bool:
        """Whether a path, what is in it, or a folder above it is mounted."""
        folders = [point for point in self.mounts if point != "/"]
        return any(path == one or path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in folders)


@record(frozen=True)
class RunningContainers:
    """The containers that use NPUs; `unseen` counts those of which this user sees too little."""

    containers: tuple[RunningContainer, ...]
    unseen: int = 0


def container_of(path: str) -> tuple[str, str, str | None] | None:
    """Id, runtime and uid of the pod of the container that a control group belongs to; None for another one."""
    found = re.fullmatch(_ID, path.rpartition("/")[2])
    if found is None:
        return None
    pod = re.search(_POD, path)
    runtime = next((name for name in _RUNTIMES if name in path), "containerd")
    return found[1], _USUAL_NAMES.get(runtime, runtime), _uid(pod[1]) if pod else None


def _uid(text: str) -> str:
    digits = re.sub(r"[-_]", "", text)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def is_in_memory(mountinfo: str, path: str) -> bool:
    """Whether a file system in memory is mounted at a path: no link leads away from there, and reading cannot wait."""
    kinds = [
        fields[fields.index("-") + 1]
        for line in mountinfo.splitlines()
        if (fields := line.split(" ")) and len(fields) > 6 and fields[4] == path and "-" in fields[:-1]
    ]
    return bool(kinds) and kinds[-1] in _IN_MEMORY


def pod_names(folders: Iterable[str]) -> dict[str, str]:
    """Namespace and name of pods by their uid, from the names of folders: train_job-0_2f0c…"""
    found = {}
    for folder in folders:
        parts = folder.split("_")
        if len(parts) == 3:
            found[parts[2]] = f"{parts[0]}/{parts[1]}"
    return found


def parse_names(done: Completed) -> dict[str, str]:
    """Names by id, from lines of an id and a name."""
    lines = (line.split() for line in done.stdout.splitlines()) if done.returncode == 0 else ()
    return {words[0]: words[1] for words in lines if len(words) == 2 and re.fullmatch(r"[\w.-]{1,128}", words[1])}


@probe(of_the_moment=True)
def running_containers(host: Host, container: Container | None) -> RunningContainers:
    """From the control groups, and from mountinfo and /dev of each container's first process, as root on the host."""
    if container is not None:
        raise NotApplicable("other containers are not visible inside a container")
    first = sorted(itertools.islice(_first_processes(host), MOST))
    pods: dict[str, str] = {}
    if any(uid for *_, uid in first):
        with contextlib.suppress(Unavailable):
            pods = pod_names(host.list_dir(PODS))
    found: list[RunningContainer] = []
    unseen = 0
    for pid, id, runtime, uid in first:
        try:
            mountinfo = host.read(f"/proc/{pid}/mountinfo")
        except Unavailable:
            unseen += 1
            continue
        mounts = parse_mounts(mountinfo)
        one = RunningContainer(
            id=id,
            runtime=runtime,
            pid=pid,
            name=_name_in_pod(mounts),
            pod=pods.get(uid, uid) if uid else None,
            devices=_devices(host, pid, mountinfo),
            mounts={point: source for point, source in mounts.items() if _is_of_driver(point)},
        )
        if one.uses_npus:
            found.append(one)
    if unseen and not found:
        raise Unavailable("only root sees what is mounted into containers", because=Because.NO_RIGHT)
    return RunningContainers(tuple(_with_engine_names(host, found)), unseen)


def _first_processes(host: Host) -> Iterator[tuple[int, str, str, str | None]]:
    """The first process of each container, with its id, its runtime and the uid of its pod."""
    top = GROUPS
    if not host.exists(f"{GROUPS}/cgroup.controllers"):
        top = next((folder for name in _OF_VERSION_1 if host.exists(folder := f"{GROUPS}/{name}")), GROUPS)
    waiting = [(top, 0)]
    while waiting:
        folder, depth = waiting.pop()
        names: tuple[str, ...] = ()
        with contextlib.suppress(Unavailable):
            names = host.list_dir(folder)
        for name in names:
            path = f"{folder}/{name}"
            if (known := container_of(path)) is not None:
                if pid := _first_pid(host, path):
                    yield (pid, *known)
            elif depth < _DEEPEST and re.fullmatch(_LEADING, name):
                waiting.append((path, depth + 1))


def _first_pid(host: Host, group: str) -> int | None:
    """The lowest pid of a control group; podman and systemd put processes into one below it."""
    for path in (group, f"{group}/container", f"{group}/init.scope"):
        with contextlib.suppress(Unavailable):
            pids = [int(line) for line in host.read(f"{path}/cgroup.procs").split() if line.isdecimal()]
            if pids:
                return min(pids)
    return None


def _devices(host: Host, pid: int, mountinfo: str) -> tuple[str, ...] | None:
    if not is_in_memory(mountinfo, "/dev"):
        return None
    with contextlib.suppress(Unavailable):
        return tuple(f"/dev/{name}" for name in host.list_dir(f"/proc/{pid}/root/dev") if re.fullmatch(_NODE, name))
    return None


def reduce_mountinfo(mountinfo: str) -> str:
    """Of a container's mountinfo what is read here: the mounts of the driver's files, of /dev, and the pod's own."""
    kept = []
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) > 6 and (_is_of_driver(fields[4]) or fields[4] == "/dev" or re.search(_OF_PODS, fields[3])):
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)


def _is_of_driver(point: str) -> bool:
    return point.startswith(("/usr/local/Ascend", "/usr/local/dcmi", "/usr/local/bin", "/usr/local/sbin", "/etc/")) or (
        point in ("/usr", "/usr/local", "/etc")
    )


def _name_in_pod(mounts: Mapping[str, str]) -> str | None:
    """The name that a pod gives a container: the kubelet mounts a file of it for the last words of its process."""
    source = next((source for source in mounts.values() if re.search(_OF_PODS, source)), "")
    named = re.search(_OF_PODS, source)
    return named[1] if named else None


def _with_engine_names(host: Host, found: list[RunningContainer]) -> Iterable[RunningContainer]:
    """The containers, those without a pod with the name that their engine gives them."""
    names: dict[str, str] = {}
    for runtime in dict.fromkeys(one.runtime for one in found if one.pod is None and one.runtime in NAMES):
        with contextlib.suppress(Unavailable):
            names |= parse_names(host.run(list(NAMES[runtime])))
    return [replace(one, name=one.name or names.get(one.id)) for one in found]
