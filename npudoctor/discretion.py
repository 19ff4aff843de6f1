"""What of a node goes into a recording, and what does not: no secret, and of other people no more than a check needs.

Kept are the variables that npudoctor's own catalogue names, command lines without what looks like a credential, and
those of other users' processes only where they hold a card or a port; root's are the system's, not a person's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.facts import elf, launch, next_boot, npu_smi, startup_files
from npudoctor.facts.credentials import masked, masked_by_shape, without_credentials
from npudoctor.host import ParseError
from npudoctor.host.recorder import Notes
from npudoctor.records import dataclass, replace

PLENTY_OF_BYTES = 16 << 30
PLENTY_OF_FILES = 1 << 20
"""Free bytes and files of which nobody cares for the last digits."""

_FREE = {"free": ("total", PLENTY_OF_BYTES), "files_free": ("files_total", PLENTY_OF_FILES)}
_AWAKE = ("running", "idle")
_VARIABLES = re.compile(r"/proc/[0-9]+/environ")
_SCRIPTS = (".sh", ".bash", ".zsh", ".csh")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """How much was left out: variables, command lines of other users, words that looked like credentials, and whole
    commands because of such a word."""

    variables: int = 0
    command_lines: int = 0
    words: int = 0
    commands: tuple[str, ...] = ()


def reduced(notes: Notes) -> tuple[Notes, LeftOut]:
    """The notes as they may be written down, and how much was left out of them."""
    environ = {name: masked_by_shape(value) for name, value in (notes.environ or {}).items() if _may_be_kept(name)}
    suspicious = tuple(key for key in notes.commands if without_credentials(key.split(" ")) != tuple(key.split(" ")))
    commands = {
        key: replace(done, stdout=masked_by_shape(done.stdout), stderr=masked_by_shape(done.stderr))
        for key, done in notes.commands.items()
        if key not in suspicious
    }
    measures = dict(notes.measures)
    lines = words = 0
    if notes.about.source == "live":
        measures = {key: _in_steps(key, value) for key, value in measures.items()}
    if rows := measures.get("processes"):
        named = _named(notes)
        told = [_process(row, notes.user.name, named) for row in rows]
        lines = sum(bool(row.get("cmdline")) and "cmdline" not in kept for row, kept in zip(rows, told, strict=True))
        words = sum(_masks(row, kept) for row, kept in zip(rows, told, strict=True))
        measures["processes"] = told
    if mounts := measures.get("mounts"):
        measures["mounts"] = [{**row, "options": masked(str(row.get("options") or ""))} for row in mounts]
    kept = replace(
        notes,
        environ=environ,
        commands=commands,
        measures=measures,
        files={path: _content(path, content, notes) for path, content in {**_libraries(notes), **notes.files}.items()},
        parts={},
    )
    left_out = LeftOut(
        variables=len(notes.environ or {}) - len(environ), command_lines=lines, words=words, commands=suspicious
    )
    return kept, left_out


def _may_be_kept(name: str) -> bool:
    known = knowledge.environment()
    return name in known.recorded or known.misspelling_of(name) is not None


def _named(notes: Notes) -> frozenset[int]:
    """The processes that a finding may name: those that have a socket, and those that npu-smi lists."""
    pids = {row["pid"] for row in notes.measures.get("sockets") or () if row.get("pid") is not None}
    for key, done in notes.commands.items():
        if key == "npu-smi info":
            with contextlib.suppress(ParseError):
                rows = npu_smi.parse_info(done.stdout).processes
                pids |= {pid for row in rows for pid in (row.pid, row.container_pid) if pid is not None}
        elif key.startswith("npu-smi info -t proc-mem"):
            pids |= {int(pid) for pid in re.findall(r"(?i)process[ _]?id\D*(\d+)", done.stdout)}
    return frozenset(pids)


def _process(row: Mapping[str, Any], user: str, named: frozenset[int]) -> dict[str, Any]:
    """A process with as much of its command line as may be kept."""
    kept = dict(row)
    if row.get("username") in (user, "root") or row["pid"] in named:
        kept["cmdline"] = list(without_credentials(row.get("cmdline") or ()))
    elif row.get("cmdline"):
        del kept["cmdline"]
    return kept


def _in_steps(key: str, value: Any) -> Any:
    """A measurement without what changes from one moment to the next on a node that stays as it is.

    Free room in coarse steps, no threads of the kernel, and no word on which process is just running.
    """
    if key == "memory" and value:
        return {**value, "available": _coarse(value["available"], value.get("total"), PLENTY_OF_BYTES)}
    if key in ("disks", "mounts") and value:
        return [_roomy(row) for row in value]
    if key == "processes" and value:
        kernel = {row["pid"] for row in value if row.get("name") == "kthreadd" and not row.get("ppid")}
        people = [row for row in value if not {row["pid"], row.get("ppid")} & kernel]
        return [{**row, "status": "sleeping"} if row.get("status") in _AWAKE else row for row in people]
    return value


def _roomy(row: Mapping[str, Any]) -> dict[str, Any]:
    """A file system with its free room in coarse steps."""
    steps = {name: _coarse(row[name], row.get(all), plenty) for name, (all, plenty) in _FREE.items() if name in row}
    return {**row, **steps}


def _coarse(number: int, total: int | None, plenty: int) -> int:
    """Plenty cut to 1/64 of its highest power of two, so that it is at most 1.6 % too low; what is scarce as it is."""
    if number < plenty or number * 20 < (total or 0):
        return number
    step = 1 << (int(number).bit_length() - 6)
    return int(number) // step * step


def _masks(row: Mapping[str, Any], kept: Mapping[str, Any]) -> int:
    return sum(word != shown for word, shown in zip(row.get("cmdline") or (), kept.get("cmdline") or (), strict=False))


def _content(path: str, content: bytes, notes: Notes) -> bytes:
    """A file as it may be kept: of the users and groups only what concerns the one who asks."""
    users = {notes.user.name, "root", (notes.environ or {}).get("SUDO_USER", "")}
    if path == "/etc/passwd":
        return b"".join(line for line in content.splitlines(True) if _entry(line, 0) in users)
    if path == "/etc/group":
        return b"".join(_group(line, users) for line in content.splitlines(True))
    if _VARIABLES.fullmatch(path):
        kept = launch.parse_variables(content.decode("utf-8", "replace"))
        return "".join(f"{name}={value}\0" for name, value in sorted(kept.items())).encode() or b"\0"
    if (boot := next_boot.reduced(path, content.decode("utf-8", "replace"))) is not None:
        return boot.encode()
    if startup_files.is_one(path):
        return startup_files.reduced(content.decode("utf-8", "replace")).encode()
    if path.endswith(_SCRIPTS):
        return masked(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return content


def _entry(line: bytes, number: int) -> str:
    fields = line.rstrip(b"\r\n").split(b":")
    return fields[number].decode("utf-8", "replace") if number < len(fields) else ""


def _group(line: bytes, users: Collection[str]) -> bytes:
    """A line of /etc/group with no other members than these."""
    members = _entry(line, 3).split(",")
    if not any(members):
        return line
    head = line.rstrip(b"\r\n").rpartition(b":")[0]
    return head + b":" + ",".join(name for name in members if name in users).encode() + b"\n"


def _libraries(notes: Notes) -> dict[str, bytes]:
    """Files that were read in pieces, which are libraries, as small as what was read of them."""
    return {
        path: elf.reduced(parts, notes.stats[path].size if path in notes.stats else 0)
        for path, parts in notes.parts.items()
    }
