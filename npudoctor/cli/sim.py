"""List simulated nodes, or write one to a folder with its tools as executables, to test npudoctor end to end.

examples:
  npudoctor sim list
  npudoctor sim tools /tmp/node seed-910b1     then: npudoctor check --root /tmp/node
"""

from __future__ import annotations

import argparse

from npudoctor import sim
from npudoctor.cli.output import UsageError, write


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|tools|bundle")
    actions.add_parser("list", help="list all simulated nodes", allow_abbrev=False)
    tools = actions.add_parser("tools", help="write files and executables (npu-smi, hccn_tool, …)")
    bundle = actions.add_parser("bundle", help="write a recording, for --replay")
    for action in (tools, bundle):
        action.add_argument("folder", metavar="DIR", help="a new or empty folder")
        action.add_argument("scenario", metavar="SCENARIO", help="a name from `npudoctor sim list`, or a .toml file")


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    if args.action == "list":
        known = sim.scenarios()
        width = max(map(len, known))
        write("".join(f"{name:<{width}}  {about}\n" for name, about in known.items()))
        return 0
    try:
        host = sim.simulate(args.scenario)
        if args.action == "bundle":
            sim.write_bundle(host, args.folder)
            write(f"npudoctor check --replay {args.folder}\n")
        else:
            sim.write_tools(host, args.folder)
            write(f"npudoctor check --root {args.folder}\n")
    except (sim.ScenarioError, OSError) as problem:
        raise UsageError(str(problem)) from problem
    return 0
