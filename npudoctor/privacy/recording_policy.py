"""What of a node goes into a recording, and what does not: no secret, and of other people no more than a check needs.

Kept are the variables that npudoctor's own catalogue names, and of command lines what `command_lines.reduce_line`
leaves;
those of other users' processes only where they, or others of their job, hold an NPU or a port; root's are the system's,
not a person's. What commands and files say is masked, as it is for the facts of a live node.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from npudoctor.facts import npu_smi
from npudoctor.facts.cann import elf, startup_files
from npudoctor.facts.driver import next_boot
from npudoctor.facts.network import hccl_whitelist, rank_table
from npudoctor.facts.node import launch, running_containers
from npudoctor.facts.node.environment import kept_variables
from npudoctor.facts.system import processes
from npudoctor.host import LIBRARY, ParseError, Unavailable
from npudoctor.host.live.masked import masked_measure, without_credentials
from npudoctor.host.live.named_paths import is_named, named_paths
from npudoctor.host.recording.recorder import Notes
from npudoctor.privacy import command_lines as command_line
from npudoctor.privacy import recorded_sources
from npudoctor.privacy.credentials import mask
from npudoctor.privacy.recorded_sources import Source
from npudoctor.records import record, replace

PLENTY_OF_BYTES = 16 << 30
PLENTY_OF_FILES = 1 << 20
"""Free bytes and files whose last digits do not matter."""

_FREE = {"free": ("total", PLENTY_OF_BYTES), "files_free": ("files_total", PLENTY_OF_FILES)}
_AWAKE = ("running", "idle")
_VARIABLES = re.compile(r"/proc/[0-9]+/environ")
_MOUNTS = re.compile(r"/proc/[0-9]+/mountinfo")


@record(frozen=True, kw_only=True)
class LeftOut:
    """How much was left out: variables, command lines of other users, whole commands because of a word that looks like
    a credential, and files whose purpose is unknown."""

    variables: int = 0
    command_lines: int = 0
    commands: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def reduce_notes(notes: Notes) -> tuple[Notes, LeftOut]:
    """The notes as they may be written down, and how much was left out of them."""
    environ = kept_variables(notes.environ or {}, recording=True)
    suspicious = tuple(key for key in notes.commands if mask(key) != key)
    commands = {key: without_credentials(done) for key, done in notes.commands.items() if key not in suspicious}
    measures = {key: masked_measure(key, value) for key, value in notes.measures.items()}
    lines = 0
    if notes.about.source == "live":
        measures = {key: _in_steps(key, value) for key, value in measures.items()}
    if rows := measures.get("processes"):
        named = _pids_to_keep(notes)
        told = [_process(row, notes.user.name, named) for row in rows]
        lines = sum(bool(row.get("cmdline")) and "cmdline" not in kept for row, kept in zip(rows, told, strict=True))
        measures["processes"] = _label_rows(told)
    files = {path: _content(path, content, notes) for path, content in {**_libraries(notes), **notes.files}.items()}
    kept = replace(
        notes,
        environ=environ,
        commands=commands,
        measures=measures,
        files={path: content for path, content in files.items() if content is not None},
        parts={},
        failures={asked: _masked_reason(why) for asked, why in notes.failures.items()},
    )
    left_out = LeftOut(
        variables=len(notes.environ or {}) - len(environ),
        command_lines=lines,
        commands=suspicious,
        files=tuple(sorted(path for path, content in files.items() if content is None)),
    )
    return kept, left_out


def _masked_reason(why: Unavailable) -> Unavailable:
    return Unavailable(mask(why.reason), because=why.because, blocked_by=why.blocked_by)


def _pids_to_keep(notes: Notes) -> frozenset[int]:
    """The processes that a finding may name: those that have a socket, those that npu-smi lists, and their jobs."""
    pids = {row["pid"] for row in notes.measures.get("sockets") or () if row.get("pid") is not None}
    for key, done in notes.commands.items():
        if key == "npu-smi info":
            with contextlib.suppress(ParseError):
                rows = npu_smi.parse_info(done.stdout).processes
                pids |= {pid for row in rows for pid in (row.pid, row.container_pid) if pid is not None}
        elif key == LIBRARY:
            pids |= {int(pid) for pid in re.findall(r'"pid": (\d{1,10})', done.stdout)}
        elif key.startswith("npu-smi info -t proc-mem"):
            pids |= {int(pid) for pid in re.findall(r"(?i)process[ _]?id\D{0,40}(\d{1,10})", done.stdout)}
    known = processes.parse(notes.measures.get("processes") or ())
    return frozenset(pids).union(*(known.job_of(pid) for pid in pids if known.get(pid)))


def _process(row: Mapping[str, Any], user: str, named: frozenset[int]) -> dict[str, Any]:
    """A process with as much of its command line as may be kept."""
    kept = dict(row)
    if row.get("username") in (user, "root") or row["pid"] in named:
        return kept
    kept.pop("cmdline", None)
    return kept


def _label_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The processes with pids for the digests of their arguments, so that equal states give equal recordings."""
    lines = command_line.label_lines({row["pid"]: row["cmdline"] for row in rows if row.get("cmdline")})
    return [{**row, "cmdline": list(lines[row["pid"]])} if row.get("cmdline") else dict(row) for row in rows]


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


def _content(path: str, content: bytes, notes: Notes) -> bytes | None:
    """A file as it may be kept: what it is read for; None where that is unknown."""
    if _VARIABLES.fullmatch(path):
        kept = launch.parse_variables(content.decode("utf-8", "replace"))
        return "".join(f"{name}={value}\0" for name, value in sorted(kept.items())).encode() or b"\0"
    if _MOUNTS.fullmatch(path):
        return running_containers.reduce_mountinfo(content.decode("utf-8", "replace")).encode()
    source = recorded_sources.file(
        path,
        notes.asked.get(path, {path}),
        notes.environ or {},
        in_pieces=path in notes.parts and path not in notes.files,
    )
    if source is None and not _is_public(path, notes):
        return None
    if source is recorded_sources.LIBRARY or b"\0" in content:
        return content if not content or content.startswith(elf.MAGIC) else elf.known_beginning(content) or b"?"
    text = content.decode("utf-8", "surrogateescape")
    return mask(_reduce_text(path, text, source, notes)).encode("utf-8", "surrogateescape")


def _reduce_text(path: str, text: str, source: Source | None, notes: Notes) -> str:
    """Of the text of a file what concerns the one who asks, or what its reader understands."""
    users = {notes.user.name, "root", (notes.environ or {}).get("SUDO_USER", "")}
    if path == "/etc/passwd":
        return "".join(line for line in text.splitlines(True) if line.partition(":")[0] in users)
    if path == "/etc/group":
        return "".join(_group(line, users) for line in text.splitlines(True))
    if (boot := next_boot.reduce_boot_file(path, text)) is not None:
        return boot
    if source is recorded_sources.CONDA_LIST:
        return "".join(line for line in text.splitlines(True) if line.startswith("/"))
    by_purpose = {
        recorded_sources.STARTUP: startup_files.reduce_startup_file,
        recorded_sources.RANK_TABLE: rank_table.reduce_rank_table,
        recorded_sources.WHITELIST: hccl_whitelist.reduce_whitelist,
    }
    reduce = by_purpose.get(source) if source else None
    return reduce(text) if reduce else text


def _is_public(path: str, notes: Notes) -> bool:
    """Whether everybody on the node may read a file, which no variable names and no link leads to."""
    found = notes.stats.get(path)
    asked = notes.asked.get(path, {path})
    named = named_paths((notes.environ or {}), follow=False)
    return (
        found is not None
        and found.uid == 0
        and bool(found.mode & stat.S_IROTH)
        and asked == {path}
        and not is_named(path, named)
    )


def _group(line: str, users: Collection[str]) -> str:
    """A line of /etc/group with no other members than these."""
    head, _, members = line.rstrip("\r\n").rpartition(":")
    if not members:
        return line
    return f"{head}:{','.join(name for name in members.split(',') if name in users)}\n"


def _libraries(notes: Notes) -> dict[str, bytes]:
    """Files that were read in pieces, which are libraries, as small as what was read of them."""
    return {
        path: elf.reduce_library(parts, notes.stats[path].size if path in notes.stats else 0)
        for path, parts in notes.parts.items()
    }
