"""Stand-ins for the vendor's packages: files with true headers and next to no content."""

import gzip
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

SCRIPT = """#!/bin/bash
# This script was generated using Makeself 2.4.2
# The license covering this archive and its contents is independent of the Makeself license (GPL)

CRCsum="1234567890"
MD5="00000000000000000000000000000000"
SHA="0000000000000000000000000000000000000000000000000000000000000000"
label="{label}"
script="./install.sh"
scriptargs=""
targetdir="makeself"
filesizes="{size}"
totalsize="{size}"
keep="n"
skip="{lines}"
touch "$0.was-executed"
{help}
"""


def tar_gz(files: Mapping[str, str]) -> bytes:
    """A compressed tar with these files."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return target.getvalue()


def run_file(
    path: Path, label: str, files: Mapping[str, str] | None = None, *, cut: int = 0, help_lines: int = 3, hole: int = 0
) -> Path:
    """A makeself file; `cut` bytes are missing at its end, `hole` bytes of nothing are there and in its header."""
    payload = tar_gz(files or {"install.sh": "exit 0\n"})
    help = "\n".join("echo option" for _ in range(help_lines))
    text = SCRIPT.format(label=label, size=len(payload) + hole, lines="000", help=help)
    script = text.replace('skip="000"', f'skip="{text.count(chr(10)):03}"')
    whole = script.encode() + payload
    path.write_bytes(whole[: len(whole) - cut])
    if hole:
        os.truncate(path, len(whole) + hole)
    return path


def driver(folder: Path, name: str, version: str, *, accepts: str = "", chip: str = "910B", **more: int) -> Path:
    """A driver package whose archive names its version."""
    info = f"Version={version}\npackage_version={version}\ncompatible_version_fw={accepts or '[1.0.0,99.0.0]'}\n"
    files = {"version.info": info, "scene.info": "os=linux\narch=aarch64\n", "install.sh": "exit 1\n"}
    return run_file(folder / name, f"ASCEND{chip} DRIVER RUN PACKAGE", files, **more)


def firmware(folder: Path, name: str, version: str, *, accepts: str = "", chip: str = "910B", **more: int) -> Path:
    """A firmware package."""
    info = f"Version={version}\nfirmware_version=1.0\ncompatible_version_drv={accepts or '[20.0.0,99.0.0]'}\n"
    return run_file(folder / name, f"ASCEND{chip} FIRMWARE RUN PACKAGE", {"version.info": info}, **more)


def cann(folder: Path, name: str, version: str, *, package: str = "Ascend-cann-toolkit", **more: int) -> Path:
    """A package of CANN."""
    info = f"package_name={package}\nversion={version}\narch=aarch64\n"
    return run_file(folder / name, package, {"./ascend_toolkit_install.info": info}, **more)


def wheel(folder: Path, name: str, requires: tuple[str, ...] = ()) -> Path:
    """A wheel with nothing but its metadata."""
    dist, version = name.split("-")[:2]
    lines = [f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr(f"{dist}-{version}.dist-info/METADATA", "\n".join(lines) + "\n\nabout\n")
        archive.writestr(f"{dist}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    return folder / name


def deb(path: Path, name: str, version: str, arch: str, *, form: str = "gz") -> Path:
    """A Debian package whose control file is compressed as gz or xz."""
    control = tar_gz({"./control": f"Package: {name}\nVersion: {version}\nArchitecture: {arch}\n"})
    if form == "xz":
        control = lzma.compress(gzip.decompress(control))
    parts = {"debian-binary": b"2.0\n", f"control.tar.{form}": control, "data.tar.gz": tar_gz({"./usr/x": "x"})}
    whole = b"!<arch>\n"
    for member, data in parts.items():
        whole += (
            f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    path.write_bytes(whole)
    return path


def zip_file(path: Path, names: tuple[str, ...]) -> Path:
    """A zip file of files with these names."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return path


def a2_release(folder: Path) -> None:
    """All that an A2 node on aarch64 needs: HDK 25.5.2, CANN 8.5.0, torch 2.8.0."""
    os.makedirs(folder, exist_ok=True)
    driver(folder, "Ascend-hdk-910b-npu-driver_25.5.2_linux-aarch64.run", "25.5.2", accepts="[7.0.0,7.8.99]")
    firmware(folder, "Ascend-hdk-910b-npu-firmware_7.8.0.7.220.run", "7.8.0.7.220")
    cann(folder, "Ascend-cann-toolkit_8.5.0_linux-aarch64.run", "8.5.0")
    ops = "Ascend-cann-910b-ops"
    cann(folder, f"{ops}_8.5.0_linux-aarch64.run", "8.5.0", package=ops)
    cann(folder, "Ascend-cann-nnal_8.5.0_linux-aarch64.run", "8.5.0", package="Ascend-cann-nnal")
    wheel(folder, "torch-2.8.0-cp311-cp311-manylinux_2_28_aarch64.whl")
    wheel(folder, "torch_npu-2.8.0.post2-cp311-cp311-manylinux_2_28_aarch64.whl", ("torch==2.8.0",))
