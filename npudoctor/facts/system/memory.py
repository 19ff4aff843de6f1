"""Host memory, with the limit of the control group where there is one."""

from __future__ import annotations

import contextlib

from npudoctor.records import record
from npudoctor.sdk import Because, Host, Unavailable, probe

LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@record(frozen=True)
class Memory:
    """Memory of the node in bytes; `limit_bytes` is what the control group grants, None without a limit."""

    total_bytes: int
    available_bytes: int
    limit_bytes: int | None = None

    @property
    def usable_bytes(self) -> int:
        """What a job can have at most."""
        return min(self.total_bytes, self.limit_bytes or self.total_bytes)


def parse_limit(text: str) -> int | None:
    """The limit that a control group's file states; `max` is none, and so is what no machine has."""
    number = text.strip()
    return int(number) if number.isdecimal() and int(number) < 1 << 60 else None


@probe
def memory(host: Host) -> Memory:
    """From the kernel, and from the control group of version 2 or 1."""
    found = host.measure("memory")
    if not found:
        raise Unavailable("host memory size unknown", because=Because.NOT_RECORDED)
    limit = None
    for path in LIMIT_FILES:
        with contextlib.suppress(Unavailable):
            limit = limit or parse_limit(host.read(path))
    return Memory(int(found["total"]), int(found["available"]), limit)
