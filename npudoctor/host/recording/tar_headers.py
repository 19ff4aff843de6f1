"""The members of a tar, read forward only: what the formats of POSIX and of GNU say, checksums looked at.

Archives come from strangers, and the standard library's reader is not made for that: before Python 3.10.15, 3.11.10 and
3.12.6 its time grows with the square of a header (CVE-2024-6232; 1 s for 32 KiB of digits), a chain of headers ends
in a RecursionError, and a damaged header passes for the end of the archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from npudoctor.records import record

BLOCK = 512
_END = bytes(BLOCK)
_KINDS = {b"0": "file", b"\0": "file", b"7": "file", b"1": "hard link", b"2": "link", b"5": "dir"}


class BrokenTar(ValueError):
    """Bytes that are no tar, or that end too early."""


@record(frozen=True, kw_only=True)
class Member:
    """One entry. `kind` is file, dir, link, hard link or other; `size` its content in bytes, from `offset` on."""

    name: str
    kind: str
    size: int
    offset: int
    target: str = ""


class Source(Protocol):
    """Bytes that are read forward."""

    def tell(self) -> int:
        """How far it was read."""
        ...

    def skip(self, position: int) -> None:
        """Read on to a position; raises BrokenTar where it does not exist."""
        ...

    def header(self, size: int) -> bytes:
        """The next bytes, as many as there are up to `size`, as part of what describes a member."""
        ...


def members(source: Source) -> Iterator[Member]:
    """The entries in order; between two of them the content of the first may be read."""
    common: dict[str, str] = {}
    own: dict[str, str] = {}
    while (block := source.header(BLOCK)) and block != _END:
        _must_be_whole(block)
        kind, size = block[156:157], _number(block[124:136])
        if kind in b"xXgLK":
            text = _read_content(source, size)
            if kind in b"LK":
                own["path" if kind == b"L" else "linkpath"] = _text(text)
            else:
                (common if kind == b"g" else own).update(_records(text))
            continue
        member = _member(block, kind, size, {**common, **own}, source.tell())
        own = {}
        yield member
        held = member.size if member.kind in ("file", "other") else 0
        source.skip(member.offset + -(-held // BLOCK) * BLOCK)
    if source.tell() == 0:
        raise BrokenTar("it is empty")
    if not block:
        raise BrokenTar("unexpected end of data")


def _must_be_whole(block: bytes) -> None:
    if len(block) < BLOCK:
        raise BrokenTar("it ends within a header")
    stored = _number(block[148:156])
    rest = block[:148] + block[156:]
    if sum(rest) + 8 * 0x20 != stored and sum(byte - 256 if byte > 127 else byte for byte in rest) + 8 * 0x20 != stored:
        raise BrokenTar("the checksum of a header is wrong")


def _read_content(source: Source, size: int) -> bytes:
    """The content of a header that describes the next member."""
    text = source.header(size)
    if len(text) < size:
        raise BrokenTar("it ends within a header")
    source.skip(source.tell() + -size % BLOCK)
    return text


def _member(block: bytes, kind: bytes, size: int, said: Mapping[str, str], offset: int) -> Member:
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and (prefix := _text(block[345:500])):
        name = f"{prefix}/{name}"
    name = said.get("path", name)
    meant = _KINDS.get(kind, "other")
    if kind == b"\0" and name.endswith("/"):
        meant = "dir"
    if any(key.startswith("GNU.sparse") for key in said):
        meant = "other"
    try:
        size = int(said.get("size", size))
    except ValueError:
        raise BrokenTar("a header names a size that is not a number") from None
    if size < 0:
        raise BrokenTar("a header names a size below zero")
    target = said.get("linkpath", _text(block[157:257]))
    return Member(name=name.rstrip("/") or name, kind=meant, size=size, offset=offset, target=target)


def _number(digits: bytes) -> int:
    """An octal number, or GNU's form for large ones."""
    if digits[0] == 0x80:
        return int.from_bytes(digits[1:], "big")
    try:
        return int(digits.split(b"\0", 1)[0].strip() or b"0", 8)
    except ValueError:
        raise BrokenTar("a header holds a value that is not a number") from None


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _records(text: bytes) -> dict[str, str]:
    """The `length key=value` lines of a POSIX header; an empty value takes the key back."""
    found = {}
    while text:
        length, blank, _ = text.partition(b" ")
        size = int(length) if blank and length.isdigit() and len(length) < 10 else 0
        key, equals, value = text[len(length) + 1 : size - 1].partition(b"=")
        if not equals or size > len(text) or text[size - 1 : size] != b"\n":
            raise BrokenTar("a header is not a list of keys and values")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        text = text[size:]
    return {key: value for key, value in found.items() if value}
