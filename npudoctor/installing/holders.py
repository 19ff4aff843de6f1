"""Who holds an NPU and may be stopped for an installation: only what a person has named, and nothing of a scheduler."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from npudoctor.facts.node.install_conditions import owner_of
from npudoctor.facts.node.running_containers import RunningContainer
from npudoctor.host import Refused, Unavailable
from npudoctor.host.apart import ApartHost
from npudoctor.installing import conditions
from npudoctor.installing.state import Holder

STOP_S = 300.0
_UNIT = re.compile(r"[A-Za-z0-9@:_][\w@:.-]{0,200}\.service")
_NEVER = re.compile(
    r"(docker|containerd|crio|cri-docker|isulad|podman|kubelet|k3s|rke2|slurmd|slurmctld|munge|sshd?|dbus|systemd-.*"
    r"|npudoctor.*)\.service"
)
_ENGINES = {"docker": "docker", "podman": "podman", "isulad": "isula"}


def confirmed_holders(
    host: ApartHost, names: Sequence[str], containers: Sequence[RunningContainer]
) -> tuple[Holder, ...]:
    """The holders of these names; raises Refused for what holds no NPU, or is never stopped."""
    owners = {owner for _, owner in holding(host)}
    return tuple(_one(name, owners, containers) for name in dict.fromkeys(names))


def _one(name: str, owners: set[str], containers: Sequence[RunningContainer]) -> Holder:
    of_name = [one for one in containers if one.devices and name in (one.name, one.id[:12])]
    if of_name and (of_name[0].pod or of_name[0].runtime not in _ENGINES):
        raise Refused(f"{of_name[0].title} is of {of_name[0].runtime}: drain the node; npudoctor stops no pod")
    if of_name:
        engine, id = _ENGINES[of_name[0].runtime], of_name[0].id
        return Holder(name=name, stop=(engine, "stop", id), start=(engine, "start", id))
    if _NEVER.fullmatch(name):
        raise Refused(f"{name} is not stopped by npudoctor: others depend on it")
    if not _UNIT.fullmatch(name) or f"unit {name}" not in owners:
        raise Refused(f"{name} holds no NPU: --stop takes a unit or a container that does")
    return Holder(name=name, stop=("systemctl", "stop", name), start=("systemctl", "start", name))


def holding(host: ApartHost) -> list[tuple[str, str]]:
    """Each process that has a device of the NPUs open, with its owner; empty where the owner is not known."""
    found = []
    for process in host.holding(conditions.DEVICES):
        owner = None
        with contextlib.suppress(Unavailable):
            owner = owner_of(host.fresh().read(f"/proc/{process.rpartition(' ')[2]}/cgroup"))
        found.append((process, owner or ""))
    return found


def others(host: ApartHost, stop: Sequence[Holder]) -> list[str]:
    """The processes that hold an NPU and are not stopped with these."""
    ours = {f"unit {one.name}" for one in stop} | {f"container {one.stop[-1][:12]}" for one in stop}
    return [f"{process} ({owner})" if owner else process for process, owner in holding(host) if owner not in ours]


def run_command(host: ApartHost, command: Sequence[str]) -> str:
    """Run a command that stops or starts a holder; why it failed, empty where it did not."""
    try:
        ended = host.run_streaming([*command], timeout=STOP_S)
    except Unavailable as problem:
        return problem.reason
    if ended.timed_out:
        return f"no end after {STOP_S:.0f} s"
    lines = (ended.stderr or ended.stdout).strip().splitlines()
    return "" if ended.returncode == 0 else lines[-1][:160] if lines else f"exit code {ended.returncode}"
