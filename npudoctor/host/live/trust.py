"""Who could change what is at a path. Root runs, loads and believes only what no other user can change.

Every part of the path counts: each folder above it, each symbolic link on the way, and the file itself. The owner of a
part can change it; so can a group or everybody with the right to write. In a folder with the sticky bit only the owner
of an entry can replace it, so such a folder is no objection to an entry that is trusted itself.
"""

from __future__ import annotations

import functools
import os
import posixpath
import stat
from collections.abc import Callable, Collection

from npudoctor.host import FileStat
from npudoctor.records import record, replace

MOST_LINKS = 40
"""As many links as the kernel follows (path_resolution(7))."""

_EVERY_UID = 4294967295
_ACL = "system.posix_acl_access"


@record(frozen=True, kw_only=True)
class Writer:
    """Somebody else who can change a path: the part of it that they can change, and why, as a full clause.

    `uid` is the owner of that part; None where not its owner but a group or everybody is meant, or where it leads
    nowhere. `is_everybody`: it is a folder in which everybody can replace entries.
    """

    path: str
    uid: int | None
    reason: str
    is_everybody: bool = False


Look = Callable[[str], "FileStat | None"]
"""Kind, mode and owner of a path itself, no last link followed; None where nothing is."""


def foreign_writer(
    path: str,
    *,
    look: Look | None = None,
    read_link: Callable[[str], str | None] | None = None,
    users: Collection[int] | None = None,
    groups: Collection[int] | None = None,
    every_group: bool = False,
) -> Writer | None:
    """The first part of an absolute path that somebody else can change; None where no user can.

    Trusted are root, `users` and `groups`: without them this process's own user, and its group unless it is root;
    with `every_group` all groups.
    `look` and `read_link` ask another node; without them this machine is asked. OSError where a part cannot be asked.
    """
    here = look is None  # this machine, and not another node
    if here and _is_plainly_root_s(path):
        return None
    look, read_link = look or _lstat, read_link or _readlink
    trusted = replace(trusted_by(users=users, groups=groups), every_group=every_group)
    done, rest, links = "/", [part for part in path.split("/") if part][::-1], 0
    while True:
        found = look(done)
        if found is not None:
            if writer := trusted.objection(found, done, acl=functools.partial(has_acl, done) if here else None):
                return writer
            if found.kind == "link":
                links += 1
                target = read_link(done)
                if target is None or links > MOST_LINKS:
                    return Writer(path=done, uid=None, reason=f"{done} is a symbolic link that leads nowhere")
                done = "/" if target.startswith("/") else posixpath.dirname(done)
                rest += [part for part in target.split("/") if part][::-1]
        if not rest:
            return None
        part = rest.pop()
        done = posixpath.dirname(done) if part == ".." else done if part == "." else posixpath.join(done, part)


def _is_plainly_root_s(path: str) -> bool:
    """Whether each part of a path is a file or folder of root that only root can write, as most are: judged at once.

    What is not there only root can make, if all above it is such.
    """
    parts = path.split("/")
    if "." in parts or ".." in parts:
        return False
    done = ""
    for part in parts:
        done += f"/{part}" if part else ""
        try:
            found = os.lstat(done or "/")
        except FileNotFoundError:
            return True
        except OSError:
            return False
        if found.st_uid != 0 or stat.S_ISLNK(found.st_mode) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def writer_within(
    folder: str, *, users: Collection[int] | None = None, groups: Collection[int] | None = None
) -> Writer | None:
    """The same for whatever is searched for in a folder: there a sticky bit prevents no user from adding an entry."""
    if found := foreign_writer(folder, users=users, groups=groups):
        return found
    try:
        mode = os.stat(folder).st_mode
    except (FileNotFoundError, NotADirectoryError):
        above = posixpath.dirname(folder)
        return writer_within(above, users=users, groups=groups) if above != folder else None
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & (stat.S_IWOTH | stat.S_IWGRP):
        return Writer(path=folder, uid=None, reason=f"other users can add files to {folder}")
    return None


@record(frozen=True, kw_only=True)
class Trusted:
    """Whose hand in a path is no objection: these users, and groups that have no other members."""

    users: frozenset[int]
    groups: frozenset[int]
    every_group: bool = False

    def objection(self, found: FileStat, path: str, *, acl: Callable[[], bool] | None) -> Writer | None:
        """Why one part of a path can be changed by somebody else; None where it cannot.

        `acl` tells whether an access list names further users; None for another node's files.
        """
        if found.uid not in self.users and not (acl and is_outside(found.uid)):
            is_link = "is a symbolic link that belongs" if found.kind == "link" else "belongs"
            return Writer(path=path, uid=found.uid, reason=f"{path} {is_link} to another user ({found.uid})")
        sticky = found.kind == "dir" and found.mode & stat.S_ISVTX
        if found.kind == "link" or sticky or not self._others_write(found, acl):
            return None
        reason = f"other users can write {path}; chmod go-w {path}"
        return Writer(
            path=path, uid=None, reason=reason, is_everybody=found.kind == "dir" and bool(found.mode & stat.S_IWOTH)
        )

    def _others_write(self, found: FileStat, acl: Callable[[], bool] | None) -> bool:
        if found.mode & stat.S_IWOTH:
            return True
        if self.every_group or not found.mode & stat.S_IWGRP:
            return False
        return found.gid not in self.groups or bool(acl and acl())


def trusted_by(*, users: Collection[int] | None = None, groups: Collection[int] | None = None) -> Trusted:
    """Root with these users and groups; without them this process's own user, and its group unless it is root."""
    mine = (os.geteuid(),) if users is None else users
    private = ((os.getegid(),) if os.geteuid() else ()) if groups is None else groups
    return Trusted(users=frozenset({0, *mine}), groups=frozenset({0, *private}))


def has_acl(path: str, *, follow: bool = False) -> bool:
    """Whether an access list names further users; its mask then stands where the rights of the group do (acl(5))."""
    try:
        return _ACL in os.listxattr(path, follow_symlinks=follow)
    except OSError:
        return False


def is_outside(uid: int) -> bool:
    """Whether this owner is no user of this user namespace: the container's host, which decides everything anyway."""
    return uid == _overflow_uid() and _in_user_namespace()


@functools.cache
def _overflow_uid() -> int:
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 65534


@functools.cache
def _in_user_namespace() -> bool:
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return sum(int(line.split()[2]) for line in file) < _EVERY_UID
    except (OSError, ValueError, IndexError):
        return False


def _lstat(path: str) -> FileStat | None:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return entry_of(found)


def entry_of(found: os.stat_result) -> FileStat:
    """Kind (link, dir, or file for all else), mode and owner, from the kernel's data of a path itself."""
    kind = "link" if stat.S_ISLNK(found.st_mode) else "dir" if stat.S_ISDIR(found.st_mode) else "file"
    mode = stat.S_IMODE(found.st_mode)
    return FileStat(kind=kind, mode=mode, uid=found.st_uid, gid=found.st_gid, access="", size=found.st_size)


def _readlink(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
