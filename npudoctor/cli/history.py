"""List the changes made by npudoctor on this node: every run of a fix and its outcome."""

from __future__ import annotations

import argparse

from npudoctor import plugins
from npudoctor.cli import fixing, node
from npudoctor.cli.output import say, write, write_json
from npudoctor.control_characters import all_visible, escape, visible_lines
from npudoctor.fixer import progress, runner
from npudoctor.fixer.events import in_one_line
from npudoctor.host import Refused


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor history`."""
    parser.add_argument("--json", action="store_true", help="print JSON with previews")
    fixing.add_state(parser, only_read=True)
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the runs, oldest first."""
    config = node.load_config(args)
    with node.open_node(args, config) as host:
        try:
            node_host = fixing.with_journal(host)
            resolves = progress.resolving(plugins.load(args.plugin).fixes)
            runs = progress.of_runs(runner.history(node_host, state=args.state), resolves, node_host)
        except Refused as why:
            say(f"npudoctor: refused: {why.reason}")
            return fixing.REFUSED
    if args.json:
        write_json(all_visible([dict(one) for one in runs], show=visible_lines))
        return 0
    for raw, one in zip(runs, all_visible(runs), strict=True):
        write(f"{one['id']}  {one['status']}  {one['by']}  {one['title']}\n")
        if one["why"]:
            write(f"    reason: {one['why']}\n")
        for preview in raw["preview"]:
            write(f"    {escape(in_one_line(preview))}\n")
        if said := progress.stage_clause(one) or one["reason"]:
            write(f"    {said}\n")
    if not runs:
        write("no changes by npudoctor\n")
    return 0
