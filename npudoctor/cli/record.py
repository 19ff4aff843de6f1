"""Write what this node is made of into a file that stands in for it: for a colleague, a support case, a comparison.

Every check of the profile is run and every fact obtained; what they asked the node for, and nothing else, is kept.
Of command lines it keeps the program, the script and launcher options with a number; variables that npudoctor does not
know, and what looks like a credential, stay out. `--redact` replaces host and user names, addresses and serial numbers
by stable pseudonyms, and lists what a person should still read before the file is sent. Nothing on the node is changed.
`--replay FILE` then takes the node's place, on any machine.

examples:
  npudoctor record                       into npudoctor-HOSTNAME.tar.gz
  npudoctor record node.tar.gz           an archive that only you may read
  npudoctor record --redact vendor.tar.gz    without names, addresses and serial numbers
  npudoctor record node/                 a folder, to look at or to edit
  npudoctor check --replay node.tar.gz
"""

from __future__ import annotations

import argparse
import os
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence

from npudoctor import engine, plugins
from npudoctor.cli import UsageError, node, say, write
from npudoctor.cli.progress import Progress
from npudoctor.control_characters import visible
from npudoctor.host import Refused, exhausted
from npudoctor.host.recording import bundle_reader, bundle_writer
from npudoctor.host.recording.archive import MAX_ENTRIES, MAX_UNPACKED_BYTES
from npudoctor.host.recording.recorder import Notes, RecordingHost
from npudoctor.privacy import recording_policy, redaction
from npudoctor.sdk import PROFILES
from npudoctor.selection import Selection, select

ARCHIVES = (".tar.gz", ".tgz")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the target and the options that name a node."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="NODE.tar.gz|FOLDER",
        help="what to write: an archive, or a folder that is empty or not there (default: npudoctor-HOSTNAME.tar.gz)",
    )
    parser.add_argument("--profile", choices=PROFILES, help="what the run may cost (default: standard)")
    parser.add_argument("--force", action="store_true", help="replace an archive that is there")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="replace host and user names, IP and MAC addresses and serial numbers by stable pseudonyms",
    )
    parser.add_argument(
        "--timeout",
        type=node.seconds,
        metavar="S",
        help="ask the node for S seconds at most, whatever the tools do (default: 300)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="name every command, file and variable taken")
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Record the node, say what was taken, and print the command that replays it."""
    config = node.load_config(args)
    limit_s = args.timeout or config.timeout_s
    with args.limit(limit_s), node.opened(args, config) as host:
        catalog = plugins.load(args.plugin)
        target = (
            args.target or "npudoctor-redacted.tar.gz"
            if args.redact
            else args.target or f"npudoctor-{host.about.hostname.replace('/', '_') or 'node'}.tar.gz"
        )
        place = _place_for(target, force=args.force)
        recorder = RecordingHost(host)
        selection = Selection(options=node.options(args, config), deadline_s=limit_s)
        events = engine.run(catalog, recorder, selection, facts=catalog.probes)
        with Progress(len(select(catalog, selection)), color=not args.no_color) as progress:
            for event in events:
                progress.show(event)
    kept, left_out = recording_policy.reduced(recorder.notes)
    files = bundle_writer.files_of(kept)
    if args.redact:
        files, _ = redaction.redacted(files)
    _write(files, place, force=args.force)
    say(_account(kept, left_out, target, verbose=args.verbose), end="")
    if args.redact:
        say(_to_read(files), end="")
    write(_replaying(args, target) + "\n")
    return 0


give_up = node.give_up


# The target


def _place_for(target: str, *, force: bool) -> str:
    """Where to write; raises UsageError, before anything is asked of the node, where that cannot be done."""
    place = os.path.abspath(target)
    try:
        found = os.lstat(place)
    except FileNotFoundError:
        found = None
    except OSError as problem:
        raise UsageError(f"{target}: {problem.strerror}") from problem
    if found is not None and stat.S_ISLNK(found.st_mode):
        if found.st_uid != os.geteuid():
            raise UsageError(f"{target} is a symbolic link of another user; give a name that is not taken")
        return _place_for(os.path.realpath(place), force=force)
    if found is not None:
        _must_be_replaceable(target, found, force=force)
    folder = os.path.dirname(place)
    if not os.path.isdir(folder):
        raise UsageError(f"{target}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{target}: you may not write in {folder}")
    return place


def _must_be_replaceable(target: str, found: os.stat_result, *, force: bool) -> None:
    if stat.S_ISDIR(found.st_mode):
        if _is_archive(target):
            raise UsageError(f"{target} is a folder; an archive needs a name that is not taken")
        if os.listdir(target):
            raise UsageError(f"{target} is not empty; give a folder that is empty or not there yet")
    elif not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{target} is neither a file nor a folder; give a name that is not taken")
    elif not _is_archive(target):
        raise UsageError(f"{target} is a file; give a folder, or a name that ends in .tar.gz")
    elif not force:
        raise UsageError(f"{target} exists; --force replaces it")


def _is_archive(target: str) -> bool:
    return target.endswith(ARCHIVES)


def _write(files: dict[str, bytes], place: str, *, force: bool) -> None:
    written = (content for name, content in files.items() if name.endswith(".json") and not name.startswith("root/"))
    if (
        len(files) > MAX_ENTRIES
        or sum(map(len, files.values())) > MAX_UNPACKED_BYTES
        or any(map(bundle_reader.too_much, written))
    ):
        raise UsageError(f"{place} is not written: this node tells more than a recording may hold")
    try:
        if _is_archive(place):
            bundle_writer.write_archive(files, place, replace=force)
        else:
            bundle_writer.write_folder(files, place)
    except FileExistsError as problem:
        raise UsageError(f"{place} exists; --force replaces it") from problem
    except Refused as problem:
        raise UsageError(f"{place} is not written: {problem.reason}") from problem
    except OSError as problem:
        if exhausted(problem):
            raise
        raise UsageError(f"{place} cannot be written: {problem.strerror}") from problem


# What is said


def _account(kept: Notes, left_out: recording_policy.LeftOut, target: str, *, verbose: bool) -> str:
    """What was taken and what was left out, for a person."""
    failed = sum(done.timed_out for done in kept.commands.values())
    hung = f", {failed} of them without an answer in time" if failed else ""
    environ = kept.environ or {}
    lines = [
        f"Took into {target}:",
        f"  {len(kept.commands)} commands{hung}; {len(kept.files)} files; {len(kept.listings)} listings of folders; "
        f"the state of {len(kept.stats)} paths",
        f"  {len(environ)} variables: {', '.join(sorted(environ)) or 'none'}",
        f"  {len(kept.measures)} measurements: {', '.join(sorted(kept.measures)) or 'none'}",
        f"  {len(kept.missing)} commands and paths are noted as not there",
    ]
    if verbose:
        lines += _named("commands", kept.commands) + _named("files", kept.files) + _named("not there", kept.missing)
    lines.append("Left out:")
    lines.append(f"  {left_out.variables} variables that npudoctor's catalogue does not name")
    lines.append(f"  {left_out.command_lines} command lines of other users' processes")
    lines.append("  arguments of all processes but scripts, modules and options of launchers with a number")
    lines += [f"  the file {path}, whose purpose is not known" for path in left_out.files]
    lines += [f"  the command `{key.split(' ')[0]} …`, which looks like it" for key in left_out.commands]
    return "\n".join(map(visible, lines)) + "\n"


def _to_read(files: Mapping[str, bytes]) -> str:
    """What holds free text: no program knows what somebody has written there."""
    found = redaction.left_to_read(files)
    lines = ["Host and user names, addresses and serial numbers are replaced by pseudonyms. Read before sending:"]
    return "\n".join([*lines, *(f"  {one}" for one in found)]) + "\n"


def _named(what: str, names: Iterable[str]) -> list[str]:
    return [f"  {what}:", *(f"    {name}" for name in sorted(names))]


def _replaying(args: argparse.Namespace, target: str) -> str:
    """The command that judges the recording as `npudoctor check`, with these options, would have judged the node."""
    words = ["npudoctor", "check", "--replay", target]
    for option in ("profile", "python", "role", "config"):
        if value := getattr(args, option):
            words += [f"--{option}", value]
    words += ["--expect-idle"] if args.expect_idle else []
    return _shown(words)


def _shown(words: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, words))
