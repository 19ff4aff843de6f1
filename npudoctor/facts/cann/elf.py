"""The headers of a shared library, read as bytes: whose machine it is for, whether it is whole, what it needs, and for
which chips the kernels in it were compiled.

Nothing of it is run or loaded. Understood are 64-bit files in little-endian order, which is all that Ascend nodes have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping

from npudoctor.records import record
from npudoctor.sdk import Host, ParseError

Read = Callable[[int, int], bytes]
"""Gives the bytes from an offset on, as many as asked for or as there are."""

MAGIC = b"\x7fELF"
HEADER_BYTES = 64
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<QQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_MACHINES = {0xB7: "aarch64", 0x3E: "x86_64", 0x28: "arm", 0x03: "i386", 0xF3: "riscv64"}
_LOAD, _DYNAMIC = 1, 2
_END, _NEEDED, _NAMES, _NAMES_SIZE, _SONAME, _RPATH, _RUNPATH = 0, 1, 5, 10, 14, 15, 29
_MOST_SEGMENTS = 64
_IN_ITS_PLACE = (b"version https://git-lfs", b"<!DOCTYPE", b"<html", b"/* GNU ld script", b"INPUT", b"!<arch>", b"#!")
_MOST_ENTRIES = 4096
_MOST_SECTIONS = 1024
_LONGEST_NAMES = 1 << 16
"""Bytes of the names of all sections that are read; a library with kernels has some fifty sections."""

_KERNEL = b".ascend.kernel."
"""A section with kernels: `.ascend.kernel.ascend910b1.NAME`, by ascendc.cmake of CANN (cann/asc-devkit)."""
_LONGEST_NAME = 512


@record(frozen=True, kw_only=True)
class Elf:
    """What the headers say. `machine` is aarch64, x86_64 or another name; `end` is the size in bytes that the file has
    to have. `needed` are the libraries that it asks for by name, `runpath` the folders that it looks for them in
    itself ($ORIGIN as written); None where that part of the file could not be read. `chips` are those that sections
    with kernels name (ascend910b1), only where they were asked for."""

    machine: str
    end: int
    needed: tuple[str, ...] | None = ()
    runpath: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()

    def is_cut(self, size: int) -> bool:
        """Whether a file of so many bytes lacks its end."""
        return size < self.end


def known_beginning(head: bytes) -> bytes:
    """What a file that is not a library begins with, where it is one of those that turn up in place of one.

    Nothing else is quoted: the file may be any that a variable or a link names.
    """
    return next((begins for begins in _IN_ITS_PLACE if head.startswith(begins)), b"")


def parse(read: Read, *, with_needed: bool = True, with_chips: bool = False) -> Elf:
    """Read a library; raises ParseError for what is none."""
    head = read(0, HEADER_BYTES)
    if not head:
        raise ParseError("empty file")
    if not head.startswith(MAGIC):
        begins = known_beginning(head).decode()
        raise ParseError(f"not an ELF library: starts with {begins!r}" if begins else "not an ELF library")
    if len(head) < HEADER_BYTES:
        raise ParseError(f"truncated after {len(head)} bytes")
    if head[4] != 2 or head[5] != 1:
        raise ParseError("not a 64-bit library")
    _, _, machine, _, _, at, sections, _, _, each, count, section_size, section_count, names = _HEADER.unpack(head)
    if count and each != _SEGMENT.size:
        raise ParseError("damaged ELF headers")
    end = max(HEADER_BYTES, at + count * each, sections + section_count * section_size)
    name = _MACHINES.get(machine, f"machine {machine}")
    table = read(at, count * each) if 0 < count <= _MOST_SEGMENTS else b""
    places = range(0, len(table) - _SEGMENT.size + 1, _SEGMENT.size)
    segments = [_SEGMENT.unpack_from(table, place) for place in places]
    loads = [(start, offset, length) for kind, _, offset, start, _, length, _, _ in segments if kind == _LOAD]
    end = max([end, *(offset + length for _, offset, length in loads)])
    dynamic = next(((offset, length) for kind, _, offset, _, _, length, _, _ in segments if kind == _DYNAMIC), None)
    chips = _read_chips(read, sections, section_count, names) if with_chips and section_size == _SECTION.size else ()
    if dynamic is None or not with_needed:
        return Elf(machine=name, end=end, chips=chips)
    needed, runpath = _read_dynamic(read, dynamic, loads)
    return Elf(machine=name, end=end, needed=needed, runpath=runpath, chips=chips)


def _read_chips(read: Read, at: int, count: int, names: int) -> tuple[str, ...]:
    """The chips that the names of sections say; `names` is the number of the section that holds these."""
    table = read(at, count * _SECTION.size) if names < count <= _MOST_SECTIONS else b""
    if len(table) < count * _SECTION.size or not table:
        return ()
    _, _, _, _, offset, length, *_ = _SECTION.unpack_from(table, names * _SECTION.size)
    words = [word for word in read(offset, min(length, _LONGEST_NAMES)).split(b"\0") if word.startswith(_KERNEL)]
    return tuple(sorted({word[len(_KERNEL) :].partition(b".")[0].decode("ascii", "replace") for word in words}))


def _read_dynamic(
    read: Read, where: tuple[int, int], loads: list[tuple[int, int, int]]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The names that the dynamic section gives; None where it, or the names, lie beyond what can be read."""
    table = read(where[0], min(where[1], _MOST_ENTRIES * _ENTRY.size))
    entries = []
    for place in range(0, len(table) - _ENTRY.size + 1, _ENTRY.size):
        tag, value = _ENTRY.unpack_from(table, place)
        if tag == _END:
            break
        entries.append((tag, value))
    values = dict(reversed(entries))
    names_at = _offset(values.get(_NAMES, 0), loads)
    wanted = [(tag, value) for tag, value in entries if tag in (_NEEDED, _RPATH, _RUNPATH)]
    if not wanted:
        return ((), ()) if entries else (None, ())
    if names_at is None:
        return None, ()
    needed, runpath = [], []
    for tag, value in wanted:
        text, zero, _ = read(names_at + value, _LONGEST_NAME).partition(b"\0")
        if not zero:
            return None, ()
        word = text.decode("utf-8", "replace")
        if tag == _NEEDED:
            needed.append(word)
        else:
            runpath += [part for part in word.split(":") if part]
    return tuple(needed), tuple(runpath)


def _offset(address: int, loads: list[tuple[int, int, int]]) -> int | None:
    """Where in the file the byte of an address lies."""
    return next(
        (offset + address - start for start, offset, length in loads if start <= address < start + length), None
    )


def reader(host: Host, path: str) -> Read:
    """Reads a file of a node piece by piece, on this machine without what lies between the pieces."""
    return lambda offset, length: host.read_part(path, offset, length)


def build(elf: Elf, *, machine: int | None = None) -> bytes:
    """A small library with the same headers, as a recording keeps it and a simulated node has it."""
    number = machine or next((code for code, name in _MACHINES.items() if name == elf.machine), 0)
    names = b"\0"
    entries: list[tuple[int, int]] = []
    for tag, word in _words(elf):
        entries.append((tag, len(names)))
        names += word.encode() + b"\0"
    segments = 2
    at = HEADER_BYTES + segments * _SEGMENT.size
    entries += [(_NAMES, at), (_NAMES_SIZE, len(names)), (_END, 0)]
    dynamic_at = at + len(names)
    dynamic = b"".join(_ENTRY.pack(*entry) for entry in entries)
    total = dynamic_at + len(dynamic)
    sections, count = _build_sections(elf.chips, total)
    sections_at = total + len(sections) - count * _SECTION.size if count else 0
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    sizes = (HEADER_BYTES, _SEGMENT.size, segments, _SECTION.size, count, max(count - 1, 0))
    header = _HEADER.pack(identity, 3, number, 1, 0, HEADER_BYTES, sections_at, 0, *sizes)
    load = _SEGMENT.pack(_LOAD, 5, 0, 0, 0, total, total, 4096)
    table = _SEGMENT.pack(_DYNAMIC, 6, dynamic_at, dynamic_at, dynamic_at, len(dynamic), len(dynamic), 8)
    return header + load + table + names + dynamic + sections


def _build_sections(chips: tuple[str, ...], at: int) -> tuple[bytes, int]:
    """The names of sections and the table of them, which begins `at` this offset, and how many there are."""
    if not chips:
        return b"", 0
    words = [b"", *(_KERNEL + chip.encode() + b".kernels" for chip in chips), b".shstrtab"]
    names = b"\0".join(words) + b"\0"
    place, rows = 0, []
    for word in words:
        last = word is words[-1]
        rows.append(_SECTION.pack(place, 3 if last else bool(word), 0, 0, at, len(names) if last else 0, 0, 0, 1, 0))
        place += len(word) + 1
    return names + b"".join(rows), len(words)


def _words(elf: Elf) -> Iterator[tuple[int, str]]:
    for name in elf.needed or ():
        yield _NEEDED, name
    if elf.runpath:
        yield _RUNPATH, ":".join(elf.runpath)


def reduce_library(parts: Mapping[int, bytes], size: int) -> bytes:
    """A library as small as its facts, from the pieces that were read of it and its size in bytes.

    What is not a library, or is damaged, keeps its beginning.
    """
    beginning = parts.get(0, b"")
    beginning += parts.get(len(beginning), b"")

    def read(offset: int, length: int) -> bytes:
        return parts.get(offset, b"")[:length]

    try:
        found = parse(read, with_chips=True)
    except ParseError:
        return beginning
    whole = found.needed is not None and not found.is_cut(size)
    return build(found, machine=int.from_bytes(beginning[18:20], "little")) if whole else beginning
