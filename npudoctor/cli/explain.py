"""Explain a check, a fix, a known issue or an error code; or a failing log: which rank failed first, why, and the fix.

examples:
  npudoctor explain hccl.ports-free            why it matters, how it is detected, how to fix it
  npudoctor explain env.profile                what a fix changes, its risk, its parameters, and how to undo it
  npudoctor explain EI0006 507033 -8005 P003   codes in any spelling, and known issues
  npudoctor explain 'HcclAllReduce, ret: 0x13' a piece of a message, whose words choose among the meanings of a number
  npudoctor explain --log train.log            a log of torch, torch_npu, CANN or MindSpore, of any size
  npudoctor explain --log rank_*.log           one file for each rank
  npudoctor explain --log node-0/ node-1/      the folders of a run, of one node or of several, .gz included
  python train.py 2>&1 | npudoctor explain --log -

exit codes: 0 explained, 1 no known error in the log, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from npudoctor.cli.output import UsageError, say, write, write_json
from npudoctor.control_characters import escape

if TYPE_CHECKING:
    from npudoctor.explain.diagnosis import Diagnosis

NOTHING_KNOWN = 1
_NAMED = 3
"""So many files of one kind are named in one line."""

WIDTH = 24


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor explain`."""
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="a check, a fix, a known issue (P003), a code (EI0006, 507033, …)"
    )
    parser.add_argument("--log", nargs="+", metavar="FILE", help="failing logs or folders of one job; - reads stdin")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


_LONGEST = 8192
"""Characters of an id, a code or the text around one."""


def run(args: argparse.Namespace) -> int:
    """Explain."""
    if args.log and args.ids:
        raise UsageError("--log cannot be combined with an ID; explain the log first")
    if args.log:
        return _explain_log(args)
    if not args.ids:
        raise UsageError("nothing to explain: name a check, a fix, a known issue, a code, or --log FILE")
    if any(len(name) > _LONGEST for name in args.ids) or re.search(r"[0-9]{41}", " ".join(args.ids)):
        raise UsageError("this text is no id and no code: write it into a file for `npudoctor explain --log FILE`")
    return _explain_topics(args)


def _explain_topics(args: argparse.Namespace) -> int:
    from npudoctor import plugins
    from npudoctor.explain import documents, topics

    catalog = plugins.load()
    if any(name.startswith("fleet.") for name in args.ids):
        from npudoctor.fleet import verdict
        from npudoctor.records import replace

        across = plugins.load_kind(verdict.PLUGINS, verdict.CHECKS)
        catalog = replace(catalog, checks={**catalog.checks, **across.checks})
    together = " ".join(args.ids)
    try:
        names = [together] if topics.is_exit(together) else args.ids
        found = [(name, one) for name in names for one in topics.find_all(name, catalog)]
    except topics.Unknown as problem:
        several_codes = all(re.search(r"\d|^[a-z-]+\.[a-z-]+$", name) for name in args.ids)  # and no piece of a message
        is_text = len(args.ids) > 1 and not several_codes
        one_text = (topics.codes(together) or topics.issues(together)) if is_text else ()
        found = [(together, one) for one in one_text]
        if not found:
            raise UsageError(str(problem)) from problem
    document = documents.of_topics(found, catalog)
    if args.json:
        write_json(document)
    else:
        from npudoctor.report import explained

        write(explained.topics(document, no_color=args.no_color), colored=True)
    return 0


def _explain_log(args: argparse.Namespace) -> int:
    from npudoctor.cli import logfiles
    from npudoctor.explain import diagnosis, log_documents, scan

    logs = logfiles.Logs(args.log)
    with Progress(logs.total_bytes, color=not args.no_color) as progress:
        scanner = scan.Scanner(progress=progress.add)
        for name, blocks in logs.read(scan.BLOCK):
            scanner.read(escape(name), blocks)
    found = diagnosis.diagnose(scanner, [name for name in args.log if os.path.isdir(name)])
    document = log_documents.of_log(found)
    if args.json:
        write_json(document)
    elif found.knows or found.answer:
        from npudoctor.report import explained

        write(explained.log(document, no_color=args.no_color), colored=True)
    for line in (*logs.skip_clauses(), *_remarks(found)):
        say(f"npudoctor explain: {line}")
    return 0 if found.knows else NOTHING_KNOWN


def _remarks(found: Diagnosis) -> Iterator[str]:
    """Remarks beside the diagnosis: files that were not read, and what to send where no error is known."""
    from npudoctor.explain import log_documents

    read = [file for file in found.files if not file.problem]
    if not found.files:
        yield "no log file was found; name a file, or a folder with logs"
    for file in found.files:
        if file.stopped:
            yield f"{file.name} was read in part, to line {file.lines}: {file.stopped}"
    unread: dict[str, list[str]] = {}
    for file in found.files:
        if file.problem:
            unread.setdefault(file.problem, []).append(file.name)
    for problem, names in unread.items():
        which = (
            ", ".join(names) if len(names) <= _NAMED else f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
        )
        if problem == "empty":
            yield f"{which} {'is' if len(names) == 1 else 'are'} empty"
        else:
            how = "unpack it and pipe it into --log -" if len(names) == 1 else "unpack them first"
            unpack = f"; {how}" if problem.startswith("compressed") else ""
            yield f"{which} {'was' if len(names) == 1 else 'were'} not read: {problem}{unpack}"
    if moved := sum(1 for shift in found.shifts if shift):
        yield f"the clocks of {moved} of {len(found.files)} files show another time zone; their stamps were aligned"
    for node, ahead_s in found.apart.items():
        away = f"{abs(ahead_s) / 3600:.1f} h {'ahead of' if ahead_s > 0 else 'behind'}"
        yield (
            f"the clock of {node} is about {away} the other nodes': its stamps order nothing; compare the clocks "
            "with `npudoctor check system.clock` on each node"
        )
    if read and not (found.knows or found.answer):
        yield log_documents.nothing_known(found)


class Progress:
    """Progress of reading: one line on a terminal, removed at the end; nothing elsewhere."""

    def __init__(self, total: int | None, *, color: bool) -> None:
        self._total = total
        self._read = 0
        self._began = time.monotonic()
        self._shown_at = self._began + 0.2
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._color = color and "NO_COLOR" not in os.environ

    def __enter__(self) -> Progress:
        return self

    def add(self, count: int) -> None:
        """Count bytes that were read."""
        self._read += count
        now = time.monotonic()
        if self._live and now > self._shown_at:
            self._shown_at = now + 0.1
            line = self._line(now)[: (os.get_terminal_size(2).columns or 80) - 1]
            sys.stderr.write(f"\r\x1b[K\x1b[2m{line}\x1b[0m" if self._color else f"\r\x1b[K{line}")
            sys.stderr.flush()

    def _line(self, now: float) -> str:
        read = self._read / 1e6
        speed = f"{read / max(now - self._began, 1e-3):.0f} MB/s"
        if not self._total:
            return f"{read:.0f} MB read, {speed}"
        done = WIDTH * min(self._read, self._total) // self._total
        share = 100 * min(self._read, self._total) // self._total
        bar = "#" * done + "." * (WIDTH - done)
        return f"[{bar}] {share} % of {self._total / 1e6:.0f} MB, {speed}"

    def __exit__(self, *_: object) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


__all__: Sequence[str] = ("Progress", "configure", "run")
