"""`npudoctor fleet install`: show the plan of every node, confirm, install, and say what became of each."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npudoctor.cli import fleet_asking
from npudoctor.cli.output import UsageError, say, write

if TYPE_CHECKING:
    from npudoctor.fleet.install import Archive, Row

PREFIX = "/opt/npudoctor-fleet"
SCHEMA = "npudoctor.fleet-install/1"


def configure(parser: argparse.ArgumentParser) -> None:
    """Its own options; the caller adds those that name nodes and engine."""
    parser.add_argument("archive", metavar="ARCHIVE", help="npudoctor-VERSION-linux-ARCH.tar.gz, or the wheelhouse")
    parser.add_argument("--prefix", default=PREFIX, metavar="DIR", help=f"folder on the nodes (default: {PREFIX})")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done on which node")
    parser.add_argument("--yes", action="store_true", help="install without confirmation")
    parser.add_argument("--json", action="store_true", help="print the rows of all nodes as JSON")


def run(args: argparse.Namespace) -> int:
    """Judge the archive, ask every node what it would do, confirm, install; the exit code."""
    from npudoctor.fleet import install

    if not os.path.isabs(args.prefix):
        raise UsageError(f"--prefix {args.prefix}: expected an absolute path")
    names = fleet_asking.named_nodes(args) or fleet_asking.of_slurm(args)
    if not names:
        raise UsageError("no nodes named: use -w, --hostfile, --inventory, --rank-table or --slurm")
    called, engine = fleet_asking.installing_engine(args)
    plan = fleet_asking.plan(args, names)
    try:
        archive = install.read_archive(args.archive)
    except install.BadArchive as problem:
        raise UsageError(str(problem)) from problem
    rows = list(install.install_rows("plan", archive, args.prefix, plan, engine))
    todo = [row.node for row in rows if row.outcome in install.CHANGES]
    if args.dry_run or not todo:
        return _end(args, archive, rows)
    if not args.yes:
        from npudoctor.cli import fixing

        write(table(archive, args.prefix, rows))
        answer = fixing.confirm(f"Install on {len(todo)} node{'' if len(todo) == 1 else 's'} by {called}?")
        if not answer:
            say("not installed" if answer is False else "refused: not a terminal. Without confirmation: --yes")
            return fixing.REFUSED
    done = {}
    chosen = fleet_asking.only(plan, todo)
    for row in install.install_rows("install", archive, args.prefix, chosen, engine):
        done[row.node] = row
        fleet_asking.progress(len(done), len(todo))
    return _end(args, archive, [done.get(row.node, row) for row in rows])


def _end(args: argparse.Namespace, archive: Archive, rows: Sequence[Row]) -> int:
    from npudoctor.fleet import install

    code = install.exit_code(rows)
    if args.json:
        told = {"schema": SCHEMA, "archive": archive.name, "sha256": archive.sha256, "prefix": args.prefix}
        nodes = [{"name": row.node, "outcome": row.outcome, "detail": row.detail} for row in rows]
        write(json.dumps({**told, "exit_code": code, "nodes": nodes}, indent=2) + "\n")
        return code
    write(table(archive, args.prefix, rows))
    if not args.dry_run and code == 0:
        write(f"  $ npudoctor fleet check --remote-command {args.prefix}/current/bin/npudoctor ...\n")
    return code


def table(archive: Archive, prefix: str, rows: Sequence[Row]) -> str:
    """What became of the nodes, one line for each outcome and reason."""
    from npudoctor.fleet import install, outcomes
    from npudoctor.fleet.targets import fold

    lines = [f"{archive.name} ({archive.arch}) in {prefix}/releases, SHA-256 {archive.sha256}"]
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.outcome, row.detail), []).append(row.node)
    for (outcome, detail), names in sorted(groups.items()):
        about = outcomes.KINDS.get(outcome)
        title = install.TITLES.get(outcome) or (about.summary if about else outcome)
        why = f": {detail}" if detail and detail != archive.name else ""
        lines.append(f"  {len(names)} node{'' if len(names) == 1 else 's'} {title}{why}  ({fold(names)})")
        if about and about.hint:
            lines.append(f"    {about.hint}")
    return "\n".join(lines) + "\n"
