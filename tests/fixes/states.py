"""All that can be changed on a simulated node, to compare one moment of it with another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.host import User
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sim import hccn
from npudoctor.sim.commands import Commands
from npudoctor.sim.machine import Machine
from npudoctor.sim.measures import Measures


def files(host: SimulatedHost) -> dict[str, tuple[str, int | None, bytes]]:
    """All files but the journal's: kind, mode, content."""
    found: dict[str, tuple[str, int | None, bytes]] = {}
    for path, kind in host.tree.walk():
        mine = path.startswith(("/var/lib/npudoctor", "/proc/")) or "/.local" in path
        if not mine and path not in ("/var/lib", "/var"):
            about = host.tree.stat(path) if kind != "link" else None
            content = host.tree.read_bytes(path) if kind == "file" and about and "r" in about.access else b""
            content = (host.tree.read_link(path) or "").encode() if kind == "link" else content
            found[path] = (kind, about.mode if about else None, content)
    return found


def inside(host: SimulatedHost) -> Any:
    """The machine behind a host."""
    return host._machine


def state(host: SimulatedHost) -> dict[str, Any]:
    """All that can be changed on a simulated node, without the journal."""
    inner, here = inside(host), files(host)
    owners = {path: host.tree.stat(path) for path, (kind, _, _) in here.items() if kind != "link"}
    found = {"files": here, "owners": {path: (about.uid, about.gid) for path, about in owners.items()}}
    if not isinstance(inner, Machine):
        return {**found, **inner.state()}
    return {
        **found,
        "sysctl": dict(inner._node.sysctl),
        "shm": inner._node.shm_bytes,
        "tls": [chip.tls for chip in inner._node.chips],
        "ports": [
            (chip.address, chip.netmask, hccn.gateway_of(chip), hccn.detect_address(chip)) for chip in inner._node.chips
        ],
        "processes": sorted(inner._node.processes),
        "packages": dict(inner._target.packages),
    }


@contextlib.contextmanager
def as_user(host: SimulatedHost, user: User, environ: Mapping[str, str]) -> Iterator[SimulatedHost]:
    """The same node for a while as another user of it has it."""
    inner, tree = inside(host), host.tree
    before, owner = inner._node.user, tree._user
    inner._node.user = tree._user = user
    tree._forget()
    try:
        yield SimulatedHost(
            inner,
            about=host.about,
            tree=tree,
            commands=Commands(inner._node, tree, inner._target),
            environ=environ,
            measures=Measures(inner._node),
            user=user,
        )
    finally:
        inner._node.user, tree._user = before, owner
        tree._forget()
