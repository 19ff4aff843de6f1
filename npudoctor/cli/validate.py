"""Compare npudoctor with the tools of this node, for the project: rows of docs/hardware-validation.md in one command.

It runs every check and fact of the standard profile, reads the output of each vendor tool with npudoctor's parsers,
compares the sources of the chips, takes the time of each tool, and writes one redacted archive with a readable page in
front (README.txt). The archive is a recording too. Nothing on the node changes; only --smoke opens NPUs.

examples:
  npudoctor validate                     into npudoctor-validation.tar.gz
  npudoctor validate --smoke a2.tar.gz   also a smoke run on the idle NPUs
  tar -xOf npudoctor-validation.tar.gz node/README.txt    the page
  npudoctor validate --simulate healthy-a3 try.tar.gz

exit codes: 0 every row passed, was measured or not run, 1 a row differs, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from npudoctor import engine, plugins
from npudoctor.cli import fixing, node, record, validation_rows
from npudoctor.cli.output import UsageError, say, write
from npudoctor.cli.progress import Progress
from npudoctor.cli.validation_rows import Row
from npudoctor.control_characters import escape
from npudoctor.host import TOOL_TIMEOUT_S, Completed, Host, Unavailable, command_key
from npudoctor.host.forwarding import ForwardingHost
from npudoctor.host.recording import bundle_writer
from npudoctor.host.recording.recorder import RecordingHost
from npudoctor.privacy import recording_policy, redaction
from npudoctor.records import replace
from npudoctor.selection import Selection, select

DEFAULT = "npudoctor-validation.tar.gz"
STRACE_LIMIT_S = 300.0
_MARKS = {"passed": "✔", "differs": "✖", "measured": "i", "not run": "–"}


class AnsweringHost(ForwardingHost):
    """Keeps what every command answered, with its exact time, which a recording rounds."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.answers: dict[str, Completed] = {}

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run a command, and keep its answer."""
        done = self._host.run(argv, timeout=timeout)
        self.answers[command_key(argv)] = done
        return done


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the target and the options that name a node."""
    parser.add_argument("target", nargs="?", metavar="FILE.tar.gz", help=f"archive to write (default: {DEFAULT})")
    parser.add_argument("--force", action="store_true", help="overwrite an existing archive")
    parser.add_argument("--smoke", action="store_true", help="also train on the idle NPUs for some seconds")
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the rows, write the archive, print the rows."""
    target = args.target or DEFAULT
    if not target.endswith(record.ARCHIVES):
        raise UsageError(f"{target}: expected a name that ends in .tar.gz")
    place = record.place_for(target, force=args.force)
    config = node.load_config(args)
    args.profile = "full" if args.smoke else "standard"
    with node.open_node(args, config) as host:
        catalog = plugins.load(args.plugin)
        before = validation_rows.tool_files(host)
        answering = AnsweringHost(host)
        recorder = RecordingHost(answering)
        selection = Selection(options=node.options(args, config))
        done: engine.Done | None = None
        with Progress(len(select(catalog, selection)), color=not args.no_color) as progress:
            for event in engine.run(catalog, recorder, selection, facts=catalog.probes):
                progress.show(event)
                done = event if isinstance(event, engine.Done) else done
        assert done is not None
        timed = dict(answering.answers) if host.about.source == "live" else None
        others = [*_sources(catalog, recorder, selection, done), _opens_devices(host)]
        others.append(validation_rows.left_row(before, validation_rows.tool_files(host)))
    rows = validation_rows.rows(done.report, done.facts, answering.answers, others, smoke=args.smoke, timed=timed)
    kept, _ = recording_policy.reduce_notes(recorder.notes)
    files = _redact(bundle_writer.files_of(kept), done, rows, answering.answers)
    record.write_files(files, place, force=args.force)
    for row in rows:
        write(escape(f"{_MARKS[row.status]} {row.id:<28} {row.actual}") + "\n")
    say(record.to_review(files), end="")
    write(f"Read node/README.txt in {escape(target)}, then send the archive to the project.\n")
    return 1 if any(row.status == validation_rows.DIFFERS for row in rows) else 0


def _redact(
    files: Mapping[str, bytes], done: engine.Done, rows: Sequence[Row], answers: Mapping[str, Completed]
) -> dict[str, bytes]:
    """The recording with the rows and their page, under the same pseudonyms."""
    times = validation_rows.timings(answers)
    data: dict[str, Any] = {
        "schema": validation_rows.SCHEMA,
        "npudoctor": done.report.tool_version,
        "rows": [{name: getattr(row, name) for name in ("id", "run", "expect", "status", "actual")} for row in rows],
        "timings": times,
    }
    review = redaction.left_to_read(files)
    said = {
        "README.txt": validation_rows.page(done.report, rows, times, review).encode(),
        "validation.json": json.dumps(data).encode(),
    }
    redacted, _ = redaction.redact({**files, **said})
    return redacted


def _sources(catalog: plugins.Catalog, host: Host, selection: Selection, first: engine.Done) -> Sequence[Row]:
    """The driver's library beside npu-smi: the whole standard profile with each, and their values compared."""
    if (reason := validation_rows.without_library(first.facts)) is not None:
        return validation_rows.source_rows(reason)
    reports = []
    for source, profile, names in (
        ("dcmi", "standard", ()),
        ("npu-smi", "standard", ()),
        ("auto", "full", ("npu.count",)),
    ):
        options = replace(selection.options, chips_from=source, profile=profile)
        events = engine.run(catalog, host, replace(selection, options=options, names=names))
        reports += [event.report for event in events if isinstance(event, engine.Done)]
    return validation_rows.source_rows("", *reports)


def _opens_devices(host: Host) -> Row:
    """Whether a check opens a device node, by strace of a process of its own."""
    if host.about.source != "live" or host.rooted:
        return validation_rows.opened_row(None, "only on the node itself")
    if host.which("strace") is None:
        return validation_rows.opened_row(None, "strace is not installed")
    nodes = sorted(name for name in _names(host) if name.startswith("davinci") and name[7:].isdigit())
    if not nodes:
        return validation_rows.opened_row(None, "no device node")
    filters = [word for name in nodes for word in ("-P", f"/dev/{name}")]
    command = [*shlex.split(fixing.own_command()), "check", "--json"]
    try:
        done = host.run(["strace", "-f", "-qq", "-e", "trace=open,openat", *filters, *command], timeout=STRACE_LIMIT_S)
    except Unavailable as why:
        return validation_rows.opened_row(None, why.reason)
    if done.timed_out:
        return validation_rows.opened_row(None, f"the check did not end within {STRACE_LIMIT_S:g} s under strace")
    return validation_rows.opened_row(done)


def _names(host: Host) -> tuple[str, ...]:
    try:
        return host.list_dir("/dev")
    except Unavailable:
        return ()
