"""Undo a fix: the newest run, or the named one (`npudoctor history` lists them).

A file that was changed since is left alone; the difference is shown, and --force overrides that.

exit codes: 0 fully undone, 6 not completely undone, 7 refused.
"""

from __future__ import annotations

import argparse

from npudoctor.cli import fixing, node
from npudoctor.cli.output import say
from npudoctor.fixer import runner
from npudoctor.host import Refused


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor undo`."""
    parser.add_argument("run_id", nargs="?", metavar="RUN", help="id of the run (default: the newest applied)")
    parser.add_argument("--force", action="store_true", help="also undo files that were changed since")
    fixing.add_state(parser)
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Undo; return the exit code."""
    config = node.load_config(args)
    words = ["undo", *([args.run_id] if args.run_id else []), *(["--force"] if args.force else [])]
    words += ["--state", args.state] if args.state else []
    words += ["--simulate", args.simulate] if args.simulate else []
    with node.opened(args, config) as host:
        try:
            events = runner.undo(fixing.changeable(host), args.run_id, force=args.force, state=args.state)
            return fixing.exit_code([fixing.follow(events, words).outcome])
        except Refused as why:
            say(f"npudoctor: refused: {why.reason}")
            return fixing.REFUSED
