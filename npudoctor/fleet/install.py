"""An archive of npudoctor on many nodes: judged here, sent by the engine, checked and unpacked by one script there."""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from npudoctor.fleet import outcomes
from npudoctor.fleet.engines import Answer, Engine, Plan
from npudoctor.host.live.safe_files import Unreadable, read_as
from npudoctor.records import record, replace

MOST_ARCHIVE = 256 << 20
MOST_UNPACKED = 2 << 30
MOST_FILES = 50_000
MACHINES = {62: "x86_64", 183: "aarch64"}
"""e_machine of an ELF file (elf(5)) as uname -m calls it."""
_LINE = re.compile(r"NPUDOCTOR-INSTALL (\w+) ?(.*)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,100}")
CHANGES = ("new", "switch")
DONE = ("installed", "present")


class BadArchive(ValueError):
    """A file that is not sent to any node; the text is one line."""


@record(frozen=True, kw_only=True)
class Archive:
    """A judged archive. `kind` is archive (with its own Python) or wheels, `arch` a machine or any; `kib` are the KiB
    that a node requires to install it."""

    path: str
    name: str
    sha256: str
    kind: str
    arch: str
    kib: int


@record(frozen=True, kw_only=True)
class Row:
    """What one node says: `outcome` is new, switch, present, installed, refused, or a kind of `outcomes.KINDS`."""

    node: str
    outcome: str
    detail: str = ""


def read_archive(path: str) -> Archive:
    """Read and judge an archive; raises BadArchive."""
    try:
        content = read_as(path, MOST_ARCHIVE)
        digest = hashlib.sha256(content).hexdigest()
        if digest != (stated := _stated_checksum(path)):
            raise BadArchive(f"{path}: its SHA-256 is {digest}, expected {stated}")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
            return _read(path, digest, len(content), tar)
    except Unreadable as problem:
        raise BadArchive(str(problem)) from None
    except (tarfile.TarError, EOFError, OSError) as problem:
        raise BadArchive(f"{path}: no tar.gz: {problem}") from None


def _stated_checksum(path: str) -> str:
    """The checksum in NAME.sha256 of the same folder, or in its row of SHA256SUMS."""
    name, folder = os.path.basename(path), os.path.dirname(path)
    for beside in (f"{path}.sha256", os.path.join(folder, "SHA256SUMS")):
        if not os.path.exists(beside):
            continue
        for row in read_as(beside).decode("utf-8", "replace").splitlines():
            digest, _, of = row.partition(" ")
            if re.fullmatch(r"[0-9a-f]{64}", digest) and of.strip(" *") in (name, "", "-"):
                return digest
    raise BadArchive(f"{path}: its checksum is missing: {name}.sha256 or SHA256SUMS beside it")


def _read(path: str, digest: str, size: int, tar: tarfile.TarFile) -> Archive:
    tops, machines, kinds, total = set(), set(), set(), 0
    for number, member in enumerate(tar):
        top, _, rest = member.name.removeprefix("./").partition("/")
        total += member.size
        if number > MOST_FILES or total > MOST_UNPACKED:
            raise BadArchive(f"{path}: larger than {MOST_UNPACKED >> 30} GiB or {MOST_FILES:,} files unpacked")
        if problem := _problem(member, top):
            raise BadArchive(f"{path}: {member.name[:80]!r} {problem}")
        tops.add(top)
        if rest == "bin/npudoctor":
            kinds.add("archive")
        elif rest == "requirements.lock":
            kinds.add("wheels")
        if found := re.search(r"_(x86_64|aarch64)\.whl$", rest):
            machines.add(found[1])
        elif rest.startswith("bin/") and member.isfile() and (file := tar.extractfile(member)):
            head = file.read(20)
            if head[:4] == b"\x7fELF":
                number = int.from_bytes(head[18:20], "little")
                machines.add(MACHINES.get(number, f"machine {number}"))
    if len(tops) != 1 or len(kinds) != 1:
        raise BadArchive(f"{path}: expected one folder with bin/npudoctor, or with requirements.lock and wheels")
    if len(machines) > 1:
        raise BadArchive(f"{path}: for several machines: {', '.join(sorted(machines))}")
    (top,), (kind,) = tops, kinds
    if not _NAME.fullmatch(top):
        raise BadArchive(f"{path}: its folder is called {top[:80]!r}")
    arch = next(iter(machines), "any")
    return Archive(
        path=os.path.abspath(path),
        name=f"{top}-{digest[:12]}",
        sha256=digest,
        kind=kind,
        arch=arch,
        kib=(2 * total + size) // 1024 if kind == "wheels" else (total + size) // 1024,
    )


def _problem(member: tarfile.TarInfo, top: str) -> str | None:
    """Why a member is not unpacked by root of many nodes; None where it may be."""
    parts = member.name.split("/")
    if member.name.startswith("/") or ".." in parts or top in ("", "."):
        return "leads out of its folder"
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        return "is no file, folder or link"
    if member.islnk() and (not member.linkname.startswith(f"{top}/") or ".." in member.linkname.split("/")):
        return "is a link that leads out of its folder"
    if member.mode & (stat.S_ISUID | stat.S_ISGID):
        return "is setuid or setgid"
    if member.issym():
        target = os.path.normpath(os.path.join(os.path.dirname(member.name), member.linkname))
        if member.linkname.startswith("/") or target.split("/")[0] != top or ".." in member.linkname.lstrip("./"):
            return "is a link that leads out of its folder"
    return None


def script(mode: str, archive: Archive, prefix: str) -> tuple[str, ...]:
    """The command on a node; the archive is its standard input where `mode` is install."""
    text = files("npudoctor").joinpath("deploy/ansible/roles/npudoctor/files/install.sh").read_text(encoding="utf-8")
    about = (archive.name, archive.sha256, archive.arch, archive.kind, str(archive.kib))
    return ("sh", "-c", text, "sh", mode, prefix, *about)


def install_rows(mode: str, archive: Archive, prefix: str, plan: Plan, engine: Engine) -> Iterator[Row]:
    """Plan or install on every node of the plan; rows as they come, one a node."""
    feed = archive.path if mode == "install" else None
    waiting = dict.fromkeys(plan.names)
    for answer in engine(replace(plan, script=script(mode, archive, prefix), feed=feed)):
        if answer.node in waiting:
            del waiting[answer.node]
            yield _row(answer)
    for name in waiting:
        yield Row(node=name, outcome="silent")


def _row(answer: Answer) -> Row:
    found = _LINE.findall(answer.stdout)
    if found and not answer.kind:
        return Row(node=answer.node, outcome=found[-1][0], detail=found[-1][1].strip()[:300])
    if answer.kind:
        return Row(node=answer.node, outcome=answer.kind, detail=answer.stderr.strip()[:300])
    told = answer.stderr or answer.stdout[-2000:]
    kind, detail = outcomes.without_digest(answer.code, told, timed_out=answer.timed_out, overflow=answer.overflow)
    return Row(node=answer.node, outcome=kind, detail=detail)


TITLES: Mapping[str, str] = {
    "new": "to be installed",
    "switch": "there already, to be made current",
    "present": "there already and current",
    "installed": "installed",
    "refused": "refused",
}


def exit_code(rows: Sequence[Row]) -> int:
    """0 where every node has it or will have it, 1 where one refused it, 3 where one did not answer."""
    told = {row.outcome for row in rows}
    if told - set(TITLES):
        return 3
    return 1 if "refused" in told else 0
