"""Writing a recorded node down: as a folder, or as an archive that is the same byte for byte for the same notes."""

from __future__ import annotations

import gzip
import io
import json
import os
import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from typing import Any, BinaryIO

from npudoctor import __version__, clock
from npudoctor.data import to_data
from npudoctor.host import About, Completed, FileStat, Refused, User
from npudoctor.host.live.opening import no_foreign_link, open_place, path_of
from npudoctor.host.live.safe_files import open_replacement
from npudoctor.host.recording.recorded_node import SCHEMA, SLASH
from npudoctor.host.recording.recorder import Notes
from npudoctor.host.simulated.tree import enter

LONGEST_NAME = 255
"""Bytes that the name of a file may have: a command with a longer key is not kept."""

TOP = "node"
"""The folder that an archive unpacks to."""

_OF_THIS_MOMENT = ("/proc/", "/sys/", "/dev/")
"""Where the time of a file is that of the kernel's last look at it."""


def files_of(notes: Notes) -> dict[str, bytes]:
    """The files of a bundle by their path in it, sorted."""
    said = {
        "bundle.json": _about(notes),
        "environ.json": dict(notes.environ or {}),
        "failed.json": {
            asked: {"because": why.because.value, "reason": why.reason} for asked, why in notes.failures.items()
        },
        "host.json": {key: value for key, value in notes.measures.items() if value is not None or key == "container"},
        "links.json": notes.links,
        "listings.json": {path: list(names) for path, names in notes.listings.items()},
        "missing.json": sorted(notes.missing),
        "stat.json": {path: _stat(path, found, notes) for path, found in notes.stats.items()},
    }
    files = {name: _json(value) for name, value in said.items() if value or name in ("environ.json", "missing.json")}
    for key, done in notes.commands.items():
        folder = key.replace("/", SLASH)
        if len(os.fsencode(folder)) <= LONGEST_NAME and "\0" not in key:
            files |= {f"commands/{folder}/{name}": content for name, content in _answer(done).items()}
    folders: dict[str, set[str]] = {}
    for path in notes.files:
        enter(folders, posixpath.dirname(path))
        folders.setdefault(posixpath.dirname(path), set())
    files |= {f"root{path}": content for path, content in notes.files.items() if path not in folders}
    return dict(sorted(files.items()))


def describe_node(about: About, user: User) -> dict[str, Any]:
    """What bundle.json says of a node; None for what is not known."""
    return {
        "schema": SCHEMA,
        "npudoctor": __version__,
        "npudoctor_prefix": about.own_prefix,
        "hostname": about.hostname,
        "machine": about.machine,
        "recorded_at": about.recorded_at,
        "environment": about.environment,
        "user": to_data(user),
    }


def _about(notes: Notes) -> dict[str, Any]:
    said = describe_node(notes.about, notes.user) | {"unrecorded": "unknown", "tools": notes.tools}
    said["recorded_at"] = said["recorded_at"] or clock.in_utc(clock.timestamp())
    return {key: value for key, value in said.items() if value is not None}


def _stat(path: str, found: FileStat, notes: Notes) -> dict[str, Any]:
    """An entry of stat.json; with the size where the content does not tell it."""
    held = notes.files.get(path)
    said: dict[str, Any] = {
        "type": found.kind,
        "mode": f"{found.mode:04o}",
        "uid": found.uid,
        "gid": found.gid,
        "access": found.access,
        "mtime": None if path.startswith(_OF_THIS_MOMENT) else found.mtime,
        "rdev": found.rdev,
        "size": found.size if held is None or len(held) != found.size else None,
        "cut": True if path in notes.cut else None,
    }
    if found.kind != "file" and not found.size:
        said["size"] = None
    return {key: value for key, value in said.items() if value is not None}


def _answer(done: Completed) -> dict[str, bytes]:
    said: dict[str, Any] = {"returncode": done.returncode}
    if done.seconds:
        said["seconds"] = done.seconds
    if done.timed_out:
        said["timed_out"] = True
    if done.truncated:
        said["truncated"] = True
    files = {"result.json": _json(said)}
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if text:
            files[name] = text.encode("utf-8", "replace")
    return files


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def write_folder(files: Mapping[str, bytes], target: str) -> None:
    """Write a bundle as a folder, which must not exist or be empty: all of it, or nothing.

    Raises Refused where another user leads the target elsewhere, and OSError.
    """
    with open_place(os.path.abspath(target), no_foreign_link) as place:
        beside = tempfile.mkdtemp(prefix=".npudoctor-", dir=path_of(place.folder))
        try:
            _fill(beside, files)
            os.rename(beside, place.name, dst_dir_fd=place.folder)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise


def _fill(folder: str, files: Mapping[str, bytes]) -> None:
    """Write files into a folder that was just made, through a descriptor: the owner of the one above can replace it."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise Refused("another user has replaced the new folder")
        for name, content in files.items():
            path = os.path.join(path_of(handle), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file:
                file.write(content)
    finally:
        os.close(handle)


def write_archive(files: Mapping[str, bytes], target: str, *, replace: bool = False) -> None:
    """Write a bundle as a .tar.gz, for its owner's eyes: all of it, or nothing.

    Raises FileExistsError where something is there that must not be replaced, Refused where another user leads the
    target elsewhere, and OSError.
    """
    with open_replacement(target, replace=replace) as file:
        _pack(files, file)


def _pack(files: Mapping[str, bytes], into: BinaryIO) -> None:
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=into, compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in files.items():
            member = tarfile.TarInfo(f"{TOP}/{name}")
            member.size = len(content)
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(content))


__all__ = ["TOP", "files_of", "write_archive", "write_folder"]
