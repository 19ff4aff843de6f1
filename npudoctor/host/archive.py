"""Unpacking an archive that nobody vouches for: first all of it is looked through, then all or nothing is unpacked."""

from __future__ import annotations

import contextlib
import gzip
import os
import posixpath
import shutil
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import BinaryIO

from npudoctor.host import BundleError
from npudoctor.host.tar_headers import BrokenTar, Member, members
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
        found = _look_through(file, path)
        file.seek(0)
        _extract(file, path, found, into)
    return _links(found)


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
        found = _look_through(file, path, files, most_bytes)
    own = {name: files.get(name) for name, member in found.items() if member.kind == "file"}
    for name, member in found.items():
        if member.kind == "hard link":
            own[name] = own[posixpath.normpath(member.target)]
    if None in own.values():
        return None
    folders = [name for name, member in found.items() if member.kind == "dir"]
    return Held({name: content for name, content in own.items() if content is not None}, folders, _links(found))


def _links(found: Mapping[str, Member]) -> dict[str, str]:
    return {name: member.target for name, member in found.items() if member.kind == "link"}


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Say in one line what is wrong with an archive."""
    try:
        yield
    except BundleError:
        raise
    except (BrokenTar, EOFError, zlib.error, gzip.BadGzipFile) as problem:
        said = str(problem).partition(" (b'")[0]  # not the first bytes of what is no gzip file
        raise BundleError(f"{path} is not a .tar.gz that can be read ({said[:80]})") from None
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
        """How far it was read."""
        return self._at

    def skip(self, position: int) -> None:
        """Read on to a position."""
        for _ in self.pieces(position - self._at):
            pass

    def header(self, size: int) -> bytes:
        """The next bytes of a header."""
        if size > self.header_left:
            raise BundleError(f"{self._path} is refused: one of its headers is larger than 1 MiB")
        self.header_left -= size
        return self._advance(self._stream.read(size))

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next bytes, piece by piece; raises BrokenTar where there are not so many."""
        while size > 0:
            piece = self._advance(self._stream.read(min(_PIECE, size)))
            if not piece:
                raise BrokenTar("unexpected end of data")
            size -= len(piece)
            yield piece

    def finish(self) -> None:
        """Read to the end, where gzip's own sum is compared; raises BrokenTar where anything but zeros follows."""
        while piece := self._advance(self._stream.read(_PIECE)):
            if piece.strip(b"\0"):
                raise BrokenTar("something follows its end")

    def _advance(self, piece: bytes) -> bytes:
        self._at += len(piece)
        if self._at > MAX_UNPACKED_BYTES + _PAST_THE_FILES:
            raise BundleError(f"{self._path} is refused: it unpacks to more than 256 MiB")
        return piece


def _look_through(
    file: BinaryIO, path: str, keep: dict[str, bytes] | None = None, most_bytes: int = 0
) -> dict[str, Member]:
    """The members by their cleaned names, after every one of them was found acceptable.

    `keep` takes the contents of files, as long as they are at most `most_bytes` together.
    """
    found: dict[str, Member] = {}
    total = 0
    stream = _Forward(file, path)
    for count, member in enumerate(members(stream), 1):
        if count > MAX_ENTRIES:
            raise BundleError(f"{path} is refused: it has more than 20,000 entries")
        name = _clean_name(member.name, path)
        _accept(member, name, path)
        total += _size(member, found, path)
        if total > MAX_UNPACKED_BYTES:
            raise BundleError(f"{path} is refused: it unpacks to more than 256 MiB")
        found[name] = member
        if keep is not None and member.kind == "file" and total <= most_bytes:
            keep[name] = b"".join(stream.pieces(member.size))
        stream.header_left = _MAX_HEADER_BYTES
    stream.finish()
    _must_be_a_tree(found, path)
    return found


def _must_be_a_tree(found: Mapping[str, Member], path: str) -> None:
    """Refuse what lies below something that is no folder."""
    leaves = {name for name, member in found.items() if member.kind != "dir"}
    folders = {posixpath.dirname(name) for name in found}
    for folder in folders:
        above = folder
        while above:
            if above in leaves:
                below = next(name for name in found if name.startswith(f"{above}/"))
                raise BundleError(f"{path} is refused: {below} lies below {above}, which is no folder")
            above = posixpath.dirname(above)


def _clean_name(name: str, path: str) -> str:
    if name.startswith("/"):
        raise BundleError(f"{path} is refused: {name!r} is an absolute path")
    if ".." in name.split("/"):
        raise BundleError(f"{path} is refused: {name!r} has a .. in it")
    if "\0" in name or not name:
        raise BundleError(f"{path} is refused: {name!r} is no file name")
    return posixpath.normpath(name)


def _accept(member: Member, name: str, path: str) -> None:
    if member.kind == "link":
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.target))
        if member.target.startswith("/") or target.split("/")[0] == "..":
            raise BundleError(f"{path} is refused: the link {name} leaves the bundle (to {member.target!r})")
    elif member.kind == "other":
        raise BundleError(f"{path} is refused: {name} is neither a file nor a folder nor a link")


def _size(member: Member, before: Mapping[str, Member], path: str) -> int:
    """What a member will take on disk, in bytes: a hard link is unpacked as a copy of the file that it names."""
    if member.kind != "hard link":
        return member.size if member.kind == "file" else 0
    original = before.get(_clean_name(member.target, path))
    if original is None or original.kind != "file":
        raise BundleError(f"{path} is refused: the link {member.name} leaves the bundle (to {member.target!r})")
    return original.size


def _extract(file: BinaryIO, path: str, found: Mapping[str, Member], into: str) -> None:
    """Write folders and files with plain permissions; nothing that the archive says of owners and modes is used."""
    stream = _Forward(file, path)
    for name, member in sorted(found.items(), key=lambda item: (item[1].kind == "hard link", item[1].offset)):
        target = os.path.join(into, name)
        if member.kind == "dir":
            os.makedirs(target, exist_ok=True)
        elif member.kind == "file":
            os.makedirs(os.path.dirname(target), exist_ok=True)
            stream.skip(member.offset)
            with open(target, "xb") as copy:
                copy.writelines(stream.pieces(member.size))
        elif member.kind == "hard link":
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(into, posixpath.normpath(member.target)), target)
