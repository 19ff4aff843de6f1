"""Archives and folders that are made to take time, memory or the disk are refused with one line, exit 2."""

import gzip
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from npudoctor import sim
from npudoctor.host.recording import recorded_node
from npudoctor.host.recording.archive import MAX_DEPTH, MAX_PARTS
from npudoctor.host.recording.bundle_reader import MAX_JSON_BYTES, MAX_JSON_VALUES
from tests.security.hostile import ONE_LINE, hidden

ABOUT = b'{"schema": "npudoctor.bundle/1"}'


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name, content in {"bundle.json": ABOUT, **files}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def processes(count: int) -> bytes:
    return b'{"processes": [' + b",".join([b'{"pid":1}'] * count) + b"]}"


def nested_folders(path: Path) -> Path:
    return packed(path, {"root/" + "a/" * 3000 + "x": b""})


def nested_folder_names(path: Path) -> Path:
    with tarfile.open(packed(path, {}), "w:gz") as tar:
        for name in ("bundle.json", "a/" * (MAX_DEPTH + 1) + "b"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if name.endswith("b") else tarfile.REGTYPE
            member.size = 0 if name.endswith("b") else len(ABOUT)
            tar.addfile(member, io.BytesIO(ABOUT))
    return path


def empty_parts(path: Path) -> Path:
    packed(path, {})
    with open(path, "ab") as file:
        file.write(gzip.compress(b"", mtime=0) * 2_000_000)
    return path


def small_parts(path: Path) -> Path:
    path.write_bytes(gzip.compress(bytes(512), mtime=0) * (MAX_PARTS + 1))
    return path


def many_processes(path: Path) -> Path:
    return packed(path, {"host.json": processes(3_000_000)})


def deep_json(path: Path) -> Path:
    return packed(path, {"environ.json": b"[" * 100_000 + b"]" * 100_000})


def large_json(path: Path) -> Path:
    return packed(path, {"host.json": b'{"x": "' + b"a" * MAX_JSON_BYTES + b'"}'})


def long_name(path: Path) -> Path:
    return packed(path, {"root/" + "n" * 5000: b""})


def long_path(path: Path) -> Path:
    return packed(path, {"root/" + "/".join(["n" * 200] * 30): b""})


def link_to_no_file(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, target in (("root/a", b"0", ""), ("root/b", b"1", "root/a"), ("root/a", b"5", "")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    return path


MADE: dict[Callable[[Path], Path], str] = {
    nested_folders: "nested more than 100 folders deep",
    nested_folder_names: "nested more than 100 folders deep",
    empty_parts: "more than 10,000 compressed parts",
    small_parts: "",
    many_processes: "larger than 16 MiB",
    deep_json: "not valid JSON",
    large_json: "larger than 16 MiB",
    long_name: "longer than a path can be",
    long_path: "longer than a path can be",
    link_to_no_file: "leads to no file",
}


@pytest.mark.parametrize("command", ["check", "compare"])
@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_it_is_refused_in_one_line_with_little_memory(
    tmp_path: Path, make: Callable[[Path], Path], command: str
) -> None:
    path = make(tmp_path / "node.tar.gz")
    words = {"check": ["check", "--replay", str(path)], "compare": ["compare", str(path), str(path)]}[command]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = within_400_mb(words, TMPDIR=str(temporary))
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and MADE[make] in done.stderr
    assert len(done.stderr) < 600
    assert list(temporary.iterdir()) == []


def within_400_mb(words: list[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    """A command that may take no more memory than is promised; one that wants more ends with a MemoryError."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))

    argv = [sys.executable, "-m", "npudoctor", *words]
    environ = {**os.environ, **variables}
    return subprocess.run(
        argv, capture_output=True, encoding="utf-8", check=False, env=environ, preexec_fn=bound, timeout=300
    )


VALUES = {
    "processes": processes(MAX_JSON_VALUES // 2 - 10),
    "lists": b'{"x": [' + b",".join([b"[]"] * (MAX_JSON_VALUES // 2 - 10)) + b"]}",
    "objects": b'{"x": [' + b",".join([b"{}"] * (MAX_JSON_VALUES // 2 - 10)) + b"]}",
    "keys": b"{" + b",".join(b'"%d": 1' % number for number in range(MAX_JSON_VALUES - 10)) + b"}",
}


@pytest.mark.parametrize("what", VALUES)
def test_as_many_values_as_are_allowed_fit_into_400_mb(tmp_path: Path, what: str) -> None:
    path = packed(tmp_path / "node.tar.gz", {"host.json": VALUES[what]})
    done = within_400_mb(["check", "--replay", str(path), "npu.present"])
    assert done.returncode in (0, 1, 2, 3), done.stderr
    assert "MemoryError" not in done.stdout + done.stderr


def test_a_report_with_millions_of_wrong_results_is_refused_with_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    for content in (b'{"results": [' + b",".join([b"{}"] * 3_000_000) + b"]}", b"[" * 100_000, b'{"results": 1}'):
        path.write_bytes(content)
        done = within_400_mb(["compare", str(path), str(path)])
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


def test_the_limits_hold_in_a_folder_too(tmp_path: Path) -> None:
    for name, content, expected in (
        ("host.json", processes(3_000_000), "larger than 16 MiB"),
        ("environ.json", b"[" * 100_000, "not valid JSON"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "bundle.json").write_bytes(ABOUT)
        (folder / name).write_bytes(content)
        with pytest.raises(recorded_node.BundleError, match=expected):
            recorded_node.open_bundle(str(folder))
    with open(folder / "host.json", "wb") as sparse:
        sparse.truncate(50 << 30)
    (folder / "environ.json").unlink()
    with pytest.raises(recorded_node.BundleError, match="larger than 16 MiB"):
        recorded_node.open_bundle(str(folder))


def test_many_honest_parts_are_read(tmp_path: Path) -> None:
    whole = gzip.decompress(packed(tmp_path / "x.tar.gz", {"root/x": os.urandom(50_000)}).read_bytes())
    path = tmp_path / "node.tar.gz"
    path.write_bytes(b"".join(gzip.compress(whole[at : at + 512]) for at in range(0, len(whole), 512)) + bytes(1000))
    assert len(recorded_node.open_bundle(str(path)).read_bytes("/x")) == 50_000


@pytest.mark.parametrize("name", ["/etc/{}", "../{}", "root/{}/../x", "dev/{}", "root/l{}", "root/h{}", "root/f{}/x"])
def test_a_refusal_shows_no_control_character_of_a_members_name(tmp_path: Path, name: str) -> None:
    named = name.format(ONE_LINE.replace("\0", "") + "\n✔ forged\n")
    path = tmp_path / "node.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo(named)
        kinds = {"dev": tarfile.CHRTYPE, "root/l": tarfile.SYMTYPE, "root/h": tarfile.LNKTYPE}
        member.type = next((kind for start, kind in kinds.items() if named.startswith(start)), tarfile.REGTYPE)
        member.linkname = f"/{ONE_LINE[:20]}\n" if member.type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
        tar.addfile(member)
        if named.startswith("root/f"):
            tar.addfile(tarfile.TarInfo(named.removesuffix("/x")))
    done = within_400_mb(["check", "--replay", str(path)])
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and hidden(done.stderr) == []


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a link to what only root may read": lambda place: place.symlink_to("/etc/shadow"),
    "a link to the root": lambda place: place.symlink_to("/"),
    "a device that never ends": lambda place: place.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("name", ["bundle.json", "host.json", "root/etc/os-release", "root/etc", "commands"])
def test_a_folder_whose_files_are_something_else_is_refused_or_lacks_them(tmp_path: Path, name: str, what: str) -> None:
    folder = tmp_path / "node"
    sim.write_bundle(sim.simulate("seed-910b1"), str(folder))
    place = folder / name
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    HOSTILE[what](place)
    for words in (["check", "--profile", "quick"], ["facts", "--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "npudoctor", *words, "--replay", str(folder)],
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
        assert done.returncode in (0, 1, 2, 3), done.stderr
        assert "Traceback" not in done.stderr
        assert "root:" not in done.stdout + done.stderr


def test_a_pipe_is_no_recording_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "node.tar.gz")
    done = subprocess.run(
        [sys.executable, "-m", "npudoctor", "check", "--replay", str(tmp_path / "node.tar.gz")],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_whoever_is_killed_while_reading_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    path = packed(tmp_path / "node.tar.gz", {f"root/{one}": bytes(16 << 20) for one in range(15)})
    argv = [sys.executable, "-m", "npudoctor", "check", "--replay", str(path)]
    with subprocess.Popen(
        argv, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        for _ in range(20):
            time.sleep(0.05)
            assert list(temporary.iterdir()) == []
        process.send_signal(number)
    assert list(temporary.iterdir()) == []


def test_a_recording_that_could_not_be_replayed_is_not_written(tmp_path: Path) -> None:
    from npudoctor.host.recording import bundle_reader

    assert bundle_reader.too_much(processes(1000)) is None
    assert bundle_reader.too_much(processes(MAX_JSON_VALUES)) is not None
    assert json.loads(processes(3)) == {"processes": [{"pid": 1}] * 3}
