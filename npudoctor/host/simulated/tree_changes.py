"""The file tree of a simulated node, which can be changed as that node's kernel would let its user change it."""

from __future__ import annotations

import errno
import os
import posixpath

from npudoctor.host import User
from npudoctor.host.simulated.tree import Content, FileTree, Overlay
from npudoctor.records import replace

_PLAIN = Overlay()


class ChangingTree(FileTree):
    """A file tree with the changes that fixes are made of. Raises the OSErrors that the kernel would raise."""

    def write(
        self, path: str, content: Content, *, mode: int | None = None, owner: tuple[int, int] | None = None
    ) -> None:
        """Put a file in the place of what is there, as a rename does: a link is replaced, not followed."""
        here = self._require_writable(path)
        if self._kind(here) == "dir":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        old = self.stats.get(here, _PLAIN)
        if self.links.pop(here, None) is not None:
            old = _PLAIN
        uid, gid = owner or (self._user.uid, self._user.gid)
        self._store.put(here, content)
        kept = old.mode if mode is None else mode
        self.stats[here] = replace(old, kind=None, access=None, mode=kept, uid=uid, gid=gid, size=None, cut=False)
        self._forget()

    def write_link(self, path: str, target: str) -> None:
        """Put a link in the place of what is there, as a rename does."""
        here = self._require_writable(path)
        if self._kind(here) == "dir" and here not in self.links:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if here not in self.links and self._store.kind(here) is not None:
            self._store.drop(here)
        self.stats.pop(here, None)
        self.links[here] = target
        self._forget()

    def remove(self, path: str) -> None:
        """Remove a file or a link."""
        here = self._require_writable(path)
        kind = self._kind(here)
        if kind is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if kind == "dir":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if self.links.pop(here, None) is None and self._store.kind(here) is not None:
            self._store.drop(here)
        self.stats.pop(here, None)
        self._forget()

    def make_folder(self, path: str, mode: int = 0o755) -> None:
        """Make a folder in one that is there."""
        here = self._require_writable(path)
        if self._kind(here) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self.stats[here] = Overlay(kind="dir", mode=mode, uid=self._user.uid, gid=self._user.gid)
        self._forget()

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        here = self._require_writable(path)
        if self._kind(here) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if self.list_dir(here):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self.stats.pop(here, None)
        self._store.drop_folder(here)
        self._forget()

    def become(self, user: User) -> None:
        """Judge from now on what this user may do."""
        self._user = user

    def _forget(self) -> None:
        """What was worked out from the links, before one of them changed."""
        self.__dict__.pop("_laid_over", None)
        self._resolved.clear()

    def _require_writable(self, path: str) -> str:
        here = self.resolve(path, follow=False)
        folder, kind = self._find(posixpath.dirname(here))
        if kind != "dir":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if "w" not in self._access(folder, kind):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return here
