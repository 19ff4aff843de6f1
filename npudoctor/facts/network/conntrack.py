"""How full the kernel's table of connections is: once full, new connections are dropped without a message."""

from __future__ import annotations

import re

from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

COUNT_FILE = "/proc/sys/net/netfilter/nf_conntrack_count"
MAX_FILE = "/proc/sys/net/netfilter/nf_conntrack_max"


@record(frozen=True)
class Conntrack:
    """Connections that the kernel tracks, and how many it can."""

    count: int
    maximum: int

    @property
    def used_pct(self) -> float:
        """How full the table is, in percent; a maximum of 0 means without limit."""
        return 100 * self.count / self.maximum if self.maximum else 0.0


def parse(count: str, maximum: str) -> Conntrack:
    """Read nf_conntrack_count and nf_conntrack_max."""
    for text in (count, maximum):
        if not re.fullmatch(r"\s*[0-9]{1,12}\s*", text):
            raise ParseError("not a number of connections", line_number=1, line=text[:80])
    return Conntrack(int(count), int(maximum))


@probe(of_the_moment=True)
def conntrack(host: Host) -> Conntrack:
    """From the files below /proc/sys/net/netfilter, which are there once the kernel tracks connections."""
    try:
        return parse(host.read(COUNT_FILE), host.read(MAX_FILE))
    except Unavailable as why:
        if why.because is Because.ABSENT:
            raise Unavailable(f"connection tracking is off: {why.reason}") from why
        raise
