"""Our reader of tar headers against the standard library's: the same members, or a clear refusal."""

import gzip
import io
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.host.recording.archive import hold
from npudoctor.host.recording.recorded_node import BundleError
from npudoctor.host.recording.tar_headers import BrokenTar, Member, members

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.CONTTYPE: "file",
    tarfile.DIRTYPE: "dir",
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "hard link",
}


class Bytes:
    """The source that a reader of headers wants, over bytes."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def tell(self) -> int:
        return self._file.tell()

    def skip(self, position: int) -> None:
        if position > len(self._file.getbuffer()):
            raise BrokenTar("unexpected end of data")
        self._file.seek(position)

    def header(self, size: int) -> bytes:
        return self._file.read(size)


def ours(data: bytes) -> list[Member]:
    return list(members(Bytes(data)))


def theirs(data: bytes) -> list[Member]:
    with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8") as tar:
        return [
            Member(
                name=one.name,
                kind=KINDS.get(one.type, "other"),
                size=one.size,
                offset=one.offset_data,
                target=one.linkname,
            )
            for one in tar.getmembers()
        ]


def packed(kind: int, names: list[str]) -> bytes:
    """A tar with a file, a folder and links of each of these names."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=kind, encoding="utf-8") as tar:
        for number, name in enumerate(names):
            file = tarfile.TarInfo(name)
            file.size = number * 300
            file.mtime = 1792000000.25
            tar.addfile(file, io.BytesIO(bytes(file.size)))
            for sort, suffix in ((tarfile.DIRTYPE, "d"), (tarfile.SYMTYPE, "s"), (tarfile.LNKTYPE, "l")):
                other = tarfile.TarInfo(f"{name}.{suffix}")
                other.type, other.linkname = sort, names[0] if sort != tarfile.DIRTYPE else ""
                tar.addfile(other)
    return raw.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
def test_all_formats_are_read_as_the_standard_library_reads_them(kind: str) -> None:
    long = [] if kind == "ustar" else ["x" * 150, "/".join(["folder"] * 40), "ü" * 90]
    data = packed(FORMATS[kind], ["a", "commands/npu-smi info/stdout", "d" * 90 + "/" + "f" * 90, "größe", *long])
    assert ours(data) == theirs(data)
    assert len(ours(data)) >= 16


def test_what_the_tar_of_this_machine_writes_is_read(tmp_path: Path) -> None:
    tool = shutil.which("tar")
    if tool is None:
        pytest.skip("there is no tar here")
    (tmp_path / "node/root/etc").mkdir(parents=True)
    (tmp_path / "node/root/etc" / ("n" * 140)).write_text("x" * 700, encoding="utf-8")
    (tmp_path / "node/link").symlink_to("root")
    for kind in ("ustar", "gnu", "posix", "v7"):
        names = ["node"] if kind in ("gnu", "posix") else ["node/link", "node/root/etc"]
        if kind in ("ustar", "v7"):
            (tmp_path / "node/root/etc" / ("n" * 140)).unlink(missing_ok=True)
        else:
            (tmp_path / "node/root/etc" / ("n" * 140)).write_text("x" * 700, encoding="utf-8")
        made = subprocess.run([tool, "-c", f"--format={kind}", *names], cwd=tmp_path, capture_output=True, check=True)
        assert [(one.name, one.kind, one.size) for one in ours(made.stdout)] == [
            (one.name, one.kind, one.size) for one in theirs(made.stdout)
        ]


def test_devices_pipes_and_sparse_files_are_others() -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", encoding="utf-8") as tar:
        for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE):
            member = tarfile.TarInfo("x")
            member.type = kind
            tar.addfile(member)
        sparse = tarfile.TarInfo("y")
        sparse.pax_headers = {"GNU.sparse.major": "1"}
        tar.addfile(sparse)
    assert [member.kind for member in ours(raw.getvalue())] == ["other"] * 5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * 512,
        packed(tarfile.USTAR_FORMAT, ["a"])[:300],
        packed(tarfile.PAX_FORMAT, ["ü" * 200])[:700],
        packed(tarfile.GNU_FORMAT, ["a", "b"])[:1800] + b"\1" * 400,
    ],
)
def test_what_is_broken_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenTar):
        ours(data)


def test_the_time_grows_with_a_header_and_not_with_its_square() -> None:
    """CVE-2024-6232: tarfile takes a thousand seconds for this one where Python is not mended."""
    digits = 1 << 20
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, digits
    data = header.tobuf(tarfile.USTAR_FORMAT) + b"1" * digits + packed(tarfile.USTAR_FORMAT, ["a"])
    began = time.process_time()
    with pytest.raises(BrokenTar):
        ours(data)
    assert time.process_time() - began < 1


SAMPLES = [packed(kind, ["a", "größe/x", *([] if name == "ustar" else ["x" * 150])]) for name, kind in FORMATS.items()]


@given(
    st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 8000), st.binary(min_size=1, max_size=30)), max_size=6)
)
def test_mutated_archives_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, sample: bytes, changes: list[tuple[int, bytes]]
) -> None:
    data = bytearray(sample)
    for place, piece in changes:
        data[place : place + len(piece)] = piece
    path = tmp_path_factory.getbasetemp() / "mutated.tar.gz"
    path.write_bytes(gzip.compress(bytes(data), 1))
    try:
        held = hold(str(path))
    except BundleError as problem:
        assert "\n" not in str(problem)
        return
    assert not [name for name in held.files if name.startswith("/") or ".." in name.split("/")]
