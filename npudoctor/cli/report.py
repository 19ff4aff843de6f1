"""Write one page about this node to send: findings, inventory, changes, timeline, npu-smi, and an explained log.

Markdown, short enough for a comment in an issue, goes to standard output; --html writes a page to a file. Names,
addresses and serial numbers are replaced by pseudonyms; --no-redact keeps them, for the vendor.

examples:
  npudoctor report                         Markdown
  npudoctor report --html report.html --log train.log
  npudoctor report --no-redact --replay node.tar.gz

exit codes: 0 written, 2 usage, 3 could not determine.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from npudoctor import clock, engine, inventory, plugins
from npudoctor.cli import fixing, node
from npudoctor.cli.output import UsageError, say, write
from npudoctor.cli.progress import Progress
from npudoctor.cli.progressed import Progressed
from npudoctor.control_characters import escape, visible_lines
from npudoctor.data import to_data
from npudoctor.findings import Report
from npudoctor.fixer.events import in_one_line
from npudoctor.host import Host, Refused, Unavailable
from npudoctor.host.live.safe_files import Unreadable, read_bounded
from npudoctor.host.recording import bundle_writer
from npudoctor.host.recording.recorder import RecordingHost
from npudoctor.privacy import identifying_fields, recording_policy, redaction
from npudoctor.report import case
from npudoctor.sdk import PROFILES
from npudoctor.selection import Selection, select

if TYPE_CHECKING:
    from npudoctor.host import MutableHost
    from npudoctor.plugins import Catalog

MOST_CHANGES = 20
"""So many changes and events are in the page, the newest."""


LOG_WIDTH = 100
"""Columns of the explained log, whatever terminal wrote the page."""

LARGEST_PAGE = 64 << 20
DAY_S = 86_400
MOST_READINGS = 60_000
"""Of 32 chips each minute, a day has 46,080."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor report`."""
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--markdown", action="store_true", help="Markdown on standard output (default)")
    shape.add_argument("--html", metavar="FILE", help="write an HTML page to this file")
    parser.add_argument("--force", action="store_true", help="replace a file that is no page of npudoctor")
    parser.add_argument("--log", nargs="+", default=[], metavar="FILE", help="also explain failing logs or folders")
    parser.add_argument(
        "--redact",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="replace names, addresses and serial numbers by pseudonyms (default: --redact)",
    )
    parser.add_argument("--profile", choices=PROFILES, help="which checks to run by cost (default: standard)")
    parser.add_argument(
        "--timeout", type=node.seconds, metavar="S", help="time limit of the checks in seconds (default: 300)"
    )
    fixing.add_state(parser, only_read=True)
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the checks and write the page."""
    config = node.load_config(args)
    limit_s = args.timeout or config.timeout_s
    if args.html:
        _must_be_replaceable(args.html, force=args.force)
    explained = _explain_logs(args.log) if args.log else None
    with args.limit(limit_s), node.open_node(args, config) as host:
        catalog = plugins.load(args.plugin)
        recorder = RecordingHost(host)
        selection = Selection(options=node.options(args, config), deadline_s=limit_s)
        progressed = Progressed(host, catalog, state=args.state, at_login=bool(node.simulated_folder(args)) or None)
        report = progressed.report(full_report(catalog, recorder, selection, no_color=args.no_color))
        changes, folder = changes_of(host, args.state), getattr(args, "simulated_state", None) or args.state
        made = of(report, recorder, changes=changes, state=folder, redacted=args.redact)
    files = bundle_writer.files_of(recording_policy.reduce_notes(recorder.notes)[0]) if args.redact else {}
    made = whole(made, explained, files, redacted=args.redact)
    text = (case.html if args.html else case.markdown)(made)
    if args.html:
        _write_file(args.html, text)
        say(f"npudoctor: wrote {args.html}")
    else:
        write(text)
    if not args.redact:
        say("npudoctor: names, addresses and serial numbers are in this page")
    return 0


give_up = node.give_up


def whole(made: case.Case, log: Mapping[str, Any] | None, files: Mapping[str, bytes], *, redacted: bool) -> case.Case:
    """The page with the explained log.

    With pseudonyms, if wanted, for what the files of the node's recording, the page or the log tell. They are put in
    before anything is wrapped or cut, so that no part of a name is left.
    """
    said = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
    if redacted:
        found = identifying_fields.Found(files)
        found.in_prose("\n".join(identifying_fields.texts([to_data(made.report), said, log])))
        apply = redaction.Pseudonyms(found).apply
        said, log = redaction.apply_to_texts([said, log], apply)
    return case.Case(**{**said, "log": _explanation(log) if log is not None else None})


def full_report(catalog: Catalog, host: Host, selection: Selection, *, no_color: bool) -> Report:
    """The report of a whole run, with all facts of the inventory."""
    report = None
    with Progress(len(select(catalog, selection)), color=not no_color) as progress:
        for event in engine.run(catalog, host, selection, facts=inventory.FACTS):
            progress.show(event)
            if isinstance(event, engine.Done):
                report = event.report
    assert report is not None
    return report


def of(
    report: Report,
    recorder: RecordingHost,
    *,
    changes: Sequence[str] = (),
    state: str | None = None,
    redacted: bool = True,
) -> case.Case:
    """The page about a node from its report and what was read for it."""
    told = recorder.notes.commands.get("npu-smi info")
    live = recorder.about.source == "live"
    note = (
        "Names, addresses and serial numbers that npudoctor knows are pseudonyms; read the rest before sending."
        if redacted
        else "Serial numbers, names and addresses are as the node has them."
    )
    return case.Case(
        report=report,
        changes=changes[-MOST_CHANGES:],
        timeline=list(timeline(state))[-MOST_CHANGES:] if live or state else (),
        series=series(state) if live or state else (),
        npu_smi=visible_lines(told.stdout) if told and told.stdout.strip() else None,
        notes=(note,),
    )


def changes_of(host: Host, state: str | None) -> list[str]:
    """What npudoctor changed on this node, the newest last; empty where its journal cannot be read."""
    from npudoctor.fixer import runner

    if host.about.source == "bundle":
        return []
    try:
        runs = runner.history(cast("MutableHost", host), state=state)
    except (Refused, Unavailable, OSError) as why:
        return [f"not known: {why.reason if isinstance(why, (Refused, Unavailable)) else why.strerror}"]
    return [
        escape(f"{one['started_at']} {one['fix']}: {'; '.join(map(in_one_line, one['preview']))} ({one['status']})")
        for one in runs
    ]


def timeline(state: str | None) -> Iterator[str]:
    """The newest events of the daemon on this node, the oldest first; none where it never ran or keeps them secret."""
    from npudoctor.daemon import stored

    try:
        found = stored.changes(state, MOST_CHANGES)
    except Unavailable as why:
        yield escape(f"not known: {why.reason}")
        return
    for at, *texts in reversed(found):
        kind, check, subject, said = (one if isinstance(one, str) else "" for one in texts)
        where = f" ({check}{f', {subject}' if subject not in ('', 'host') else ''})" if check else ""
        with contextlib.suppress(ValueError, TypeError, OverflowError, OSError):  # no time that a clock has
            yield escape(f"{clock.in_utc(at)} {kind}: {said}{where}")


def series(state: str | None) -> list[tuple[str, ...]]:
    """The least and the most of each chip's readings of the last day, by the daemon: rows with their heading."""
    from npudoctor.daemon import stored

    ranges: dict[str, list[list[float]]] = {}
    for _, chip, values in stored.readings(state, since=clock.timestamp() - DAY_S, most=MOST_READINGS):
        kept = ranges.setdefault(escape(chip), [[] for _ in values])
        for known, value in zip(kept, values, strict=True):
            if value is not None:
                known[:] = [min([value, *known]), max([value, *known])]
    rows = [
        (chip, *(f"{one[0]:.0f}–{one[-1]:.0f}" if one else "unknown" for one in kept)) for chip, kept in ranges.items()
    ]
    return [("chip", "AI Core %", "HBM %", "°C", "W", "ECC errors"), *rows] if rows else []


def _extent(known: Sequence[float]) -> str:
    return f"{known[0]:.0f}–{known[-1]:.0f}" if known else "unknown"


def _explain_logs(names: Sequence[str]) -> Mapping[str, Any]:
    """What `npudoctor explain --log` says of these logs."""
    from npudoctor.cli import logfiles
    from npudoctor.explain import diagnosis, log_documents, scan

    logs = logfiles.Logs(names)
    scanner = scan.Scanner()
    for name, blocks in logs.read(scan.BLOCK):
        scanner.read(escape(name), blocks)
    found = diagnosis.diagnose(scanner, [name for name in names if os.path.isdir(name)])
    if found.knows or found.answer:
        return log_documents.of_log(found)
    return {"nothing": log_documents.nothing_known(found)}


def _explanation(document: Mapping[str, Any]) -> str:
    from npudoctor.report import explained

    return document.get("nothing") or explained.log(document, no_color=True, width=LOG_WIDTH)


def _must_be_replaceable(path: str, *, force: bool) -> None:
    """Refuse, before the node is read, a file that is no earlier page, and a folder that is not there."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"{path}: folder {folder} does not exist")
    if not os.path.lexists(path) or force:
        return
    try:
        begins = read_bounded(path, limit=LARGEST_PAGE) if os.path.isfile(path) else b""
    except Unreadable as problem:
        raise UsageError(str(problem)) from problem
    if b"<title>npudoctor: " not in begins:
        raise UsageError(f"{path} exists and is no page of npudoctor; --force replaces it")


def _write_file(path: str, text: str) -> None:
    from npudoctor.host.live.safe_files import open_replacement

    try:
        with open_replacement(path) as file:
            file.write(visible_lines(text).encode())
    except Refused as problem:
        raise UsageError(f"{path} was not written: {problem.reason}") from problem
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {problem.strerror}") from problem
