"""Whether npudoctor runs inside a container, in which one, and who started the job."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from npudoctor import knowledge
from npudoctor.facts.network.interfaces import Interfaces
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.records import record
from npudoctor.sdk import Host, NotApplicable, ParseError, Unavailable, probe

DEVICE_LIST = "/sys/fs/cgroup/devices/devices.list"
MARKS = {"/run/.containerenv": "podman", "/.dockerenv": "docker"}
"""Files that a runtime leaves in its containers."""

ENGINES = {"docker": "docker", "podman": "podman", "containerd": "nerdctl", "isula": "isula"}
"""The program that a person starts a container of a runtime with, with the options of `docker run`."""

_NOTEBOOK_USERS = ("ma-user", "jovyan")
"""The users that ModelArts and JupyterHub give to notebooks."""

# Texts and not patterns: what a healthy node never needs is not compiled each time a check starts.
_OF_ANY_NAMESPACE = "(lo|eth|net|tunl|sit|ip6tnl|ip6_vti|ip_vti|ip6gre|gretap|gre|erspan|dummy|ifb|teql)[0-9]*"
"""Names that an interface may have in a container's own network; any other belongs to a host."""


@record(frozen=True, kw_only=True)
class Container:
    """The container around this process. `cgroup` is v1 or v2; `host_network` is None where it cannot be told;
    `orchestrator` is Kubernetes, Slurm, ModelArts or Volcano, None without one; `notebook` tells whether a platform for
    notebooks started it, whose user cannot change how."""

    runtime: str
    cgroup: str | None = None
    host_network: bool | None = None
    orchestrator: str | None = None
    notebook: bool = False

    @property
    def engine(self) -> str | None:
        """The program that starts this container, as podman; None where it is not known, as for lxc."""
        return ENGINES.get(self.runtime)


@record(frozen=True)
class Orchestrator:
    """Who starts jobs here and sets their variables: Kubernetes, Slurm, ModelArts or Volcano; None for a person."""

    name: str | None


def orchestrator_of(environment: Mapping[str, str]) -> str | None:
    """The orchestrator that a job's variables speak of."""
    return knowledge.environment().orchestrator(environment)


@record(frozen=True)
class DeviceRule:
    """One line of a control group's device list: a kind (`a` is all, `c`, `b`), numbers (None is any), rights."""

    kind: str
    major: int | None
    minor: int | None
    rights: str


@record(frozen=True)
class DeviceRules:
    """The devices that a control group of version 1 lets its processes open; version 2 shows no such list."""

    rules: tuple[DeviceRule, ...]

    def allow(self, rdev: str) -> bool:
        """Whether a character device with these numbers (`236:0`) may be read and written."""
        major, _, minor = rdev.partition(":")
        return any(
            rule.kind in "ac"
            and rule.major in (None, int(major))
            and rule.minor in (None, int(minor))
            and {"r", "w"} <= set(rule.rights)
            for rule in self.rules
        )


def parse_device_rules(text: str) -> DeviceRules:
    """Read devices.list: `c 236:* rwm`."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = re.fullmatch(r"\s*([abc])\s+(\*|[0-9]+):(\*|[0-9]+)\s+([rwm]+)\s*", line)
        if match is None:
            raise ParseError("not a rule of a device list", line_number=number, line=line)
        major, minor = (None if part == "*" else int(part) for part in (match[2], match[3]))
        found.append(DeviceRule(match[1], major, minor, match[4]))
    return DeviceRules(tuple(found))


@probe
def device_rules(host: Host) -> DeviceRules:
    """From the control group of version 1 that a container sees as its own."""
    return parse_device_rules(host.read(DEVICE_LIST))


def host_network(
    names: tuple[str, ...], devices: Mapping[str, str | None], hosts_file: str, hostname: str
) -> bool | None:
    """Whether a container shares the network of its host; None where nothing tells.

    `names` are those of its interfaces, `devices` where /sys/class/net/NAME leads, `hosts_file` the text of /etc/hosts,
    whose first line the kubelet writes differently for the host's network.
    """
    first = hosts_file.partition("\n")[0]
    if first.startswith("# Kubernetes-managed hosts file"):
        return "host network" in first
    if any(not re.fullmatch(_OF_ANY_NAMESPACE, name) for name in names):
        return True
    leads = [target for name in names if name != "lo" and (target := devices.get(name))]
    if leads:
        return any("/virtual/" not in target for target in leads)
    if re.fullmatch("[0-9a-f]{12}", hostname):
        return False
    return None


def _engine_by_mark(host: Host) -> str | None:
    for path, runtime in MARKS.items():
        with contextlib.suppress(Unavailable):
            if host.exists(path):
                return runtime
    return None


@probe
def orchestrator(environment: JobEnvironment) -> Orchestrator:
    """From the variables of a job."""
    return Orchestrator(orchestrator_of(environment))


@probe
def container(host: Host, interfaces: Interfaces | None, environment: JobEnvironment | None) -> Container:
    """From the control groups, from the files that runtimes leave, and from the names of the interfaces."""
    found = None
    with contextlib.suppress(Unavailable):
        found = host.measure("container")
    runtime = str(found["runtime"]) if found else _engine_by_mark(host)
    if runtime is None:
        raise NotApplicable("this is not a container")
    names = tuple(one.name for one in interfaces.interfaces) if interfaces else ()
    hosts_file = ""
    with contextlib.suppress(Unavailable):
        hosts_file = host.read("/etc/hosts")
    return Container(
        runtime=runtime,
        cgroup=found.get("cgroup") if found else None,
        host_network=host_network(
            names, {name: host.read_link(f"/sys/class/net/{name}") for name in names}, hosts_file, host.about.hostname
        ),
        orchestrator=orchestrator_of(environment or {}),
        notebook=host.user.name in _NOTEBOOK_USERS,
    )
