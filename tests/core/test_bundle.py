"""Recorded nodes: what a folder or an archive must be to be read, and what a bad one is told."""

import gzip
import io
import json
import os
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.findings import Because
from npudoctor.host import Completed, Host, MutableHost, Refused, Unavailable, User
from npudoctor.host.recording import archive as archives
from npudoctor.host.recording.recorded_node import BundleError, BundleHost, open_bundle

SHARED = Path(__file__).resolve().parents[2] / "../shared"
MINIMAL = {"schema": "npudoctor.bundle/1", "machine": "aarch64"}


def write(folder: Path, files: dict[str, Any]) -> Path:
    """A bundle of these files; what is not text is written as JSON."""
    for name, content in {"bundle.json": MINIMAL, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def opened(folder: Path, files: dict[str, Any]) -> BundleHost:
    return open_bundle(str(write(folder, files)))


def complaint(path: Path) -> str:
    with pytest.raises(BundleError) as caught:
        open_bundle(str(path))
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


# A folder


def test_a_bundle_typed_by_hand_is_a_host(tmp_path: Path) -> None:
    host = opened(
        tmp_path,
        {
            "environ.json": {"HCCL_IF_IP": "10.0.0.7"},
            "host.json": {"memory": {"total": 5, "available": 4}, "limits": {"nofile": [1024, -1]}},
            "commands/npu-smi info/stdout": "table\n",
            "commands/npu-smi info/result.json": {"returncode": 0, "seconds": 0.84},
            "commands/npu-smi info -t topo/stderr": "no\n",
            "commands/npu-smi info -t topo/result.json": {"returncode": 3},
            "root/etc/hccn.conf": "address_0=1.2.3.4\n",
            "root/dev/davinci0": "",
            "stat.json": {
                "/dev/davinci0": {"type": "char", "mode": "0660", "gid": 1000, "access": "rw", "rdev": "236:0"}
            },
            "links.json": {"/etc/latest": "hccn.conf"},
        },
    )
    assert isinstance(host, Host)
    assert (host.about.source, host.about.machine, host.about.environment) == ("bundle", "aarch64", "process")
    assert host.user == User()
    assert host.environ == {"HCCL_IF_IP": "10.0.0.7"}
    assert host.run(["npu-smi", "info"]) == Completed(returncode=0, stdout="table\n", seconds=0.84)
    assert host.run(["npu-smi", "info", "-t", "topo"]) == Completed(returncode=3, stderr="no\n")
    assert host.read("/etc/latest") == "address_0=1.2.3.4\n"
    assert host.stat("/dev/davinci0").kind == "char"
    assert host.stat("/dev/davinci0").rdev == "236:0"
    assert host.measure("memory") == {"total": 5, "available": 4}
    assert host.list_dir("/dev") == ("davinci0",)


def test_provenance_and_user_are_read(tmp_path: Path) -> None:
    user = {"name": "ma-user", "uid": 1000, "gid": 1000, "gids": [1000, 1001], "groups": ["ma-group", "HwHiAiUser"]}
    about = {**MINIMAL, "hostname": "n7", "recorded_at": "2026-11-21T02:10:45Z", "environment": "pid:9", "user": user}
    host = opened(tmp_path, {"bundle.json": about})
    assert (host.about.hostname, host.about.environment) == ("n7", "pid:9")
    assert host.user == User(name="ma-user", uid=1000, gid=1000, gids=(1000, 1001), groups=("ma-group", "HwHiAiUser"))


def test_group_numbers_that_are_not_given_come_from_the_node_s_own_list(tmp_path: Path) -> None:
    user = {"name": "dev", "uid": 1005, "groups": ["dev", "HwHiAiUser", "gone"]}
    groups = "root:x:0:\nHwHiAiUser:x:1000:dev\ndev:x:1005:\n"
    host = opened(tmp_path, {"bundle.json": {**MINIMAL, "user": user}, "root/etc/group": groups})
    assert (host.user.gid, host.user.gids) == (1005, (1005, 1000))


def test_a_command_that_hung_has_no_return_code(tmp_path: Path) -> None:
    host = opened(
        tmp_path,
        {"commands/npu-smi info/result.json": {"returncode": None, "timed_out": True, "seconds": 20.0}},
    )
    assert host.run(["npu-smi", "info"]) == Completed(returncode=None, seconds=20.0, timed_out=True)


def test_a_crash_is_a_negative_return_code(tmp_path: Path) -> None:
    host = opened(tmp_path, {"commands/python import torch_npu/result.json": {"returncode": -11}})
    assert host.run_in_target("import torch_npu", "python3", timeout=1).returncode == -11


@pytest.mark.parametrize(
    "missing",
    [{"commands": ["npu-smi info"], "paths": ["/etc/hccn.conf"]}, ["npu-smi info", "/etc/hccn.conf"]],
)
def test_what_the_recorder_looked_for_in_vain_is_absent_and_the_rest_unknown(tmp_path: Path, missing: Any) -> None:
    host = opened(tmp_path, {"bundle.json": {**MINIMAL, "unrecorded": "unknown"}, "missing.json": missing})
    because = []
    for ask in (
        lambda: host.run(["npu-smi", "info"]),
        lambda: host.read("/etc/hccn.conf"),
        lambda: host.run(["lsmod"]),
        lambda: host.read("/etc/hosts"),
    ):
        with pytest.raises(Unavailable) as caught:
            ask()
        because.append(caught.value.because)
    assert because == [Because.ABSENT, Because.ABSENT, Because.NOT_RECORDED, Because.NOT_RECORDED]


def test_keys_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    host = opened(
        tmp_path, {"bundle.json": {**MINIMAL, "weather": []}, "host.json": {"moon": 1, "cpu": {"flags": [1]}}}
    )
    assert host.measure("cpu") == {"flags": [1]}


def test_a_bundle_refuses_every_change(tmp_path: Path) -> None:
    host = opened(tmp_path, {"root/etc/hosts": "x"})
    assert isinstance(host, MutableHost)
    calls: list[Callable[[], object]] = [
        lambda: host.write_file("/etc/hosts", b"y"),
        lambda: host.remove("/etc/hosts"),
        lambda: host.set_sysctl("vm.swappiness", "1"),
        lambda: host.signal(1, 15),
        lambda: host.run_streaming(["true"], timeout=1),
    ]
    for call in calls:
        with pytest.raises(Refused, match="a recording cannot be changed"):
            call()
    assert (tmp_path / "root/etc/hosts").read_text(encoding="utf-8") == "x"


def test_contents_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    host = opened(tmp_path, {"root/etc/hosts": "before", "commands/lsmod/stdout": "before"})
    (tmp_path / "root/etc/hosts").write_text("after", encoding="utf-8")
    (tmp_path / "commands/lsmod/stdout").write_text("after", encoding="utf-8")
    assert host.read("/etc/hosts") == "after"
    assert host.run(["lsmod"]).stdout == "after"


def test_long_output_is_cut_and_marked(tmp_path: Path) -> None:
    host = opened(tmp_path, {"commands/lsmod/stdout": "x" * (8 << 20) + "y"})
    done = host.run(["lsmod"])
    assert done.truncated
    assert len(done.stdout) == 8 << 20


def test_a_link_in_the_folder_never_shows_a_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine", encoding="utf-8")
    bundle = write(tmp_path / "node", {"commands/lsmod/result.json": {}})
    (bundle / "commands/lsmod/stdout").symlink_to(tmp_path / "secret")
    (bundle / "commands/other").symlink_to(tmp_path)
    (bundle / "host.json").symlink_to(tmp_path / "secret")
    assert "host.json cannot be read" in complaint(bundle)
    (bundle / "host.json").unlink()
    host = open_bundle(str(bundle))
    assert "other" not in host.commands
    with pytest.raises(OSError, match="symbolic"):
        host.run(["lsmod"])


BROKEN: list[tuple[str, Any, str]] = [
    ("bundle.json", "{", "not valid JSON"),
    ("bundle.json", "[]", "expected an object, found []"),
    ("bundle.json", {"machine": "aarch64"}, 'schema is null; expected "npudoctor.bundle/1"'),
    ("bundle.json", {**MINIMAL, "schema": "npudoctor.bundle/2"}, "newer than this npudoctor understands"),
    ("bundle.json", {**MINIMAL, "schema": "npudoctor.bundle/0"}, 'expected "npudoctor.bundle/1"'),
    ("bundle.json", {**MINIMAL, "schema": 1}, "schema is 1"),
    ("bundle.json", {**MINIMAL, "unrecorded": "maybe"}, 'expected "absent" or "unknown"'),
    ("bundle.json", {**MINIMAL, "machine": 64}, "machine: expected text, found 64"),
    ("bundle.json", {**MINIMAL, "user": "root"}, 'user: expected an object, found "root"'),
    ("bundle.json", {**MINIMAL, "user": {"uid": "0"}}, 'uid: expected a whole number, found "0"'),
    ("bundle.json", {**MINIMAL, "user": {"gids": [True]}}, "gids[0]: expected a whole number, found true"),
    ("environ.json", {"A": 1}, "environ.json: A: expected text, found 1"),
    ("environ.json", {"A": None}, "A: expected text, found null"),
    ("environ.json", "\x00", "environ.json is not valid JSON"),
    ("host.json", {"memory": []}, "host.json: memory: expected an object"),
    ("host.json", {"sockets": {}}, "sockets: expected a list"),
    ("host.json", {"processes": [{"pid": "4711"}]}, 'processes[0]: pid: expected a whole number, found "4711"'),
    ("host.json", {"interfaces": [{"up": "yes"}]}, 'interfaces[0]: up: expected true or false, found "yes"'),
    ("host.json", "[" * 100_000, "not valid JSON"),
    ("host.json", "null", "host.json: expected an object, found null"),
    ("host.json", {"sockets": None}, "sockets: expected a list, found null"),
    ("host.json", {"memory": None}, "memory: expected an object, found null"),
    ("host.json", {"memory": {"total": None, "available": 1}}, "total: expected a number, found null"),
    (
        "host.json",
        '{"memory": {"total": 1e999, "available": 1}}',
        "total: expected a number from 0 to 1e+20, found Infinity",
    ),
    ("host.json", '{"memory": {"total": NaN, "available": 1}}', "total: expected a number from 0 to 1e+20, found NaN"),
    ("host.json", {"memory": {"total": -5, "available": 1}}, "total: expected a number from 0 to 1e+20, found -5"),
    ("host.json", {"memory": {"total": 5}}, "memory: available: this key is missing"),
    ("host.json", {"mounts": [{"fstype": "tmpfs"}]}, "mounts[0]: mount: this key is missing"),
    ("host.json", {"processes": [{"pid": -4}]}, "pid: expected a whole number from 0 to 1e+20, found -4"),
    ("host.json", {"processes": [{"pid": 1, "create_time": 1e300}]}, "create_time: expected a number"),
    ("host.json", {"limits": {"nofile": [1]}}, "limits: nofile: expected a list of 2, found [1]"),
    ("host.json", {"limits": {"nofile": [1, -2]}}, "nofile[1]: expected a whole number from -1 to"),
    ("host.json", {"cpu": {"logical": -3}}, "logical: expected a whole number from 0 to 1e+20, found -3"),
    ("commands/lsmod/result.json", '{"seconds": 1e999}', "seconds: expected a number from 0 to"),
    ("links.json", {"/a": ["b"]}, "/a: expected text"),
    ("stat.json", {"/a": {"mode": "rw"}}, 'mode is "rw"; expected octal digits'),
    ("stat.json", {"/a": {"type": "card"}}, 'type is "card"; expected one of file, dir'),
    ("stat.json", {"/a": {"access": "read"}}, "expected any of the letters r, w, x"),
    ("missing.json", {"commands": "npu-smi"}, "commands: expected a list"),
    ("missing.json", [1], "missing.json[0]: expected text, found 1"),
    ("commands/lsmod/result.json", {"returncode": "0"}, "commands/lsmod/result.json: returncode: expected a whole"),
]


@pytest.mark.parametrize(("name", "content", "expected"), BROKEN)
def test_a_broken_bundle_is_refused_in_one_line(tmp_path: Path, name: str, content: Any, expected: str) -> None:
    text = complaint(write(tmp_path, {name: content}))
    assert name in text
    assert expected in text


def test_a_folder_without_bundle_json_is_no_bundle(tmp_path: Path) -> None:
    assert "bundle.json does not exist: this is no bundle" in complaint(tmp_path)
    assert "bundle not found" in complaint(tmp_path / "nothing")
    assert "bundle not found" in complaint(Path("/dev/null"))


# An archive


def archive(path: Path, members: dict[str, bytes | tarfile.TarInfo], *, with_bundle: bool = True) -> Path:
    said: dict[str, bytes | tarfile.TarInfo] = {"bundle.json": json.dumps(MINIMAL).encode()} if with_bundle else {}
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {**said, **members}.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type = kind
    found.linkname = target
    return found


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, in which nothing may be left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize("prefix", ["", "node/", "./"])
def test_an_archive_is_read_like_a_folder(tmp_path: Path, temporary: Path, prefix: str) -> None:
    path = archive(
        tmp_path / "node.tar.gz",
        {
            f"{prefix}bundle.json": json.dumps(MINIMAL).encode(),
            f"{prefix}root/opt/cann-8.5.0/version": b"8.5.0\n",
            "link": member(f"{prefix}root/opt/cann", tarfile.SYMTYPE, "cann-8.5.0"),
            "hard": member(f"{prefix}root/opt/same", tarfile.LNKTYPE, f"{prefix}root/opt/cann-8.5.0/version"),
            f"{prefix}commands/npu-smi info/stdout": b"table\n",
        },
        with_bundle=False,
    )
    host = open_bundle(str(path))
    assert host.read("/opt/cann/version") == "8.5.0\n"
    assert host.read("/opt/same") == "8.5.0\n"
    assert host.read_link("/opt/cann") == "cann-8.5.0"
    assert host.run(["npu-smi", "info"]).stdout == "table\n"
    assert os.listdir(temporary) == []


REFUSED: list[tuple[dict[str, bytes | tarfile.TarInfo], str]] = [
    ({"/etc/passwd": b"x"}, "is an absolute path"),
    ({"root/../../x": b"x"}, "has a .. in it"),
    ({"..": member("..", tarfile.DIRTYPE)}, "has a .. in it"),
    ({"x": member("root/x", tarfile.SYMTYPE, "/etc/passwd")}, "the link root/x leaves the bundle"),
    ({"x": member("root/x", tarfile.SYMTYPE, "../../etc/passwd")}, "the link root/x leaves the bundle"),
    ({"x": member("root/x", tarfile.LNKTYPE, "/etc/passwd")}, "is an absolute path"),
    ({"x": member("root/x", tarfile.LNKTYPE, "root/y")}, "leaves the bundle"),
    ({"x": member("commands", tarfile.SYMTYPE, "root")}, "a link outside root/"),
    ({"x": member("dev/null", tarfile.CHRTYPE)}, "neither a file nor a folder nor a link"),
    ({"x": member("disk", tarfile.BLKTYPE)}, "neither a file nor a folder nor a link"),
    ({"x": member("pipe", tarfile.FIFOTYPE)}, "neither a file nor a folder nor a link"),
    ({"x": member("root/a", tarfile.SYMTYPE, "b"), "root/a/c": b"x"}, "root/a/c is below root/a, which is no folder"),
    ({"root/a": b"x", "root/a/b/c": b"x"}, "is below root/a, which is no folder"),
]


@pytest.mark.parametrize(("members", "expected"), REFUSED)
def test_a_dangerous_archive_is_refused_and_nothing_is_unpacked(
    tmp_path: Path, temporary: Path, members: dict[str, bytes | tarfile.TarInfo], expected: str
) -> None:
    before = sorted(path for path in tmp_path.rglob("*"))
    path = archive(tmp_path / "node.tar.gz", members)
    assert expected in complaint(path)
    assert os.listdir(temporary) == []
    path.unlink()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_chain_of_links_cannot_climb_out(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "secret").write_text("mine", encoding="utf-8")
    path = archive(
        tmp_path / "node.tar.gz",
        {
            "root/a/b/c": b"",
            "one": member("root/a/b/here", tarfile.SYMTYPE, "."),
            "two": member("root/up", tarfile.SYMTYPE, "a/b/here/../../../secret"),
            "three": member("root/more", tarfile.SYMTYPE, "up/../../secret"),
        },
    )
    try:
        host = open_bundle(str(path))
    except BundleError:
        return
    for name in ("/up", "/more"):
        with pytest.raises(Unavailable):
            host.read(name)


@pytest.mark.thorough
def test_too_many_entries_are_refused(tmp_path: Path, temporary: Path) -> None:
    path = archive(tmp_path / "node.tar.gz", {f"root/{number}": b"" for number in range(20_000)})
    assert "more than 20,000 entries" in complaint(path)
    assert os.listdir(temporary) == []


@pytest.mark.thorough
def test_a_million_entries_are_refused_at_once_and_without_taking_memory(tmp_path: Path, temporary: Path) -> None:
    headers = b"".join(sized(f"root/{number:06}", 0).tobuf(tarfile.USTAR_FORMAT) for number in range(1000))
    about = json.dumps(MINIMAL).encode()
    first = sized("bundle.json", len(about)).tobuf(tarfile.USTAR_FORMAT) + about.ljust(512, b"\0")
    path = tmp_path / "node.tar.gz"
    path.write_bytes(gzip.compress(first) + gzip.compress(headers) * 1000 + gzip.compress(bytes(1024)))
    tracemalloc.start()
    try:
        assert "more than 20,000 entries" in complaint(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert os.listdir(temporary) == []


def test_as_many_entries_as_allowed_are_read(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_ENTRIES", 20)
    assert open_bundle(str(archive(tmp_path / "a.tar.gz", {f"root/{number}": b"" for number in range(19)})))
    assert "entries" in complaint(archive(tmp_path / "b.tar.gz", {f"root/{number}": b"" for number in range(20)}))


class Zeros(io.RawIOBase):
    """As many zeros as anybody wants, without holding them."""

    def read(self, size: int = -1) -> bytes:
        return bytes(size)


def bomb(path: Path, headers: list[tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for header in headers:
            tar.addfile(header, Zeros())
    return path


def sized(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size = size
    return header


@pytest.mark.thorough
def test_a_small_archive_that_unpacks_to_too_much_is_refused_without_taking_memory(
    tmp_path: Path, temporary: Path
) -> None:
    path = bomb(tmp_path / "bomb.tar.gz", [sized(f"root/{number}", 100 << 20) for number in range(3)])
    assert path.stat().st_size < 3 << 20
    tracemalloc.start()
    try:
        assert "unpacks to more than 256 MiB" in complaint(path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert os.listdir(temporary) == []


def test_copies_by_hard_link_count_as_what_they_unpack_to(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 10_000)
    members: dict[str, bytes | tarfile.TarInfo] = {"root/big": bytes(4000)}
    members |= {str(number): member(f"root/{number}", tarfile.LNKTYPE, "root/big") for number in range(3)}
    assert "unpacks to more than" in complaint(archive(tmp_path / "node.tar.gz", members))


@pytest.mark.thorough
def test_a_header_that_wants_all_memory_is_refused(tmp_path: Path, temporary: Path) -> None:
    header = sized("././@PaxHeader", 64 << 20)
    header.type = tarfile.XHDTYPE
    raw = header.tobuf(tarfile.USTAR_FORMAT)
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(raw + bytes(64 << 20))
    tracemalloc.start()
    try:
        assert "is refused: one of its headers is larger than 1 MiB" in complaint(path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "content", [b"", b"not an archive", b"\x1f\x8b\x08\x00broken", gzip.compress(b"no tar" * 200, mtime=0)]
)
def test_what_is_no_archive_is_said_to_be_none(tmp_path: Path, temporary: Path, content: bytes) -> None:
    path = tmp_path / "node.tar.gz"
    path.write_bytes(content)
    assert "is not a .tar.gz that can be read" in complaint(path)
    assert os.listdir(temporary) == []


def damaged(how: str) -> bytes:
    """An archive of one bundle that is not as it was written."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        about = json.dumps(MINIMAL).encode()
        tar.addfile(sized("bundle.json", len(about)), io.BytesIO(about))
    whole = plain.getvalue()
    packed = gzip.compress(whole)
    return {
        "another sum": packed[:-8] + bytes(4) + packed[-4:],
        "another length": packed[:-4] + b"\1\1\1\1",
        "no sum": packed[:-8],
        "half a sum": packed[:-3],
        "garbage behind it": packed + b"garbage",
        "garbage in it": gzip.compress(whole + b"garbage" * 100),
        "twice": packed + packed,
        "no end mark": gzip.compress(whole[:1024]),
        "a last block cut": gzip.compress(whole[:1000]),
    }[how]


@pytest.mark.parametrize(
    "how",
    [
        *("another sum", "another length", "no sum", "half a sum", "garbage behind it", "garbage in it", "twice"),
        *("no end mark", "a last block cut"),
    ],
)
def test_a_damaged_archive_is_refused_whole(tmp_path: Path, temporary: Path, how: str) -> None:
    path = tmp_path / "node.tar.gz"
    path.write_bytes(damaged(how))
    assert "is not a .tar.gz that can be read" in complaint(path)
    assert os.listdir(temporary) == []


def test_a_cut_archive_is_said_to_be_none(tmp_path: Path, temporary: Path) -> None:
    path = archive(tmp_path / "node.tar.gz", {"root/x": os.urandom(40_000)})
    path.write_bytes(path.read_bytes()[:20_000])
    assert "is not a .tar.gz that can be read" in complaint(path)


def test_an_archive_without_a_bundle_in_it_says_so(tmp_path: Path, temporary: Path) -> None:
    path = archive(tmp_path / "node.tar.gz", {"a/x": b"", "b/y": b""}, with_bundle=False)
    assert "bundle.json does not exist" in complaint(path)
    assert os.listdir(temporary) == []


def test_owners_and_modes_of_an_archive_are_not_taken_over(tmp_path: Path, temporary: Path) -> None:
    header = sized("root/tool", 1)
    header.mode, header.uid = 0o6777, 4711
    path = tmp_path / "node.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        about = json.dumps(MINIMAL).encode()
        tar.addfile(sized("bundle.json", len(about)), io.BytesIO(about))
        tar.addfile(header, io.BytesIO(b"x"))
    found = open_bundle(str(path)).stat("/tool")
    assert (found.mode, found.uid) == (0o644, 0)


# Real recordings


@pytest.mark.skipif(not (SHARED / "scenarios").is_dir(), reason="the recorded nodes are not beside this repository")
def test_recorded_nodes_are_read_whole() -> None:
    for folder in sorted((SHARED / "scenarios").glob("*/bundle")):
        host = open_bundle(str(folder))
        assert len(host.commands) == sum(1 for _ in (folder / "commands").iterdir())
        for key in host.commands:
            assert host.run(key.split(" ")).seconds >= 0
        files = [path for path, kind in host.tree.walk() if kind in ("file", "char")]
        assert len(files) == sum(1 for path in (folder / "root").rglob("*") if path.is_file())
        assert "60000" in host.read("/proc/sys/net/ipv4/ip_local_reserved_ports")
        assert host.measure("cpu")["logical"] == 192
        assert host.stat("/dev/davinci0").access == "rw"


# Held in memory


@pytest.mark.parametrize("prefix", ["", "node/", "./"])
def test_an_archive_answers_like_the_folder_that_it_unpacks_to(tmp_path: Path, temporary: Path, prefix: str) -> None:
    path = archive(
        tmp_path / "node.tar.gz",
        {
            f"{prefix}bundle.json": json.dumps(MINIMAL).encode(),
            f"{prefix}root/opt/cann-8.5.0/version": b"8.5.0\n",
            "link": member(f"{prefix}root/opt/cann", tarfile.SYMTYPE, "cann-8.5.0"),
            "hard": member(f"{prefix}root/opt/same", tarfile.LNKTYPE, f"{prefix}root/opt/cann-8.5.0/version"),
            "empty": member(f"{prefix}root/var/empty", tarfile.DIRTYPE),
            f"{prefix}commands/npu-smi info/stdout": b"table\n",
            "plain": member(f"{prefix}commands/lsmod", tarfile.DIRTYPE),
        },
        with_bundle=False,
    )
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xzf", path, "-C", tmp_path / "unpacked"], check=True)
    subprocess.run(["chmod", "-R", "u+rwX", tmp_path / "unpacked"], check=True)  # some members have no mode
    held, unpacked = open_bundle(str(path)), open_bundle(str(tmp_path / "unpacked" / prefix))
    assert list(held.tree.walk()) == list(unpacked.tree.walk())
    assert dict(held.commands) == dict(unpacked.commands)
    assert held.read("/opt/cann/version") == held.read("/opt/same") == "8.5.0\n"
    assert (held.exists("/var/empty"), held.list_dir("/var/empty")) == (True, ())
    assert os.listdir(temporary) == []
