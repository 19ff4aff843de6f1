"""What one process, one user and one control group may have at most."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

UNLIMITED = -1
PIDS_FILES = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")


@record(frozen=True)
class Limit:
    """A soft limit, and the hard one up to which a process may raise it itself; -1 is unlimited."""

    soft: int
    hard: int

    def allows(self, wanted: int) -> bool:
        """Whether a process can have this much, raising the soft limit if need be."""
        return self.hard == UNLIMITED or self.hard >= wanted or self.soft == UNLIMITED


@record(frozen=True, kw_only=True)
class Limits:
    """Open files, locked memory in bytes, processes of a user, core files in bytes; None where not known.

    `pids_max` is the number of tasks that the control group may have, None without a limit.
    """

    nofile: Limit | None = None
    memlock: Limit | None = None
    nproc: Limit | None = None
    core: Limit | None = None
    pids_max: int | None = None


def parse(found: Mapping[str, Any], pids_max: str = "max") -> Limits:
    """Read the `limits` of a recording, and the text of a control group's pids.max."""
    number = pids_max.strip()
    return Limits(
        nofile=_limit(found, "nofile"),
        memlock=_limit(found, "memlock"),
        nproc=_limit(found, "nproc"),
        core=_limit(found, "core"),
        pids_max=int(number) if number.isdecimal() else None,
    )


def _limit(found: Mapping[str, Any], name: str) -> Limit | None:
    pair = found.get(name)
    if pair is None:
        return None
    if not isinstance(pair, Sequence) or len(pair) != 2 or not all(isinstance(number, int) for number in pair):
        raise ParseError(f"limit {name} is not a pair of numbers: {pair!r}")
    return Limit(pair[0], pair[1])


@probe
def limits(host: Host) -> Limits:
    """Those of this process, which a job started here would inherit."""
    found = host.measure("limits")
    if found is None:
        raise Unavailable("process limits unknown", because=Because.NOT_RECORDED)
    for path in PIDS_FILES:
        with contextlib.suppress(Unavailable):
            return parse(found, host.read(path))
    return parse(found)
