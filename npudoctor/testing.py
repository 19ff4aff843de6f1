"""Helpers for tests of checks, built-in or plug-in: run one check on a host with a few files."""

from __future__ import annotations

from typing import Any

from npudoctor import engine, plugins
from npudoctor.findings import Report, Result
from npudoctor.host import Host
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Options
from npudoctor.selection import Selection


def run(host: Host, *names: str, catalog: plugins.Catalog | None = None, **options: Any) -> Report:
    """Run checks by id or tag (all without names) on a host; `options` are those of `Options`."""
    selection = Selection(names=names, options=Options(**options))
    report = None
    for event in engine.run(catalog or plugins.load(), host, selection):
        if isinstance(event, engine.Done):
            report = event.report
    assert report is not None
    return report


def run_check(id: str, *, options: dict[str, Any] | None = None, **host: Any) -> Result:
    """Run one check on a `FakeHost(**host)` through the engine, as a user would; its result."""
    report = run(FakeHost(**host), id, **(options or {}))
    return next(result for result in report.results if result.check == id)


__all__ = ["FakeHost", "run", "run_check"]
