"""Describe this node in one line for `npudoctor fleet`: its report, its identity and what is compared across nodes.

examples:
  npudoctor node --line                 one line with a checksum, for another machine
  npudoctor node --to /shared/run1      write /shared/run1/NAME.json.gz
  npudoctor node                        the same as JSON, to read

A node in service is checked by profile quick, unless --profile or --expect-idle is given.
exit codes: those of `npudoctor check`; the line contains the code, too.
"""

from __future__ import annotations

import argparse
import os
import time

from npudoctor import plugins
from npudoctor.cli import node
from npudoctor.cli.output import UsageError, write, write_json
from npudoctor.data import to_data
from npudoctor.sdk import PROFILES
from npudoctor.selection import Selection


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor node`."""
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--line", action="store_true", help="print one line with a checksum")
    shape.add_argument("--to", metavar="DIR", help="write DIR/NAME.json.gz")
    parser.add_argument("--name", default="", help="name of this node in the fleet (default: its host name)")
    parser.add_argument("--profile", choices=PROFILES, help="which checks to run by cost (default: standard)")
    parser.add_argument("--timeout", type=node.seconds, metavar="S", help="time limit in seconds (default: 100)")
    node.add_frameworks(parser)
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Check the node and print or write its digest; the exit code of the check."""
    from npudoctor.fleet import describe, line

    config = node.load_config(args)
    limit_s = args.timeout or 100.0
    until = time.monotonic() + limit_s
    catalog = plugins.load(args.plugin)
    with args.limit(limit_s), node.open_node(args, config) as host:
        selection = Selection(
            options=node.options(args, config),
            fail_on=config.fail_on,
            severities=config.severity,
            silenced=config.silences_on(),
            deadline_s=max(0.1, until - time.monotonic()),
        )
        name = args.name or os.environ.get("SLURMD_NODENAME", "")
        found = describe.of_node(catalog, host, selection, name=name, gentle=args.profile is None)
    if args.line:
        write(f"{line.line_of(found)}\n")
    elif args.to:
        _drop(args.to, found.name, line.pack(found))
    else:
        write_json(to_data(found))
    return found.exit_code


def give_up(args: argparse.Namespace, reason: str) -> int:
    """Say in one line why there is no answer; the exit code is that of a check."""
    return node.give_up(args, reason)


def _drop(folder: str, name: str, content: bytes) -> None:
    from npudoctor.fleet.line import file_name
    from npudoctor.host import Refused
    from npudoctor.host.live import safe_files

    try:
        with safe_files.open_replacement(os.path.join(folder, f"{file_name(name)}.json.gz")) as file:
            file.write(content)
    except (OSError, Refused) as problem:
        reason = problem.reason if isinstance(problem, Refused) else problem.strerror
        raise UsageError(f"--to {folder}: {reason}") from problem
