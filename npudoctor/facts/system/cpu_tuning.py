"""How the kernel runs the processors: the governor of their frequency, and transparent huge pages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from npudoctor.facts.system.cpu import Cpu
from npudoctor.records import record
from npudoctor.sdk import Host, ParseError, Unavailable, probe

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"


@record(frozen=True, kw_only=True)
class CpuTuning:
    """The governors of a processor of each NUMA node by its number, and the mode of transparent huge pages (always,
    madvise, never); empty and None where the kernel shows none, as in a virtual machine."""

    governors: Mapping[int, str]
    huge_pages: str | None = None


def parse_huge_pages(text: str) -> str:
    """The mode that is in force: `madvise` of `always [madvise] never`."""
    chosen = re.search(r"\[(\w+)\]", text)
    if chosen is None:
        raise ParseError("no mode is marked as active", line_number=1, line=text[:80])
    return chosen[1]


@probe
def cpu_tuning(host: Host, cpu: Cpu | None) -> CpuTuning:
    """From /sys; of each NUMA node its first processor is asked, the others usually follow it."""
    numbers = {0, *(min(cpus) for cpus in (cpu.numa_nodes.values() if cpu else ()) if cpus)}
    governors = {}
    for number in sorted(numbers):
        with contextlib.suppress(Unavailable):
            text = host.read(f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor").strip()
            if text:
                governors[number] = text
    huge_pages = None
    with contextlib.suppress(Unavailable):
        huge_pages = parse_huge_pages(host.read(HUGE_PAGES))
    if not governors and huge_pages is None:
        raise Unavailable("CPU governor and huge pages unknown")
    return CpuTuning(governors=governors, huge_pages=huge_pages)
