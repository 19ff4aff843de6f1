"""The headers of shared libraries, as bytes."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.cann import elf
from npudoctor.facts.cann.elf import Elf, build, parse, reader, reduce_library
from npudoctor.host.live.local import LocalHost
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import ParseError

NAMES = st.lists(st.from_regex(r"lib[a-z_]{1,12}\.so(\.[0-9])?", fullmatch=True), max_size=6)


def of(content: bytes) -> Elf:
    return parse(lambda offset, length: content[offset : offset + length], with_chips=True)


CHIPS = st.sets(st.sampled_from(["ascend910b1", "ascend910_9391", "ascend310p3"]))


@given(st.sampled_from(["aarch64", "x86_64"]), NAMES, NAMES, CHIPS)
def test_what_is_built_is_read_back(machine: str, needed: list[str], runpath: list[str], chips: set[str]) -> None:
    said = Elf(machine=machine, end=0, needed=tuple(needed), runpath=tuple(runpath), chips=tuple(sorted(chips)))
    content = build(said)
    found = of(content)
    assert (found.machine, found.needed, found.runpath) == (machine, tuple(needed), tuple(runpath))
    assert found.chips == said.chips
    assert found.end == len(content) and not found.is_cut(len(content)) and found.is_cut(len(content) - 1)


@given(NAMES, st.data())
def test_a_library_that_was_cut_is_refused_or_known_to_be_cut(needed: list[str], data: st.DataObject) -> None:
    content = build(Elf(machine="aarch64", end=0, needed=tuple(needed)))
    length = data.draw(st.integers(0, len(content) - 1))
    if length < elf.HEADER_BYTES:
        with pytest.raises(ParseError):
            of(content[:length])
    else:
        assert of(content[:length] + b"").end > length or length >= elf.HEADER_BYTES + 112


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_read_or_refused(content: bytes, begun: bool) -> None:
    whole = b"\x7fELF\x02\x01\x01" + content if begun else content
    try:
        found = of(whole)
    except ParseError:
        return
    assert found.end >= elf.HEADER_BYTES


@given(st.data())
def test_a_damaged_library_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(
        build(Elf(machine="x86_64", end=0, needed=("libhccl.so", "libc.so.6"), runpath=("$ORIGIN",), chips=("a",)))
    )
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        of(bytes(content))
    except ParseError as problem:
        assert problem.problem


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "starts with 'version https://git-lfs"),
        (b"\x7fELF\x02\x01\x01", "truncated after 7 bytes"),
        (b"\x7fELF\x01\x01\x01" + bytes(60), "not a 64-bit library"),
        (b"\x7fELF\x02\x01\x01" + bytes(47) + struct.pack("<HH", 3, 9) + bytes(6), "damaged"),
    ],
)
def test_what_is_no_library_is_refused_with_the_reason(content: bytes, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        of(content)


def test_a_header_without_segments_needs_nothing() -> None:
    content = bytearray(build(Elf(machine="aarch64", end=0)))[: elf.HEADER_BYTES]
    content[56:58] = b"\0\0"
    assert of(bytes(content)) == Elf(machine="aarch64", end=elf.HEADER_BYTES)


def _a_library_of_this_machine() -> str:
    for module in sys.modules.values():
        path = getattr(module, "__file__", None) or ""
        if path.endswith(".so"):
            return path
    pytest.skip("no extension module is loaded from a file here")


def test_a_real_library_is_read_in_pieces_and_recorded_small() -> None:
    from npudoctor.host.recording.recorder import RecordingHost

    path = _a_library_of_this_machine()
    host = LocalHost()
    recording = RecordingHost(host)
    found = parse(reader(recording, path))
    size = Path(path).stat().st_size
    assert found.machine == host.about.machine and not found.is_cut(size)
    assert found.needed is not None
    assert found == of(Path(path).read_bytes())
    parts = next(iter(recording.notes.parts.values()))
    small = reduce_library(parts, size)
    assert len(small) < 4096
    replayed = of(small)
    assert (replayed.machine, replayed.needed, replayed.runpath) == (found.machine, found.needed, found.runpath)
    assert reduce_library(parts, size - 1)[:4] == b"\x7fELF" and of(reduce_library(parts, size - 1)).is_cut(size - 1)


def test_a_recorded_library_is_read_from_its_beginning() -> None:
    host = FakeHost(files={"/lib64/libx.so": build(Elf(machine="aarch64", end=0, needed=("libhccl.so",)))})
    assert parse(reader(host, "/lib64/libx.so")).needed == ("libhccl.so",)
