"""What can be done to this machine's files, settings and processes: each change whole or not at all, and on disk.

A file is written beside its target, synced, renamed over it, and its folder synced, so that a kill or a power cut
leaves the old file or the new one. Owner, ACL and extended attributes of what is replaced are kept. It is
done relative to the descriptor of a folder that was opened and judged part by part (`opening`): a path that another
user could lead elsewhere is refused at the moment of the change, whatever the plan saw.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping

from npudoctor.host import FileStat, Refused
from npudoctor.host.live.apart import Apart
from npudoctor.host.live.opening import Place, open_place, path_of
from npudoctor.host.live.trust import entry_of
from npudoctor.privacy.command_lines import LONGEST_LINE, reduce_line, show_words

_LEFTOVER = r"\.npudoctor-\d+"


class Changes(Apart):
    """The changing half of `LocalHost`.

    `_locks` are the locks that are held now: commands that change the node inherit them, so that no fix begins or is
    recovered while an installer still runs whose npudoctor was killed.
    """

    _locks: tuple[int, ...] = ()
    _root: str = ""

    def _at(self, path: str, *, follow: bool = True) -> str:
        raise NotImplementedError

    def _place(self, path: str, *, follow: bool = True) -> contextlib.AbstractContextManager[Place]:
        return open_place(path, root=self._root, follow=follow)

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
        with self._place(path) as place:
            beside = f"{place.name}.npudoctor-{os.getpid()}"
            handle = place.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, name=beside)
            try:
                with open(handle, "wb", buffering=0) as file:
                    _write_all(handle, content)
                    _dress(handle, place, mode, owner, attributes)
                    os.fsync(file.fileno())
                os.rename(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside, dir_fd=place.folder)
                raise
            place.sync()

    def remove(self, path: str, *, follow: bool = False) -> None:
        """Remove a file or a link, or what the link leads to; one that is not there is no error."""
        with contextlib.suppress(FileNotFoundError), self._place(path, follow=follow) as place:
            os.unlink(place.name, dir_fd=place.folder)
            place.sync()

    def write_link(self, path: str, target: str) -> None:
        """Put a symbolic link in the place of a link, a file or nothing."""
        with self._place(path, follow=False) as place:
            beside = f"{place.name}.npudoctor-{os.getpid()}"
            os.symlink(target, beside, dir_fd=place.folder)
            try:
                os.rename(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside, dir_fd=place.folder)
                raise
            place.sync()

    def make_folder(self, path: str, *, mode: int = 0o755) -> None:
        """Make one folder in a folder that is there; one that exists is no error."""
        with self._place(path) as place, contextlib.suppress(FileExistsError):
            os.mkdir(place.name, mode, dir_fd=place.folder)
            made = place.open(os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fchmod(made, mode)
            finally:
                os.close(made)
            place.sync()

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder; one that is not there is no error, nor is one that others have put something into."""
        try:
            with self._place(path, follow=False) as place:
                os.rmdir(place.name, dir_fd=place.folder)
                place.sync()
        except OSError as problem:
            if problem.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise

    def link_stat(self, path: str) -> FileStat | None:
        """Kind, mode and owner of a path itself, its last link not followed; None where nothing is."""
        try:
            return entry_of(os.lstat(self._at(path, follow=False)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def attributes(self, path: str) -> Mapping[str, bytes]:
        """The extended attributes of a file, its ACL among them."""
        return _attributes(self._at(path))

    def sweep(self, path: str, *, follow: bool = True) -> None:
        """Remove what a writing of this file that was killed has left beside it, or of the link itself."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._place(path, follow=follow) as place:
            folder = place.open_folder()
            try:
                names = os.listdir(folder)
            finally:
                os.close(folder)
            for entry in names:
                if entry.startswith(f"{place.name}.") and re.fullmatch(_LEFTOVER, entry[len(place.name) :]):
                    os.unlink(entry, dir_fd=place.folder)

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
        """Hold a lock that ends with this process; raises Refused, naming the holder, where somebody else has it.

        Only its owner can open the file: a user who can open it can hold the lock, and with it all fixes.
        """
        with self._place(path, follow=False) as place:
            handle = _open_lock(place)
        try:
            self._locks = (*self._locks, handle)
            yield
        finally:
            self._locks = tuple(one for one in self._locks if one != handle)
            os.close(handle)


def _open_lock(place: Place) -> int:
    """The open lock file, locked. One that others could open, as that of npudoctor 0.1, may be held by them for ever:
    a new file takes its place. A process that locked a file that is gone starts over."""
    while True:
        handle = place.open(os.O_RDWR | os.O_CREAT)
        try:
            found = os.fstat(handle)
            if stat.S_IMODE(found.st_mode) & 0o077:
                _replace_lock(place, found)
            elif _is_held(handle) and _is_there(place, found):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_held(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(f"another fix is under way: {_holder(handle)}") from None
    except OSError as problem:
        if problem.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            raise Refused(
                "locks do not work on the file system of the journal, so that two fixes could run at once; "
                "give --state a folder on a local disk"
            ) from problem
        raise
    return True


def _is_there(place: Place, found: os.stat_result) -> bool:
    try:
        now = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino)


def _replace_lock(place: Place, old: os.stat_result) -> None:
    beside = f"{place.name}.npudoctor-{os.getpid()}"
    os.close(place.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, name=beside))
    try:
        if _is_there(place, old):
            os.rename(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=place.folder)


def _write_all(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _dress(
    handle: int,
    place: Place,
    mode: int | None,
    owner: tuple[int, int] | None,
    attributes: Mapping[str, bytes] | None,
) -> None:
    """Give the new file the owner, the mode and the attributes of the one that it replaces, or those asked for."""
    old = place.stat
    if owner is None and old is not None:
        owner = (old.st_uid, old.st_gid)
    if owner is not None and owner != (os.geteuid(), os.getegid()):
        os.fchown(handle, *owner)
    os.fchmod(handle, mode if mode is not None else 0o644 if old is None else stat.S_IMODE(old.st_mode))
    wanted = attributes if attributes is not None else _attributes(path_of(place.entry)) if place.entry else {}
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
            words = line.read(LONGEST_LINE).decode("utf-8", "replace").rstrip("\0").split("\0")
            command = show_words(reduce_line(words)) if any(words) else ""
        if not command:
            return f"process {pid} was killed, and what it has started still runs"
        return f"process {pid} of user {os.stat(f'/proc/{pid}').st_uid}: {command[:120]}"
    return "a process that this user cannot see"
