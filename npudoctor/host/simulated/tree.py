"""A file tree of another node, in memory or on this disk, with that node's links and permissions laid over it.

Paths are absolute and mean the other node. Links are followed inside the tree, as that node would, and never out of
it: nothing here hands a path to this machine's kernel that a link could redirect.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from npudoctor.host import FileStat, User
from npudoctor.records import record

Content = bytes | str | Callable[[], bytes | str]
"""What a file holds; a function is asked anew at each reading."""

KINDS = ("file", "dir", "char", "block", "fifo", "socket")
MAX_LINKS = 40
NO_LIMIT = 1 << 62


@record(frozen=True, kw_only=True)
class Overlay:
    """What stat.json says of one path; None is the default: files 0644, folders 0755, of root.

    `access` is what the examining user may do, any of `rwx`; without it mode and owner decide. `mtime` is in seconds,
    `size` in bytes; `cut` says that only the beginning of the content is held.
    """

    kind: str | None = None
    mode: int | None = None
    uid: int = 0
    gid: int = 0
    access: str | None = None
    mtime: float | None = None
    rdev: str | None = None
    size: int | None = None
    cut: bool = False


class MemoryStore:
    """Files held in memory; a folder exists where a file is below it or where it is named itself.

    A store is asked for normalised paths only, with the links in them followed.
    """

    def __init__(self, files: Mapping[str, Content], folders: Iterable[str] = ()) -> None:
        self._files = {normalise(path): content for path, content in files.items()}
        self._named = tuple(folders)

    @cached_property
    def _folders(self) -> dict[str, set[str]]:
        folders: dict[str, set[str]] = {"/": set()}
        for path in self._named:
            enter(folders, normalise(path))
            folders.setdefault(normalise(path), set())
        for path in self._files:
            enter(folders, path)
        return folders

    def kind(self, path: str) -> str | None:
        """Files first, so that most questions need no index of the folders."""
        if path in self._files:
            return "file"
        return "dir" if path in self._folders else None

    def target(self, path: str) -> str:
        """There are no links in here; they are laid over."""
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    def names(self, path: str) -> Iterable[str]:
        """The names in a folder."""
        return self._folders.get(path, ())

    def size(self, path: str) -> int:
        """The length of the content in bytes; 0 for one that is made when read, as in /proc."""
        content = self._files[path]
        return 0 if callable(content) else len(_bytes(content))

    def content(self, path: str, limit: int) -> bytes:
        """The first `limit` bytes."""
        content = self._files[path]
        return bytes(_bytes(content() if callable(content) else content)[:limit])

    def put(self, path: str, content: Content) -> None:
        """Write a file into a folder that is there."""
        self._files[path] = content
        enter(self._folders, path)

    def drop(self, path: str) -> None:
        """Remove a file; its folder stays."""
        del self._files[path]
        self._folders[posixpath.dirname(path)].discard(posixpath.basename(path))

    def drop_folder(self, path: str) -> None:
        """Forget an empty folder."""
        self._folders.pop(path, None)
        self._folders.get(posixpath.dirname(path), set()).discard(posixpath.basename(path))


class DiskStore:
    """Files below a folder of this machine, looked up when asked for, read only."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        self._kinds: dict[str, str | None] = {}

    def kind(self, path: str) -> str | None:
        """What is there, without following it; a recording does not change, so each path is asked about once."""
        if path not in self._kinds:
            self._kinds[path] = self._look(path)
        return self._kinds[path]

    def _look(self, path: str) -> str | None:
        try:
            mode = os.lstat(self._root + path).st_mode
        except (OSError, ValueError):
            return None
        return _KINDS.get(stat.S_IFMT(mode), "file")

    def target(self, path: str) -> str:
        """Where a link points, on the other node."""
        return os.readlink(self._root + path)

    def names(self, path: str) -> Iterable[str]:
        """The names in a folder."""
        try:
            return os.listdir(self._root + path)
        except FileNotFoundError:
            return ()

    def size(self, path: str) -> int:
        """The length of the file in bytes."""
        return os.lstat(self._root + path).st_size

    def content(self, path: str, limit: int) -> bytes:
        """The first `limit` bytes, never through a link and never waiting on a pipe."""
        handle = os.open(self._root + path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            return file.read(limit if limit < NO_LIMIT else -1)

    def put(self, path: str, _: Content) -> None:
        """Refuse: what lies on disk is a recording."""
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def drop(self, path: str) -> None:
        """Refuse: what lies on disk is a recording."""
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def drop_folder(self, path: str) -> None:
        """Refuse: what lies on disk is a recording."""
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


Store = MemoryStore | DiskStore


class FileTree:
    """The files of another node as its user sees them. Raises the OSErrors that the node's kernel would raise.

    `listings` names what is in a folder, for folders of which the rest of the tree does not tell it.
    """

    def __init__(
        self,
        store: Store,
        *,
        links: Mapping[str, str] | None = None,
        stats: Mapping[str, Overlay] | None = None,
        user: User | None = None,
        listings: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self._store = store
        self._user = user or User()
        self.links = {normalise(path): target for path, target in (links or {}).items()}
        self.stats = {normalise(path): overlay for path, overlay in (stats or {}).items()}
        self.listings = {normalise(path): frozenset(names) for path, names in (listings or {}).items()}
        self._resolved: dict[str, str] = {}

    @cached_property
    def _laid_over(self) -> dict[str, set[str]]:
        """The folders that only links.json and stat.json name, with the names that those put into folders."""
        folders: dict[str, set[str]] = {path: set() for path in self.listings}
        for path in [*self.links, *self.stats, *self.listings]:
            enter(folders, path)
        return folders

    def _kind(self, path: str) -> str | None:
        if path in self.links:
            return "link"
        found = self._store.kind(path)
        overlay = self.stats.get(path)
        if overlay is not None and found != "link":
            return overlay.kind or found or "file"
        return found or ("dir" if path in self._laid_over or path == "/" else None)

    def resolve(self, path: str, *, follow: bool = True) -> str:
        """The path with its links followed, but the last one only where `follow`; it need not exist."""
        folder, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return self._walk(path, follow)
        above = self._resolved.get(folder)
        if above is None:
            above = self._resolved[folder] = self._walk(folder or "/", True, path)
        if above in self.stats:
            self._enter(above, path)
        here = f"{above}/{name}" if above != "/" else f"/{name}"
        return self._walk(path, follow) if follow and self._kind(here) == "link" else here

    def _walk(self, path: str, follow: bool, asked: str | None = None) -> str:
        done, rest, hops = "/", path.split("/")[::-1], 0
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = posixpath.dirname(done)
                continue
            if done in self.stats:
                self._enter(done, asked or path)
            here = f"{done}/{part}" if done != "/" else f"/{part}"
            if not (rest or follow) or self._kind(here) != "link":
                done = here
                continue
            hops += 1
            if hops > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), asked or path)
            target = self._target(here)
            done = "/" if target.startswith("/") else done
            rest += target.split("/")[::-1]
        return done

    def _target(self, path: str) -> str:
        return self.links.get(path) or self._store.target(path)

    def _enter(self, folder: str, path: str) -> None:
        if "x" not in self._access(folder, "dir"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    def _access(self, path: str, kind: str) -> str:
        overlay = self.stats.get(path, _PLAIN)
        if overlay.access is not None:
            return overlay.access
        mode = _mode(overlay, kind)
        if self._user.uid == 0:
            return "rw" + ("x" if kind == "dir" or mode & 0o111 else "")
        groups = {self._user.gid, *self._user.gids}
        shift = 6 if overlay.uid == self._user.uid else 3 if overlay.gid in groups else 0
        return "".join(letter for letter, bit in (("r", 4), ("w", 2), ("x", 1)) if mode >> shift & bit)

    def _find(self, path: str, right: str = "") -> tuple[str, str]:
        """Where a path leads, and the kind of what is there; checks one right of the user's."""
        there = self.resolve(path)
        kind = self._kind(there)
        if kind is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if right and right not in self._access(there, kind):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return there, kind

    def exists(self, path: str) -> bool:
        """Whether something is there, links followed."""
        return self._kind(self.resolve(path)) is not None

    def stat(self, path: str) -> FileStat:
        """Kind, mode, owner and access, links followed."""
        there, kind = self._find(path)
        overlay = self.stats.get(there, _PLAIN)
        held = self._store.size(there) if kind == "file" and self._store.kind(there) == "file" else 0
        return FileStat(
            kind=kind,
            mode=_mode(overlay, kind),
            uid=overlay.uid,
            gid=overlay.gid,
            access=self._access(there, kind),
            size=held if overlay.size is None else overlay.size,
            mtime=overlay.mtime,
            rdev=overlay.rdev,
        )

    def read_bytes(self, path: str, *, limit: int = NO_LIMIT) -> bytes:
        """The first `limit` bytes of a regular file."""
        there, kind = self._find(path, "r")
        if kind != "file":
            raise OSError(errno.EINVAL, "not a regular file", path)
        return self._store.content(there, limit) if self._store.kind(there) == "file" else b""

    def holds(self, path: str, limit: int) -> bool:
        """Whether as much of a file's content is held as a reading of `limit` bytes would give."""
        there = self.resolve(path)
        cut = self.stats.get(there, _PLAIN).cut
        return self._store.kind(there) == "file" and not (cut and self._store.size(there) < limit)

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted."""
        there, kind = self._find(path, "r")
        if kind != "dir":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if there in self.listings:
            return tuple(sorted(self.listings[there]))
        return tuple(sorted({*self._store.names(there), *self._laid_over.get(there, ())}))

    def read_link(self, path: str) -> str | None:
        """The target of a link; None where the path is none."""
        here = self.resolve(path, follow=False)
        return self._target(here) if self._kind(here) == "link" else None

    def walk(self, folder: str = "/") -> Iterator[tuple[str, str]]:
        """Every path below a folder with its kind, folders before what is in them; links are not followed."""
        for name in sorted({*self._store.names(folder), *self._laid_over.get(folder, ())}):
            path = posixpath.join(folder, name)
            kind = self._kind(path) or "file"
            yield path, kind
            if kind == "dir":
                yield from self.walk(path)


_PLAIN = Overlay()
_KINDS = {
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


def normalise(path: str) -> str:
    """An absolute path without doubled slashes, `.` and `..`; a relative one counts from the root."""
    return posixpath.normpath("/" + path.lstrip("/"))


def enter(folders: dict[str, set[str]], path: str) -> None:
    """Add a path to an index of folders, with every folder above it."""
    while path != "/":
        folder, name = posixpath.split(path)
        names = folders.setdefault(folder, set())
        if name in names:
            return
        names.add(name)
        path = folder


def _mode(overlay: Overlay, kind: str) -> int:
    return overlay.mode if overlay.mode is not None else 0o755 if kind == "dir" else 0o644


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content
