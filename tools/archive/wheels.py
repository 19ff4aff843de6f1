"""Downloads the locked wheels of one architecture, and makes npudoctor's own from the last commit."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD_ONLY = ("setuptools",)
"""In the lock file to build npudoctor's own wheel; not in the archive."""


def lock(work: Path, minor: int = 11) -> Path:
    """What the lock file has for one Python 3.x, without markers and without what only builds."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    kept = [row for block in re.split(r"\n(?=\S)", text) if (row := _for_python(block, minor)) is not None]
    path = work / f"requirements-3.{minor}.lock"
    path.write_text("\n".join(kept).rstrip() + "\n", encoding="utf-8")
    return path


def without_build_tools(text: str) -> str:
    """The lock file with its markers, without what only builds."""
    blocks = re.split(r"\n(?=\S)", text)
    return "\n".join(one for one in blocks if one.partition("==")[0] not in BUILD_ONLY)


def _for_python(block: str, minor: int) -> str | None:
    """One requirement with its hashes; None where it is of another Python: pip judges markers by its own Python."""
    if block.startswith("#") or block.partition("==")[0] in BUILD_ONLY:
        return None
    first, newline, hashes = block.partition("\n")
    requirement, _, marker = first.removesuffix("\\").strip().partition(" ; ")
    if marker:
        found = re.fullmatch(r"python_full_version (<|>=) '3\.(\d+)'", marker.strip())
        if found is None:
            raise SystemExit(f"requirements.lock: a marker that {__name__} does not know: {marker}")
        if (minor < int(found[2])) is not (found[1] == "<"):
            return None
    return f"{requirement} \\{newline}{hashes}"


def tools(work: Path) -> Path:
    """A Python with pip and the compiler in their locked versions (`requirements.txt`)."""
    python = work / "tools" / "bin" / "python"
    if not python.exists():
        if sys.version_info[:2] != (3, 11):
            raise SystemExit(f"run this with Python 3.11; found {sys.version.split()[0]}")
        subprocess.run([sys.executable, "-m", "venv", str(work / "tools")], check=True)
        wanted = Path(__file__).with_name("requirements.txt")
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(wanted)], check=True)
    return python


def platform_options(architecture: str, minor: int = 11) -> list[str]:
    """The options with which pip takes wheels of manylinux2014 or older for that architecture."""
    kinds = ["manylinux_2_17", "manylinux2014", "manylinux_2_12", "manylinux2010", "manylinux_2_5", "manylinux1"]
    platforms = [word for kind in kinds for word in ("--platform", f"{kind}_{architecture}")]
    return [
        *platforms,
        "--python-version",
        f"3.{minor}",
        "--implementation",
        "cp",
        "--abi",
        f"cp3{minor}",
        "--abi",
        "abi3",
        "--abi",
        "none",
        "--only-binary=:all:",
        "--no-deps",
    ]


def download(python: Path, work: Path, architecture: str, minor: int = 11) -> Path:
    """The folder with the locked wheels of that architecture for one Python 3.x."""
    folder = work / "wheels" / f"{architecture}-3.{minor}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        argv = [
            str(python),
            "-m",
            "pip",
            "download",
            "-q",
            "--require-hashes",
            "-r",
            str(lock(work, minor)),
            "-d",
            str(folder),
        ]
        subprocess.run([*argv, *platform_options(architecture, minor)], check=True)
        (folder / "done").touch()
    return folder


def build_own(python: Path, work: Path, variables: Mapping[str, str]) -> Path:
    """npudoctor's wheel from the last commit; what is not committed is not in it."""
    source, folder = work / "npudoctor-source", work / "wheels" / "npudoctor"
    for path in (source, folder):
        subprocess.run(["rm", "-rf", str(path)], check=True)
        path.mkdir(parents=True)
    committed = subprocess.run(["git", "-C", str(ROOT), "archive", "HEAD"], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], check=True, input=committed)
    argv = [
        str(python),
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(source),
    ]
    subprocess.run(argv, check=True, env=dict(variables))
    return next(folder.glob("npudoctor-*.whl"))
