"""`npudoctor undo RUN` of an installation of driver and firmware: the way back of its plan, confirmed anew."""

from __future__ import annotations

import argparse

from npudoctor.cli import setup_install
from npudoctor.cli.output import write
from npudoctor.control_characters import escape
from npudoctor.fixer import control
from npudoctor.fixer.journal import OF_INSTALLATION, RUNNING, Journal
from npudoctor.host import Host, Refused, is_mutable
from npudoctor.installing import earlier, undoing


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options for a run that has installed driver or firmware."""
    group = parser.add_argument_group("undoing an installation of driver and firmware (docs/setup.md)")
    group.add_argument("--expect-host", metavar="NAME", help="the name of this host, instead of typing it")
    group.add_argument("--unmanaged", action="store_true", help="confirm that no scheduler manages this node")


def is_installation(host: Host, args: argparse.Namespace) -> bool:
    """Whether the run that is named has installed driver or firmware, and has ended."""
    if args.run_id is None or host.about.source != "live" or not is_mutable(host):
        return False
    journal = Journal(host, args.state)
    status = journal.status(args.run_id) if args.run_id in journal.runs() else None
    return status is not None and status.status in OF_INSTALLATION and status.status != RUNNING


def run(args: argparse.Namespace) -> int:
    """Show what is undone and what stays, confirm, undo; the exit code."""
    with setup_install.open_this_machine(args) as (host, catalog, options):
        if (forbidden := control.forbidden_now(options, host)) is not None:
            raise forbidden
        journal = Journal(host, args.state)
        with control.lock_journal(journal):
            if other := journal.elsewhere(args.run_id):
                raise Refused(f"run {args.run_id} was made on {other}")
            earlier.refuse_second(host, journal, but=args.run_id)
            steps, stays = undoing.plan_undo(host, journal, args.run_id)
            write(f"undo {args.run_id}\n")
            for step in steps:
                write(escape(f"  {step.title} {step.now or 'none'} → {step.then or 'none'}: bash {step.source}") + "\n")
                write(escape(f"    SHA-256 {step.sha256}; way back: {step.way_back}") + "\n")
            for line in stays:
                write(escape(f"  {line}") + "\n")
            if not steps:
                raise Refused("nothing of it can be undone")
            if stays:
                write("  whether the driver matches what stays is uncertain: compare the packages' version.info\n")
            if args.dry_run:
                return 0
            return setup_install.begin(args, (host, catalog, options), journal, steps, (), {args.run_id: "undone by"})
