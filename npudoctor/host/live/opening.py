"""Opens a folder part by part, so that what is done in it is done where it was judged.

A path means whatever its links say at the moment it is used: one that was judged first can lead elsewhere when it is
opened later. Here each part is opened by itself in the folder before it, without following links (O_NOFOLLOW), and the
descriptor is judged; links are read and followed by us, part by part. What is made, renamed or removed relative to the
last descriptor (openat, renameat, unlinkat) cannot be led elsewhere any more.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from npudoctor.host import FileStat, Refused
from npudoctor.host.live.trust import MOST_LINKS, Writer, entry_of, has_acl, trusted_by
from npudoctor.records import record

_PART = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

Judge = Callable[[FileStat, str, int], "Writer | None"]
"""Who could change a part of a path: its kind and owner, its path, and a descriptor of it."""


@record(frozen=True, kw_only=True)
class Place:
    """An entry of an open folder: its name, and a descriptor (O_PATH) of what is there; None where nothing is."""

    folder: int
    name: str
    entry: int | None

    @property
    def stat(self) -> os.stat_result | None:
        """What is there, as it was when it was opened."""
        return None if self.entry is None else os.fstat(self.entry)

    def open(self, flags: int, mode: int = 0o600, *, name: str = "") -> int:
        """Open the entry, or another one of its folder, without following a link."""
        return os.open(name or self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.folder)

    def sync(self) -> None:
        """Have the kernel write down what was made, renamed or removed in the folder."""
        handle = self.open_folder()
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def open_folder(self) -> int:
        """A descriptor that can be listed and synced; one of O_PATH cannot."""
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.folder)


def path_of(descriptor: int) -> str:
    """A path that names an open file or folder, for calls that take no descriptor."""
    return f"/proc/self/fd/{descriptor}"


def only_trusted(found: FileStat, path: str, handle: int) -> Writer | None:
    """The users who besides root and this process's user could change this part."""
    return trusted_by().objection(found, path, acl=functools.partial(has_acl, path_of(handle), follow=True))


def no_foreign_link(found: FileStat, path: str, _: int) -> Writer | None:
    """Only a symbolic link of another user: where a person names a folder of somebody else, it is meant."""
    return trusted_by().objection(found, path, acl=lambda: False) if found.kind == "link" else None


@contextlib.contextmanager
def open_place(path: str, judge: Judge = only_trusted, *, root: str = "", follow: bool = True) -> Iterator[Place]:
    """The entry that an absolute path below `root` names; its folder must be there, the entry need not be.

    The last link is followed only where `follow`. Raises Refused where `judge` objects to a part, and OSError.
    """
    with ExitStack() as kept:
        yield _walk(path, judge, root, follow, kept)


def _walk(path: str, judge: Judge, root: str, follow: bool, kept: ExitStack) -> Place:
    start = _keep(os.open(root or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), kept)
    _must_pass(judge, start, "/")
    folders = [("", start)]
    rest, links = [part for part in path.split("/") if part not in ("", ".")][::-1], 0
    while rest:
        part = rest.pop()
        if part == "..":
            folders = folders[:-1] or folders
            continue
        here = f"{folders[-1][0]}/{part}"
        try:
            entry = _keep(os.open(part, _PART, dir_fd=folders[-1][1]), kept)
        except FileNotFoundError:
            if rest:
                raise
            return Place(folder=folders[-1][1], name=part, entry=None)
        kind = _must_pass(judge, entry, here)
        if kind == "link" and (rest or follow):
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink("", dir_fd=entry)
            folders = folders[:1] if target.startswith("/") else folders
            rest += [one for one in target.split("/") if one not in ("", ".")][::-1]
        elif rest:
            if kind != "dir":
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), here)
            folders.append((here, entry))
        else:
            return Place(folder=folders[-1][1], name=part, entry=entry)
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _must_pass(judge: Judge, handle: int, path: str) -> str:
    found = entry_of(os.fstat(handle))
    if writer := judge(found, path, handle):
        raise Refused(writer.reason)
    return found.kind


def _keep(handle: int, kept: ExitStack) -> int:
    kept.callback(os.close, handle)
    return handle
