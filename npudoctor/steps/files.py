"""Steps that change files and folders; bytes that are no UTF-8 are carried as latin-1, so that none is lost."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterator

from npudoctor.host import Host, MutableHost, Unavailable, real_path
from npudoctor.host.live.trust import foreign_writer
from npudoctor.records import dataclass
from npudoctor.steps import Obstacle, Step, StepFailed, access_to

LARGEST_BYTES = 8 << 20
"""Larger files are none that a fix should replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetadata:
    """What a file has besides its content: permission bits, owner, group, and extended attributes by name."""

    mode: int
    uid: int
    gid: int
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a file as a whole; `mode` holds its permission bits, None keeps those that it has (0644 for a new one).

    A link is followed. `metadata` is given to a file that comes back: mode, owner and attributes as they were.
    """

    path: str
    content: str
    mode: int | None = None
    metadata: FileMetadata | None = None
    encoding: str = "utf-8"

    def preview(self, host: Host) -> str:
        """A unified diff, with the change of the mode; empty where the file already is like this."""
        old = _text(host, self.path, self.encoding)
        there = "" if old is None else f"mode {host.stat(self.path).mode:04o}"
        mode = "" if self.mode is None or there == f"mode {self.mode:04o}" else f"mode {self.mode:04o}"
        change = f"{self.path}: {there or 'no file'} → {mode}\n" if mode and old is not None else ""
        empty = f"{self.path}: a new, empty file\n" if old is None and not self.content else ""
        return change + empty + unified(self.path, old or "", self.content)

    def inverse(self, host: Host) -> Step:
        """The old content with its mode, owner and attributes, or the file's removal where there was none."""
        old = _text(host, self.path)
        return RemoveFile(self.path) if old is None else _as_it_is(host, self.path)

    def holds(self, host: Host) -> bool:
        """Whether the file has this content, and the mode where one is asked for."""
        if _bytes(host, self.path) != self.content.encode(self.encoding):
            return False
        found = host.stat(self.path)
        wanted = self.metadata.mode if self.metadata else self.mode
        owner = (self.metadata.uid, self.metadata.gid) if self.metadata else (found.uid, found.gid)
        return wanted in (None, found.mode) and owner == (found.uid, found.gid)

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder that cannot be written, or somebody else's hand in the path."""
        return obstacle_to(host, self.path)

    def apply(self, host: MutableHost) -> None:
        """Write it."""
        host.sweep(self.path)
        metadata = self.metadata
        host.write_file(
            self.path,
            self.content.encode(self.encoding),
            mode=metadata.mode if metadata else self.mode,
            owner=(metadata.uid, metadata.gid) if metadata else None,
            attributes={name: value.encode("latin-1") for name, value in metadata.attributes} if metadata else None,
        )


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Remove a file; one that is not there is no error."""

    path: str

    def preview(self, host: Host) -> str:
        """A unified diff to nothing."""
        return unified(self.path, _text(host, self.path) or "", "", gone=True)

    def inverse(self, host: Host) -> Step:
        """The file as it is; where there is none, its absence."""
        old = _text(host, self.path)
        return self if old is None else _as_it_is(host, self.path)

    def holds(self, host: Host) -> bool:
        """Whether nothing is there."""
        return not host.exists(self.path)

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder that cannot be written, or somebody else's hand in the path."""
        return obstacle_to(host, self.path)

    def apply(self, host: MutableHost) -> None:
        """Remove it, and what a killed writing of it left."""
        host.sweep(self.path)
        host.remove(self.path, follow=True)


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """Make one folder in a folder that is there."""

    path: str
    mode: int = 0o755

    def preview(self, host: Host) -> str:
        """The folder that is new."""
        return "" if self.holds(host) else f"{self.path}: a new folder, mode {self.mode:04o}\n"

    def inverse(self, host: Host) -> Step:
        """Its removal, if it is empty then; nothing where it is there already."""
        return self if self.holds(host) else RemoveFolder(self.path)

    def holds(self, host: Host) -> bool:
        """Whether a folder is there."""
        return host.exists(self.path) and host.stat(self.path).kind == "dir"

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder above it that cannot be written."""
        return None if self.holds(host) else obstacle_to(host, self.path)

    def apply(self, host: MutableHost) -> None:
        """Make it."""
        host.make_folder(self.path, mode=self.mode)


@dataclass(frozen=True, slots=True)
class RemoveFolder:
    """Remove a folder if it is empty."""

    path: str

    def preview(self, host: Host) -> str:
        """The folder that goes."""
        return "" if self.holds(host) else f"{self.path}: the folder is removed if it is empty\n"

    def inverse(self, host: Host) -> Step:
        """The folder as it is."""
        return self if self.holds(host) else MakeFolder(self.path, host.stat(self.path).mode)

    def holds(self, host: Host) -> bool:
        """Whether nothing is there."""
        return not host.exists(self.path)

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder above it that cannot be written."""
        return None if self.holds(host) else obstacle_to(host, self.path)

    def apply(self, host: MutableHost) -> None:
        """Remove it."""
        host.remove_folder(self.path)


def writing(host: Host, path: str, content: str, mode: int | None = None) -> Iterator[Step]:
    """The steps that write a file: the folders above it that are missing, from the top, and the file."""
    missing = []
    folder = posixpath.dirname(path)
    while not host.exists(folder):
        missing.append(folder)
        folder = posixpath.dirname(folder)
    for one in reversed(missing):
        yield MakeFolder(one)
    yield WriteFile(path, content, mode)


def text_of(host: Host, path: str) -> tuple[str, str]:
    """The text of a file that a step will write again, empty where there is none, and the encoding that keeps it."""
    content = _bytes(host, path) or b""
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def _as_it_is(host: Host, path: str) -> WriteFile:
    """The step that brings a file back as it is now."""
    text, encoding = text_of(host, path)
    return WriteFile(path, text, None, metadata_of(host, path), encoding)


def metadata_of(host: Host, path: str) -> FileMetadata:
    """What a file has besides its content."""
    found = host.stat(path)
    asked = getattr(host, "attributes", None)
    there = asked(real_path(host, path)) if asked else {}
    attributes = tuple((name, value.decode("latin-1")) for name, value in sorted(there.items()))
    return FileMetadata(mode=found.mode, uid=found.uid, gid=found.gid, attributes=attributes)


def obstacle_to(host: Host, path: str) -> Obstacle | None:
    """Why this user cannot, or should not, change a file: a folder without the right, or a path that others control."""
    target = real_path(host, path)
    folder = posixpath.dirname(target)
    while folder != "/" and not host.exists(folder):
        folder = posixpath.dirname(folder)
    if "w" not in access_to(host, folder):
        root = host.user.uid != 0
        return Obstacle(f"{folder} cannot be written by {host.user.name}", root=root)
    if problem := untrusted_writer(host, path):
        return Obstacle(problem)
    if host.user.uid == 0 and (shared := _shared_folder(host, path)):
        return Obstacle(f"all users can write {shared}; give a path in a folder that only root can write")
    return None


def _shared_folder(host: Host, path: str) -> str | None:
    """A folder on the way in which everybody could put the next part, because it is not there or not root's."""
    look = getattr(host, "link_stat", None)
    if look is None:
        return None
    parts = path.split("/")
    for count in range(1, len(parts)):
        folder = "/".join(parts[:count]) or "/"
        if not host.exists(folder):
            return None
        entry = look("/".join(parts[: count + 1]))
        if host.stat(folder).mode & stat.S_IWOTH and (entry is None or entry.uid != 0):
            return folder
    return None


def untrusted_writer(host: Host, path: str, *, only_root: bool = False) -> str | None:
    """Who besides root (and this user) could change what lies at a path, or where it leads; None where nobody could."""
    look = getattr(host, "link_stat", None)
    if look is None:
        return None
    users, groups = ((), ()) if only_root or host.user.uid == 0 else ((host.user.uid,), (host.user.gid,))
    if getattr(host, "rooted", True):
        writer = foreign_writer(path, look=look, read_link=host.read_link, users=users, groups=groups)
    else:
        writer = foreign_writer(path, users=users, groups=groups)
    return writer.reason if writer else None


def _bytes(host: Host, path: str) -> bytes | None:
    try:
        if not host.exists(path):
            return None
        if host.stat(path).size > LARGEST_BYTES:
            raise StepFailed(f"{path} is larger than {LARGEST_BYTES >> 20} MiB")
        return host.read_bytes(path)
    except Unavailable as why:
        raise StepFailed(why.reason) from why


def _text(host: Host, path: str, encoding: str = "utf-8") -> str | None:
    content = _bytes(host, path)
    return None if content is None else content.decode(encoding, "replace")


def unified(path: str, old: str, new: str, *, gone: bool = False) -> str:
    """A unified diff between what a file holds now and what it would hold; empty where they are the same."""
    import difflib  # here, because a check never needs it

    then = "/dev/null" if gone else f"{path} (then)"
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"{path} (now)", then)
    shown = (line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)
    return "".join(shown)
