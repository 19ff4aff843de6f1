"""Root's file that puts one node on hold: `/etc/npudoctor/hold`, or `/run/npudoctor/hold` until the next boot.

One line says who holds it and why, and `until YYYY-MM-DD` at its end when that ends. Meanwhile no fix, no setup and no
daemon changes the node, and the scripts for schedulers leave its state as it is. Checks still run.
"""

from __future__ import annotations

import datetime
import re

from npudoctor.host import Host, Unavailable

PATHS = ("/etc/npudoctor/hold", "/run/npudoctor/hold")
LARGEST_BYTES = 200
_UNTIL = re.compile(r"\buntil (\d{4})-(\d\d)-(\d\d)$")


def reason(host: Host, today: datetime.date) -> str | None:
    """Who holds the node and why, None without a hold. A file that another user could write says nothing."""
    for path in PATHS:
        try:
            found = host.stat(path)
        except Unavailable:
            continue
        if found.uid not in (0, host.user.uid) or found.mode & 0o022:
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
