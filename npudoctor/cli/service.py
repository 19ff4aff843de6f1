"""Install npudoctor's daemon as a service of systemd, or remove it: a fix like others, with a preview and an undo.

examples:
  npudoctor service install --dry-run     the units, and what becomes of the services
  npudoctor service install --yes         write, enable and start them; again: nothing to do
  npudoctor service install --setup       also make the node ready at its first boot
  npudoctor service remove
  npudoctor undo                          take the last of these back

Where systemd does not run, as in the making of an image, the service is enabled and starts at the first boot.

exit codes: 0 done, or nothing to do, 6 rolled back (the service does not start), 7 refused.
"""

from __future__ import annotations

import argparse

from npudoctor.cli import UsageError, fix, fixing, node

_ONLY_FOR_INSTALL = ("command", "setup", "network", "fixes")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor service`."""
    parser.add_argument("action", choices=("install", "remove"), help="what to do")
    parser.add_argument("--dry-run", action="store_true", help="show the exact change and make none")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    what = parser.add_argument_group("what is installed")
    what.add_argument("--command", metavar="PATH", help="the npudoctor that is started (default: this one)")
    what.add_argument("--setup", action="store_true", help="also npudoctor-setup.service, for the first boot")
    what.add_argument("--network", action="store_true", help="let the configuration open an address to other hosts")
    what.add_argument("--fixes", action="store_true", help="let the daemon apply the safe fixes that [auto_fix] names")
    fixing.add_state(parser)
    node.add_config(parser)
    parser.set_defaults(environment="process", expect_idle=None, plugin=[])
    parser.set_defaults(**dict.fromkeys(("replay", "simulate", "root", "python", "role")))


def run(args: argparse.Namespace) -> int:
    """Plan, show, ask, apply: as `npudoctor fix service.install` and `service.remove` do."""
    said = {name: value for name in _ONLY_FOR_INSTALL if (value := getattr(args, name))}
    if said and args.action == "remove":
        raise UsageError(f"--{next(iter(said))} goes with install; see npudoctor service --help")
    args.ids = [f"service.{args.action}"]
    args.assignments = [f"{name}={'true' if value is True else value}" for name, value in said.items()]
    args.all_safe = args.irreversible = args.recover = False
    return fix.run(args)
