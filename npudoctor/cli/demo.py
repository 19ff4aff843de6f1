"""Try npudoctor without a card: the diagnosis of a simulated node that was just installed.

The same as `npudoctor check --simulate new-node`. Nothing on this machine is read or changed.
"""

from __future__ import annotations

import argparse

from npudoctor.cli import check, say

ABOUT = """\
This is a simulated node, as a person finds it who has just installed it: eight 910B cards and all the software, but
CANN is not sourced, HCCL's ports are not reserved, and torch_npu is not the one for this torch. What follows is what
npudoctor says about it. `npudoctor sim list` names more nodes; without --simulate it examines yours.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the options of `npudoctor check`."""
    check.configure(parser)
    parser.set_defaults(simulate="new-node")


def run(args: argparse.Namespace) -> int:
    """Say what is shown, and show it."""
    if args.format in (None, "text"):
        say(ABOUT)
    return check.run(args)
