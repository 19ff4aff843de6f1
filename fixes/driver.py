"""Access to the NPUs, and the account that the driver belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.facts.driver.version_files import InstallRecord
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_access import POWERFUL, DeviceAccess, parse_groups
from npudoctor.facts.node.install_conditions import USER, USUAL_ID, DriverAccount, account_of, parse_accounts
from npudoctor.records import record
from npudoctor.sdk import (
    Effect,
    GroupMember,
    Host,
    LocalGroup,
    LocalUser,
    Note,
    Parameters,
    Refused,
    Step,
    Unavailable,
    fix,
)

from . import messages


@record(frozen=True)
class Access(Parameters):
    """`user` gets access, empty for the current user; `group` is that of the device nodes, if it has no name."""

    user: str = ""
    group: str = ""


@fix("driver.grant-access", resolves=("driver.access",), effect=Effect.NEW_LOGIN, root=True)
def grant_access(asked: Access, host: Host, access: DeviceAccess, container: Container | None) -> Iterator[Step | Note]:
    """Add a user to the group of the NPU device nodes."""
    import os

    if container is not None:
        raise Refused(
            messages.GROUP_OF_CONTAINER.text(), instead=f"{container.engine or 'docker'} run --group-add {access.gid} …"
        )
    user = asked.user or (os.environ.get("SUDO_USER", "") if access.user.uid == 0 else access.user.name)
    group = asked.group or access.group or _group_of(host, access)
    if not user or user == "root":
        raise Refused(messages.NAME_USER.text(), instead="--set user=NAME group=GROUP")
    if not group:
        raise Refused(messages.GROUP_WITHOUT_NAME.text(), instead="--set group=GROUP")
    if not all(re.fullmatch(r"[a-z_][a-z0-9_.-]*\$?", name, re.I) for name in (user, group)):
        raise Refused(messages.NOT_A_NAME.text(names=[repr(user), repr(group)]))
    if group in POWERFUL:
        raise Refused(messages.GROUP_TOO_POWERFUL.text(group=group))
    yield Note(messages.OPENS_EVERY_NPU.text())
    other = user != access.user.name
    yield Note(messages.AT_NEXT_LOGIN.text(), messages.AT_LOGIN_OF_OTHER.text(user=user) if other else "")
    yield GroupMember(user, group)


def _group_of(host: Host, access: DeviceAccess) -> str | None:
    """The name of the group that all device nodes have: root may open them anyway, and asks for another user."""
    gids = {node.stat.gid for node in access.nodes if node.stat is not None}
    return parse_groups(host.read("/etc/group")).get(gids.pop()) if len(gids) == 1 else None


@record(frozen=True)
class Account(Parameters):
    """`uid` and `gid` are numbers; 0 for those that images and MindCluster expect (1000), or those that are there."""

    uid: int = 0
    gid: int = 0


@fix("driver.user", resolves=("install.user",), root=True)
def create_user(
    asked: Account, host: Host, recorded: InstallRecord | None, container: Container | None
) -> Iterator[Step | Note]:
    """Create the user and the group that the driver belongs to.

    HwHiAiUser, or the user of the last installation, in /etc/passwd and /etc/group. No account is changed. Refused
    where a number belongs to another account or to a directory service. Undo removes what was created, as long as the
    driver is not installed; a home with files in it stays.
    """
    if container is not None:
        raise Refused(messages.USER_OF_HOST.text())
    for number in (asked.uid, asked.gid):
        if not 0 <= number <= 65533:
            raise Refused(messages.NOT_AN_ID.text(number=number))
    name = (recorded.user if recorded else None) or USER
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,30}", name):
        raise Refused(messages.NOT_A_NAME.text(names=[repr(name)]))
    account = account_of(host, name)
    if account.elsewhere:
        raise Refused(messages.OF_DIRECTORY.text(name=name, services=list(account.directory)))
    group = parse_accounts(host.read("/etc/group")).get(name)
    gid = group[1] if group else asked.gid or (account.gid if account.gid is not None else USUAL_ID)
    if group is None:
        _must_be_free(host, account, "group", name, gid)
        yield LocalGroup(name, gid)
    elif asked.gid not in (0, gid):
        raise Refused(messages.ID_IS_TAKEN.text(what="group", number=gid, owner=name))
    if account.uid is not None:
        return
    uid, home = asked.uid or USUAL_ID, f"/home/{name}"
    _must_be_free(host, account, "passwd", name, uid)
    yield Note(messages.SAME_EVERYWHERE.text())
    makes_home = not host.exists(home)
    if not makes_home:
        yield Note(messages.HOME_STAYS.text(path=home))
    yield LocalUser(name=name, uid=uid, gid=gid, home=home, makes_home=makes_home, keeps_group=group is not None)


def _must_be_free(host: Host, account: DriverAccount, database: str, name: str, number: int) -> None:
    """Raise Refused where a name or a number is taken here or in a directory service."""
    what, option = ("uid", "uid") if database == "passwd" else ("gid", "gid")
    local = parse_accounts(host.read(f"/etc/{database}"))
    found = {one: numbers[0] for one, numbers in local.items()}
    try:
        if account.directory:
            for key in (name, str(number)):
                answer = parse_accounts(host.run(["getent", database, key]).stdout)
                found |= {one: numbers[0] for one, numbers in answer.items()}
    except Unavailable as why:
        reason = messages.DIRECTORY_SILENT.text(services=list(account.directory), problem=why.reason)
        raise Refused(reason) from why
    owner = next((one for one, taken in found.items() if taken == number or one == name), None)
    if owner is not None:
        reason = messages.ID_IS_TAKEN.text(what=what, number=found[owner], owner=owner)
        raise Refused(reason, instead=f"--set {option}=NUMBER")
