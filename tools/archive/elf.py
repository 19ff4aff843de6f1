"""What an ELF file requires of a machine: its glibc, its page size (System V gABI 4.1; 64 bits, little-endian)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MACHINES = {62: "x86_64", 183: "aarch64"}
_LOAD, _DYNAMIC_LINKER, _VERSIONS_NEEDED = 1, 3, 0x6FFFFFFE
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class Elf:
    """`glibc` is the highest version of a symbol (2, 17); `alignment` the smallest of its LOAD segments in bytes."""

    architecture: str
    glibc: tuple[int, ...]
    alignment: int
    interpreter: str | None
    allocators: tuple[str, ...]


def read(path: Path) -> Elf | None:
    """Read one file; None where it is no ELF file."""
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
    data = path.read_bytes()
    if data[4:6] != b"\x02\x01":
        raise ValueError(f"{path}: not a little-endian ELF file of 64 bits")
    machine = struct.unpack_from("<H", data, 18)[0]
    segments = list(_segments(data))
    names = [
        data[offset : offset + size].rstrip(b"\0").decode()
        for kind, offset, size, _ in segments
        if kind == _DYNAMIC_LINKER
    ]
    return Elf(
        architecture=_MACHINES.get(machine, str(machine)),
        glibc=max(_glibc_versions(data), default=()),
        alignment=min((align for kind, _, _, align in segments if kind == _LOAD), default=0),
        interpreter=names[0] if names else None,
        allocators=tuple(name for name in ("jemalloc", "mimalloc", "tcmalloc") if name.encode() in data),
    )


def files(folder: Path) -> Iterator[tuple[Path, Elf]]:
    """Every ELF file below a folder, in the order of their names."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and (found := read(path)) is not None:
            yield path, found


def problems(folder: Path, architecture: str, *, glibc: tuple[int, ...], page: int) -> list[str]:
    """Why the files below a folder would not run everywhere; one line each."""
    found = []
    for path, elf in files(folder):
        name = path.relative_to(folder)
        if elf.architecture != architecture:
            found.append(f"{name}: made for {elf.architecture}")
        if elf.glibc > glibc:
            found.append(f"{name}: requires glibc {'.'.join(map(str, elf.glibc))}")
        if elf.alignment < page:
            found.append(f"{name}: a LOAD segment is aligned to {elf.alignment} bytes")
        if "jemalloc" in elf.allocators:
            found.append(f"{name}: contains jemalloc, which is compiled for one page size")
    return found


def _segments(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    offset, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    for place in range(offset, offset + size * count, size):
        kind, _, start, _, _, length, _, align = struct.unpack_from("<IIQQQQQQ", data, place)
        yield kind, start, length, align


def _glibc_versions(data: bytes) -> Iterator[tuple[int, ...]]:
    """From the section of the versions that are needed (Elf64_Verneed), and its table of names."""
    offset, size, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + number * size) for number in range(count)]
    for section in sections:
        if section[1] != _VERSIONS_NEEDED:
            continue
        names = sections[section[6]][4]
        place = section[4]
        while True:
            _, entries, _, first, following = struct.unpack_from("<HHIII", data, place)
            entry = place + first
            for _ in range(entries):
                _, _, _, name, step = struct.unpack_from("<IHHII", data, entry)
                text = data[names + name : data.index(b"\0", names + name)].decode()
                if match := _GLIBC.fullmatch(text):
                    yield tuple(int(part) for part in match.groups() if part is not None)
                entry += step
            if not following:
                break
            place += following
