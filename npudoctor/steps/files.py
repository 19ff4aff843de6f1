"""Steps that change files and folders; bytes that are no UTF-8 are carried as latin-1, so that none is lost."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterator

from npudoctor.host import Host, MutableHost, Unavailable, is_mutable, real_path
from npudoctor.host.live.trust import foreign_writer
from npudoctor.privacy.credentials import mask
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, access_to, messages

LARGEST_BYTES = 8 << 20
"""A fix does not replace larger files."""


@record(frozen=True, kw_only=True)
class FileMetadata:
    """Permission bits, owner, group, and extended attributes of a file by name."""

    mode: int
    uid: int
    gid: int
    attributes: tuple[tuple[str, str], ...] = ()


@record(frozen=True)
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
        change = ""
        if old is None and not self.content:
            change = messages.NEW_EMPTY_FILE.text(path=self.path)
        elif old is not None and self.mode is not None and self.mode != (mode := host.stat(self.path).mode):
            change = messages.MODE_CHANGES.text(path=self.path, old=mode, new=self.mode)
        return change + unified_diff(self.path, old or "", self.content)

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
        """A folder that is not writable, or a path that another user controls."""
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


@record(frozen=True)
class RemoveFile:
    """Remove a file; one that is not there is no error."""

    path: str

    def preview(self, host: Host) -> str:
        """A unified diff to nothing."""
        return unified_diff(self.path, _text(host, self.path) or "", "", gone=True)

    def inverse(self, host: Host) -> Step:
        """The file as it is; where there is none, its absence."""
        old = _text(host, self.path)
        return self if old is None else _as_it_is(host, self.path)

    def holds(self, host: Host) -> bool:
        """Whether nothing is there."""
        return not host.exists(self.path)

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder that is not writable, or a path that another user controls."""
        return obstacle_to(host, self.path)

    def apply(self, host: MutableHost) -> None:
        """Remove it, and what a killed writing of it left."""
        host.sweep(self.path)
        host.remove(self.path, follow=True)


@record(frozen=True)
class MakeFolder:
    """Make one folder in a folder that is there."""

    path: str
    mode: int = 0o755

    def preview(self, host: Host) -> str:
        """The folder that is new."""
        return "" if self.holds(host) else messages.NEW_FOLDER.text(path=self.path, mode=self.mode)

    def inverse(self, host: Host) -> Step:
        """Its removal, if it is empty then; nothing where it is there already."""
        return self if self.holds(host) else RemoveFolder(self.path)

    def holds(self, host: Host) -> bool:
        """Whether a folder is there."""
        return host.exists(self.path) and host.stat(self.path).kind == "dir"

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder above it that is not writable."""
        return None if self.holds(host) else obstacle_to(host, self.path)

    def apply(self, host: MutableHost) -> None:
        """Make it."""
        host.make_folder(self.path, mode=self.mode)


@record(frozen=True)
class RemoveFolder:
    """Remove a folder if it is empty."""

    path: str

    def preview(self, host: Host) -> str:
        """The folder that goes."""
        return "" if self.holds(host) else messages.FOLDER_REMOVED.text(path=self.path)

    def inverse(self, host: Host) -> Step:
        """The folder as it is."""
        return self if self.holds(host) else MakeFolder(self.path, host.stat(self.path).mode)

    def holds(self, host: Host) -> bool:
        """Whether nothing is there."""
        return not host.exists(self.path)

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder above it that is not writable."""
        return None if self.holds(host) else obstacle_to(host, self.path)

    def apply(self, host: MutableHost) -> None:
        """Remove it."""
        host.remove_folder(self.path)


@record(frozen=True)
class SetLink:
    """Let a symbolic link lead to `target`, as it is written in the link; empty removes the link."""

    path: str
    target: str

    def preview(self, host: Host) -> str:
        """Old → new target."""
        absent, gone = messages.NOT_INSTALLED.text(), messages.REMOVED.text()
        old, new = host.read_link(self.path) or absent, self.target or gone
        return messages.LINK_CHANGES.text(path=self.path, old=old, new=new)

    def inverse(self, host: Host) -> Step:
        """The target that it has, or its absence."""
        return SetLink(self.path, host.read_link(self.path) or "")

    def holds(self, host: Host) -> bool:
        """Whether the link leads there."""
        return (host.read_link(self.path) or "") == self.target and (bool(self.target) or not host.exists(self.path))

    def obstacle(self, host: Host) -> Obstacle | None:
        """Something there that is no link, or a folder that is not writable or that others control."""
        if host.read_link(self.path) is None and host.exists(self.path):
            return Obstacle(messages.NOT_A_LINK.text(path=self.path))
        return obstacle_to(host, posixpath.dirname(self.path) + "/.npudoctor-link")

    def apply(self, host: MutableHost) -> None:
        """Replace it in one operation; what is no link is left alone."""
        if refused := self.obstacle(host):
            raise StepFailed(refused.reason)
        host.sweep(self.path, follow=False)
        if self.target:
            host.write_link(self.path, self.target)
        else:
            host.remove(self.path)


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
    """The metadata of a file as it is now."""
    found = host.stat(path)
    there = host.attributes(real_path(host, path)) if is_mutable(host) else {}
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
        return Obstacle(messages.NOT_WRITABLE.text(path=folder, user=host.user.name), root=root)
    if problem := untrusted_writer(host, path):
        return Obstacle(problem)
    if host.user.uid == 0 and (shared := _shared_folder(host, path)):
        return Obstacle(messages.WRITABLE_BY_ALL.text(path=shared))
    return None


def _shared_folder(host: Host, path: str) -> str | None:
    """A folder on the way in which everybody could put the next part, because it is not there or not root's."""
    if not is_mutable(host):
        return None
    parts = path.split("/")
    for count in range(1, len(parts)):
        folder = "/".join(parts[:count]) or "/"
        if not host.exists(folder):
            return None
        entry = host.link_stat("/".join(parts[: count + 1]))
        if host.stat(folder).mode & stat.S_IWOTH and (entry is None or entry.uid != 0):
            return folder
    return None


def untrusted_writer(host: Host, path: str, *, only_root: bool = False) -> str | None:
    """Who besides root (and this user) could change a path or where it leads, as a clause; None if no one could."""
    if not is_mutable(host) and (host.about.source != "live" or host.rooted):
        return None  # a check asks this machine through a host that cannot change it: that is judged, too
    users, groups = ((), ()) if only_root or host.user.uid == 0 else ((host.user.uid,), (host.user.gid,))
    if is_mutable(host) and host.rooted:
        writer = foreign_writer(path, look=host.link_stat, read_link=host.read_link, users=users, groups=groups)
    else:
        writer = foreign_writer(path, users=users, groups=groups)
    return writer.reason if writer else None


def _bytes(host: Host, path: str) -> bytes | None:
    try:
        if not host.exists(path):
            return None
        if host.stat(path).size > LARGEST_BYTES:
            raise StepFailed(messages.TOO_LARGE.text(path=path, limit=LARGEST_BYTES >> 20))
        return host.read_bytes(path)
    except Unavailable as why:
        raise StepFailed(why.reason) from why


def _text(host: Host, path: str, encoding: str = "utf-8") -> str | None:
    content = _bytes(host, path)
    return None if content is None else content.decode(encoding, "replace")


def unified_diff(path: str, old: str, new: str, *, gone: bool = False) -> str:
    """A unified diff between what a file holds now and what it would hold, credentials masked; empty if the same."""
    import difflib  # here, because a check never needs it

    then = "/dev/null" if gone else f"{path} (then)"
    if (masked_old := mask(old)) != (masked_new := mask(new)):  # else only credentials change: shown line by line
        old, new = masked_old, masked_new
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"{path} (now)", then)
    shown = (f"{line[:1]}{mask(line[1:])}" for line in lines)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in shown)
