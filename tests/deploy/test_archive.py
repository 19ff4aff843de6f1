"""The archives with their own Python: the tools that make them, and an archive where one is.

The archives are looked up in the folder NPUDOCTOR_ARCHIVES, else in dist/; `python3.11 -m tools.archive` makes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import pprint
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from npudoctor import __version__

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end: npudoctor itself is the installed one

from tools.archive import __main__ as archive_main  # noqa: E402
from tools.archive import cpython, elf, pack, sources, tree, wheels  # noqa: E402

FOLDER = Path(os.environ.get("NPUDOCTOR_ARCHIVES") or ROOT / "dist")
ARCHIVES = {name: FOLDER / f"npudoctor-{__version__}-linux-{name}.tar.gz" for name in archive_main.ARCHITECTURES}
LIMIT_S = 300.0

FIPS = """
openssl_conf = all
[all]
providers = providers
alg_section = algorithms
[providers]
default = active
base = active
[active]
activate = 1
[algorithms]
default_properties = fips=yes
"""
"""What OPENSSL_CONF can name on a system in FIPS mode; without the module fips.so OpenSSL has no SHA-256 then."""


# The tools


def made(alignment: int = 65536, version: bytes = b"GLIBC_2.17", machine: int = 183, tail: bytes = b"") -> bytes:
    """A small ELF file: one LOAD segment, and a section of needed versions with its table of names."""
    names = b"\0libc.so.6\0" + version + b"\0"
    needed = struct.pack("<HHIII", 1, 1, 1, 16, 0) + struct.pack("<IHHII", 0, 0, 2, 11, 0)
    start = 64 + 56
    table = start + len(names) + len(needed)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, table, 0, 64, 56, 1, 64, 2, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, start, start, alignment)
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, start, len(names), 0, 0, 1, 0)
    versions = struct.pack("<IIQQQQIIQQ", 0, 0x6FFFFFFE, 0, 0, start + len(names), len(needed), 0, 1, 8, 0)
    return head + load + names + needed + strings + versions + tail


def test_a_file_that_requires_too_much_of_a_machine_is_named(tmp_path: Path) -> None:
    (tmp_path / "fine.so").write_bytes(made())
    (tmp_path / "text.so").write_text("no ELF file", encoding="utf-8")
    (tmp_path / "link.so").symlink_to("fine.so")
    assert elf.problems(tmp_path, "aarch64", glibc=(2, 17), page=65536) == []
    (tmp_path / "new.so").write_bytes(made(version=b"GLIBC_2.28"))
    (tmp_path / "other.so").write_bytes(made(machine=62))
    (tmp_path / "pages.so").write_bytes(made(alignment=4096))
    (tmp_path / "taken.so").write_bytes(made(tail=b"<jemalloc>"))
    found = elf.problems(tmp_path, "aarch64", glibc=(2, 17), page=65536)
    assert [row.partition(":")[0] for row in found] == ["new.so", "other.so", "pages.so", "taken.so"]
    assert "requires glibc 2.28" in found[0] and "4096" in found[2]


def test_versions_of_glibc_are_compared_as_numbers(tmp_path: Path) -> None:
    (tmp_path / "old.so").write_bytes(made(version=b"GLIBC_2.2.5"))
    found = elf.read(tmp_path / "old.so")
    assert found is not None and found.glibc == (2, 2, 5) and found.architecture == "aarch64"


def test_this_python_is_read_as_what_it_is() -> None:
    found = elf.read(Path(os.path.realpath(sys.executable)))
    assert found is not None
    assert found.architecture == platform.machine() and found.alignment >= 4096


@pytest.mark.parametrize("minor", [10, 11, 12, 13])
def test_the_lock_of_one_python_has_one_version_of_each_package(minor: int, tmp_path: Path) -> None:
    rows = [row for row in wheels.lock(tmp_path, minor).read_text(encoding="utf-8").splitlines() if row[:1].isalnum()]
    names = [row.partition("==")[0] for row in rows]
    assert len(set(names)) == len(names)
    assert {"textual", "uvicorn", "aiohttp"} <= set(names)
    assert not any(";" in row for row in rows) and "setuptools" not in names
    assert ("tomli" in names) is (minor == 10)


def test_every_source_has_a_version_and_a_hash_of_each_file() -> None:
    assert set(sources.pins()) == set(sources.NAMES) == set(tree._LIBRARY_LICENSES)
    for pin in sources.pins().values():
        assert any(name.endswith(".dsc") for name in pin["files"])
        assert all(len(value) == 64 for value in pin["files"].values())


def test_the_build_data_are_the_same_wherever_it_was_built() -> None:
    """`pprint` breaks a line where the path of the folder makes it long."""
    made = []
    for work in (Path("/b"), Path("/srv/a-folder-with-a-long-name/of-somebody/work")):
        values = {"LDSHARED": f"cc -shared -L{work}/x86_64/root/lib -Wl,-s -pie", "HAVE_X": 1, "PREFIX": "/opt"}
        made.append(tree.build_data(f"# made\nbuild_time_vars = {pprint.pformat(values)}\n", work))
    assert made[0] == made[1]
    assert made[0].startswith("# made\nbuild_time_vars = {") and "-L/build/x86_64/root/lib" in made[0]


def test_what_another_recipe_has_compiled_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(cpython, "LIBRARIES", {"zlib": lambda *_: compiled.append("zlib")})
    target = cpython.Target("x86_64", tmp_path, ["zig"], 0)
    monkeypatch.setattr(target, "copy_of", lambda _: tmp_path)
    for _ in range(2):
        cpython.build_libraries(target)
    assert compiled == ["zlib"]
    (target.work / "zlib.done").write_text("another", encoding="utf-8")
    cpython.build_libraries(target)
    assert compiled == ["zlib", "zlib"]


def staged(folder: Path) -> Path:
    """A folder in the shape of an archive, with a shell script in the place of npudoctor."""
    root = folder / "npudoctor-1-linux-any"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "npudoctor").write_text('#!/bin/sh\necho "ran $0 $*"\n', encoding="utf-8")
    (root / "bin" / "npudoctor").chmod(0o755)
    (root / "README").write_text("text", encoding="utf-8")
    return root


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    packed = []
    for number in (1, 2):
        root = staged(tmp_path / str(number))
        (root / "README").chmod(0o600 if number == 1 else 0o664)
        os.utime(root / "README", (number, number))
        pack.write_tar(root, tmp_path / f"{number}.tar.gz", epoch=1_790_000_000)
        packed.append((tmp_path / f"{number}.tar.gz").read_bytes())
    assert packed[0] == packed[1]
    with tarfile.open(tmp_path / "1.tar.gz") as tar:
        members = {member.name: member for member in tar}
    assert members["npudoctor-1-linux-any/bin/npudoctor"].mode == 0o755
    assert {(one.uid, one.gid, one.mtime) for one in members.values()} == {(0, 0, 1_790_000_000)}


@pytest.fixture
def one_file(tmp_path: Path) -> Path:
    pack.write_tar(staged(tmp_path), tmp_path / "any.tar.gz", epoch=1_790_000_000)
    pack.write_one_file(tmp_path / "any.tar.gz", tmp_path / "any.run", "1", "any")
    return tmp_path / "any.run"


def sh(*argv: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, argv)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
        env=os.environ | variables,
    )


def test_one_file_unpacks_where_it_is_told_and_is_the_archive(one_file: Path, tmp_path: Path) -> None:
    done = sh("sh", one_file, "--unpack", tmp_path / "to here")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "to here" / "README").read_text(encoding="utf-8") == "text"
    assert sh(tmp_path / "to here" / "bin" / "npudoctor", "check").stdout.endswith("check\n")


def test_one_file_that_is_damaged_unpacks_nothing(one_file: Path, tmp_path: Path) -> None:
    one_file.write_bytes(one_file.read_bytes()[:-8] + bytes(8))
    done = sh("sh", one_file, "--unpack", tmp_path / "there")
    assert done.returncode == 2 and "damaged" in done.stderr
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("place", ["/tmp/npudoctor-test", "/var/tmp/npudoctor-test", "/dev/shm/npudoctor-test", "here"])
def test_one_file_never_unpacks_where_others_can_write(one_file: Path, place: str) -> None:
    done = sh("sh", one_file, "check", NPUDOCTOR_HOME=place)
    assert done.returncode == 2 and "NPUDOCTOR_HOME" in done.stderr
    assert not os.path.exists(place)


def test_one_file_unpacks_once_into_a_folder_of_its_user(one_file: Path, tmp_path: Path) -> None:
    """/mnt of a namespace is the folder: pytest's own is below /tmp, where it refuses."""
    (tmp_path / "mnt").mkdir()
    inside = (
        'mount --bind "$1" /mnt && export NPUDOCTOR_HOME=/mnt/own && sh "$2" check && stat -c %a /mnt/own/* && '
        'touch $(echo /mnt/own/*)/mark && sh "$2" again && ls /mnt/own/*/mark && chmod 755 /mnt/own/* && ! sh "$2" no'
    )
    if sh("unshare", "-rm", "true").returncode:
        pytest.skip("requires user namespaces")
    done = sh("unshare", "-rm", "sh", "-c", inside, "sh", tmp_path / "mnt", one_file)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith(" check") and lines[1] == "700" and lines[2].endswith(" again")
    assert "mode 700" in done.stderr


# An archive where one is


def unpacked(folder: Path, architecture: str) -> Path:
    archive = ARCHIVES[architecture]
    if not archive.exists():
        pytest.skip(f"no archive {archive.name} in {FOLDER}; python3.11 -m tools.archive makes it")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="tar") if sys.version_info >= (3, 12) else tar.extractall(folder)
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module", params=archive_main.ARCHITECTURES)
def any_archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return unpacked(tmp_path_factory.mktemp("archive"), request.param), request.param


@pytest.fixture(scope="module")
def own_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("own archive"), platform.machine())


def test_every_elf_file_of_an_archive_runs_on_old_systems_and_large_pages(any_archive: tuple[Path, str]) -> None:
    folder, architecture = any_archive
    assert archive_main.problems(folder, architecture) == []
    found = dict(elf.files(folder))
    assert len(found) > 10
    assert max(one.glibc for one in found.values()) <= (2, 17)


def test_an_archive_is_small_and_has_licences_and_a_list_of_components(any_archive: tuple[Path, str]) -> None:
    folder, architecture = any_archive
    assert ARCHIVES[architecture].stat().st_size <= archive_main.MOST_BYTES
    bill = json.loads((folder / "sbom.cdx.json").read_text(encoding="utf-8"))
    names = {one["name"] for one in bill["components"]}
    assert {"python3.11", "openssl", "textual", "uvicorn", "aiohttp"} <= names
    assert all(one["licenses"] for one in bill["components"])
    assert {path.stem for path in (folder / "licenses").iterdir()} >= set(sources.NAMES)
    assert not [path for path in folder.rglob("*") if "readline" in path.name.lower() and path.suffix == ".so"]


def test_no_file_of_an_archive_names_the_machine_that_built_it(any_archive: tuple[Path, str]) -> None:
    folder, _ = any_archive
    for path in folder.rglob("*"):
        if path.is_file():
            assert b"/sources/python3.11" not in path.read_bytes(), path


def test_an_archive_checks_in_a_moved_folder_that_is_read_only_without_network(
    own_archive: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved folder"
    shutil.copytree(own_archive, moved, symlinks=True)
    for path in [moved, *moved.rglob("*")]:
        path.chmod(path.stat().st_mode & 0o555)
    before = sorted(str(path) for path in moved.rglob("*"))
    command: list[str | Path] = [moved / "bin" / "npudoctor", "check", "--simulate", "healthy-a3", "--json"]
    prefix: list[str | Path] = [] if sh("unshare", "-rn", "true").returncode else ["unshare", "-rn"]
    done = sh(*prefix, *command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tool_version"] == __version__
    assert sorted(str(path) for path in moved.rglob("*")) == before


def test_an_archive_starts_through_a_link_and_ignores_variables_of_another_python(
    own_archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "npudoctor").symlink_to(own_archive / "bin" / "npudoctor")
    (tmp_path / "rich.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    done = sh(tmp_path / "npudoctor", "--version", PYTHONPATH=str(tmp_path), PYTHONHOME="/nowhere", PYTHONSTARTUP="x")
    assert (done.returncode, done.stdout) == (0, f"npudoctor {__version__}\n")


AS_ITSELF = """
import os, subprocess
from npudoctor.host.live import identity
start = identity.Start(identity.user_of(os.geteuid()), ["/bin/echo", "ran"], {})
subprocess.run(start.argv, env=start.environ, cwd=start.cwd, pass_fds=start.descriptors, check=True)
start.must_have_started()
"""


def test_the_python_of_an_archive_is_as_where_configure_can_try_it(any_archive: tuple[Path, str]) -> None:
    """Where it cross-compiles configure answers such questions with the worst, which are FNV as hash, and no tzset."""
    folder, _ = any_archive
    (data,) = folder.rglob("_sysconfigdata_*.py")
    told: dict[str, dict[str, object]] = {}
    exec(data.read_text(encoding="utf-8"), told)
    asked = "WORKING_TZSET", "ALIGNED_REQUIRED", "BROKEN_SEM_GETVALUE"
    assert [told["build_time_vars"][f"HAVE_{name}"] for name in asked] == [1, 0, 0]


def test_the_texts_of_an_archive_are_hashed_safely(own_archive: Path) -> None:
    script = "import sys, time; time.tzset(); print(sys.hash_info.algorithm)"
    done = sh(own_archive / "bin" / "python3.11", "-I", "-c", script)
    assert (done.returncode, done.stdout) == (0, "siphash13\n"), done.stderr


def test_an_archive_starts_a_tool_with_the_rights_of_a_user(own_archive: Path) -> None:
    done = sh(own_archive / "bin" / "python3.11", "-I", "-c", AS_ITSELF)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_an_archive_reads_no_settings_of_the_machine_s_openssl(own_archive: Path, tmp_path: Path) -> None:
    """In FIPS mode they name a module that is not in the archive, and without it there is no SHA-256."""
    (tmp_path / "openssl.cnf").write_text(FIPS, encoding="utf-8")
    script = "import hashlib; print(hashlib.sha256().name, hashlib.md5().name)"
    done = sh(own_archive / "bin" / "python3.11", "-I", "-c", script, OPENSSL_CONF=str(tmp_path / "openssl.cnf"))
    assert (done.returncode, done.stdout) == (0, "sha256 md5\n"), done.stderr


@pytest.mark.parametrize("module", ["npudoctor.daemon.service", "npudoctor.tui.app", "aiohttp", "textual_serve.server"])
def test_an_archive_has_all_parts(own_archive: Path, module: str) -> None:
    done = sh(own_archive / "bin" / "python3.11", "-I", "-c", f"import {module}, sqlite3, ssl, ctypes, lzma, bz2")
    assert done.returncode == 0, done.stderr


def test_the_checksums_are_of_the_files() -> None:
    sums = FOLDER / "SHA256SUMS"
    if not sums.exists():
        pytest.skip(f"no SHA256SUMS in {FOLDER}")
    for row in sums.read_text(encoding="utf-8").splitlines():
        expected, _, name = row.partition("  ")
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == expected, name
