"""Record this node for offline diagnosis: for a colleague, a support case, a comparison.

Every check of the profile runs and every fact is obtained; only what they read from the node is kept.
Of command lines it keeps the program, the script and launcher options with a number; variables that npudoctor does not
know, and what looks like a credential, stay out. `--redact` replaces host and user names, addresses and serial numbers
by stable pseudonyms, and lists what to review before the file is sent. Nothing on the node changes. `--replay FILE`
reads the recording on any machine.

examples:
  npudoctor record                       into npudoctor-HOSTNAME.tar.gz
  npudoctor record node.tar.gz           an archive that only you may read
  npudoctor record --redact vendor.tar.gz    without names, addresses and serial numbers
  npudoctor record --case case.tar.gz    for the vendor's ticket: a page in front, serial numbers kept
  npudoctor record --case --device-logs case.tar.gz    with the NPUs' own logs beside it
  npudoctor record node/                 a folder, to read or edit
  npudoctor check --replay node.tar.gz

exit codes: 0 recorded, 2 usage, or the recording cannot be written, 3 the time limit was reached before it ended.
"""

from __future__ import annotations

import argparse
import os
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence

from npudoctor import engine, plugins
from npudoctor.cli import case_page, node
from npudoctor.cli.output import UsageError, say, write
from npudoctor.cli.progress import Progress
from npudoctor.control_characters import escape
from npudoctor.host import Refused
from npudoctor.host.recording import bundle_reader, bundle_writer
from npudoctor.host.recording.archive import MAX_ENTRIES, MAX_UNPACKED_BYTES
from npudoctor.host.recording.recorder import Notes, RecordingHost
from npudoctor.host.shortage import what_ran_out
from npudoctor.privacy import recording_policy, redaction
from npudoctor.sdk import PROFILES
from npudoctor.selection import Selection, select

ARCHIVES = (".tar.gz", ".tgz")
OTHER_ARCHIVES = (".zip", ".tar", ".gz", ".xz", ".bz2", ".zst", ".7z")
"""Names that ask for a kind of archive that is not written; a folder of such a name would be taken for one."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the target and the options that name a node."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="NODE.tar.gz|FOLDER",
        help="archive, or empty or new folder (default: npudoctor-HOSTNAME.tar.gz)",
    )
    parser.add_argument("--profile", choices=PROFILES, help="which checks to run by cost (default: standard)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing archive")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="replace host and user names, IP and MAC addresses and serial numbers by stable pseudonyms",
    )
    parser.add_argument(
        "--case",
        action="store_true",
        help="for a vendor's ticket: put REPORT.txt and INDEX.txt in front; serial numbers are kept without --redact",
    )
    parser.add_argument(
        "--device-logs",
        action="store_true",
        help="with --case: export the NPUs' own logs into a folder beside it (msnpureport; up to 10 minutes)",
    )
    parser.add_argument(
        "--timeout",
        type=node.seconds,
        metavar="S",
        help="end after S seconds, whatever the tools do (default: 300)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="list every recorded command, file and variable")
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Record the node, print a summary, and the command that replays it."""
    if args.device_logs and not (args.case and not (args.replay or args.simulate or args.root)):
        raise UsageError("--device-logs requires --case, on the node itself")
    config = node.load_config(args)
    limit_s = args.timeout or config.timeout_s
    with args.limit(limit_s), node.open_node(args, config) as host:
        catalog = plugins.load(args.plugin)
        target = (
            args.target or "npudoctor-redacted.tar.gz"
            if args.redact
            else args.target or f"npudoctor-{host.about.hostname.replace('/', '_') or 'node'}.tar.gz"
        )
        place = place_for(target, force=args.force)
        recorder = RecordingHost(host)
        selection = Selection(options=node.options(args, config), deadline_s=limit_s)
        events = engine.run(catalog, recorder, selection, facts=catalog.probes)
        with Progress(len(select(catalog, selection)), color=not args.no_color) as progress:
            for event in events:
                progress.show(event)
                if isinstance(event, engine.Done):
                    found = event.report
        page = case_page.of(found, recorder, host, redacted=args.redact) if args.case else ""
    kept, left_out = recording_policy.reduce_notes(recorder.notes)
    files = bundle_writer.files_of(kept)
    if page:
        files = {"INDEX.txt": case_page.index(files).encode(), "REPORT.txt": page.encode(), **files}
    if args.redact:
        files, _ = redaction.redact(files)
    write_files(files, place, force=args.force)
    say(_account(kept, left_out, target, verbose=args.verbose), end="")
    if args.redact:
        say(to_review(files), end="")
    elif args.case:
        say("Serial numbers, names and addresses are kept for the vendor; --redact replaces them.")
    if args.case and not (args.replay or args.simulate or args.root):
        with node.open_node(args, config) as host:
            say(case_page.device_logs(host, place, wanted=args.device_logs), end="")
    write(_replaying(args, target) + "\n")
    return 0


give_up = node.give_up


# The target


def place_for(target: str, *, force: bool) -> str:
    """The path to write; raises UsageError, before the node is read, where it cannot be written."""
    if target.endswith(OTHER_ARCHIVES) and not _is_archive(target):
        raise UsageError(f"{target}: expected a folder, or a name that ends in .tar.gz")
    place = os.path.abspath(target)
    try:
        found = os.lstat(place)
    except FileNotFoundError:
        found = None
    except OSError as problem:
        raise UsageError(f"{target}: {problem.strerror}") from problem
    if found is not None and stat.S_ISLNK(found.st_mode):
        if found.st_uid != os.geteuid():
            raise UsageError(f"{target} is a symbolic link of another user; give a path that does not exist")
        return place_for(os.path.realpath(place), force=force)
    if found is not None:
        _must_be_replaceable(target, found, force=force)
    folder = os.path.dirname(place)
    if not os.path.isdir(folder):
        raise UsageError(f"{target}: folder {folder} does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{target}: no write permission in {folder}")
    return place


def _must_be_replaceable(target: str, found: os.stat_result, *, force: bool) -> None:
    if stat.S_ISDIR(found.st_mode):
        if _is_archive(target):
            raise UsageError(f"{target} is a folder; give a path that does not exist")
        if os.listdir(target):
            raise UsageError(f"{target} is not empty; give an empty or new folder")
    elif not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{target} is neither a file nor a folder; give a path that does not exist")
    elif not _is_archive(target):
        raise UsageError(f"{target} is a file; give a folder, or a name that ends in .tar.gz")
    elif not force:
        raise UsageError(f"{target} exists; --force replaces it")


def _is_archive(target: str) -> bool:
    return target.endswith(ARCHIVES)


def write_files(files: dict[str, bytes], place: str, *, force: bool) -> None:
    """Write a recording as an archive or a folder; raises UsageError where that is not possible."""
    written = (content for name, content in files.items() if name.endswith(".json") and not name.startswith("root/"))
    if (
        len(files) > MAX_ENTRIES
        or sum(map(len, files.values())) > MAX_UNPACKED_BYTES
        or any(map(bundle_reader.too_much, written))
    ):
        raise UsageError(f"{place} was not written: the node's data exceed the size limit of a recording")
    try:
        if _is_archive(place):
            bundle_writer.write_archive(files, place, replace=force)
        else:
            bundle_writer.write_folder(files, place)
    except FileExistsError as problem:
        raise UsageError(f"{place} exists; --force replaces it") from problem
    except Refused as problem:
        raise UsageError(f"{place} was not written: {problem.reason}") from problem
    except OSError as problem:
        if what_ran_out(problem):
            raise
        raise UsageError(f"cannot write {place}: {problem.strerror}") from problem


# The summary


def _account(kept: Notes, left_out: recording_policy.LeftOut, target: str, *, verbose: bool) -> str:
    """What was recorded and what was left out."""
    failed = sum(done.timed_out for done in kept.commands.values())
    hung = f", {failed} of them timed out" if failed else ""
    environ = kept.environ or {}
    lines = [
        f"Recorded into {target}:",
        f"  {len(kept.commands)} commands{hung}; {len(kept.files)} files; {len(kept.listings)} folder listings; "
        f"the state of {len(kept.stats)} paths",
        f"  {len(environ)} variables: {', '.join(sorted(environ)) or 'none'}",
        f"  {len(kept.measures)} measurements: {', '.join(sorted(kept.measures)) or 'none'}",
        f"  {len(kept.missing)} commands and paths recorded as missing",
    ]
    if verbose:
        lines += (
            _name_list("commands", kept.commands)
            + _name_list("files", kept.files)
            + _name_list("missing", kept.missing)
        )
    lines.append("Left out:")
    if left_out.variables:
        lines.append(f"  {left_out.variables} variables that npudoctor's catalogue does not name")
    if left_out.command_lines:
        lines.append(f"  {left_out.command_lines} command lines of other users' processes")
    lines.append("  process arguments, except scripts, modules and numeric launcher options")
    lines += [f"  file {path} (unknown purpose)" for path in left_out.files]
    lines += [f"  command `{key.split(' ')[0]} …` (unknown purpose)" for key in left_out.commands]
    return "\n".join(map(escape, lines)) + "\n"


def to_review(files: Mapping[str, bytes]) -> str:
    """Files and outputs with free text, which no program can redact reliably."""
    found = redaction.left_to_read(files)
    lines = ["Host and user names, addresses and serial numbers are replaced by pseudonyms. Review before sending:"]
    return "\n".join([*lines, *(f"  {one}" for one in found)]) + "\n"


def _name_list(what: str, names: Iterable[str]) -> list[str]:
    return [f"  {what}:", *(f"    {name}" for name in sorted(names))]


def _replaying(args: argparse.Namespace, target: str) -> str:
    """The command that checks the recording with the options of this run."""
    words = ["npudoctor", "check", "--replay", target]
    for option in ("profile", "python", "role", "config"):
        if value := getattr(args, option):
            words += [f"--{option}", value]
    words += ["--expect-idle"] if args.expect_idle else []
    return _shell_line(words)


def _shell_line(words: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, words))
