"""The host on which an installation is made: it starts processes that outlive npudoctor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from npudoctor.host import MutableHost


@runtime_checkable
class ApartHost(MutableHost, Protocol):
    """A host that starts processes that outlive npudoctor: this machine."""

    def fresh(self) -> ApartHost:
        """The same node with nothing remembered of what was asked before."""
        ...

    def outside(self, path: str) -> str:
        """A path of the node as a process of this machine names it."""
        ...

    def start_apart(self, argv: Sequence[str], variable: str) -> None:
        """Start a command that is no child of npudoctor's, with a variable as NAME=value; else Unavailable."""
        ...

    def start_of(self, pid: int) -> str | None:
        """The start time of a process in clock ticks since boot; None where it has ended."""
        ...

    def boot_id(self) -> str:
        """The id of this boot, empty where it is not known."""
        ...

    def process_names(self) -> frozenset[str]:
        """The names of root's processes that run."""
        ...

    def processes_with(self, variable: str) -> tuple[int, ...]:
        """Root's processes that were started with this variable, as NAME=value, and have not ended."""
        ...

    def holding(self, pattern: str) -> tuple[str, ...]:
        """The processes that have a device whose path matches open, by name and pid."""
        ...
