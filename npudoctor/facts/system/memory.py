"""Host memory, with the limit of the control group where there is one."""

from __future__ import annotations

import contextlib

from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

SIZES_KIB = (64, 2048, 32768, 524288, 1048576)
"""The sizes of huge pages that Linux has on x86_64 and aarch64, in KiB; a kernel boots with pages of one or several."""

FREE_PAGES = "/sys/kernel/mm/hugepages/hugepages-{}kB/free_hugepages"
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


@record(frozen=True)
class HugePages:
    """Memory that is reserved as huge pages, in bytes: all of it, and what is not in use."""

    total_bytes: int
    free_bytes: int


def parse_huge_pages(text: str) -> HugePages:
    """Read /proc/meminfo, whose counts are those of the default size; raises ParseError for other text.

    Hugetlb, since kernel 4.19, is the memory in pages of all sizes.
    """
    fields = {name.strip(): rest.split() for name, colon, rest in (line.partition(":") for line in text.splitlines())}
    if "MemTotal" not in fields:
        raise ParseError("not /proc/meminfo", line_number=1, line=text[:80])
    counts = [_number(fields.get(name)) for name in ("HugePages_Total", "HugePages_Free", "Hugepagesize", "Hugetlb")]
    total, free, size_kib, all_kib = counts
    return HugePages(max(total * size_kib, all_kib) << 10, free * size_kib << 10)


def _number(words: list[str] | None) -> int:
    return int(words[0]) if words and words[0].isdecimal() else 0


@probe(of_the_moment=True)
def huge_pages(host: Host) -> HugePages:
    """From /proc/meminfo, and from /sys what is free of the pages of each size."""
    pages = parse_huge_pages(host.read("/proc/meminfo"))
    free_kib = 0
    for size_kib in SIZES_KIB if pages.total_bytes else ():
        with contextlib.suppress(Unavailable):
            free_kib += size_kib * _number(host.read(FREE_PAGES.format(size_kib)).split())
    return HugePages(pages.total_bytes, max(pages.free_bytes, free_kib << 10))


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
