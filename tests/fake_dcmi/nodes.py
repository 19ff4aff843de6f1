"""Simulated nodes that have the stub library beside npu-smi, and what is known of both.

`python -m tests.fake_dcmi.nodes DIR SCENARIO [MS]` writes one as `npudoctor sim tools` does, with a library in which
every call takes MS milliseconds: `npudoctor check --root DIR`.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from npudoctor import engine, plugins, sim
from npudoctor.findings import Report
from npudoctor.host import DRIVER, TOOL_TIMEOUT_S, Completed, Host
from npudoctor.host.forwarding import ForwardingHost
from npudoctor.host.live.library import Library as Door
from npudoctor.sdk import Options
from npudoctor.selection import Selection
from tests.fake_dcmi import answers, build
from tests.fake_dcmi.answers import Answers
from tests.fake_dcmi.build import Library

PATIENT_S = 120.0
"""A limit that no busy machine reaches; where nothing hangs, nobody waits for it."""

FOLDER = "usr/local/Ascend/driver/lib64/driver"


class WithLibrary(ForwardingHost):
    """A simulated node whose driver has the stub library; it is asked by a real process, as on a real node."""

    def __init__(self, host: Host, root: Path) -> None:
        super().__init__(host)
        self._door = Door(str(root))
        self._answers: dict[bool, Completed] = {}
        self._lock = threading.Lock()
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run a command, and note it."""
        self.asked.append(" ".join(argv))
        return super().run(argv, timeout=timeout)

    def ask_library(self, driver: str = DRIVER, *, pages: bool = True, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Ask the stub, once in a run, as a real node does."""
        with self._lock:
            if pages not in self._answers:
                self._answers[pages] = self._door.ask(driver, pages=pages, timeout=timeout)
            return self._answers[pages]


def put(library: Library, root: Path, said: Answers, **options: Any) -> Path:
    """Write the stub where the driver below `root` has its library."""
    return library.put(root / FOLDER, said.text(), **options)


def write(folder: Path, name: str, delay_ms: int = 0) -> None:
    """Write a node with executables and a library, for the live host."""
    sim.write_tools(sim.simulate(name), str(folder))
    with tempfile.TemporaryDirectory() as compiled:
        said = answers.of(name).but(delay_ms=delay_ms, trace=False)
        put(Library(Path(compiled)), folder / "library", said)


def known(host: Host, **options: Any) -> tuple[Report, Mapping[str, Any]]:
    """The report of all checks but smoke runs, and every fact by its name."""
    catalog = plugins.load()
    names = tuple(sorted({check.group for check in catalog.checks.values()} - {"smoke"}))
    selection = Selection(names=names, options=Options(**{"tool_timeout_s": PATIENT_S, **options}))
    *_, done = engine.run(catalog, host, selection, facts=catalog.probes)
    assert isinstance(done, engine.Done)
    return done.report, {probe.name: fact for probe, fact in done.facts.items()}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a fact by where it stands in it."""
    if hasattr(value, "__dict__") and not isinstance(value, type | BaseException):
        value = vars(value)
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            yield from leaves(one, f"{path}[{place}]")
    else:
        yield path, value


def judgements(report: Report) -> dict[str, Any]:
    """What a report says, without its words: the status of each check, and its findings."""
    return {
        result.check: (
            result.status.value,
            sorted((one.severity.value, one.subject, one.code or "") for one in result.findings),
        )
        for result in report.results
    }


if __name__ == "__main__":
    if missing := build.missing_tools():
        sys.exit(f"the library cannot be compiled: there is no {', '.join(missing)}")
    write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if sys.argv[3:] else 0)
