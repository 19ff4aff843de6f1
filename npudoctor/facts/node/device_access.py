"""Whether this user may open the device nodes; judged by mode and group, never by opening one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from npudoctor import knowledge
from npudoctor.facts.node.device_nodes import MANAGERS, DeviceNode, DeviceNodes
from npudoctor.facts.system.pci import PciCards
from npudoctor.records import record
from npudoctor.sdk import Because, Host, Unavailable, User, probe

POWERFUL = frozenset({"root", "wheel", "sudo", "docker", "disk", "shadow"})
"""Groups that grant far more than access to the NPUs: no user is added to them for that."""


@record(frozen=True, kw_only=True)
class DeviceAccess:
    """The nodes that a job of this user needs. `missing` are manager nodes that are not there.

    `gid` is the group of the denied nodes and `group` its name here; None where it has none.
    """

    user: User
    nodes: tuple[DeviceNode, ...]
    denied: tuple[DeviceNode, ...] = ()
    missing: tuple[str, ...] = ()
    gid: int | None = None
    group: str | None = None

    @property
    def is_member(self) -> bool:
        """Whether the user is in that group already, so that the mode is what denies."""
        return self.gid is not None and self.gid in (self.user.gid, *self.user.gids)


def parse_groups(text: str) -> Mapping[int, str]:
    """The names of groups by number; lines that are no entry of /etc/group are passed over."""
    found: dict[int, str] = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[2].isascii() and fields[2].isdigit():
            found.setdefault(int(fields[2]), fields[0])
    return found


@probe(of_the_moment=True)
def device_access(host: Host, nodes: DeviceNodes, pci: PciCards | None) -> DeviceAccess:
    """From what stat says of the nodes."""
    if not nodes.cards and not nodes.managers:
        raise Unavailable("no device nodes of the Ascend driver found")
    known = (*nodes.cards, *nodes.managers)
    if host.about.source != "live" and host.user.uid != 0 and any(node.stands_in for node in known):
        raise Unavailable(
            "the access rights of the device nodes are not in this recording", because=Because.NOT_RECORDED
        )
    denied = tuple(node for node in known if not node.usable)
    gid = next((node.stat.gid for node in denied if node.stat is not None), None)
    groups: Mapping[int, str] = {}
    with contextlib.suppress(Unavailable):
        groups = parse_groups(host.read("/etc/group"))
    return DeviceAccess(
        user=host.user,
        nodes=known,
        denied=denied,
        missing=tuple(f"/dev/{name}" for name in _needed_nodes(pci) if nodes.manager(name) is None),
        gid=gid,
        group=groups.get(gid) if gid is not None else None,
    )


def _needed_nodes(pci: PciCards | None) -> tuple[str, ...]:
    """The manager nodes of the family; the one that all have where it is unknown, as on boards without PCI."""
    families = {card.family for card in pci.cards} if pci else set()
    known = [family for id in families if (family := knowledge.hardware().family(id))]
    if not known:
        return MANAGERS[:1]
    return tuple(name for name in MANAGERS if all(f"/dev/{name}" in family.manager_nodes for family in known))
