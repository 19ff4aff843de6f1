"""The right to open the cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_access import DeviceAccess, parse_groups
from npudoctor.records import record
from npudoctor.sdk import Effect, GroupMember, Host, Note, Parameters, Refused, Step, fix


@record(frozen=True)
class Access(Parameters):
    """`user` is who gets the right, empty for the user who asks; `group` that of the nodes, where it has no name."""

    user: str = ""
    group: str = ""


@fix("driver.grant-access", mends=("driver.access",), effect=Effect.NEW_LOGIN, root=True)
def grant_access(asked: Access, host: Host, access: DeviceAccess, container: Container | None) -> Iterator[Step | Note]:
    """Add a user to the group of the cards' device nodes."""
    import os

    if container is not None:
        raise Refused(
            "a container's user gets the group when it starts", instead=f"docker run --group-add {access.gid} …"
        )
    user = asked.user or (os.environ.get("SUDO_USER", "") if access.user.uid == 0 else access.user.name)
    group = asked.group or access.group or _group_of(host, access)
    if not user or user == "root":
        raise Refused("say which user", instead="--set user=NAME group=GROUP")
    if not group:
        raise Refused("the group of the device nodes has no name here; say it", instead="--set group=GROUP")
    if not all(re.fullmatch(r"[a-z_][a-z0-9_.-]*\$?", name, re.I) for name in (user, group)):
        raise Refused(f"{user!r} or {group!r} is no name")
    if asked.group in ("root", "wheel", "sudo", "docker", "disk", "shadow"):
        raise Refused(f"the group {asked.group} gives far more than the cards")
    yield Note("this opens every card of the node to this user, past the isolation that a scheduler may keep")
    member = user != access.user.name
    yield Note("it takes effect at a new login", "it shows at a new login of that user" if member else "")
    yield GroupMember(user, group)


def _group_of(host: Host, access: DeviceAccess) -> str | None:
    """The name of the group that all nodes have: root is denied none of them, and asks for somebody else."""
    gids = {node.stat.gid for node in access.nodes if node.stat is not None}
    return parse_groups(host.read("/etc/group")).get(gids.pop()) if len(gids) == 1 else None
