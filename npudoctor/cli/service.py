"""Install npudoctor's daemon as a systemd service, or remove it: a fix with preview and undo.

examples:
  npudoctor service install --dry-run     preview units and changes
  npudoctor service install --yes         write, enable and start; idempotent
  npudoctor service install --setup       also run `npudoctor setup` at the first boot
  npudoctor service remove
  npudoctor undo                          undo the last of these

If systemd does not run, as in an image build, the service is enabled and starts at the first boot.

exit codes: 0 done, or nothing to do, 6 rolled back (the service does not start), 7 refused.
"""

from __future__ import annotations

import argparse

from npudoctor.cli import fix, fixing, node
from npudoctor.cli.output import UsageError

_ONLY_FOR_INSTALL = ("command", "setup", "network", "fixes")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor service`."""
    parser.add_argument("action", choices=("install", "remove"), metavar="install|remove", help="action")
    parser.add_argument("--dry-run", action="store_true", help="preview only, change nothing")
    parser.add_argument("--yes", action="store_true", help="apply without confirmation")
    what = parser.add_argument_group("unit options")
    what.add_argument("--command", metavar="PATH", help="npudoctor executable to start (default: this one)")
    what.add_argument("--setup", action="store_true", help="also install npudoctor-setup.service, for the first boot")
    what.add_argument("--network", action="store_true", help="allow the configuration to listen on other addresses")
    what.add_argument("--fixes", action="store_true", help="allow the safe fixes listed under [auto_fix]")
    fixing.add_state(parser)
    node.add_config(parser)
    parser.set_defaults(environment="process", expect_idle=None, plugin=[], form=None)
    parser.set_defaults(**dict.fromkeys(("replay", "simulate", "root", "python", "role")))


def run(args: argparse.Namespace) -> int:
    """Plan, show, confirm, apply, as `npudoctor fix service.install` and `service.remove` do."""
    said = {name: value for name in _ONLY_FOR_INSTALL if (value := getattr(args, name))}
    if said and args.action == "remove":
        raise UsageError(f"--{next(iter(said))} is an option of install only; see npudoctor service --help")
    args.ids = [f"service.{args.action}"]
    args.assignments = [f"{name}={'true' if value is True else value}" for name, value in said.items()]
    args.all_safe = args.irreversible = args.recover = False
    return fix.run(args)
