"""The files that `npudoctor explain --log` reads: named files, and all regular files of named folders.

Other users may be able to write in a folder. A pipe or a device in it would block the reader for ever, and a link would
make root read what the link's owner cannot; so only regular files are read in a folder, and links in it are followed
only for plain users, within their permissions.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from npudoctor.cli.output import UsageError
from npudoctor.records import record

STDIN = "-"
_HANDED_IN = re.compile(r"/dev/(stdin|fd/\d+)|/proc/self/fd/\d+")
"""Paths that a shell passes for `<(command)`: a pipe to be read to its end."""

_ROTATED = re.compile(
    r"(?P<name>.+\.(?:log|out|err|txt))[.-](?:(?P<number>\d{1,3})|(?P<date>20\d{6}(?:-\d{4,10})?))(?:\.gz)?"
)
"""A part of a log that was rotated: `name.1`, `name.2.gz`, `name-20250401.gz`, `0.log.20250401-101112`."""

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@record(frozen=True)
class _Log:
    """A file to read; `folder` is the named folder that it was found in, `size` None where unknown."""

    path: str
    folder: str | None
    size: int | None


class Logs:
    """The named files and folders; raises UsageError for one that cannot be read."""

    def __init__(self, names: Sequence[str]) -> None:
        self._passed_over: Counter[str] = Counter()
        self._found = [log for name in names for log in self._look_up(name)]

    @property
    def total_bytes(self) -> int | None:
        """Bytes to read; None where unknown."""
        sizes = [log.size for log in self._found]
        return None if None in sizes else sum(filter(None, sizes))

    def skip_clauses(self) -> Iterator[str]:
        """What was skipped in folders, a clause for each kind."""
        for what, count in sorted(self._passed_over.items()):
            yield f"skipped: {what}: {count}"

    def read(self, length: int) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Name and content of each file, in blocks of `length` bytes."""
        for log in self._found:
            if log.path == STDIN:
                yield "stdin", _blocks(sys.stdin.fileno(), log, length)
                continue
            try:
                descriptor = _open(log)
            except OSError as problem:
                if log.folder is None:
                    raise UsageError(f"{log.path}: {problem.strerror}") from problem
                self._passed_over["unreadable files"] += 1
                continue
            try:
                if log.folder is not None and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    self._passed_over[_kind(os.fstat(descriptor).st_mode)] += 1
                    continue
                yield log.path, _blocks(descriptor, log, length)
            finally:
                os.close(descriptor)

    def _look_up(self, name: str) -> Iterator[_Log]:
        if name == STDIN:
            if sys.stdin is None:
                raise UsageError("--log -: there is no stdin")
            yield _Log(name, None, None)
        elif os.path.isdir(name):
            yield from self._of_folder(name)
        else:
            yield _Log(name, None, _named_size(name))

    def _of_folder(self, name: str) -> Iterator[_Log]:
        follow = os.geteuid() != 0
        for folder, inner, files in os.walk(name):
            inner.sort()
            for path in (os.path.join(folder, file) for file in sorted(files, key=_oldest_first)):
                try:
                    found = os.stat(path, follow_symlinks=follow)
                except OSError:
                    self._passed_over["unreadable files"] += 1
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield _Log(path, name, found.st_size)
                else:
                    self._passed_over[_kind(found.st_mode)] += 1


def _oldest_first(name: str) -> tuple[str, int, str]:
    """The order of a folder's files: the rotated parts of a log, the oldest first, before the log itself."""
    found = _ROTATED.fullmatch(name)
    if not found:
        return name.removesuffix(".gz"), 1, ""
    number = found["number"]
    return found["name"], -int(number) if number else 0, found["date"] or ""


def _kind(mode: int) -> str:
    return "symbolic links, which root does not follow" if stat.S_ISLNK(mode) else "pipes, sockets and devices"


def _named_size(path: str) -> int | None:
    """Bytes to read of a file that was named; raises UsageError for what is no regular file or cannot be read."""
    try:
        descriptor = _open(_Log(path, None, None))
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}") from problem
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    if _HANDED_IN.fullmatch(path):
        return None
    raise UsageError(f"{path}: expected a regular file or a folder; what comes through a pipe is read by --log -")


def _open(log: _Log) -> int:
    """Open a file; below a folder, as root, part by part, so that no link leads out whatever is exchanged meanwhile."""
    if log.folder is None or os.geteuid() != 0:
        return os.open(log.path, _FLAGS)
    parts = os.path.relpath(log.path, log.folder).split("/")
    descriptor = os.open(log.folder, _FLAGS | os.O_DIRECTORY)
    for part in parts:
        above = descriptor
        try:
            descriptor = os.open(part, _FLAGS | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def _blocks(descriptor: int, log: _Log, length: int) -> Iterator[bytes]:
    """What is in a file; of one whose size is known not more, so that one that grows has an end."""
    left = log.size or sys.maxsize
    try:
        if log.size is None:
            os.set_blocking(descriptor, True)
        while left > 0 and (block := os.read(descriptor, min(length, left))):
            left -= len(block)
            yield block
    except OSError as problem:
        raise UsageError(f"{log.path}: {problem.strerror}") from problem
