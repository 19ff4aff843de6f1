"""The processors of this node, their NUMA nodes, and those that a job here may use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

_PART = r"([0-9]+)(?:-([0-9]+))?"
MOST_CPUS = 1 << 16


@record(frozen=True, kw_only=True)
class Cpu:
    """Counts of logical and physical processors, and sets of their numbers; None and empty where not known."""

    logical: int | None = None
    physical: int | None = None
    numa_nodes: Mapping[int, frozenset[int]]
    allowed: frozenset[int] | None = None

    def node_of(self, cpu: int) -> int | None:
        """The NUMA node of a processor."""
        return next((node for node, cpus in self.numa_nodes.items() if cpu in cpus), None)


def parse_cpus(text: str) -> frozenset[int]:
    """Read a list as the kernel writes it: 0-23,48."""
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else []:
        match = re.fullmatch(_PART, part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last >= MOST_CPUS:
            raise ParseError(f"{part!r} is not a list of processors", line_number=1, line=text)
        found.update(range(first, last + 1))
    return frozenset(found)


def parse(found: Mapping[str, Any]) -> Cpu:
    """Read the `cpu` of a recording."""
    allowed = found.get("allowed")
    return Cpu(
        logical=found.get("logical"),
        physical=found.get("physical"),
        numa_nodes={int(node): parse_cpus(str(cpus)) for node, cpus in (found.get("numa_nodes") or {}).items()},
        allowed=parse_cpus(str(allowed)) if allowed is not None else None,
    )


@probe
def cpu(host: Host) -> Cpu:
    """From the kernel."""
    found = host.measure("cpu")
    if found is None:
        raise Unavailable("processors unknown", because=Because.NOT_RECORDED)
    return parse(found)
