"""The files in folders: every file by its name and its header, with its signature, or one line that says why not."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.node.staged_packages import OtherFile, Package, StagedPackages
from npudoctor.host import FileStat, Host, Unavailable
from npudoctor.packages import identity
from npudoctor.packages.headers import Header, read_header
from npudoctor.packages.names import format_of, is_partial_download, parse_name
from npudoctor.packages.reading import of_host
from npudoctor.records import replace

MOST_FILES = 4000
DEEPEST = 4
"""Folders below the named one; a tree of packages is flat, and a mirror of an operating system is none."""
LARGEST_BYTES = 64 << 30
"""Several times the largest package of the vendor: a larger one is not read as a whole for its SHA-256."""


def read_folders(host: Host, folders: Sequence[str]) -> StagedPackages:
    """Everything in these folders and below. Raises Unavailable where one cannot be listed."""
    files: list[tuple[str, FileStat | None, str | None]] = []
    cut_off = None
    for folder in folders:
        for one in _walk(host, folder.rstrip("/") or "/"):
            if len(files) >= MOST_FILES:
                cut_off = f"only the first {MOST_FILES} files were examined"
                break
            files.append(one)
    packages: list[Package] = []
    others: list[OtherFile] = []
    for path, stat, reason in files:
        name = posixpath.basename(path)
        if stat is None:
            others.append(OtherFile(path, reason or "cannot be read"))
            continue
        found = identify(host, path, name, stat)
        if isinstance(found, Package):
            packages.append(found)
        else:
            others.append(found)
    packages, others = _with_companions(packages, others)
    return StagedPackages(folders=tuple(folders), packages=tuple(packages), others=tuple(others), cut_off=cut_off)


def _walk(host: Host, folder: str) -> Iterator[tuple[str, FileStat | None, str | None]]:
    """Every file below a folder, or why one is not known; links to folders are not followed."""
    waiting = [(folder, 0)]
    while waiting:
        here, depth = waiting.pop(0)
        try:
            names = host.list_dir(here)
        except Unavailable as why:
            if here == folder:
                raise
            yield here, None, why.reason
            continue
        for name in names:
            path = posixpath.join(here, name)
            target = host.read_link(path)
            try:
                stat = host.stat(path)
            except Unavailable as why:
                yield path, None, f"a link to {target}: {why.reason}" if target else why.reason
                continue
            if stat.kind == "dir":
                if target is not None:
                    yield path, None, "a link to a folder; name the folder itself"
                elif depth < DEEPEST:
                    waiting.append((path, depth + 1))
                else:
                    yield path, None, "too deep below the named folder"
            elif target is not None and posixpath.dirname(real := host.real_path(path)) == host.real_path(here):
                yield path, None, f"a link to {posixpath.basename(real)}, which is here too"
            else:
                yield path, stat, None


def identify(host: Host, path: str, name: str, stat: FileStat) -> Package | OtherFile:
    """The package that a file is, or what it is instead."""
    if (plain := _no_package(name, stat)) is not None:
        return OtherFile(path, plain)
    if stat.size == 0:
        header: Header | None = Header(kind="empty", problem="an empty file")
    else:
        try:
            header = read_header(of_host(host, path, stat.size))
        except Unavailable as why:
            header = Header(kind="unread", problem=why.reason)
    found = identity.combine(path, parse_name(name), header, stat.size)
    if isinstance(found, Package) and found.usable and stat.size > LARGEST_BYTES:
        return replace(found, problem=f"{stat.size >> 30} GiB: larger than any package")
    return found


def _no_package(name: str, stat: FileStat) -> str | None:
    """What a file is that is not opened; None for one that may be a package."""
    if stat.kind != "file":
        return f"not a regular file ({stat.kind})"
    if is_partial_download(name):
        return "an unfinished download"
    if companion_of(name) is not None:
        return "a signature, revocation list or checksum"
    known = format_of(name) is not None or parse_name(name) is not None or _worth_opening(name)
    return None if known else "not a package by its name"


def _worth_opening(name: str) -> bool:
    """A renamed package has lost its ending, or has another one; what is text or a picture by its ending has not."""
    ending = re.search(r"\.([A-Za-z][A-Za-z0-9]{0,5})$", name)
    return ending is None or ending[1].lower() in ("bin", "sh", "bak", "old", "orig", "pkg", "gz", "tar", "bz2", "xz")


def companion_of(name: str) -> str | None:
    """The file that a signature or checksum belongs to; `` for a revocation list of any, None for another file."""
    table = knowledge.install()
    stem, dot, suffix = name.rpartition(".")
    if not dot or suffix.lower() not in (*table.signature_suffixes, *table.digest_suffixes):
        return None
    return "" if suffix.lower() == "crl" and format_of(stem) is None else stem


def _with_companions(packages: list[Package], others: list[OtherFile]) -> tuple[list[Package], list[OtherFile]]:
    """Join each signature and checksum to its package; those of no package here are said."""
    digests = knowledge.install().digest_suffixes
    by_path = {package.path: package for package in packages}
    left = []
    for other in others:
        folder, name = posixpath.split(other.path)
        stem = companion_of(name)
        payload = by_path.get(posixpath.join(folder, stem)) if stem else None
        if payload is not None:
            if name.rpartition(".")[2].lower() in digests:
                by_path[payload.path] = replace(payload, digest=name)
            elif not name.lower().endswith(".crl"):
                by_path[payload.path] = replace(payload, signature=name)
        elif stem:
            left.append(OtherFile(other.path, f"a signature or checksum of {stem}, which is not here"))
        else:
            left.append(other)
    return [by_path[package.path] for package in packages], left
