"""Undo a fix: the newest run, or the named one (`npudoctor history` lists them).

It shows what undoing changes. On a terminal it asks; in a script it goes ahead
(--dry-run only shows). A file that was changed since is left alone; the
difference is shown, and --force overrides that.

examples:
  npudoctor undo --dry-run                       show what undoing the newest run would change
  npudoctor undo                                 show, confirm, undo
  npudoctor undo RUN --yes                       undo this run without confirmation
  npudoctor undo RUN --expect-host NAME          a run that has installed a driver: its way back, docs/setup.md

exit codes: 0 fully undone, 6 not completely undone, 7 refused.
"""

from __future__ import annotations

import argparse

from npudoctor.cli import fixing, node, setup_undo
from npudoctor.cli.output import say, write
from npudoctor.control_characters import visible_lines
from npudoctor.fixer import runner
from npudoctor.host import MutableHost, Refused, Unavailable
from npudoctor.steps import StepFailed


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor undo`."""
    parser.add_argument("run_id", nargs="?", metavar="RUN", help="id of the run (default: the newest applied)")
    parser.add_argument("--force", action="store_true", help="also undo files that were changed since")
    parser.add_argument("--dry-run", action="store_true", help="preview only, change nothing")
    parser.add_argument("--yes", action="store_true", help="undo without confirmation")
    setup_undo.configure(parser)
    fixing.add_state(parser)
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Undo; return the exit code."""
    config = node.load_config(args)
    words = ["undo", *([args.run_id] if args.run_id else []), *(["--force"] if args.force else [])]
    words += ["--state", args.state] if args.state else []
    words += ["--simulate", args.simulate] if args.simulate else []
    with node.open_node(args, config) as host:
        try:
            if setup_undo.is_installation(host, args):
                return setup_undo.run(args)
            if not _confirm(args, fixing.changeable(host)):
                return 0 if args.dry_run else fixing.REFUSED
            events = runner.undo(fixing.changeable(host), args.run_id, force=args.force, state=args.state)
            return fixing.exit_code([fixing.follow(events, words).outcome])
        except Refused as why:
            say(f"npudoctor: refused: {why.reason}")
            return fixing.REFUSED


def _confirm(args: argparse.Namespace, host: MutableHost) -> bool:
    """Show what undoing changes; whether to do it: with --yes, after confirmation, or without a terminal.

    Raises Refused with --dry-run only: without it the undo itself says why it is refused, and what would work.
    """
    try:
        found = runner.to_undo(host, args.run_id, state=args.state)
        previews = runner.undo_preview(host, found.id, state=args.state, force=args.force)
    except (Refused, StepFailed, Unavailable):
        if args.dry_run:
            raise
        return True
    lines = [line for preview in previews for line in preview.splitlines()] or ["changes nothing"]
    write(
        "\n".join(
            [
                f"undo {found.id} · {found.title}",
                *(f"  {line}" for line in visible_lines("\n".join(lines)).splitlines()),
            ]
        )
        + "\n"
    )
    if args.dry_run:
        return False
    if args.yes or fixing.confirm("Undo this?") in (True, None):
        return True
    say("no changes made")
    return False
