"""Files of this machine that a person, or a user's environment, names: read and written without being led elsewhere.

Reading never waits on a pipe, never runs a device, and ends at a bound. Writing makes a new file beside the old one and
renames it, relative to the folder that was opened, and never goes through a symbolic link of another user.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from npudoctor.host import Refused
from npudoctor.host.live.opening import no_foreign_link, only_trusted, open_place
from npudoctor.host.live.trust import Trusted, entry_of, foreign_writer, trusted_by

LIMIT_BYTES = 1 << 20
"""No file that decides anything is larger."""


class Unreadable(Exception):
    """A file that is not read; the text is one clause that names it and says why and, where it helps, what to do."""


class Untrusted(Unreadable):
    """A file that is not believed, because somebody else could have written it."""


def read_bounded(path: str, limit: int = LIMIT_BYTES) -> bytes:
    """The content of a regular file of at most `limit` bytes; raises Unreadable."""
    return _read(path, limit, None)[0]


def read_owned(path: str, limit: int = LIMIT_BYTES) -> tuple[bytes, int]:
    """The same, with the number of the user who owns the file that was read."""
    content, found = _read(path, limit, None)
    return content, found.st_uid


def read_trusted(path: str, limit: int = LIMIT_BYTES) -> bytes:
    """The same where no user but root and this user could have written it; raises Untrusted where somebody could.

    The file is opened once: what is judged and what is read are the same.
    """
    return _read(path, limit, trusted_by())[0]


def read_as(path: str, limit: int = LIMIT_BYTES) -> bytes:
    """The same for what others hand over: as root only what no other user could have written."""
    return read_bounded(path, limit) if os.geteuid() else read_trusted(path, limit)


def _read(path: str, limit: int, trusted: Trusted | None) -> tuple[bytes, os.stat_result]:
    try:
        _must_be_regular(path, os.stat(path))  # before it is opened: opening a device may already do something
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(handle, "rb", buffering=0) as file:
            found = os.fstat(handle)
            _must_be_regular(path, found)
            if trusted is not None:
                _must_be_trusted(path, found, trusted)
            if found.st_size > limit:
                raise Unreadable(_too_large(path, limit))
            return _bytes(file, path, limit), found
    except (OSError, ValueError) as problem:  # ValueError: a path with a zero byte
        raise Unreadable(f"{path}: {getattr(problem, 'strerror', None) or problem}") from problem


def _bytes(file: BinaryIO, path: str, limit: int) -> bytes:
    pieces = bytearray()
    while piece := file.read(limit + 1 - len(pieces)):
        pieces += piece
        if len(pieces) > limit:
            raise Unreadable(_too_large(path, limit))
    return bytes(pieces)


def _too_large(path: str, limit: int) -> str:
    size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
    return f"{path} is too large: at most {size} are read"


def _must_be_regular(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, socket or device"
        raise Unreadable(f"{path} must be a regular file; it is {what}")


def _must_be_trusted(path: str, found: os.stat_result, trusted: Trusted) -> None:
    """Judge the whole path, and that the file that is open is the one at its end."""
    if reason := why_untrusted(path):
        raise Untrusted(f"{path} is refused: {reason}")
    if writer := trusted.objection(entry_of(found), path, acl=None):
        raise Untrusted(f"{path} is refused: {writer.reason}")
    now = os.stat(path)
    if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino):
        raise Untrusted(f"{path} is refused: it was replaced while it was read; try again")


def why_untrusted(path: str) -> str | None:
    """Who besides root and this user could change what is at a path, and what to do; None where no user could."""
    writer = foreign_writer(_absolute_path(path))
    if writer is None:
        return None
    return writer.reason if "chmod" in writer.reason else f"{writer.reason}; chown it, or copy it to a folder of yours"


def _absolute_path(path: str) -> str:
    """The path from the root on; a `..` in it stays, because links decide what it means."""
    return path if path.startswith("/") else os.path.join(os.getcwd(), path)


@contextlib.contextmanager
def open_replacement(path: str, *, mode: int = 0o600, replace: bool = True, ours: bool = False) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends well; the old one stays where it does not.

    `ours` is for a path that the user did not name: then no other user may be able to change the folder. Raises
    FileExistsError where something is there that is not to be replaced, Refused where another user leads it elsewhere,
    and OSError.
    """
    judge = only_trusted if ours else no_foreign_link
    with open_place(_absolute_path(path), judge) as place:
        beside = f".npudoctor-{os.getpid()}-{os.urandom(4).hex()}"
        handle = place.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, name=beside)
        try:
            with open(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(handle)
            if replace:
                _must_be_replaceable(path, place.stat)
                os.rename(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            else:
                os.link(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=place.folder)


def make_folders(path: str, *, mode: int = 0o700) -> None:
    """Make a folder of npudoctor's own and those above it that are missing; raises as `written` does."""
    missing = [_absolute_path(path)]
    while not os.path.lexists(above := os.path.dirname(missing[-1])):
        missing.append(above)
    for one in reversed(missing):
        with open_place(one) as place:
            if place.entry is None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(place.name, mode, dir_fd=place.folder)


def append(path: str, text: str) -> None:
    """Add to a file of npudoctor's own, which only this user may read; raises as `written` does."""
    make_folders(os.path.dirname(_absolute_path(path)))
    with open_place(_absolute_path(path)) as place:
        handle = place.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK)
        with open(handle, "a", encoding="utf-8", errors="backslashreplace") as file:
            _must_be_regular(path, os.fstat(handle))
            file.write(text)


def _must_be_replaceable(path: str, found: os.stat_result | None) -> None:
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise Refused(f"{path} must be a regular file or not exist")
