"""Runs of checks and fixes in the daemon's child process.

`serve` answers requests on a pipe, one at a time, until the pipe is closed. Nothing here is
trusted to end: the daemon (`child`) kills the process when a run exceeds its time.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from npudoctor.config import Config
from npudoctor.daemon.replies import CheckNames, Known, Refused, Reply, RunResult, Threshold, Tried
from npudoctor.daemon.run_checks import leftovers, run_checks
from npudoctor.daemon.site import Site
from npudoctor.daemon.timetable import RunKind
from npudoctor.data import to_json
from npudoctor.fixer import plan, runner
from npudoctor.fixer.runner import Outcome
from npudoctor.host import Host, is_mutable
from npudoctor.host import Refused as FixRefused
from npudoctor.host.live import reader
from npudoctor.host.live.local import LocalHost
from npudoctor.models import adapter
from npudoctor.plugins import Catalog
from npudoctor.records import replace
from npudoctor.sdk import Risk

OpenHost = Callable[[Site], AbstractContextManager[Host]]
_PR_SET_PDEATHSIG = 1


class Worker:
    """Runs checks and fixes on a node. `open_host` opens it anew with the current configuration."""

    def __init__(self, catalog: Catalog, open_host: OpenHost) -> None:
        self.catalog = catalog
        self._open_host = open_host
        self._host: Host | None = None
        self._node = contextlib.ExitStack()

    @property
    def known(self) -> Known:
        """The names in the catalogue."""
        return names_of(self.catalog)

    def run(self, kind: RunKind, site: Site, left: Mapping[str, int] | None = None) -> RunResult:
        """Run checks; a tool of which a process is `left` is not started again."""
        host = self._host = self._fresh_host(site, kind)
        hung: dict[str, int] = {}
        reader.KEPT.wanted = site.settings.quick_s < reader.RENEWED_S
        if isinstance(host, LocalHost):
            hung = {**(left or {}), **leftovers()}
            for tool, pid in hung.items():
                host.pass_over(tool, f"its earlier call, process {pid}, hangs and cannot be killed")
        try:
            seen = run_checks(self.catalog, host, kind, site.options, site.config, deadline_s=site.settings.timeout_s)
        finally:
            host.close()
        return replace(seen, left=hung)

    def fix(self, id: str, site: Site, journal: str | None) -> Tried | None:
        """Apply one fix if it is safe; None where there was nothing to do."""
        fix = self.catalog.fixes.get(id)
        if fix is None or fix.risk is not Risk.SAFE:
            return None
        host = self._host = self._fresh_host(site, RunKind.QUICK)
        if not is_mutable(host):
            return None
        try:
            planned = plan.make(self.catalog, host.fresh(), plan.Request(id), site.options)
        except FixRefused as why:
            return Tried(kind="fix-refused", said=f"{id}: {why.reason}", tried=False)
        if planned.empty:
            return None
        ended = runner.Ended(outcome=Outcome.REFUSED, fix=id, reason="the fix did not end")
        options = replace(site.options, reason=site.options.reason or "named in [auto_fix]")
        for event in runner.apply(self.catalog, host.fresh(), planned, options, state=journal):
            if isinstance(event, runner.Ended):
                ended = event
        if ended.outcome is Outcome.REFUSED:
            return Tried(kind="fix-refused", said=f"{id}: {ended.reason}", tried=False)
        if ended.outcome is Outcome.NOTHING:
            return None
        back = f"; to undo: npudoctor undo {ended.run}" if ended.outcome is Outcome.APPLIED else ""
        kind = "fixed" if ended.outcome is Outcome.APPLIED else "fix-failed"
        return Tried(kind=kind, said=f"{id}: {ended.reason} (run {ended.run}){back}", tried=True)

    def end(self) -> None:
        """Cancel the tools of a run."""
        if self._host is not None:
            self._host.close()

    def open_once(self, site: Site) -> None:
        """Open and close the node, to test that it can be opened. Raises Refused."""
        with self._open_host(site):
            pass

    def _fresh_host(self, site: Site, kind: RunKind) -> Host:
        """The node without cached answers; the login environment is read again with every standard run."""
        host = self._host
        if is_mutable(host) and (kind is not RunKind.STANDARD or host.about.source != "live"):
            return host.fresh()
        self._node.close()
        return self._node.enter_context(self._open_host(site))


def names_of(catalog: Catalog) -> Known:
    """The names in a catalogue."""
    return Known(
        checks=tuple(
            CheckNames(
                id=check.id,
                tags=tuple(check.tags),
                after=tuple(check.after),
                thresholds=tuple(Threshold(name=one.name) for one in check.thresholds),
            )
            for check in catalog.checks.values()
        ),
        codes=tuple(catalog.messages),
        complete=not catalog.broken,
        fixes=tuple(catalog.fixes),
        safe=tuple(fix.id for fix in catalog.fixes.values() if fix.risk is Risk.SAFE),
    )


# The process


def serve(
    requests: int,
    answers: int,
    parent: int,
    load: Callable[[], Catalog],
    site_of: Callable[[Config], Site],
    open_host: OpenHost,
) -> None:
    """Read requests from one pipe, one line of JSON each, and answer on another; returns at end of file."""
    _end_with(parent)
    gc.enable()
    worker, site = Worker(load(), open_host), None
    gc.freeze()
    with open(requests, encoding="utf-8") as lines, open(answers, "w", encoding="utf-8") as out:
        for line in lines:
            asked = json.loads(line)
            try:
                if "prepare" in asked:
                    site = site_of(adapter(Config).validate_python(asked["prepare"]))
                reply = _reply(worker, site, asked)
            except Refused as problem:
                reply = Reply(refused=str(problem))
            except Exception as problem:
                traceback.print_exc()
                reply = Reply(failed=f"{type(problem).__name__}: {problem}")
            out.write(to_json(reply) + "\n")
            out.flush()
            give_back()


def _reply(worker: Worker, site: Site | None, asked: dict[str, Any]) -> Reply:
    if site is None:
        raise RuntimeError("request before prepare")
    if "run" in asked:
        return Reply(seen=worker.run(RunKind(asked["run"]), site, asked["left"]))
    if "fix" in asked:
        return Reply(tried=worker.fix(asked["fix"], site, asked["journal"]))
    worker.open_once(site)
    return Reply(known=worker.known)


def _end_with(parent: int) -> None:
    """Be killed when the daemon ends in any way; SIGTERM interrupts the current work."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def give_back() -> None:
    """Return freed memory to the system, so that the process stays small between runs."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
