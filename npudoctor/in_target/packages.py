"""Keeps the files of installed distributions in an archive, and puts them back: run inside the target Python.

    python -I packages.py keep ARCHIVE NAME ...       before an installer is run
    python -I packages.py done ARCHIVE                when it has ended well
    python -I packages.py restore ARCHIVE NAME ...    after it failed, or to undo what it did

Standard library only, in the syntax of Python 3.6. The archive is whole or absent. Restoring removes the distributions
of these names as their RECORD lists them, what an interrupted installer has left (files younger than the archive that
no RECORD lists), and unpacks what was kept; twice is as good as once. After an installer that has ended well
nothing is left over: what no RECORD lists is then somebody else's, and stays.
"""

import io
import json
import os
import re
import shutil
import sys
import sysconfig
import tarfile
import time

MANIFEST = "npudoctor-manifest.json"


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _sites() -> "list[str]":
    found = []
    for key in ("purelib", "platlib"):
        path = os.path.realpath(sysconfig.get_paths()[key])
        if os.path.isdir(path) and path not in found:
            found.append(path)
    return found


def _metadata(site: str) -> "dict[str, list[str]]":
    """The metadata folders of each distribution, by its normalised name."""
    found = {}  # type: dict[str, list[str]]
    for entry in sorted(os.listdir(site)):
        if entry.endswith(".dist-info"):
            found.setdefault(_normalise(entry[: -len(".dist-info")].split("-")[0]), []).append(entry)
    return found


def _record(site: str, entry: str) -> "list[str]":
    """The absolute paths that a RECORD lists, inside the environment only, and its own folder."""
    prefix = os.path.realpath(sys.prefix) + os.sep
    paths = []
    try:
        with open(os.path.join(site, entry, "RECORD"), encoding="utf-8", errors="surrogateescape", newline="") as file:
            import csv

            rows = [row[0] for row in csv.reader(file) if row]
    except OSError:
        rows = []
    for row in rows:
        path = os.path.normpath(os.path.join(site, row))
        if path.startswith(prefix) and "__pycache__" not in path.split(os.sep):
            paths.append(path)
    for folder, _, names in os.walk(os.path.join(site, entry)):
        paths.extend(os.path.join(folder, name) for name in names)
    return sorted(set(paths))


def _files(names: "set[str]") -> "list[str]":
    """All paths that the RECORDs of these distributions list, there or not; what lists them comes last."""
    found = set()
    for site in _sites():
        for name, entries in _metadata(site).items():
            if name in names:
                for entry in entries:
                    found.update(_record(site, entry))
    return sorted(found, key=lambda path: (".dist-info" + os.sep in path, os.path.basename(path) == "RECORD", path))


def keep(archive: str, names: "set[str]") -> None:
    """Write the files of these distributions into an archive."""
    files = [path for path in _files(names) if os.path.lexists(path)]
    folders = sorted({os.path.dirname(path) for path in files})
    beside = "%s.%d" % (archive, os.getpid())
    with open(beside, "wb") as raw:
        os.chmod(beside, 0o600)
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
            text = json.dumps({"at": time.time(), "names": sorted(names), "folders": folders, "files": files}).encode()
            about = tarfile.TarInfo(MANIFEST)
            about.size = len(text)
            tar.addfile(about, io.BytesIO(text))
            for path in files:
                tar.add(path, arcname=path.lstrip("/"), recursive=False)
        raw.flush()
        os.fsync(raw.fileno())
    os.rename(beside, archive)


def mark_done(archive: str) -> None:
    """Write down that the installer has ended well."""
    with open(archive + ".done", "w", encoding="ascii") as file:
        file.flush()
        os.fsync(file.fileno())


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # what was compiled of it may be there
    except OSError:
        return
    folder, name = os.path.split(path)
    if name.endswith(".py"):
        cache = os.path.join(folder, "__pycache__")
        stem = name[:-3] + "."
        for one in os.listdir(cache) if os.path.isdir(cache) else ():
            if one.startswith(stem):
                os.unlink(os.path.join(cache, one))


def _prune(folder: str, stop: "set[str]") -> None:
    while folder not in stop and folder.startswith(os.path.realpath(sys.prefix) + os.sep):
        cache = os.path.join(folder, "__pycache__")
        try:
            if os.path.isdir(cache) and not os.listdir(cache):
                os.rmdir(cache)
            os.rmdir(folder)
        except FileNotFoundError:
            pass
        except OSError:
            return
        folder = os.path.dirname(folder)


def _leftovers(since: float) -> "list[str]":
    """What an installer that was interrupted has left: files younger than the archive that no RECORD lists."""
    found = []
    for site in _sites():
        listed = set()
        for entries in _metadata(site).values():
            for entry in entries:
                if os.path.exists(os.path.join(site, entry, "RECORD")):
                    listed.update(_record(site, entry))
        for folder, folders, names in os.walk(site):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                path = os.path.join(folder, name)
                if path not in listed and os.lstat(path).st_ctime >= since:
                    found.append(path)
    return found


def _remove_empty_folders(since: float) -> None:
    """Remove the empty folders that an interrupted installer has made: one of metadata is half a package."""
    for site in _sites():
        for folder, _, _ in os.walk(site, topdown=False):
            if folder != site and os.path.basename(folder) != "__pycache__" and os.lstat(folder).st_ctime >= since:
                try:
                    os.rmdir(folder)
                except OSError:
                    pass  # something is in it


def restore(archive: str, names: "set[str]") -> None:
    """Remove what is there of these distributions, and put back what was kept."""
    if not os.path.exists(archive):
        return  # the installer was never started
    cut_off = not os.path.exists(archive + ".done")
    with tarfile.open(archive) as tar:
        tar.extraction_filter = lambda member, _: member  # modes and owners come back as they were
        manifest = tar.extractfile(MANIFEST)
        assert manifest is not None
        about = json.loads(manifest.read().decode())
        kept = {path.lstrip("/") for path in about["files"]}
        stop = set(_sites()) | {os.path.join(os.path.realpath(sys.prefix), name) for name in ("bin", "lib", "share")}
        gone = (_leftovers(about["at"] - 1.0) if cut_off else []) + _files(names)
        for path in dict.fromkeys(gone):
            _remove(path)
            _prune(os.path.dirname(path), stop)
        for site in _sites():
            for name, entries in _metadata(site).items():
                for entry in entries if name in names else ():
                    _prune(os.path.join(site, entry), stop)
        for site in _sites() if cut_off else ():  # pip moves what it replaces to names that begin with ~
            for entry in os.listdir(site):
                path = os.path.join(site, entry)
                if entry.startswith("~") and os.lstat(path).st_ctime >= about["at"] - 1.0:
                    if os.path.isdir(path) and not os.path.islink(path):
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        os.unlink(path)
        if cut_off:
            _remove_empty_folders(about["at"] - 1.0)
        prefix = os.path.realpath(sys.prefix).lstrip("/") + "/"
        for member in tar.getmembers():
            if member.name in kept and member.name.startswith(prefix) and ".." not in member.name.split("/"):
                target = "/" + member.name
                os.makedirs(os.path.dirname(target), exist_ok=True)
                if os.path.lexists(target):
                    os.unlink(target)
                tar.extract(member, "/")
    os.sync()


def main() -> None:
    """Do what the first argument says."""
    what, archive, names = sys.argv[1], sys.argv[2], {_normalise(name) for name in sys.argv[3:]}
    if what == "done":
        mark_done(archive)
    else:
        {"keep": keep, "restore": restore}[what](archive, names)


if __name__ == "__main__":
    main()
