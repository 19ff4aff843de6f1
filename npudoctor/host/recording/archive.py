"""Reading an archive that is not trusted: all of it is looked through, then all or nothing of it is used."""

from __future__ import annotations

import contextlib
import os
import posixpath
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import BinaryIO

from npudoctor.control_characters import escape
from npudoctor.host import BundleError
from npudoctor.host.recording.tar_headers import BrokenTar, Member, members
from npudoctor.records import record

MAX_ENTRIES = 20_000
MAX_UNPACKED_BYTES = 256 << 20
MAX_PACKED_BYTES = 300 << 20
MAX_DEPTH = 100
"""A real node's deepest paths, in the packages of a Python, have about 20 parts."""

LONGEST_NAME, LONGEST_PATH = 255, 4096
"""What Linux allows (NAME_MAX and PATH_MAX, limits.h), here in characters."""

MAX_PARTS = 10_000
"""Compressed parts (RFC 1952: members), one after the other, of which an archive may consist; `record` writes one."""

AT_ONCE_BYTES = 32 << 20
"""An archive that unpacks to more is looked through before any of it is kept, so that a refused one takes no memory."""

_MAX_HEADER_BYTES = 1 << 20
_SHOWN = 200
_PIECE = 1 << 16
_GZIP = zlib.MAX_WBITS | 16
_PAST_THE_FILES = MAX_ENTRIES * 4096


@record(frozen=True)
class Held:
    """What is in an archive: files by name, the names of its folders, and its symbolic links by name."""

    files: Mapping[str, bytes]
    folders: Collection[str]
    links: Mapping[str, str]


def hold(path: str) -> Held:
    """Read a .tar.gz into memory; nothing is written anywhere, so that nothing is left when the process is killed.

    Raises BundleError for an absolute path, a `..`, a link that leaves the archive, a device node, folders nested more
    than 100 deep, more than 20,000 entries, more than 256 MiB unpacked, and for what is no such archive.
    """
    files: dict[str, bytes] = {}
    with _explain_errors(path), open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_PACKED_BYTES:
            raise BundleError(f"{path} is refused: it is larger than {MAX_PACKED_BYTES >> 20} MiB")
        found = _look_through(file, path, files, AT_ONCE_BYTES)
        if sum(map(len, files.values())) < sum(member.size for member in found.values() if member.kind == "file"):
            file.seek(0)
            _look_through(file, path, files, MAX_UNPACKED_BYTES)
    own = {name: files[name] for name, member in found.items() if member.kind == "file"}
    for name, member in found.items():
        if member.kind == "hard link":
            target = posixpath.normpath(member.target)
            if target not in own:
                raise BundleError(f"{path} is refused: the hard link {_show_name(name)} leads to no file")
            own[name] = own[target]
    folders = [name for name, member in found.items() if member.kind == "dir"]
    return Held(own, folders, _links(found))


def _links(found: Mapping[str, Member]) -> dict[str, str]:
    return {name: member.target for name, member in found.items() if member.kind == "link"}


@contextlib.contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    """Say in one line what is wrong with an archive."""
    try:
        yield
    except BundleError:
        raise
    except (BrokenTar, EOFError, zlib.error) as problem:
        what = "another file, or a damaged one" if isinstance(problem, zlib.error) else str(problem)[:80]
        raise BundleError(f"{path} is not a .tar.gz that can be read ({what})") from None
    except OSError as problem:
        raise BundleError(f"{path} cannot be read: {problem.strerror or problem}") from None


def _decompress(file: BinaryIO, path: str) -> Iterator[bytes]:
    """What a gzip file holds, piece by piece; the standard library's reader bounds no number of compressed parts."""
    parts, inflater, packed = 1, zlib.decompressobj(_GZIP), file.read(_PIECE)
    while packed:
        yield inflater.decompress(packed, _PIECE)
        if not inflater.eof:
            packed = inflater.unconsumed_tail or file.read(_PIECE)
            continue
        packed = inflater.unused_data.lstrip(b"\0")
        while not packed and (more := file.read(_PIECE)):
            packed = more.lstrip(b"\0")
        if packed:
            parts, inflater = parts + 1, zlib.decompressobj(_GZIP)
            if parts > MAX_PARTS:
                raise BundleError(f"{path} is refused: it has more than {MAX_PARTS:,} compressed parts")
    if not inflater.eof:
        yield inflater.flush()
    if not inflater.eof:
        raise EOFError("it ends too early")


class _Forward:
    """The decompressed archive, read forward only; refuses to grow past the limits, however small the archive is."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._pieces = _decompress(file, path)
        self._ready = b""
        self._used = 0
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
        return self._advance(self._read(size))

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next bytes, piece by piece; raises BrokenTar where there are not so many."""
        while size > 0:
            piece = self._advance(self._read(min(_PIECE, size)))
            if not piece:
                raise BrokenTar("unexpected end of data")
            size -= len(piece)
            yield piece

    def content(self, size: int) -> bytes:
        """The next bytes as a whole, without holding them twice."""
        content = bytearray(size)
        at = 0
        for piece in self.pieces(size):
            content[at : at + len(piece)] = piece
            at += len(piece)
        return content  # type: ignore[return-value]  # turning it into bytes would take as much memory again

    def finish(self) -> None:
        """Read to the end, where gzip's own sum is compared; raises BrokenTar where anything but zeros follows."""
        while piece := self._advance(self._read(_PIECE)):
            if piece.strip(b"\0"):
                raise BrokenTar("something follows its end")

    def _read(self, size: int) -> bytes:
        while len(self._ready) - self._used < size and (piece := next(self._pieces, None)) is not None:
            self._ready, self._used = self._ready[self._used :] + piece, 0
        found = self._ready[self._used : self._used + size]
        self._used += len(found)
        return found

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
            keep[name] = stream.content(member.size)
        stream.header_left = _MAX_HEADER_BYTES
    stream.finish()
    _must_be_a_tree(found, path)
    return found


def _must_be_a_tree(found: Mapping[str, Member], path: str) -> None:
    """Refuse what is below something that is no folder."""
    leaves = {name for name, member in found.items() if member.kind != "dir"}
    folders = {posixpath.dirname(name) for name in found}
    for folder in folders:
        above = folder
        while above:
            if above in leaves:
                below = next(name for name in found if name.startswith(f"{above}/"))
                raise BundleError(
                    f"{path} is refused: {_show_name(below)} is below {_show_name(above)}, which is no folder"
                )
            above = posixpath.dirname(above)


def _clean_name(name: str, path: str) -> str:
    if name.startswith("/"):
        raise BundleError(f"{path} is refused: {_show_name(name)} is an absolute path")
    parts = name.split("/")
    if ".." in parts:
        raise BundleError(f"{path} is refused: {_show_name(name)} has a .. in it")
    if "\0" in name or not name:
        raise BundleError(f"{path} is refused: {_show_name(name)} is no file name")
    if len(parts) > MAX_DEPTH:
        raise BundleError(f"{path} is refused: {_show_name(name)} is nested more than {MAX_DEPTH} folders deep")
    if max(map(len, parts)) > LONGEST_NAME or len(name) > LONGEST_PATH:
        raise BundleError(f"{path} is refused: {_show_name(name)} is longer than a path can be")
    return posixpath.normpath(name)


def _link_error(name: str, target: str, path: str) -> BundleError:
    return BundleError(f"{path} is refused: the link {_show_name(name)} leaves the bundle (to {_show_name(target)})")


def _show_name(name: str) -> str:
    """The name of a member as it may be in a line: control characters escaped, and not without end."""
    text = escape(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _accept(member: Member, name: str, path: str) -> None:
    if member.kind == "link":
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.target))
        if member.target.startswith("/") or target.split("/")[0] == "..":
            raise _link_error(name, member.target, path)
    elif member.kind == "other":
        raise BundleError(f"{path} is refused: {_show_name(name)} is neither a file nor a folder nor a link")


def _size(member: Member, before: Mapping[str, Member], path: str) -> int:
    """What a member will take on disk, in bytes: a hard link is unpacked as a copy of the file that it names."""
    if member.kind != "hard link":
        return member.size if member.kind == "file" else 0
    original = before.get(_clean_name(member.target, path))
    if original is None or original.kind != "file":
        raise _link_error(member.name, member.target, path)
    return original.size
