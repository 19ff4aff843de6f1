"""Try npudoctor without an NPU: diagnose a simulated, newly installed node.

The same as `npudoctor check --simulate new-node`. Nothing on this machine is read or changed.
"""

from __future__ import annotations

import argparse

from npudoctor.cli import check
from npudoctor.cli.output import say

ABOUT = """\
This is a simulated, newly installed node: eight 910B NPUs and all software, but the CANN environment is not loaded,
HCCL ports are not reserved, and torch_npu does not match torch. Below is the report of npudoctor. More nodes:
`npudoctor sim list`. Without --simulate npudoctor checks this machine.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the options of `npudoctor check`."""
    check.configure(parser)
    parser.set_defaults(simulate="new-node")


def run(args: argparse.Namespace) -> int:
    """Print the introduction and the report."""
    if args.format in (None, "text"):
        say(ABOUT)
    return check.run(args)
