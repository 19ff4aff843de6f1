"""The host that facts are made from: what commands print and files say comes without credentials.

The engine hands it to every probe, so that no fact, and nothing that is made of facts, can hold one. What changes a
node gets the host itself: a file must not be written back masked. Bytes, names and links come as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npudoctor.host import DRIVER, TOOL_TIMEOUT_S, Completed
from npudoctor.host.forwarding import ForwardingHost
from npudoctor.privacy.command_lines import LONGEST_WORD, reduce_line
from npudoctor.privacy.credentials import mask
from npudoctor.records import replace

_NAMES = '"names"'
"""In the lines of the library that hold what users wrote."""


class MaskedHost(ForwardingHost):
    """A host whose texts are masked; everything else is its `host`'s own."""

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run a command; its outputs masked."""
        return without_credentials(self._host.run(argv, timeout=timeout))

    def ask_library(self, driver: str = DRIVER, *, pages: bool = True, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Ask the driver's library; names of processes masked."""
        done = self._host.ask_library(driver, pages=pages, timeout=timeout)
        lines = [mask(line) if _NAMES in line else line for line in done.stdout.splitlines(keepends=True)]
        return replace(done, stdout="".join(lines))

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a script inside the target Python; its outputs masked."""
        return without_credentials(self._host.run_in_target(name, python, timeout=timeout, environ=environ))

    def read(self, path: str) -> str:
        """The text of a file, masked."""
        return mask(self._host.read(path))

    def measure(self, key: str) -> Any:
        """A measurement, with command lines reduced and options of mounts masked."""
        return masked_measure(key, self._host.measure(key))


def without_credentials(done: Completed) -> Completed:
    """How a command ended, with its outputs masked."""
    return replace(done, stdout=mask(done.stdout), stderr=mask(done.stderr))


def _masked_process(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(row)
    if row.get("name"):
        kept["name"] = mask(str(row["name"])[:LONGEST_WORD])
    if row.get("cmdline"):
        kept["cmdline"] = list(reduce_line(row["cmdline"]))
    return kept


def masked_measure(key: str, value: Any) -> Any:
    """A measurement as it may be kept."""
    if key == "processes" and value:
        return [_masked_process(row) for row in value]
    if key == "mounts" and value:
        return [{**row, "options": mask(str(row.get("options") or ""))} for row in value]
    return value
