"""Folders of packages: each file by name and header, whatever else lies there."""

import gzip
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.host import Unavailable
from npudoctor.host.live.local import LocalHost
from npudoctor.packages import folder as folders
from npudoctor.packages.folder import read_folders
from npudoctor.packages.reading import BUDGET_BYTES
from tests.plain_user import ALICE, as_root

from . import build

DRIVER = "Ascend-hdk-910b-npu-driver_25.5.2_linux-aarch64.run"


def read(folder: Path) -> StagedPackages:
    host = LocalHost()
    try:
        return read_folders(host, [str(folder)])
    finally:
        host.close()


def only(folder: Path) -> Package:
    (package,) = read(folder).packages
    return package


def what(folder: Path, name: str) -> str:
    return next(other.what for other in read(folder).others if os.path.basename(other.path) == name)


def test_a_whole_release_is_told_by_name_and_header_and_nothing_is_executed(tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    before = sorted(os.listdir(tmp_path))
    found = read(tmp_path)
    assert {package.told_by for package in found.packages} == {"name and header"}
    assert [package.problem for package in found.packages] == [None] * 7
    driver = next(package for package in found.packages if package.component == "driver")
    assert (driver.arch, driver.families, driver.accepts) == ("aarch64", ("A2",), "[7.0.0,7.8.99]")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_truncated_package_is_unusable(tmp_path: Path) -> None:
    build.driver(tmp_path, DRIVER, "25.5.2", cut=7)
    size = (tmp_path / DRIVER).stat().st_size
    assert only(tmp_path).problem == f"truncated: {size} of {size + 7} bytes"


@pytest.mark.parametrize("lines", [1, 4000])
def test_the_length_of_the_script_does_not_matter(tmp_path: Path, lines: int) -> None:
    build.driver(tmp_path, DRIVER, "25.5.2", help_lines=lines)
    assert only(tmp_path).problem is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (DRIVER.replace("25.5.2", "25.3.rc1"), "renamed: version 25.3.rc1 by its name, 25.5.2 by its header"),
        (DRIVER.replace("driver", "firmware"), "renamed: component firmware by its name, driver by its header"),
        (DRIVER.replace("910b", "310p"), "renamed: chip 310P by its name, A2 by its header"),
        (DRIVER.replace("aarch64", "x86-64"), "renamed: architecture x86_64 by its name, aarch64 by its header"),
    ],
)
def test_a_header_that_contradicts_the_name_is_said(tmp_path: Path, name: str, problem: str) -> None:
    build.driver(tmp_path, name, "25.5.2")
    assert only(tmp_path).problem == problem


@pytest.mark.parametrize("name", ["driver-new", "npu.bin", "the driver.sh", "old.bak"])
def test_a_renamed_package_is_told_by_its_header_alone(tmp_path: Path, name: str) -> None:
    build.driver(tmp_path, name, "25.5.2")
    found = only(tmp_path)
    assert (found.component, found.version, found.families, found.told_by) == ("driver", "25.5.2", ("A2",), "header")


def test_rpm_names_are_those_of_the_header(tmp_path: Path) -> None:
    if shutil.which("rpmbuild") is None:
        pytest.skip("rpmbuild is not installed")
    spec = tmp_path / "x.spec"
    spec.write_text(
        "Name: Ascend910B-driver\nVersion: 25.5.2\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n"
        "%description\nx\n%files\n",
        encoding="utf-8",
    )
    made = subprocess.run(
        ["rpmbuild", "-bb", "--define", f"_topdir {tmp_path}/top", str(spec)], capture_output=True, check=False
    )
    files = list((tmp_path / "top").rglob("*.rpm"))
    if made.returncode or not files:
        pytest.skip("rpmbuild does not work here")
    repo = tmp_path / "repo"
    repo.mkdir()
    shutil.copy(files[0], repo / "Ascend-hdk-910b-npu-driver-25.5.2-1.aarch64.rpm")
    shutil.copy(files[0], repo / "Ascend-hdk-910b-npu-driver-25.5.1-1.aarch64.rpm")
    first, second = sorted(read(repo).packages, key=lambda package: str(package.version), reverse=True)
    assert (first.component, first.version, first.problem) == ("driver", "25.5.2", None)
    assert second.problem == "renamed: version 25.5.1 by its name, 25.5.2 by its header"


def test_deb_names_are_those_of_the_header(tmp_path: Path) -> None:
    build.deb(tmp_path / "ascend910b-driver_25.5.1_arm64.deb", "ascend910b-driver", "25.5.1", "arm64")
    build.deb(tmp_path / "ascend310p-driver_25.5.1_arm64.deb", "ascend910b-driver", "25.5.1", "arm64", form="xz")
    second, first = read(tmp_path).packages
    assert (first.component, first.arch, first.told_by, first.problem) == ("driver", "aarch64", "name and header", None)
    assert second.problem == "renamed: chip 310P by its name, A2 by its header"


def test_a_package_of_the_system_is_named(tmp_path: Path) -> None:
    build.deb(tmp_path / "linux-headers-6.1_6.1.1_arm64.deb", "linux-headers-6.1", "6.1.1-1", "arm64")
    found = what(tmp_path, "linux-headers-6.1_6.1.1_arm64.deb")
    assert found == "a package of the operating system: linux-headers-6.1 6.1.1-1 (arm64)"


def test_a_bundle_with_its_signature_inside(tmp_path: Path) -> None:
    name = "Ascend-hdk-910b-npu_25.5.0_linux-aarch64.zip"
    build.zip_file(tmp_path / name, (f"inner/{name}", f"inner/{name}.cms", "inner/crldata.crl"))
    assert only(tmp_path).signature == "in it"


def test_signatures_and_checksums_are_joined_to_their_package(tmp_path: Path) -> None:
    build.driver(tmp_path, DRIVER, "25.5.2")
    for suffix in ("asc", "sha256", "crl"):
        (tmp_path / f"{DRIVER}.{suffix}").write_text("x", encoding="utf-8")
    (tmp_path / "Ascend-cann-toolkit_8.5.0_linux-aarch64.run.cms").write_text("x", encoding="utf-8")
    found = only(tmp_path)
    assert (found.signature, found.digest) == (f"{DRIVER}.asc", f"{DRIVER}.sha256")
    assert what(tmp_path, "Ascend-cann-toolkit_8.5.0_linux-aarch64.run.cms").endswith("which is not here")


def test_a_changed_wheel_name_is_unusable_only_where_pip_cannot_find_it(tmp_path: Path) -> None:
    build.wheel(tmp_path, "torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl")
    os.rename(tmp_path / "torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl", tmp_path / "torch.bin")
    assert only(tmp_path).problem == "renamed: pip needs the published name"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (DRIVER, b"", "an empty file"),
        (DRIVER, b"<html>404</html>", "its content is not a run package"),
        (DRIVER, b"PK\x03\x04" + b"\0" * 40, "its name ends in .run, its content is zip"),
        (DRIVER, b"#!/bin/sh\nrm -rf /\n", "a script, not a package of the vendor (no makeself header)"),
        (DRIVER, b"#!/bin/sh\n# Makeself\n", "its makeself header is incomplete"),
        (DRIVER, b'#!/bin/sh\n# Makeself\nfilesizes="9"\nskip="99999"\n', "its makeself header is incomplete"),
        (
            DRIVER.replace(".run", ".rpm").replace("_25.5.2_linux", "-25.5.2-1."),
            b"\xed\xab\xee\xdb" + b"\xff" * 300,
            None,
        ),
        ("ascend910b-driver_25.5.1_arm64.deb", b"!<arch>\n" + b"\xff" * 100, "its deb header cannot be read"),
        (
            "torch-2.8.0-cp311-cp311-linux_aarch64.whl",
            b"PK\x05\x06" + b"\xff" * 200,
            "truncated, or not a sound zip file",
        ),
    ],
)
def test_what_is_no_package_is_said_in_one_line(tmp_path: Path, name: str, content: bytes, said: str | None) -> None:
    (tmp_path / name).write_bytes(content)
    found = read(tmp_path)
    lines = [package.problem for package in found.packages] or [other.what for other in found.others]
    assert len(lines) == 1
    assert lines[0]
    assert "\n" not in lines[0]
    if said is not None:
        assert lines[0] == said


def test_random_damage_never_breaks_the_reader(tmp_path: Path) -> None:
    """Every 37th byte of each kind of file is changed in turn; the answer is a package or one line."""
    build.driver(tmp_path, DRIVER, "25.5.2")
    build.wheel(tmp_path, "torch-2.8.0-cp311-cp311-manylinux_2_28_aarch64.whl")
    build.deb(tmp_path / "ascend910b-driver_25.5.1_arm64.deb", "ascend910b-driver", "25.5.1", "arm64", form="xz")
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for place in range(0, len(whole), 37):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
            found = read(tmp_path)
            assert len(found.packages) + len(found.others) == 3
        path.write_bytes(whole)


def test_links_pipes_and_unfinished_files(tmp_path: Path) -> None:
    repo, away = tmp_path / "repo", tmp_path / "away"
    repo.mkdir()
    away.mkdir()
    build.driver(repo, DRIVER, "25.5.2")
    other = "Ascend-hdk-910b-npu-firmware_7.8.0.7.220.run"
    build.firmware(away, other, "7.8.0.7.220")
    (repo / other).symlink_to(away / other)
    (repo / "latest.run").symlink_to(DRIVER)
    (repo / "gone.run").symlink_to("nowhere")
    (repo / "loop").symlink_to("loop")
    (repo / "folder").symlink_to(away)
    os.mkfifo(repo / "Ascend-cann-toolkit_8.5.0_linux-aarch64.run")
    (repo / f"{DRIVER}.crdownload").write_text("x", encoding="utf-8")
    found = read(repo)
    assert sorted(package.component for package in found.packages) == ["driver", "firmware"]
    assert what(repo, "latest.run") == f"a link to {DRIVER}, which is here too"
    assert what(repo, "gone.run") == f"a link to nowhere: {repo}/gone.run does not exist"
    assert what(repo, "loop").startswith("a link to loop: ")
    assert what(repo, "folder") == "a link to a folder; name the folder itself"
    assert what(repo, "Ascend-cann-toolkit_8.5.0_linux-aarch64.run") == "not a regular file (fifo)"
    assert what(repo, f"{DRIVER}.crdownload") == "an unfinished download"


@as_root
def test_what_a_user_cannot_read_is_said_once(open_folder: Path) -> None:
    path = build.driver(open_folder, DRIVER, "25.5.2")
    path.chmod(0)
    for name, mode in (("closed", 0o700), ("listed", 0o744)):
        (open_folder / name).mkdir(mode=mode)
        (open_folder / name / "torch.whl").touch()
    os.seteuid(ALICE)
    try:
        assert only(open_folder).problem == f"{path} cannot be read by {ALICE}"
        assert what(open_folder, "closed") == f"{open_folder}/closed cannot be read by {ALICE}"
        assert what(open_folder, "torch.whl") == f"{open_folder}/listed/torch.whl cannot be read by {ALICE}"
    finally:
        os.seteuid(0)


def test_huge_files_are_read_in_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 2 TiB with the header of a package: its announced size is compared, and little of it is read."""
    build.driver(tmp_path, DRIVER, "25.5.2")
    try:
        os.truncate(tmp_path / DRIVER, 2 << 40)
    except OSError:
        pytest.skip("this file system has no files of 2 TiB")
    (tmp_path / "torch-2.8.0-cp311-cp311-manylinux_2_28_aarch64.whl").write_bytes(b"PK\x03\x04")
    os.truncate(tmp_path / "torch-2.8.0-cp311-cp311-manylinux_2_28_aarch64.whl", 2 << 40)
    taken = []
    read_part = LocalHost.read_part

    def counted(self: LocalHost, path: str, offset: int, length: int) -> bytes:
        taken.append(length)
        return read_part(self, path, offset, length)

    monkeypatch.setattr(LocalHost, "read_part", counted)
    problems = [str(package.problem) for package in read(tmp_path).packages]
    assert "bytes more than its header says" in problems[0]
    assert problems[1] == "truncated, or not a sound zip file"
    assert sum(taken) <= 2 * BUDGET_BYTES


def test_a_sparse_package_whose_header_announces_its_size_is_unusable(tmp_path: Path) -> None:
    """Its SHA-256 would take hours; nothing but its header is read."""
    try:
        build.driver(tmp_path, DRIVER, "25.5.2", hole=3 << 40)
    except OSError:
        pytest.skip("this file system has no files of 3 TiB")
    assert only(tmp_path).problem == "3072 GiB: larger than any package"


def test_a_bomb_is_unpacked_only_in_bounds(tmp_path: Path) -> None:
    build.run_file(
        tmp_path / DRIVER, "ASCEND910B DRIVER RUN PACKAGE", {"zeros": "\0" * (64 << 20), "version.info": "x"}
    )
    assert only(tmp_path).component == "driver"


def test_an_archive_of_endless_headers_is_damaged_and_no_crash(tmp_path: Path) -> None:
    """Each header announces a long name for the next one; tarfile reads them by recursion."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2
    block = header.tobuf(tarfile.GNU_FORMAT) + b"x\0".ljust(512, b"\0")
    (tmp_path / "Ascend-cann-amct_8.1.RC1_linux-aarch64.tar.gz").write_bytes(gzip.compress(block * 3000))
    assert str(only(tmp_path).problem).startswith("its archive cannot be read")


def test_folders_below_and_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.a2_release(tmp_path / "pylibs" / "python3.11")
    assert len(read(tmp_path).packages) == 7
    monkeypatch.setattr(folders, "MOST_FILES", 3)
    found = read(tmp_path)
    assert len(found.packages) == 3
    assert found.cut_off == "only the first 3 files were examined"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        read(tmp_path / "nowhere")
