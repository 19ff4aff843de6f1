"""Unpacks gzip while a log is read, in bounded memory, and takes the lines of Docker's JSON logs out of their objects.

A damaged file is read as far as it goes. A file that unpacks to many times its size is a bomb: reading stops.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

MAGIC = b"\x1f\x8b"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How text begins that PowerShell's `>` wrote."""

PIECE = 1 << 20
"""Bytes that are handed out at once, and the most that one step unpacks."""

_STEP = 16 << 10
"""Packed bytes that are unpacked at once, so that little is lost before a damage."""

RATIO = 300
"""Bytes of a log per packed byte, from which a file is taken for a bomb; logs pack 5 to 60 times."""

FREE_BYTES = 256 << 20
"""Bytes that any file may unpack to."""

_ZEROS = re.compile(rb"\0{16,}")
_MAGIC = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
DOCKER = b'{"log":'
"""How each line of a log of Docker's json-file driver begins: {"log":"text\\n","stream":"stderr","time":"…Z"}."""


class Stopped(Exception):
    """Why a packed file was read in part; all that was unpacked before has been handed out."""


def unpack(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of a log in blocks, packed or not, UTF-16 as UTF-8; raises Stopped where a packed one ends early."""
    rest = iter(blocks)
    first = next(rest, b"")
    if first.startswith(UTF16):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield from (decoder.decode(block).encode() for block in chain([first], rest))
        return
    if not first.startswith(MAGIC):
        if first:
            yield first
            yield from rest
        return
    yield from _gunzip(first, rest)


def _gunzip(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """The unpacked content in pieces of about the same size; what precedes a damage is handed out before the reason."""
    kept: list[bytes] = []
    length = 0
    try:
        for piece in _inflate(chain([first], rest)):
            kept.append(piece)
            length += len(piece)
            if length >= PIECE:
                yield b"".join(kept)
                kept, length = [], 0
    except Stopped:
        yield b"".join(kept)
        raise
    if kept:
        yield b"".join(kept)


def _inflate(blocks: Iterator[bytes]) -> Iterator[bytes]:
    packed = out = 0
    member, whole = zlib.decompressobj(zlib.MAX_WBITS | 16), False
    for data in (block[at : at + _STEP] for block in blocks for at in range(0, len(block), _STEP)):
        packed += len(data)
        while data:
            if whole:  # another member, or padding behind the last one
                data = data.lstrip(b"\0")
                if not data:
                    break
                if not data.startswith(MAGIC[: len(data)]):
                    return
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                piece = member.decompress(data, PIECE)
            except zlib.error as problem:
                raise Stopped("a damaged gzip file") from problem
            whole = member.eof
            data = member.unused_data if whole else member.unconsumed_tail
            out += len(piece)
            if piece:
                yield piece
            if out > max(FREE_BYTES, packed * RATIO):
                raise Stopped(f"a gzip file that unpacks to more than {RATIO} times its size")
    if not whole:
        raise Stopped("a gzip file that ends early")


def why_unreadable(block: bytes) -> str | None:
    """Why the beginning of a file shows that it is no text that can be read; None for a text."""
    kind = next((kind for magic, kind in _MAGIC.items() if block.startswith(magic)), None)
    if kind:
        return f"compressed ({kind})"
    if b"\0" not in block[:8192]:
        return None
    text = _ZEROS.sub(b"", block)  # a log that was cut to nothing while its writer went on begins with a run of them
    return "binary" if not text or b"\0" in text[:8192] else None


def is_docker_json(block: bytes) -> bool:
    """Whether the first line of a log is one of Docker's json-file driver."""
    return block.startswith(DOCKER)


def without_json(data: bytes) -> bytes:
    """Lines of Docker's json-file driver in the form of Kubernetes' logs: time, stream, F, text; others as they are."""
    return b"\n".join(map(_container_line, data.split(b"\n")))


def _container_line(line: bytes) -> bytes:
    if not line.startswith(DOCKER):
        return line
    try:
        row = json.loads(line)
        text, stream, time = row["log"], row.get("stream", "stdout"), row.get("time", "")
        if not isinstance(text, str):
            return line
        return f"{time} {stream} F {text}".encode("utf-8", "replace").replace(b"\n", b"") if time else text.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return line


class Pieces:
    """The unpacked blocks of a file, and the reason where they stop early."""

    def __init__(self, blocks: Iterable[bytes], progress: Callable[[int], None]) -> None:
        self.reason: str | None = None
        self._progress = progress
        self._blocks = unpack(self._count(blocks))

    def _count(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        for block in blocks:
            yield block
            self._progress(len(block))

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._blocks
        except Stopped as stopped:
            self.reason = str(stopped)
