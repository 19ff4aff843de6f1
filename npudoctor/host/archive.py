"""Unpacking an archive that nobody vouches for: first all of it is looked through, then all or nothing is unpacked."""

from __future__ import annotations

import contextlib
import gzip
import os
import posixpath
import shutil
import tarfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import BinaryIO

from npudoctor.host import BundleError
from npudoctor.records import dataclass

MAX_ENTRIES = 20_000
MAX_UNPACKED_BYTES = 256 << 20
_MAX_HEADER_BYTES = 1 << 20
_PIECE = 1 << 16
_PAST_THE_FILES = MAX_ENTRIES * 4096


def unpack(path: str, into: str) -> dict[str, str]:
    """Unpack a .tar.gz into an empty folder; its symbolic links are returned, by path, and not made.

    Raises BundleError, having unpacked nothing, for an absolute path, a `..`, a link that leaves the archive, a device
    node, more than 20,000 entries, more than 256 MiB unpacked, and for what is no such archive.
    """
    with _explained(path), open(path, "rb") as file:
        members = _look_through(file, path)
        file.seek(0)
        _extract(file, members, into)
    return {name: member.linkname for name, member in members.items() if member.issym()}


@dataclass(frozen=True)
class Held:
    """What is in an archive: files by name, the names of its folders, and its symbolic links by name."""

    files: Mapping[str, bytes]
    folders: Collection[str]
    links: Mapping[str, str]


def hold(path: str, most_bytes: int) -> Held | None:
    """Read a .tar.gz into memory, with the same refusals as `unpack`; None where more than `most_bytes` are in it."""
    files: dict[str, bytes] = {}
    with _explained(path), open(path, "rb") as file:
        members = _look_through(file, path, files, most_bytes)
    if sum(member.size for member in members.values() if member.isreg()) > most_bytes:
        return None
    for name, member in members.items():
        if member.islnk():
            files[name] = files[posixpath.normpath(member.linkname)]
    return Held(
        files,
        [name for name, member in members.items() if member.isdir()],
        {name: member.linkname for name, member in members.items() if member.issym()},
    )


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Say in one line what is wrong with an archive."""
    try:
        yield
    except BundleError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise BundleError(f"{path} is not a .tar.gz that can be read ({str(problem)[:80]})") from None
    except OSError as problem:
        raise BundleError(f"{path} cannot be unpacked: {problem.strerror or problem}") from None


class _Forward:
    """The decompressed archive, read forward only; refuses to grow past the limits, however small the archive is."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._stream = gzip.GzipFile(fileobj=file)
        self._path = path
        self._at = 0
        self.header_left = _MAX_HEADER_BYTES

    def tell(self) -> int:
        return self._at

    def seek(self, position: int) -> int:
        if position < self._at:
            raise BundleError(f"{self._path} is refused: its headers point backwards")
        while self._at < position:
            if not self._advance(self._stream.read(min(_PIECE, position - self._at))):
                break
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self.header_left:
            raise BundleError(f"{self._path} is refused: one of its headers is larger than 1 MiB")
        self.header_left -= size
        return self._advance(self._stream.read(size))

    def content(self, member: tarfile.TarInfo) -> bytes:
        """The bytes of a file whose header was just read."""
        self.seek(member.offset_data)
        return self._advance(self._stream.read(member.size))

    def _advance(self, piece: bytes) -> bytes:
        self._at += len(piece)
        if self._at > MAX_UNPACKED_BYTES + _PAST_THE_FILES:
            raise BundleError(f"{self._path} is refused: it unpacks to more than 256 MiB")
        return piece


def _look_through(
    file: BinaryIO, path: str, keep: dict[str, bytes] | None = None, most_bytes: int = 0
) -> dict[str, tarfile.TarInfo]:
    """The members by their cleaned names, after every one of them was found acceptable.

    `keep` takes the contents of files, as long as they are at most `most_bytes` together.
    """
    members: dict[str, tarfile.TarInfo] = {}
    total = 0
    stream = _Forward(file, path)
    for count, member in enumerate(_members(stream), 1):
        if count > MAX_ENTRIES:
            raise BundleError(f"{path} is refused: it has more than 20,000 entries")
        name = _clean_name(member.name, path)
        _accept(member, name, path)
        total += _size(member, members, path)
        if total > MAX_UNPACKED_BYTES:
            raise BundleError(f"{path} is refused: it unpacks to more than 256 MiB")
        members[name] = member
        if keep is not None and member.isreg() and total <= most_bytes:
            keep[name] = stream.content(member)
    for name in members:
        above = posixpath.dirname(name)
        while above:
            if above in members and not members[above].isdir():
                raise BundleError(f"{path} is refused: {name} lies below {above}, which is no folder")
            above = posixpath.dirname(above)
    return members


def _members(stream: _Forward) -> Iterator[tarfile.TarInfo]:
    with tarfile.open(fileobj=stream, mode="r:") as tar:  # type: ignore[call-overload]
        while (member := tar.next()) is not None:
            yield member
            stream.header_left = _MAX_HEADER_BYTES


def _clean_name(name: str, path: str) -> str:
    if name.startswith("/"):
        raise BundleError(f"{path} is refused: {name!r} is an absolute path")
    if ".." in name.split("/"):
        raise BundleError(f"{path} is refused: {name!r} has a .. in it")
    if "\0" in name:
        raise BundleError(f"{path} is refused: {name!r} is no file name")
    return posixpath.normpath(name)


def _accept(member: tarfile.TarInfo, name: str, path: str) -> None:
    if member.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
        if member.linkname.startswith("/") or target.split("/")[0] == "..":
            raise BundleError(f"{path} is refused: the link {name} leaves the bundle (to {member.linkname!r})")
    elif not (member.isreg() or member.isdir() or member.islnk()) or member.issparse():
        raise BundleError(f"{path} is refused: {name} is neither a file nor a folder nor a link")


def _size(member: tarfile.TarInfo, before: dict[str, tarfile.TarInfo], path: str) -> int:
    """What a member will take on disk, in bytes: a hard link is unpacked as a copy of the file that it names."""
    if not member.islnk():
        return max(0, member.size) if member.isreg() else 0
    original = before.get(_clean_name(member.linkname, path))
    if original is None or not original.isreg():
        raise BundleError(f"{path} is refused: the link {member.name} leaves the bundle (to {member.linkname!r})")
    return original.size


def _extract(file: BinaryIO, members: dict[str, tarfile.TarInfo], into: str) -> None:
    """Write folders and files with plain permissions; nothing that the archive says of owners and modes is used."""
    in_order = sorted(members.items(), key=lambda item: (item[1].islnk(), item[1].offset_data))
    with gzip.GzipFile(fileobj=file) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
        for name, member in in_order:
            target = os.path.join(into, name)
            if member.isdir():
                os.makedirs(target, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if member.islnk():
                shutil.copyfile(os.path.join(into, posixpath.normpath(member.linkname)), target)
            elif member.isreg() and (source := tar.extractfile(member)) is not None:
                with source, open(target, "xb") as copy:
                    shutil.copyfileobj(source, copy, _PIECE)
