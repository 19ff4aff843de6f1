"""Packs a finished folder: a tar.gz with the same bytes each time, and the same in one file that unpacks itself."""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

_ONE_FILE = r"""#!/bin/sh
# npudoctor @VERSION@ for Linux on @ARCH@, with its own Python, in one file: sh @NAME@ [command ...]
# It unpacks itself once, into a folder that only its user can write: $NPUDOCTOR_HOME, else ~/.cache/npudoctor, for root
# /var/cache/npudoctor. `sh @NAME@ --unpack DIR` unpacks it there and runs nothing.
set -eu
umask 077
hash=@HASH@
skip=@SKIP@
give_up() { echo "npudoctor: $*" >&2; exit 2; }
payload() { tail -n "+$skip" -- "$0"; }
unpack() {
    [ "$(payload | sha256sum | cut -d ' ' -f 1)" = "$hash" ] || give_up "$0 is damaged: its checksum differs"
    payload | tar -xzf - -C "$1" --strip-components=1 --no-same-owner || give_up "cannot unpack into $1"
}
case $0 in */*) ;; *) give_up "start it with its path: sh ./$0" ;; esac
[ -r "$0" ] || give_up "cannot read $0"
if [ "${1:-}" = --unpack ]; then
    [ -n "${2:-}" ] || give_up "--unpack requires a folder"
    umask 022
    mkdir -p -- "$2" && unpack "$2"
    echo "unpacked; run: $2/bin/npudoctor"
    exit 0
fi
me=$(id -u)
if [ -n "${NPUDOCTOR_HOME:-}" ]; then
    base=$NPUDOCTOR_HOME
elif [ "$me" = 0 ]; then
    base=/var/cache/npudoctor
else
    home=$( (getent passwd "$me" || awk -F: -v me="$me" '$3 == me' /etc/passwd) 2>/dev/null | cut -d : -f 6)
    [ -n "$home" ] || home=${HOME:-}
    case $home in ""|/|/nonexistent) give_up "user $me has no home folder; set NPUDOCTOR_HOME" ;; esac
    base=$home/.cache/npudoctor
fi
case $base in /*) ;; *) give_up "NPUDOCTOR_HOME must be an absolute path; found $base" ;; esac
base=$(readlink -m -- "$base")
case $base in
    /tmp|/tmp/*|/var/tmp|/var/tmp/*|/dev/shm|/dev/shm/*)
        give_up "every user can write a folder above $base; set NPUDOCTOR_HOME" ;;
esac
mkdir -p -- "$base" 2>/dev/null || give_up "cannot write $base; set NPUDOCTOR_HOME to a folder of your own"
chmod 700 -- "$base" 2>/dev/null || :
own() { [ ! -h "$1" ] && [ "$(stat -c '%u %a' -- "$1" 2>/dev/null)" = "$me 700" ]; }
own "$base" || give_up "$base must be a folder of user $me with mode 700"
folder=$base/$hash
if [ ! -d "$folder" ]; then
    part=$(mktemp -d "$base/part.XXXXXX")
    trap 'rm -rf -- "$part"' EXIT
    unpack "$part"
    mv -T -- "$part" "$folder" 2>/dev/null || [ -d "$folder" ] || give_up "cannot write $folder"
    rm -rf -- "$part"
    trap - EXIT
fi
own "$folder" || give_up "$folder must be a folder of user $me with mode 700"
exec sh "$folder/bin/npudoctor" "$@"
"""


def write_tar(folder: Path, path: Path, epoch: int) -> None:
    """Write a folder as a tar.gz: sorted, owned by root, with one time for all files."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as tar,
    ):
        for one in [folder, *sorted(folder.rglob("*"))]:
            tar.add(one, str(one.relative_to(folder.parent)), recursive=False, filter=_plain(epoch))


def _plain(epoch: int) -> Callable[[tarfile.TarInfo], tarfile.TarInfo]:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = epoch
        executable = member.isdir() or bool(member.mode & stat.S_IXUSR)
        member.mode = 0o755 if executable else 0o644
        return member

    return plain


def write_one_file(archive: Path, path: Path, version: str, architecture: str) -> None:
    """Write the script that has the archive behind its last line."""
    payload = archive.read_bytes()
    text = _ONE_FILE.replace("@VERSION@", version).replace("@ARCH@", architecture).replace("@NAME@", path.name)
    text = text.replace("@HASH@", hashlib.sha256(payload).hexdigest())
    text = text.replace("@SKIP@", str(text.count("\n") + 1))
    buffer = io.BytesIO(text.encode())
    path.write_bytes(buffer.getvalue() + payload)
    path.chmod(0o755)


def write_checksums(folder: Path) -> None:
    """SHA256SUMS of all other files there, as sha256sum reads it."""
    rows = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != "SHA256SUMS"
    ]
    (folder / "SHA256SUMS").write_text("".join(rows), encoding="utf-8")
