"""Root's file that puts one node on hold: `/etc/npudoctor/hold`, or `/run/npudoctor/hold` until the next boot.

One line says who holds it and why, and `until YYYY-MM-DD` at its end when that ends. Meanwhile no fix, no setup and no
daemon changes the node, and the scripts for schedulers leave its state as it is. Checks still run.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterator

from npudoctor.host import FileStat, Host, Unavailable

PATHS = ("/etc/npudoctor/hold", "/run/npudoctor/hold")
LARGEST_BYTES = 200
_UNTIL = re.compile(r"\buntil (\d{4})-(\d\d)-(\d\d)$")


def reason(host: Host, today: datetime.date) -> str | None:
    """Who holds the node and why, None without a hold. A file that another user could write says nothing."""
    for path, found in _files(host):
        if not _is_trusted(host, found):
            continue
        try:
            said = host.read_part(path, 0, LARGEST_BYTES).decode("utf-8", "replace")
        except Unavailable:
            said = ""
        about = " ".join(said.strip().split("\n", 1)[0].split()) or "no reason given"
        end = _UNTIL.search(about)
        if end is None or (today.year, today.month, today.day) <= tuple(map(int, end.groups())):
            return f"{about} ({path})"
    return None


def why_ignored(host: Host) -> str | None:
    """Which file of a hold does not count and why, as a clause; None where none is there or it counts."""
    for path, found in _files(host):
        if not _is_trusted(host, found):
            return (
                f"{path} does not count as a hold, because another user than root could have written it "
                f"(owner {found.uid}, mode {found.mode & 0o7777:04o}); run chown root and chmod 644 on it"
            )
    return None


def _files(host: Host) -> Iterator[tuple[str, FileStat]]:
    for path in PATHS:
        with contextlib.suppress(Unavailable):
            yield path, host.stat(path)


def _is_trusted(host: Host, found: FileStat) -> bool:
    return found.uid in (0, host.user.uid) and not found.mode & 0o022
