"""Steps that change the running system: kernel settings, commands with their inverse, groups, mounts, processes."""

from __future__ import annotations

import shlex
import signal
import time

from npudoctor.host import Host, MutableHost, Unavailable, real_path
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, access_to, messages, run_changing
from npudoctor.steps.files import untrusted_writer

GRACE_S = 10.0
"""How long a process may take to act on SIGTERM."""

RELEASE_S = 20.0
"""How long the driver may take to release the device of a process that has ended."""

UNLOCKING_S = 15.0
"""How long the tools that change groups may find their files locked."""


@record(frozen=True)
class SetSysctl:
    """Set a kernel setting for now; a file in /etc/sysctl.d keeps it over a reboot."""

    key: str
    value: str

    def preview(self, host: Host) -> str:
        """Old → new."""
        empty = messages.EMPTY.text()
        return messages.SETTING_CHANGES.text(key=self.key, old=self._now(host) or empty, new=self.value or empty)

    def inverse(self, host: Host) -> Step:
        """The value that it has."""
        return SetSysctl(self.key, self._now(host))

    def holds(self, host: Host) -> bool:
        """Whether the kernel has this value."""
        return self._now(host).split() == self.value.split()

    def obstacle(self, host: Host) -> Obstacle | None:
        """The kernel lets only root write it, and no user in most containers."""
        if "w" in access_to(host, self._path):
            return None
        if host.user.uid != 0:
            return Obstacle(messages.SETTING_OF_ROOT.text(key=self.key), root=True)
        return Obstacle(messages.SETTING_OF_HOST.text(key=self.key))

    def apply(self, host: MutableHost) -> None:
        """Write it; the kernel rejects what it does not understand."""
        try:
            host.set_sysctl(self.key, self.value)
        except OSError as problem:
            reason = messages.SETTING_REJECTED.text(key=self.key, value=self.value, problem=problem.strerror)
            raise StepFailed(reason) from problem

    @property
    def _path(self) -> str:
        return "/proc/sys/" + self.key.replace(".", "/")

    def _now(self, host: Host) -> str:
        return host.read(self._path).strip()


@record(frozen=True)
class Run:
    """Run a command without a shell; `undo` is the command that undoes it. `timeout_s` is in seconds."""

    argv: tuple[str, ...]
    undo: tuple[str, ...] | None = None
    timeout_s: float = 60.0

    def preview(self, _: Host) -> str:
        """The command as it could be typed."""
        return messages.RUNS.text(command=shlex.join(self.argv))

    def inverse(self, _: Host) -> Step | None:
        """The command that undoes it, if there is one."""
        return Run(self.undo, self.argv, self.timeout_s) if self.undo else None

    def holds(self, _: Host) -> bool:
        """It is not known whether a command has been run."""
        return False

    def obstacle(self, host: Host) -> Obstacle | None:
        """A command that is not installed."""
        return None if host.which(self.argv[0]) else Obstacle(messages.COMMAND_NOT_FOUND.text(command=self.argv[0]))

    def apply(self, host: MutableHost) -> None:
        """Run it; anything but exit status 0 in time is a failure."""
        run_changing(host, self.argv, self.timeout_s)


@record(frozen=True)
class GroupMember:
    """Make a user a member of a group, or no longer one where `member` is False."""

    user: str
    group: str
    member: bool = True

    def preview(self, host: Host) -> str:
        """Who is in the group, before and after."""
        now = _members(host, self.group)
        then = [*now, self.user] if self.member else [name for name in now if name != self.user]
        none = messages.NO_MEMBERS.text()
        old, new = ", ".join(now) or none, ", ".join(dict.fromkeys(then)) or none
        return messages.MEMBERS_CHANGE.text(group=self.group, old=old, new=new)

    def inverse(self, host: Host) -> Step:
        """The membership as it is."""
        return GroupMember(self.user, self.group, self.user in _members(host, self.group))

    def holds(self, host: Host) -> bool:
        """Whether the user is (or is not) named in the group."""
        return (self.user in _members(host, self.group)) is self.member

    def obstacle(self, host: Host) -> Obstacle | None:
        """Only root changes groups, with tools that a small image may lack."""
        if host.user.uid != 0:
            return Obstacle(messages.MEMBERS_BY_ROOT.text(), root=True)
        lacking = next((name for name in ("usermod", "gpasswd") if not system_tool(host, name)), None)
        return Obstacle(messages.COMMAND_NOT_FOUND.text(command=lacking)) if lacking else None

    def apply(self, host: MutableHost) -> None:
        """With usermod or gpasswd, unless it is so already; one that was killed may have written only one file."""
        if not self.holds(host) or _is_member(host, self.group, self.user) is not self.member:
            join, leave = ("usermod", "-aG", self.group, self.user), ("gpasswd", "-d", self.user, self.group)
            name, *words = join if self.member else leave
            once_unlocked(host, (system_tool(host, name) or name, *words))


def once_unlocked(host: MutableHost, argv: tuple[str, ...]) -> None:
    """Run a tool that gives up at once where another one is at work on the same files, or was killed at it just now."""
    until = time.monotonic() + UNLOCKING_S
    while True:
        try:
            run_changing(host, argv, 30.0)
            return
        except StepFailed as why:
            if "cannot lock" not in why.output or time.monotonic() > until:
                raise
        time.sleep(0.2)


def system_tool(host: Host, name: str) -> str | None:
    """Where a command of the administrator lies: the PATH of a service or of a plain shell may leave its folder out."""
    beside = (f"{folder}/{name}" for folder in ("/usr/sbin", "/sbin", "/usr/bin") if host.exists(f"{folder}/{name}"))
    return host.which(name) or next(beside, None)


def _members(host: Host, group: str) -> list[str]:
    found = _parse_members(host.read("/etc/group"), group)
    if found is None:
        raise StepFailed(messages.NO_GROUP.text(group=group))
    return found


def _is_member(host: Host, group: str, user: str) -> bool:
    """Whether a user is in a group by /etc/gshadow; where there is none, or no line in it, by /etc/group."""
    try:
        found = _parse_members(host.read("/etc/gshadow"), group)
    except Unavailable:
        found = None
    return user in (_members(host, group) if found is None else found)


def _parse_members(text: str, group: str) -> list[str] | None:
    """The members of a group by a text of /etc/group or /etc/gshadow; None where this line is missing."""
    rows = (line.split(":") for line in text.splitlines())
    found = next((row[3] for row in rows if row[0] == group and len(row) >= 4), None)
    return None if found is None else [name for name in found.split(",") if name]


@record(frozen=True)
class Remount:
    """Give a tmpfs another size in bytes."""

    path: str
    size_bytes: int

    def preview(self, host: Host) -> str:
        """Old → new size."""
        old, new = _size(host, self.path) >> 20, self.size_bytes >> 20
        return messages.SIZE_CHANGES.text(path=self.path, old=old, new=new)

    def inverse(self, host: Host) -> Step:
        """The size that it has."""
        return Remount(self.path, _size(host, self.path))

    def holds(self, host: Host) -> bool:
        """Whether it has this size."""
        return _size(host, self.path) == self.size_bytes

    def obstacle(self, host: Host) -> Obstacle | None:
        """Only root remounts."""
        return None if host.user.uid == 0 else Obstacle(messages.REMOUNT_BY_ROOT.text(path=self.path), root=True)

    def apply(self, host: MutableHost) -> None:
        """With mount."""
        run_changing(host, ("mount", "-o", f"remount,size={self.size_bytes}", self.path), 30.0)


def _size(host: Host, path: str) -> int:
    for row in reversed(host.measure("mounts")):
        if row["mount"] == path:
            return int(row["total"])
    raise StepFailed(messages.NOT_MOUNTED.text(path=path))


@record(frozen=True)
class EndProcess:
    """End a process, known by its pid and its start (seconds since 1970): TERM, ten seconds, KILL; nothing undoes it.

    `others` allows that it belongs to another user.
    """

    pid: int
    started: float
    what: str
    others: bool = False

    def preview(self, _: Host) -> str:
        """Which process will be ended."""
        return messages.PROCESS_ENDS.text(pid=self.pid, what=self.what)

    def inverse(self, _: Host) -> Step | None:
        """What has ended does not come back."""
        return None

    def holds(self, host: Host) -> bool:
        """Whether that very process is gone; another one under its number does not count."""
        return self._row(host) is None

    def obstacle(self, host: Host) -> Obstacle | None:
        """A process of another user is left alone unless that was asked for, and only root may end it."""
        row = self._row(host)
        if row is None or row.get("username") == host.user.name:
            return None
        user = row.get("username") or messages.UNKNOWN_USER.text()
        if not self.others:
            return Obstacle(messages.PROCESS_LEFT_ALONE.text(pid=self.pid, user=user))
        return None if host.user.uid == 0 else Obstacle(messages.PROCESS_OF.text(pid=self.pid, user=user), root=True)

    def apply(self, host: MutableHost) -> None:
        """TERM, and KILL for what does not act on it; then wait for the driver."""
        for number, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
            if refused := self.obstacle(host):
                raise StepFailed(refused.reason)
            if self.holds(host):
                break
            try:
                host.signal(self.pid, number)
            except ProcessLookupError:
                break
            if self._gone_within(host, patience):
                break
        else:
            raise StepFailed(messages.DOES_NOT_END.text(pid=self.pid))
        self._until_released(host)

    def _row(self, host: Host) -> dict[str, object] | None:
        for row in host.measure("processes"):
            if row["pid"] == self.pid and abs(float(row["create_time"]) - self.started) < 0.05:
                return None if row.get("status") == "zombie" else row
        return None

    def _gone_within(self, host: MutableHost, patience_s: float) -> bool:
        until = time.monotonic() + patience_s
        while not self.holds(host):
            if time.monotonic() > until or host.instant:
                return False
            time.sleep(0.05)
        return True

    def _until_released(self, host: MutableHost) -> None:
        until = time.monotonic() + RELEASE_S
        while time.monotonic() < until:
            try:
                said = host.fresh().run(["npu-smi", "info"]).stdout
            except Unavailable:
                return
            if f"| {self.pid} " not in said or host.instant:
                return
            time.sleep(1.0)


@record(frozen=True)
class RemoveLogs:
    """Remove a listed set of old log files; this cannot be undone. `size_bytes` is their size."""

    paths: tuple[str, ...]
    size_bytes: int = 0

    def preview(self, _: Host) -> str:
        """Every file that is removed."""
        listed = "".join(f"  {path}\n" for path in self.paths)
        return messages.FILES_REMOVED.text(count=len(self.paths), size=self.size_bytes >> 20, listed=listed)

    def inverse(self, _: Host) -> Step | None:
        """What is removed does not come back."""
        return None

    def holds(self, host: Host) -> bool:
        """Whether all of them are gone."""
        return not any(host.exists(path) for path in self.paths)

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder that this user may not write, or that others control."""
        for folder in dict.fromkeys(path.rpartition("/")[0] for path in self.paths):
            if "w" not in access_to(host, folder):
                reason = messages.NOT_WRITABLE.text(path=folder, user=host.user.name)
                return Obstacle(reason, root=host.user.uid != 0)
            if problem := untrusted_writer(host, folder):
                return Obstacle(problem)
        return None

    def apply(self, host: MutableHost) -> None:
        """Remove them; a path that has become a link or a folder since is left alone."""
        for path in self.paths:
            found = host.link_stat(path)
            if found is not None and found.kind == "file" and real_path(host, path) == path:
                host.remove(path)
