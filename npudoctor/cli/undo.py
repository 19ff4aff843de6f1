"""Take back what a fix has changed: the newest run, or the one that is named (`npudoctor history` lists them).

A file that somebody has changed since is not touched; the difference is shown, and --force overrides that.

exit codes: 0 everything is as it was before, 6 it could not be undone completely, 7 refused.
"""

from __future__ import annotations

import argparse

from npudoctor.cli import fixing, node, say
from npudoctor.fixer import runner
from npudoctor.host import Refused


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor undo`."""
    parser.add_argument("run_id", nargs="?", metavar="RUN", help="which run (default: the newest that is applied)")
    parser.add_argument("--force", action="store_true", help="also where somebody has changed a file since")
    fixing.add_state(parser)
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Undo; the exit code says how it went."""
    config = node.load_config(args)
    words = ["undo", *([args.run_id] if args.run_id else []), *(["--force"] if args.force else [])]
    words += ["--state", args.state] if args.state else []
    with node.opened(args, config) as host:
        try:
            events = runner.undo(fixing.changeable(host), args.run_id, force=args.force, state=args.state)
            return fixing.exit_code([fixing.follow(events, words).outcome])
        except Refused as why:
            say(f"npudoctor: refused: {why.reason}")
            return fixing.REFUSED
