"""From what an engine brought to outcomes and stored answers: bounded, one node at a time, nothing trusted."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Sequence

from npudoctor.fleet import line, outcomes
from npudoctor.fleet.digest import Digest
from npudoctor.fleet.engines import Answer
from npudoctor.fleet.outcomes import Outcome
from npudoctor.fleet.store import files_of
from npudoctor.fleet.targets import is_name
from npudoctor.host.live.safe_files import Unreadable, Untrusted, read_as, read_owned


def take(answer: Answer) -> tuple[Outcome, bytes | None]:
    """What became of a node, and its compressed digest where there is one."""
    started, received = answer.started or None, answer.received or None
    raw = None
    if answer.kind:
        return Outcome(node=answer.node, kind=answer.kind, detail=answer.stderr.strip()[:300] or None), None
    try:
        if raw := line.find(answer.stdout):
            line.read(raw)
            kind, detail = ("late" if answer.timed_out else "answered"), ""
        else:
            kind, detail = outcomes.without_digest(
                answer.code,
                answer.stderr or answer.stdout[-2000:],
                timed_out=answer.timed_out,
                overflow=answer.overflow,
            )
    except line.Garbled as problem:
        raw, kind, detail = None, "too-much" if answer.overflow else "garbled", str(problem)
    return Outcome(node=answer.node, kind=kind, detail=detail or None, started=started, received=received), raw


def of_files(paths: Sequence[str]) -> Iterator[tuple[Outcome, Digest | None]]:
    """The answers in these files and folders: digests as JSON, compressed or not, and texts with their line.

    A node is called what its digest says, else like its file. As root a file that another user could have written is
    not read; to others its owner is named.
    """
    for path in files_of(paths):
        name = os.path.basename(path)
        for end in (".gz", ".json", ".line", ".txt", ".out"):
            name = name.removesuffix(end)
        try:
            raw, owner = _read(path)
            found = [raw] if raw[:2] == b"\x1f\x8b" or raw.lstrip()[:1] == b"{" else _lines(raw)
            if not found:
                yield Outcome(node=name, kind="silent", detail=f"{path}: no line of npudoctor"), None
            for one in found:
                digest = line.read(one)
                if not is_name(digest.name):  # it is printed in commands and lists for other programs
                    raise line.Garbled(f"it calls itself {digest.name[:80]!r}, which is no host name")
                yield Outcome(node=digest.name, kind="answered", owner=owner), digest
        except Untrusted as problem:
            yield Outcome(node=name, kind="untrusted", detail=str(problem)), None
        except (Unreadable, line.Garbled) as problem:
            yield Outcome(node=name, kind="garbled", detail=f"{os.path.basename(path)}: {problem}"), None


def _read(path: str) -> tuple[bytes, str | None]:
    """A file with an answer, and whose it is where that is another user than root and this one."""
    if os.geteuid() == 0:
        return read_as(path, line.MOST_BYTES), None
    raw, owner = read_owned(path, line.MOST_BYTES)
    if owner in (0, os.geteuid()):
        return raw, None
    try:
        return raw, pwd.getpwuid(owner).pw_name
    except KeyError:
        return raw, f"uid {owner}"


def _lines(raw: bytes) -> list[bytes]:
    """The digests of a text with the lines of one or several nodes."""
    text = raw.decode("utf-8", "replace")
    pieces = [piece for piece in text.splitlines() if line.MARK in piece]
    return [found for piece in pieces if (found := line.find(piece)) is not None]
