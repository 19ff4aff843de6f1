"""What a package file says of itself, from its header and the first files in it. Nothing of it is executed.

makeself: a shell script with assignments (label, filesizes, skip), then a compressed tar. The length of the script plus
`filesizes` is the length of a whole file, so that a cut one is found without reading it. In the tar, version.info,
scene.info and *_install.info are read where they come early. rpm: lead and header. deb: the control file. Archives:
their table of contents, and for wheels METADATA. A header that cannot be understood is a problem of the file.
"""

from __future__ import annotations

import contextlib
import io
import re
import struct
import zlib
from collections.abc import Callable, Iterator

from npudoctor.host.recording.tar_headers import BrokenTar, Member, members
from npudoctor.packages.reading import OverBudget, Parts
from npudoctor.records import record

SCRIPT_BYTES = 1 << 20
"""A makeself script is some 30 KB; the longest known has a help text of some 100 KB."""
UNPACKED_BYTES = 6 << 20
"""So much of the archive behind it is unpacked, in memory, to find its files that name the version."""
MOST_NAMES = 400
LONGEST_DESCRIPTION = 16 << 10
DESCRIBING_BYTES = 768 << 10
"""Bytes of one header of a tar, and of all that are read: those of 400 members with long names need half of it."""
_DAMAGED = (EOFError, OSError, ValueError, RuntimeError, ArithmeticError, LookupError, zlib.error, struct.error)
"""What the readers of the standard library raise for archives that are damaged, or made to damage."""
INFO = re.compile(r"(?:^|/)(version\.info|scene\.info|ascend_[a-z0-9_]{1,40}_install\.info|version\.cfg)$")


@record(frozen=True, kw_only=True)
class Header:
    """What was read. `kind` is run, rpm, deb, zip, wheel, conda, tar or script; `name`, `version`, `arch` as the header
    spells them; `label` a makeself archive's title. `infos` are the texts of the small files that name the version.
    `problem` is one line, None where the file is whole as far as its header tells."""

    kind: str
    name: str | None = None
    version: str | None = None
    arch: str | None = None
    label: str | None = None
    names: tuple[str, ...] = ()
    infos: tuple[tuple[str, str], ...] = ()
    requires: tuple[str, ...] = ()
    problem: str | None = None


def read_header(parts: Parts) -> Header | None:
    """The header of a file; None where its first bytes are of no kind of package. Raises what reading raises."""
    first = parts.part(0, 512)
    try:
        if first.startswith(b"#!"):
            return _run(parts)
        if first.startswith(b"\xed\xab\xee\xdb"):
            return _rpm(parts)
        if first.startswith(b"!<arch>\n"):
            return _deb(parts)
        if first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return _zip(parts)
        if first.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")) or first[257:262] == b"ustar":
            names, infos, problem = _tar(parts, 0)
            return Header(kind="tar", names=names, infos=infos, problem=problem)
    except OverBudget:
        return Header(kind="script" if first.startswith(b"#!") else "zip", problem="its header is too large to be read")
    return None


# makeself


def _run(parts: Parts) -> Header:
    text = parts.part(0, SCRIPT_BYTES)
    if b"Makeself" not in text[:2048] and b"makeself" not in text[:8192].lower():
        return Header(kind="script", problem="a script, not a package of the vendor (no makeself header)")
    label = _assigned_value(text, b"label")
    sizes = [int(size) for size in re.findall(r"\d{1,15}", _assigned_value(text, b"filesizes") or "")]
    skip = _assigned_value(text, b"skip")
    if not skip and (old := re.search(rb"head -n (\d{1,6}) \"?\$0", text[: 1 << 18])):
        skip = old[1].decode()
    start = _after_lines(text, int(skip)) if skip and skip.isdecimal() and len(skip) < 7 else None
    problem = None
    names: tuple[str, ...] = ()
    infos: tuple[tuple[str, str], ...] = ()
    if start is None or not sizes:
        problem = "its makeself header is incomplete" if len(text) < SCRIPT_BYTES else "its makeself header is too long"
    else:
        whole = start + sum(sizes)
        if parts.size < whole:
            problem = f"truncated: {parts.size} of {whole} bytes"
        elif parts.size > whole + 4096:
            problem = f"{parts.size - whole} bytes more than its header says"
        names, infos, inside = _tar(parts, start, tolerant=True)
        problem = problem or inside
    return Header(kind="run", label=label or None, names=names, infos=infos, problem=problem)


def _assigned_value(text: bytes, name: bytes) -> str | None:
    found = re.search(rb"^" + name + rb'="([^"\n]{0,400})"', text[: 1 << 17], re.M)
    return found[1].decode("utf-8", "replace").strip() if found else None


def _after_lines(text: bytes, count: int) -> int | None:
    place = 0
    for _ in range(count):
        place = text.find(b"\n", place) + 1
        if not place:
            return None
    return place


# tar


class _Unpacking(io.RawIOBase):
    """The first bytes of a compressed stream, unpacked as they are asked for."""

    def __init__(self, parts: Parts, start: int, limit: int) -> None:
        super().__init__()
        self._parts, self._place, self._left = parts, start, limit
        first = parts.part(start, 6)
        self._ready = b""
        self.known = True
        self._unpack: Callable[[bytes, int], bytes]
        if first.startswith(b"\x1f\x8b"):
            self._unpack = zlib.decompressobj(31).decompress
        elif first.startswith(b"BZh"):
            import bz2

            unpacker = bz2.BZ2Decompressor()
            self._unpack = lambda data, most: unpacker.decompress(data, most)
        elif first.startswith(b"\xfd7zXZ"):
            import lzma

            other = lzma.LZMADecompressor(memlimit=1 << 28)

            def of_lzma(data: bytes, most: int) -> bytes:
                try:
                    return other.decompress(data, most)
                except lzma.LZMAError as problem:
                    raise OSError(str(problem)) from problem

            self._unpack = of_lzma
        else:
            self.known = parts.part(start + 257, 5) == b"ustar"
            self._unpack = lambda data, _: data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._ready and self._left > 0 and (data := self._parts.part(self._place, 1 << 14)):
            self._place += len(data)
            self._ready = self._unpack(data, 1 << 22)[: self._left]
            self._left -= len(self._ready)
        piece = self._ready[: len(view)]
        self._ready = self._ready[len(view) :]
        view[: len(piece)] = piece
        return len(piece)


class _Forward:
    """A tar that is read forward; what describes its members is bounded, because it is kept and compared."""

    def __init__(self, stream: io.RawIOBase) -> None:
        self._file = io.BufferedReader(stream, 1 << 16)
        self._place = 0
        self._left = DESCRIBING_BYTES

    def tell(self) -> int:
        """How far it was read."""
        return self._place

    def skip(self, position: int) -> None:
        """Read on to a position; raises BrokenTar where it does not exist."""
        while self._place < position:
            if not self._read(min(position - self._place, 1 << 16)):
                raise BrokenTar("unexpected end of data")

    def header(self, size: int) -> bytes:
        """The next bytes; raises BrokenTar where they are more than describe any member."""
        self._left -= size
        if size > LONGEST_DESCRIPTION or self._left < 0:
            raise BrokenTar("its headers are too large to be read")
        return self._read(size)

    def content(self, member: Member) -> bytes:
        """All of a file that has just been named."""
        return self._read(member.size)

    def _read(self, size: int) -> bytes:
        piece = self._file.read(size)
        self._place += len(piece)
        return piece


def _tar(
    parts: Parts, start: int, *, tolerant: bool = False, limit: int = UNPACKED_BYTES
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], str | None]:
    """The first names in a compressed tar, the small files that name the version, and what is wrong with it."""
    stream = _Unpacking(parts, start, limit)
    if not stream.known:
        return (), (), None if tolerant else "its compression is not known"
    names: list[str] = []
    infos: list[tuple[str, str]] = []
    try:
        archive = _Forward(stream)
        for member in members(archive):
            names.append(member.name.removeprefix("./"))
            if member.kind == "file" and member.size <= 1 << 16 and INFO.search(member.name):
                infos.append((names[-1], archive.content(member).decode("utf-8", "replace")))
            if len(names) >= MOST_NAMES:
                break
    except _DAMAGED as problem:
        if not names:
            return (), (), f"its archive cannot be read: {str(problem)[:80] or type(problem).__name__}"
    return tuple(names), tuple(infos), None


# rpm

_RPM_TAGS = {1000: "name", 1001: "version", 1002: "release", 1022: "arch"}


def _rpm(parts: Parts) -> Header:
    """Lead (96 bytes), signature header (padded to 8), header: each an index of tags and a store."""
    problem = "its rpm header cannot be read"
    place = 96
    found: dict[str, str] = {}
    for padded in (True, False):
        head = parts.part(place, 16)
        if len(head) < 16 or head[:3] != b"\x8e\xad\xe8":
            return Header(kind="rpm", problem=problem)
        count, size = struct.unpack(">II", head[8:])
        if count > 10_000 or size > 16 << 20:
            return Header(kind="rpm", problem=problem)
        if not padded:
            found = dict(_rpm_texts(parts, place + 16, count))
        place += 16 + count * 16 + size
        place += -place % 8 if padded else 0
    if parts.size <= place:
        return Header(kind="rpm", name=found.get("name"), version=found.get("version"), problem="truncated: no content")
    return Header(kind="rpm", **{name: found.get(name) for name in ("name", "version", "arch")})  # type: ignore[arg-type]


def _rpm_texts(parts: Parts, index: int, count: int) -> Iterator[tuple[str, str]]:
    rows = parts.part(index, count * 16)
    for place in range(0, len(rows) - 15, 16):
        tag, kind, offset, _ = struct.unpack(">IIII", rows[place : place + 16])
        if tag in _RPM_TAGS and kind in (6, 9):
            yield (
                _RPM_TAGS[tag],
                parts.part(index + count * 16 + offset, 256).partition(b"\0")[0].decode("utf-8", "replace"),
            )


# deb


def _deb(parts: Parts) -> Header:
    """An ar archive: debian-binary, control.tar.*, data.tar.*."""
    place, control, data = 8, None, False
    for _ in range(8):
        head = parts.part(place, 60)
        if len(head) < 60:
            break
        name, size = head[:16].decode("ascii", "replace").strip().rstrip("/"), head[48:58].strip()
        if head[58:60] != b"`\n" or not size.isdigit():
            return Header(kind="deb", problem="its deb header cannot be read")
        if name.startswith("control.tar"):
            control = (place + 60, int(size), name)
        if name.startswith("data.tar"):
            data = place + 60 + int(size) <= parts.size
        place += 60 + int(size) + int(size) % 2
    if control is None:
        return Header(kind="deb", problem="its deb header has no control file")
    if control[2].endswith(".zst"):
        return Header(kind="deb", problem=None if data else "truncated: no content")
    fields = _control(Parts(lambda at, length: parts.part(control[0] + at, length), control[1]))
    return Header(
        kind="deb",
        name=fields.get("package"),
        version=fields.get("version"),
        arch=fields.get("architecture"),
        problem=None if data else "truncated: no content",
    )


def _control(parts: Parts) -> dict[str, str]:
    with contextlib.suppress(*_DAMAGED):
        archive = _Forward(_Unpacking(parts, 0, 1 << 20))
        for member in members(archive):
            if member.name.removeprefix("./") == "control" and member.kind == "file" and member.size <= 1 << 16:
                return _fields(archive.content(member).decode("utf-8", "replace"))
    return {}


def _fields(text: str) -> dict[str, str]:
    rows = (line.partition(":") for line in text.splitlines() if not line.startswith((" ", "\t")))
    return {key.strip().lower(): value.strip() for key, colon, value in rows if colon}


# zip, wheel, conda


def _zip(parts: Parts) -> Header:
    import zipfile

    try:
        with zipfile.ZipFile(io.BufferedReader(parts, 1 << 16)) as archive:
            files = archive.infolist()
            names = tuple(file.filename for file in files[:MOST_NAMES])
            meta = next((f for f in files if re.fullmatch(r"[^/]{1,200}\.dist-info/METADATA", f.filename)), None)
            kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others are unpacked without a bound
            if meta is not None and meta.file_size <= 1 << 20 and meta.compress_type in kinds:
                with archive.open(meta) as file:
                    text = file.read(1 << 20).decode("utf-8", "replace")
                fields = _fields(text.partition("\n\n")[0])
                requires = tuple(re.findall(r"^Requires-Dist: *([^\r\n]{1,300})", text, re.M))
                return Header(
                    kind="wheel",
                    name=fields.get("name"),
                    version=fields.get("version"),
                    names=names,
                    requires=requires,
                )
    except OverBudget:
        raise
    except (zipfile.BadZipFile, *_DAMAGED):
        return Header(kind="zip", problem="truncated, or not a sound zip file")
    conda = next(
        (re.fullmatch(r"info-(.+)-([^-]+)-([^-]+)\.tar\.zst", name) for name in names if "info-" in name), None
    )
    if conda:
        return Header(kind="conda", name=conda[1], version=conda[2], names=names)
    return Header(kind="zip", names=names)
