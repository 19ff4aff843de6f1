"""List simulated nodes, or write one to a folder with its tools as executables, to test npudoctor end to end.

examples:
  npudoctor sim list
  npudoctor check --simulate sick-cards        diagnose one; also fix, smoke, tui and others
  npudoctor check --simulate mine.toml         a node of your own (docs/simulated-nodes.md)
  npudoctor sim tools /tmp/node seed-910b1     then: npudoctor check --root /tmp/node
  npudoctor sim bundle /tmp/recording seed-910b1     then: npudoctor check --replay /tmp/recording

exit codes: 0 done, 2 usage.
"""

from __future__ import annotations

import argparse

from npudoctor import sim
from npudoctor.cli.output import UsageError, say, write

_TOOLS = """Write a simulated node as a file tree below DIR, with npu-smi, hccn_tool and other tools as executables.

`npudoctor check --root DIR` then runs these tools as on a real node: as processes, within time limits. Nothing is
written outside DIR, and DIR can be deleted afterwards.

examples:
  npudoctor sim tools /tmp/node sick-cards     then: npudoctor check --root /tmp/node
  NPUDOCTOR_FAKE_DELAY_S=0.7 npudoctor check --root /tmp/node    tools that take 0.7 s more

exit codes: 0 written, 2 usage.
"""
_BUNDLE = """Write a simulated node as a recording below DIR, as `npudoctor record DIR` writes one on a node.

`npudoctor check --replay DIR` reads it, and so does every command that takes --replay. The files can be edited, to try
other outputs of a tool.

examples:
  npudoctor sim bundle /tmp/recording sick-cards     then: npudoctor check --replay /tmp/recording

exit codes: 0 written, 2 usage.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|tools|bundle")
    actions.add_parser("list", help="list all simulated nodes")
    for name, help, about in (
        ("tools", "write files and executables (npu-smi, hccn_tool, …)", _TOOLS),
        ("bundle", "write a recording, for --replay", _BUNDLE),
    ):
        action = actions.add_parser(name, help=help, description=about)
        action.add_argument("folder", metavar="DIR", help="a new or empty folder")
        action.add_argument("scenario", metavar="SCENARIO", help="a name from `npudoctor sim list`, or a .toml file")


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    if args.action == "list":
        known = sim.scenarios()
        width = max(map(len, known))
        write("".join(f"{name:<{width}}  {about}\n" for name, about in known.items()))
        say("npudoctor check --simulate NAME diagnoses one, npudoctor tui --simulate NAME shows it")
        return 0
    try:
        host = sim.simulate(args.scenario)
        if args.action == "bundle":
            sim.write_bundle(host, args.folder)
            write(f"npudoctor check --replay {args.folder}\n")
        else:
            sim.write_tools(host, args.folder)
            write(f"npudoctor check --root {args.folder}\n")
    except sim.ScenarioError as problem:
        raise UsageError(str(problem)) from problem
    except OSError as problem:
        raise UsageError(f"{args.folder}: {problem.strerror}" if problem.strerror else str(problem)) from problem
    return 0
