"""The sources of CPython and its libraries: Debian's source packages, by version and SHA-256 (`sources.json`)."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PINS = Path(__file__).with_name("sources.json")
NAMES = ("python3.11", "openssl", "zlib", "libffi", "sqlite3", "xz-utils", "bzip2")

_PYTHON_PATCHES = re.compile(r"CVE-|000\d-|relfile-nullptr|shutdown-deadlock|frame_dealloc-crash|fix-py_compile")
"""Of Debian's patches of CPython only those of defects: the others move its folders to where Debian has them."""


class Apt:
    """apt with lists of its own, so that the machine's settings stay as they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for part in ("empty", "state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "debian.sources").write_text("\n\n".join(_with_sources()), encoding="utf-8")
        self._options = [
            f"Dir::Etc::sourcelist={folder}/empty.list",
            f"Dir::Etc::sourceparts={folder}",
            f"Dir::State={folder}/state",
            "Dir::State::status=/var/lib/dpkg/status",
            f"Dir::Cache={folder}/cache",
            "APT::Sandbox::User=root",
        ]

    def run(self, tool: str, *words: str, folder: Path | None = None) -> str:
        """What apt-get or apt-cache prints."""
        argv = [tool, *(word for option in self._options for word in ("-o", option)), *words]
        done = subprocess.run(argv, cwd=folder, capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            raise SystemExit(f"{tool} {' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def fetch(self, name: str, version: str, folder: Path) -> None:
        """Download one source package, unless it is there."""
        if not list(folder.glob(f"{name}_{version.partition(':')[2] or version}.dsc")):
            self.run("apt-get", "source", "--download-only", f"{name}={version}", folder=folder)


def _with_sources() -> Iterator[str]:
    """The machine's own entries for Debian, as entries for source packages."""
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for place in places:
        text = place.read_text(encoding="utf-8") if place.is_file() else ""
        if place.suffix == ".list":
            for line in text.splitlines():
                if found := re.match(r"deb\s+(?:\[([^]]*)\]\s+)?(\S+/debian\S*)\s+(\S+)\s+(.*)", line):
                    _, address, suite, parts = found.groups()
                    yield (
                        f"Types: deb-src\nURIs: {address}\nSuites: {suite}\nComponents: {parts}\n"
                        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
                    )
        for stanza in re.split(r"\n\s*\n", text) if place.suffix == ".sources" else ():
            if re.search(r"^URIs:.*/debian", stanza, re.MULTILINE):
                yield re.sub(r"^Types:.*$", "Types: deb-src", stanza, flags=re.MULTILINE).strip() + "\n"


def pins() -> dict[str, dict[str, Any]]:
    """Version and files of each source package."""
    held: dict[str, dict[str, Any]] = json.loads(PINS.read_text(encoding="utf-8"))
    return held


def update(work: Path) -> None:
    """Write the newest versions that can be fetched, with their hashes, to `sources.json`."""
    apt = Apt(work / "apt")
    apt.run("apt-get", "update")
    downloads = work / "downloads"
    downloads.mkdir(exist_ok=True)
    found = {}
    for name in NAMES:
        shown = apt.run("apt-cache", "showsrc", "--only-source", name)
        versions = re.findall(r"^Version: (\S+)", shown, re.MULTILINE)
        for version in sorted(set(versions), key=_order, reverse=True):
            try:
                apt.fetch(name, version, downloads)
            except SystemExit:
                continue  # a mirror can list a version whose files it lacks
            break
        else:
            raise SystemExit(f"{name}: none of the versions {', '.join(versions)} can be fetched")
        dsc = downloads / f"{name}_{version.partition(':')[2] or version}.dsc"
        files = {dsc.name: _hash(dsc)}
        files |= {
            file: hashed
            for hashed, file in re.findall(
                r"^ ([0-9a-f]{64}) \d+ (\S+)$", dsc.read_text(encoding="utf-8"), re.MULTILINE
            )
        }
        found[name] = {"version": version, "files": files}
    PINS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _order(version: str) -> list[tuple[int, str]]:
    return [(int(number or 0), word) for word, number in re.findall(r"(\D*)(\d*)", version)]


def unpack(work: Path) -> None:
    """Download, verify, unpack and patch every source package below `sources`."""
    downloads, sources = work / "downloads", work / "sources"
    downloads.mkdir(parents=True, exist_ok=True)
    sources.mkdir(parents=True, exist_ok=True)
    apt: Apt | None = None
    for name, pin in pins().items():
        folder = sources / name
        done = sources / f"{name}-{pin['version'].replace(':', '_')}.done"
        if done.exists():
            continue
        if not all((downloads / file).exists() for file in pin["files"]):
            if apt is None:
                apt = Apt(work / "apt")
                apt.run("apt-get", "update")
            apt.fetch(name, pin["version"], downloads)
        for file, expected in pin["files"].items():
            if (actual := _hash(downloads / file)) != expected:
                raise SystemExit(f"{file}: expected SHA-256 {expected}, found {actual}")
        dsc = next(file for file in pin["files"] if file.endswith(".dsc"))
        shutil.rmtree(folder, ignore_errors=True)
        argv = ["dpkg-source", "--no-check", "--skip-patches", "--no-copy", "-x", str(downloads / dsc), str(folder)]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _patch(name, folder)
        for old in (*work.glob(f"*/{name}.done"), *work.glob("*/python.done")):
            old.unlink(missing_ok=True)  # compiled from other sources
        done.touch()


def epoch(work: Path) -> int:
    """The time of the newest change of the sources, which the interpreter shows as that of its build."""
    found = []
    for name in NAMES:
        argv = ["dpkg-parsechangelog", "-S", "Timestamp", "-l", str(work / "sources" / name / "debian" / "changelog")]
        found.append(int(subprocess.run(argv, check=True, capture_output=True, encoding="utf-8").stdout))
    return max(found)


def _patch(name: str, folder: Path) -> None:
    series = folder / "debian" / "patches" / "series"
    for line in series.read_text(encoding="utf-8").splitlines() if series.exists() else ():
        patch = line.partition("#")[0].strip().partition(" ")[0]
        if not patch or (name == "python3.11" and not _PYTHON_PATCHES.match(patch)):
            continue
        argv = ["patch", "-p1", "-s", "-f", "--no-backup-if-mismatch", "-i", str(series.parent / patch)]
        done = subprocess.run(argv, cwd=folder, capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            raise SystemExit(f"{name}: {patch} does not apply:\n{done.stdout}")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
