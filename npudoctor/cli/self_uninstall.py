"""Remove what npudoctor keeps on this node: its services, units, history and state.

It shows all of it and asks first. What fixes changed on the node stays changed: undo it before, with `npudoctor undo`,
because the journal that undo reads is removed too. The configuration of a site stays, and so do the reports of fleet
runs; both are shown. The last line tells how to remove the program itself.

examples:
  npudoctor self uninstall --dry-run     show what would be removed
  npudoctor self uninstall               show, confirm, remove
  npudoctor self uninstall --yes         without confirmation

exit codes: 0 removed, or nothing to remove, 6 a service could not be removed, 7 refused.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npudoctor.cli import fixing, node, service
from npudoctor.cli.output import say, write
from npudoctor.control_characters import escape
from npudoctor.fixer import journal, runner
from npudoctor.host import MutableHost, Refused, Unavailable
from npudoctor.records import record

UNIT_FOLDER = "/etc/systemd/system"
UNITS = ("npudoctor.service", "npudoctor-setup.service")
STATE = ".local/state/npudoctor"
"""Of a user, below the home folder."""
CONFIGURATIONS = ("/etc/npudoctor", "~/.config/npudoctor")
UNPACKED = ("/var/cache/npudoctor", "~/.cache/npudoctor")
"""Where the archive in one file unpacks itself, for root and for a user."""


@record(frozen=True, kw_only=True)
class Kept:
    """What npudoctor has on a node: `units` and `folders` to remove; `applied`, runs of fixes that stay in force.

    `fleets` are folders of fleet runs, which are reports of a user; `others` state in a home folder of somebody else.
    """

    units: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    configurations: tuple[str, ...] = ()
    fleets: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor self`."""
    parser.add_argument("action", choices=("uninstall",), metavar="uninstall", help="action")
    parser.add_argument("--dry-run", action="store_true", help="show only, change nothing")
    parser.add_argument("--yes", action="store_true", help="remove without confirmation")
    node.add_config(parser)
    parser.set_defaults(environment="process", expect_idle=None, plugin=[], form=None)
    parser.set_defaults(**dict.fromkeys(("replay", "simulate", "root", "python", "role", "state")))


def run(args: argparse.Namespace) -> int:
    """Show, confirm, remove."""
    config = node.load_config(args)
    with node.open_node(args, config) as host:
        try:
            changeable = fixing.changeable(host)
            kept = find_kept(changeable)
        except Refused as why:
            say(f"npudoctor: refused: {why.reason}")
            return fixing.REFUSED
        write(describe_kept(kept))
        if args.dry_run or not (kept.units or kept.folders):
            write(_program())
            return 0
        if not args.yes and not (answer := fixing.confirm("Remove these now?")):
            without = "npudoctor self uninstall --yes"
            say("refused" if answer is False else f"refused: not a terminal. To remove without confirmation: {without}")
            return fixing.REFUSED
        if kept.units and (code := _remove_services(args)):
            return code
        try:
            for folder in kept.folders:
                remove_folder(changeable, folder, keep=kept.fleets)
        except (Refused, Unavailable, OSError) as why:
            say(f"npudoctor: {folder} was not removed: {getattr(why, 'reason', why)}")
            return fixing.REFUSED
    write(f"removed {len(kept.units) + len(kept.folders)} items\n" + _program())
    return 0


def find_kept(host: MutableHost) -> Kept:
    """What this user's npudoctor has on the node; for root the services too."""
    root = host.user.uid == 0
    home = journal.home_of(host)
    folders = [journal.state_folder(host), UNPACKED[0] if root else UNPACKED[1].replace("~", home)]
    if root:
        folders.insert(1, f"{home}/{STATE}")
    elsewhere = [path for path in _named_state(host) if path not in folders]
    fleets = [f"{path}/fleet" for path in dict.fromkeys((*folders, *elsewhere)) if _is_folder(host, f"{path}/fleet")]
    units = [f"{UNIT_FOLDER}/{name}" for name in UNITS] if root else []
    settings = [path.replace("~", home) for path in CONFIGURATIONS]
    runs = runner.history(host)
    return Kept(
        units=tuple(path for path in units if host.link_stat(path) is not None),
        folders=tuple(path for path in dict.fromkeys(folders) if _has_more(host, path, fleets)),
        applied=tuple(f"{run['id']}  {run['title']}" for run in runs if _in_force(run)),
        configurations=tuple(path for path in settings if _is_folder(host, path)),
        fleets=tuple(fleets),
        others=tuple(path for path in elsewhere if _has_more(host, path, fleets)),
    )


def _named_state(host: MutableHost) -> Iterator[str]:
    """The state folders that variables name: under sudo, HOME can be that of the user who called."""
    variables: Mapping[str, str] = {}
    with contextlib.suppress(Unavailable):
        variables = host.environ
    for name, below in (("XDG_STATE_HOME", "npudoctor"), ("HOME", STATE)):
        if (folder := variables.get(name, "")).startswith("/"):
            yield f"{folder.rstrip('/')}/{below}"


def _has_more(host: MutableHost, path: str, fleets: Sequence[str]) -> bool:
    """Whether it is a folder with anything to remove."""
    if not _is_folder(host, path):
        return False
    names = host.list_dir(path)
    return not names or any(f"{path}/{name}" not in fleets for name in names)


def _in_force(run: Mapping[str, Any]) -> bool:
    """Whether a run changed the node and was not undone; the services are listed as units."""
    return run["status"] == "applied" and not str(run["fix"]).startswith("service.")


def _is_folder(host: MutableHost, path: str) -> bool:
    stat = host.link_stat(path)
    return stat is not None and stat.kind == "dir"


def describe_kept(kept: Kept) -> str:
    """What is removed, and what stays, as lines."""
    lines = [f"  remove  {escape(path)} (service, stopped and disabled)" for path in kept.units]
    lines += [f"  remove  {escape(path)}" for path in kept.folders]
    lines = lines or ["  nothing to remove: no service, no state of this user"]
    lines += [f"  keep    {escape(path)} (configuration)" for path in kept.configurations]
    lines += [f"  keep    {escape(path)} (reports of fleet runs)" for path in kept.fleets]
    lines += [
        f"  keep    {escape(path)} (state in another home folder: run this command as its user)" for path in kept.others
    ]
    lines += [f"  keep    {escape(run)} (a change; undo it before: npudoctor undo)" for run in kept.applied]
    return "\n".join(lines) + "\n"


def _remove_services(args: argparse.Namespace) -> int:
    args.action, args.yes = "remove", True
    for name in ("command", "setup", "network", "fixes"):
        setattr(args, name, None)
    return service.run(args)


def remove_folder(host: MutableHost, folder: str, *, keep: Sequence[str] = ()) -> None:
    """Remove a folder with all that is in it except `keep`; links in it are removed and not followed."""
    paths = [f"{folder}/{name}" for name in host.list_dir(folder)]
    for path in paths:
        if path in keep:
            continue
        if _is_folder(host, path):
            remove_folder(host, path)
        else:
            host.remove(path)
    if not any(path in keep for path in paths):
        host.remove_folder(folder)


def _program() -> str:
    """How to remove the program, by how it was installed."""
    place = sys.prefix
    if place == "/opt/npudoctor" and os.path.exists("/var/lib/dpkg/info/npudoctor.list"):
        command = "apt-get remove npudoctor"
    elif place == "/opt/npudoctor" and os.path.islink("/usr/bin/npudoctor"):
        command = "rpm -e npudoctor"
    elif os.path.exists(os.path.join(place, "sbom.cdx.json")):
        command = f"rm -r {shlex.quote(place)}"
    else:
        command = f"{shlex.quote(sys.executable)} -m pip uninstall npudoctor"
    return f"to remove the program:\n  $ {command}\n"
