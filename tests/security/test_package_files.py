"""Package files of strangers, read by root: no file of them may take the memory or the time of the machine."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import time
import tracemalloc
import zipfile

import pytest

from npudoctor.packages import headers
from npudoctor.packages.reading import Parts


def read(content: bytes) -> headers.Header | None:
    return headers.read_header(Parts(lambda offset, length: content[offset : offset + length], len(content)))


def makeself(body: bytes) -> bytes:
    return b'#!/bin/sh\n# Makeself 2.4\nlabel="x"\nfilesizes="%d"\nskip="6"\nx\n' % len(body) + body


def pax(payload: bytes) -> bytes:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = b"x", len(payload)
    return entry.tobuf() + payload + bytes(-len(payload) % 512)


def with_lying_metadata(compression: int, size: int) -> bytes:
    """A wheel whose METADATA unpacks to `size` bytes, and is said to be small."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        archive.writestr("a-1.dist-info/METADATA", bytes(size))
    content = bytearray(packed.getvalue())
    place = content.rfind(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<I", 1000)
    return bytes(content)


@pytest.mark.parametrize(
    "payload",
    [b"1" * (1 << 19), b"0 a=" * (1 << 18), b"5 a=\n" * 200_000, b"21 hdrcharset=BINARY\n" * 50_000],
    ids=["digits", "no length", "many keys", "many charsets"],
)
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_the_headers_of_a_tar_do_not_take_hours(payload: bytes, pack: object) -> None:
    began = time.process_time()
    found = read(makeself(pack(pax(payload) + bytes(1024))))  # type: ignore[operator]
    assert time.process_time() - began < 5
    assert found is not None and "too large" in (found.problem or "")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_metadata_that_unpacks_to_much_more_than_it_says_takes_no_memory(compression: int) -> None:
    content = with_lying_metadata(compression, 40 << 20)
    tracemalloc.start()
    try:
        found = read(content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found is not None and found.kind == "zip"
    assert peak < 16 << 20


def test_long_names_and_the_files_that_name_the_version_are_read_as_ever() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(300):
            archive.addfile(tarfile.TarInfo(f"./{'long/' * 40}{number}"))
        entry = tarfile.TarInfo("./driver/version.info")
        entry.size = 14
        archive.addfile(entry, io.BytesIO(b"Version=25.2.0"))
    found = read(makeself(gzip.compress(packed.getvalue())))
    assert found is not None and found.problem is None
    assert found.infos == (("driver/version.info", "Version=25.2.0"),) and len(found.names) == 301
