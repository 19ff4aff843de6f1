"""What can be done to this machine's files, settings and processes: each change whole or not at all, and on disk.

A file is written beside its target, synced, renamed over it, and its folder synced, so that whoever kills npudoctor or
pulls the plug finds the old file or the new one. Owner, ACL and extended attributes of what is replaced are kept.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping

from npudoctor.host import FileStat, Refused

_LEFTOVER = re.compile(r"\.npudoctor-\d+")


class Changes:
    """The changing half of `LocalHost`.

    `_locks` are the locks that are held now: commands that change the node inherit them, so that nobody begins, or
    recovers, while an installer still runs whose npudoctor was killed.
    """

    _locks: tuple[int, ...] = ()

    def _at(self, path: str, *, follow: bool = True) -> str:
        raise NotImplementedError

    def write_file(
        self,
        path: str,
        content: bytes,
        *,
        mode: int | None = None,
        owner: tuple[int, int] | None = None,
        attributes: Mapping[str, bytes] | None = None,
    ) -> None:
        """Replace a file as a whole; what is not given is as it was, or 0644 of this user's for a new file."""
        target = self._at(path)
        beside = f"{target}.npudoctor-{os.getpid()}"
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(handle, "wb", buffering=0) as file:
                _write_all(handle, content)
                _dress(handle, target, mode, owner, attributes)
                os.fsync(file.fileno())
            os.rename(beside, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        _sync_folder(posixpath.dirname(target))

    def remove(self, path: str) -> None:
        """Remove a file or a link; one that is not there is no error."""
        target = self._at(path, follow=False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
            _sync_folder(posixpath.dirname(target))

    def make_folder(self, path: str, *, mode: int = 0o755) -> None:
        """Make one folder in a folder that is there; one that exists is no error."""
        target = self._at(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(target, mode)
            os.chmod(target, mode)
            _sync_folder(posixpath.dirname(target))

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder; one that is not there is no error, nor is one that others have put something into."""
        target = self._at(path, follow=False)
        try:
            os.rmdir(target)
        except OSError as problem:
            if problem.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise
            return
        _sync_folder(posixpath.dirname(target))

    def link_stat(self, path: str) -> FileStat | None:
        """Kind, mode and owner of a path itself, its last link not followed; None where nothing is."""
        try:
            found = os.lstat(self._at(path, follow=False))
        except (FileNotFoundError, NotADirectoryError):
            return None
        kind = "link" if stat.S_ISLNK(found.st_mode) else "dir" if stat.S_ISDIR(found.st_mode) else "file"
        mode = stat.S_IMODE(found.st_mode)
        return FileStat(kind=kind, mode=mode, uid=found.st_uid, gid=found.st_gid, access="", size=found.st_size)

    def attributes(self, path: str) -> Mapping[str, bytes]:
        """The extended attributes of a file, its ACL among them."""
        return _attributes(self._at(path))

    def sweep(self, path: str) -> None:
        """Remove what a writing of this file that was killed has left beside it."""
        folder, name = posixpath.split(self._at(path))
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for entry in os.listdir(folder):
                if entry.startswith(f"{name}.") and _LEFTOVER.fullmatch(entry[len(name) :]):
                    os.unlink(posixpath.join(folder, entry))

    def set_sysctl(self, key: str, value: str) -> None:
        """Write a kernel setting and raise OSError where the kernel refuses it."""
        handle = os.open(self._at("/proc/sys/" + key.replace(".", "/")), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(handle, value.encode() + b"\n")
        finally:
            os.close(handle)

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process."""
        os.kill(pid, number)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Hold a lock that ends with this process; raises Refused, naming the holder, where somebody else has it."""
        target = self._at(path)
        try:
            handle = os.open(target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except PermissionError:
            handle = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(f"another fix is under way: {_holder(handle)}") from None
            self._locks = (*self._locks, handle)
            yield
        finally:
            self._locks = tuple(one for one in self._locks if one != handle)
            os.close(handle)


def _write_all(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _dress(
    handle: int,
    target: str,
    mode: int | None,
    owner: tuple[int, int] | None,
    attributes: Mapping[str, bytes] | None,
) -> None:
    """Give the new file the owner, the mode and the attributes of the one that it replaces, or those asked for."""
    old = None
    with contextlib.suppress(FileNotFoundError):
        old = os.stat(target)
    if owner is None and old is not None:
        owner = (old.st_uid, old.st_gid)
    if owner is not None and owner != (os.geteuid(), os.getegid()):
        os.fchown(handle, *owner)
    os.fchmod(handle, mode if mode is not None else 0o644 if old is None else stat.S_IMODE(old.st_mode))
    wanted = attributes if attributes is not None else {} if old is None else _attributes(target)
    for name, value in wanted.items():
        try:
            os.setxattr(handle, name, value)
        except OSError as problem:
            if problem.errno not in (errno.ENOTSUP, errno.EPERM) or not name.startswith(("security.", "trusted.")):
                raise


def _attributes(target: str) -> Mapping[str, bytes]:
    try:
        return {name: os.getxattr(target, name) for name in os.listxattr(target)}
    except OSError as problem:
        if problem.errno in (errno.ENOTSUP, errno.ENOENT, errno.ENODATA):
            return {}
        raise


def _holder(handle: int) -> str:
    """Who holds the lock of an open file, as the kernel tells it."""
    inode = os.fstat(handle).st_ino
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        with open("/proc/locks", encoding="utf-8") as file:
            rows = [line.split() for line in file]
        pid = next(int(row[4]) for row in rows if row[1] == "FLOCK" and int(row[5].rpartition(":")[2]) == inode)
        command = ""  # of a process that is gone, or that its parent has not collected yet
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/cmdline", "rb") as line:
            command = line.read().decode("utf-8", "replace").replace("\0", " ").strip()
        if not command:
            return f"process {pid} was killed, and what it has started still runs"
        return f"process {pid} of user {os.stat(f'/proc/{pid}').st_uid}: {command[:120]}"
    return "a process that this user cannot see"


def _sync_folder(folder: str) -> None:
    handle = os.open(folder or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
