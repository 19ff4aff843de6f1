"""Steps that make a local group and a local user, and remove those again; a home with files in it stays."""

from __future__ import annotations

import contextlib
import shlex

from npudoctor.host import Host, MutableHost, Unavailable
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, messages
from npudoctor.steps.system import once_unlocked, system_tool

DRIVER_RECORD = "/etc/ascend_install.info"


@record(frozen=True)
class LocalGroup:
    """Make a group with this number in /etc/group, or remove it where `present` is False."""

    name: str
    gid: int
    present: bool = True

    def preview(self, _: Host) -> str:
        """The command."""
        return messages.RUNS.text(command=shlex.join(self._argv))

    def inverse(self, _: Host) -> Step:
        """The other way round: only a group that is not there is ever made."""
        return LocalGroup(self.name, self.gid, not self.present)

    def holds(self, host: Host) -> bool:
        """Whether the group is there, or not."""
        return (_row(host, "/etc/group", self.name) is not None) is self.present

    def obstacle(self, host: Host) -> Obstacle | None:
        """Only root changes groups; one that users belong to by now stays."""
        row = None if self.present else _row(host, "/etc/group", self.name)
        if row is not None and (row[2] != str(self.gid) or row[3:4] not in ([], [""])):
            return Obstacle(messages.GROUP_CHANGED.text(name=self.name))
        return _obstacle(host, self._argv[0])

    def apply(self, host: MutableHost) -> None:
        """With groupadd or groupdel."""
        if not self.holds(host):
            _run(host, self._argv)

    @property
    def _argv(self) -> tuple[str, ...]:
        return ("groupadd", "-g", str(self.gid), self.name) if self.present else ("groupdel", self.name)


@record(frozen=True, kw_only=True)
class LocalUser:
    """Make a user with these numbers in /etc/passwd and an empty home, or remove it where `present` is False.

    `makes_home` tells that the home is not there before; only that one is removed again, if it is empty. `keeps_group`
    tells that the group is there before: userdel would remove one of the same name.
    """

    name: str
    uid: int
    gid: int
    home: str
    makes_home: bool
    keeps_group: bool
    present: bool = True

    def preview(self, _: Host) -> str:
        """The commands."""
        return "".join(messages.RUNS.text(command=shlex.join(argv)) for argv in self.commands)

    def inverse(self, _: Host) -> Step:
        """The other way round: only a user that is not there is ever made."""
        return LocalUser(
            name=self.name,
            uid=self.uid,
            gid=self.gid,
            home=self.home,
            makes_home=self.makes_home,
            keeps_group=self.keeps_group,
            present=not self.present,
        )

    def holds(self, host: Host) -> bool:
        """Whether user and home are there, or not; a home with files in it may stay."""
        there = _row(host, "/etc/passwd", self.name) is not None
        if self.present:
            return there and (not self.makes_home or host.exists(self.home))
        return not there and not _is_removable(host, self)

    def obstacle(self, host: Host) -> Obstacle | None:
        """Only root changes users; one that has changed, runs processes or that the driver needs stays."""
        row = None if self.present else _row(host, "/etc/passwd", self.name)
        if row is not None and row[2:4] != [str(self.uid), str(self.gid)]:
            return Obstacle(messages.USER_CHANGED.text(name=self.name))
        if row is not None and host.exists(DRIVER_RECORD):
            return Obstacle(messages.USER_OF_DRIVER.text(name=self.name, path=DRIVER_RECORD))
        pids = [one["pid"] for one in host.measure("processes") if row and one.get("username") == self.name]
        if pids:
            return Obstacle(messages.USER_BUSY.text(name=self.name, pid=pids[0]))
        return _obstacle(host, self.commands[0][0])

    def apply(self, host: MutableHost) -> None:
        """With useradd or userdel; the home with install, as files of others in it are never touched."""
        group = _row(host, "/etc/group", self.name)
        if (_row(host, "/etc/passwd", self.name) is not None) is not self.present:
            _run(host, self.commands[0])
        fresh = host.fresh()
        if self.present:
            if self.makes_home and not fresh.exists(self.home):
                _run(host, self.commands[-1])
            return
        if self.keeps_group and group is not None and _row(fresh, "/etc/group", self.name) is None:
            _run(host, ("groupadd", "-g", group[2], self.name))
        if _is_removable(fresh, self):
            _run(host, ("rmdir", "--", self.home))

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """What makes it, or removes it."""
        if not self.present:
            return (("userdel", self.name),)
        numbers = ("-u", str(self.uid), "-g", str(self.gid))
        made: tuple[tuple[str, ...], ...] = (
            ("useradd", *numbers, "-M", "-d", self.home, "-s", "/bin/bash", self.name),
        )
        owner = ("-o", str(self.uid), "-g", str(self.gid))
        return (*made, *((("install", "-d", "-m", "0750", *owner, self.home),) if self.makes_home else ()))


def _row(host: Host, path: str, name: str) -> list[str] | None:
    """The line of a name in /etc/passwd or /etc/group."""
    rows = (line.split(":") for line in host.read(path).splitlines())
    return next((row for row in rows if row[0] == name and len(row) > 2), None)


def _is_removable(host: Host, user: LocalUser) -> bool:
    """Whether the home that was made is still there, and empty."""
    with contextlib.suppress(Unavailable):
        return user.makes_home and host.exists(user.home) and not host.list_dir(user.home)
    return False


def _obstacle(host: Host, tool: str) -> Obstacle | None:
    if host.user.uid != 0:
        return Obstacle(messages.ACCOUNTS_BY_ROOT.text(), root=True)
    return None if system_tool(host, tool) else Obstacle(messages.COMMAND_NOT_FOUND.text(command=tool))


def _run(host: MutableHost, argv: tuple[str, ...]) -> None:
    name, *words = argv
    if (tool := system_tool(host, name)) is None:
        raise StepFailed(messages.COMMAND_NOT_FOUND.text(command=name))
    once_unlocked(host, (tool, *words))
