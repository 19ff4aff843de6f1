"""Access to the NPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_access import DeviceAccess, parse_groups
from npudoctor.records import dataclass
from npudoctor.sdk import Effect, GroupMember, Host, Note, Parameters, Refused, Step, fix

from . import messages


@dataclass(frozen=True)
class Access(Parameters):
    """`user` gets access, empty for the current user; `group` is that of the device nodes, if it has no name."""

    user: str = ""
    group: str = ""


@fix("driver.grant-access", resolves=("driver.access",), effect=Effect.NEW_LOGIN, root=True)
def grant_access(asked: Access, host: Host, access: DeviceAccess, container: Container | None) -> Iterator[Step | Note]:
    """Add a user to the group of the NPU device nodes."""
    import os

    if container is not None:
        raise Refused(messages.GROUP_OF_CONTAINER.text(), instead=f"docker run --group-add {access.gid} …")
    user = asked.user or (os.environ.get("SUDO_USER", "") if access.user.uid == 0 else access.user.name)
    group = asked.group or access.group or _group_of(host, access)
    if not user or user == "root":
        raise Refused(messages.NAME_USER.text(), instead="--set user=NAME group=GROUP")
    if not group:
        raise Refused(messages.GROUP_WITHOUT_NAME.text(), instead="--set group=GROUP")
    if not all(re.fullmatch(r"[a-z_][a-z0-9_.-]*\$?", name, re.I) for name in (user, group)):
        raise Refused(messages.NOT_A_NAME.text(names=[repr(user), repr(group)]))
    if asked.group in ("root", "wheel", "sudo", "docker", "disk", "shadow"):
        raise Refused(messages.GROUP_TOO_POWERFUL.text(group=asked.group))
    yield Note(messages.OPENS_EVERY_NPU.text())
    other = user != access.user.name
    yield Note(messages.AT_NEXT_LOGIN.text(), messages.AT_LOGIN_OF_OTHER.text(user=user) if other else "")
    yield GroupMember(user, group)


def _group_of(host: Host, access: DeviceAccess) -> str | None:
    """The name of the group that all device nodes have: root may open them anyway, and asks for another user."""
    gids = {node.stat.gid for node in access.nodes if node.stat is not None}
    return parse_groups(host.read("/etc/group")).get(gids.pop()) if len(gids) == 1 else None
