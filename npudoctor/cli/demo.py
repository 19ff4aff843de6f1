"""Try npudoctor without an NPU: diagnose a simulated, newly installed node.

On a terminal it opens the terminal interface with that node, where fixes can be tried; otherwise, and with any option,
it is the same as `npudoctor check --simulate new-node`. Nothing on this machine is read or changed.
"""

from __future__ import annotations

import argparse

from npudoctor.cli import check, parsing, tui
from npudoctor.cli.output import UsageError, say, write
from npudoctor.selection import Selection

ABOUT = """\
This is a simulated, newly installed node: eight 910B NPUs and all software, but the CANN environment is not loaded,
HCCL ports are not reserved, and torch_npu does not match torch. Below is the report of npudoctor. More nodes:
`npudoctor sim list`. Without --simulate npudoctor checks this machine.
"""

ABOUT_FLEET = """\
This is a simulated cluster of 64 nodes with 8 NPUs each, in which some faults were planted. Below is the page of
`npudoctor fleet`. Check your own nodes with: npudoctor fleet check -w 'n[0001-0064]'
"""
OF_FLEET = ("fleet", "format", "verbose", "no_color")
"""The options of `npudoctor check` that --fleet takes."""
FAULTS = {"switch": 1, "drift": 3, "tls": 1, "swap": 1, "hot": 1, "dead": 2, "sick": 2}


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the options of `npudoctor check`."""
    check.configure(parser)
    parser.add_argument("--fleet", action="store_true", help="show the verdict on a simulated cluster of 64 nodes")
    parser.set_defaults(simulate="new-node", plain=parser)


def run(args: argparse.Namespace) -> int:
    """Print the introduction and the report."""
    if args.fleet:
        return _fleet(args)
    if _is_bare(args) and tui.on_a_terminal():
        return tui.run(parsing.parser_of("tui").parse_args(["--simulate", args.simulate]))
    if args.format in (None, "text"):
        say(ABOUT)
    return check.run(args)


def _fleet(args: argparse.Namespace) -> int:
    from npudoctor.cli import fleet
    from npudoctor.fleet import sim, verdict

    if other := next((name for name in _given_options(args) if name not in OF_FLEET), None):
        raise UsageError(f"--fleet shows a simulated cluster: leave out --{other.replace('_', '-')}")
    args.format = args.format or "text"
    if args.format not in fleet.FORMATS:
        raise UsageError(f"--fleet: expected a format of {', '.join(fleet.FORMATS)}, found {args.format}")
    if args.format == "text":
        say(ABOUT_FLEET)
    report = verdict.judge_fleet(sim.merged_fleet(64, FAULTS), Selection())
    write(fleet.render_report(report, args), colored=args.format == "text")
    return report.exit_code


def _given_options(args: argparse.Namespace) -> list[str]:
    """The options that were given, but for the node."""
    usual = vars(args.plain.parse_args([]))
    return [name for name, value in vars(args).items() if name in usual and name != "simulate" and value != usual[name]]


def _is_bare(args: argparse.Namespace) -> bool:
    """Whether no option but the node was given."""
    return not _given_options(args)
