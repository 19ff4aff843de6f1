"""Fix findings: preview, confirm, apply, verify, and roll back if the finding persists.

examples:
  npudoctor fix                                  list available fixes
  npudoctor fix hccl.reserve-ports --dry-run     preview the exact change
  npudoctor fix hccl.reserve-ports               preview, confirm, apply, re-check
  npudoctor fix env.profile --set unset=HCCL_IF_IP --yes
  npudoctor fix --all-safe                       all reversible fixes that affect no running job
  npudoctor fix hccl.reserve-ports --as ansible  print the change for the owner of the files (shell, drop-in)
  npudoctor fix --recover                        undo runs that a crash interrupted

exit codes: 0 applied and verified, or nothing to do, 5 some applied, 6 rolled back, 7 refused.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence

from npudoctor import plugins
from npudoctor.cli import fixing, node
from npudoctor.cli.output import UsageError, say, write
from npudoctor.control_characters import escape
from npudoctor.fixer import handover, plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Outcome
from npudoctor.host import Host, Refused
from npudoctor.plugins import Catalog
from npudoctor.report.text import fix_command
from npudoctor.sdk import Options, Risk, Severity

_INSTALLING = frozenset({"cann.install", "python.create"})
"""Fixes that read the files of --packages on the node."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor fix`."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="fixes to apply (none: list available fixes)")
    parser.add_argument(
        "--set",
        dest="assignments",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="set a parameter; key=a,b is a list, key.NAME=value an entry (default: from the finding)",
    )
    parser.add_argument(
        "--packages", action="append", default=[], metavar="FOLDER", help="folder of packages for cann.install"
    )
    parser.add_argument("--all-safe", action="store_true", help="apply all safe fixes offered by findings")
    parser.add_argument("--dry-run", action="store_true", help="preview only, change nothing")
    parser.add_argument("--yes", action="store_true", help="apply without confirmation")
    parser.add_argument("--irreversible", action="store_true", help="allow fixes that cannot be undone")
    parser.add_argument(
        "--as",
        dest="form",
        choices=handover.FORMS,
        help="print the change for the owner of the files, and change nothing",
    )
    parser.add_argument("--recover", action="store_true", help="undo runs that a crash interrupted")
    fixing.add_reason(parser)
    fixing.add_state(parser)
    node.add_frameworks(parser)
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, show, confirm, apply; return the exit code."""
    config = node.load_config(args)
    catalog = plugins.load(args.plugin)
    if args.assignments and len(args.ids) != 1:
        raise UsageError("--set requires exactly one fix")
    if sum(map(bool, (args.ids, args.all_safe, args.recover))) > 1:
        raise UsageError("expected one of: fix ids, --all-safe, --recover")
    if args.yes and not (args.ids or args.all_safe or args.recover):
        raise UsageError("--yes requires the fix to apply, or --all-safe; nothing was changed")
    if args.form and not (args.ids or args.all_safe):
        raise UsageError("--as requires the fix to print")
    options = node.options(args, config)
    with node.open_node(args, config) as host:
        try:
            if args.recover:
                events = runner.recover(fixing.changeable(host), state=args.state)
                return fixing.exit_code([fixing.follow(events, ["fix", "--recover"]).outcome])
            changes = (args.ids or args.all_safe) and not args.form
            if changes and (code := fixing.made_good(host, args)) is not None:
                return code
            requests = _requests(args, catalog, host, options)
            if requests is None:
                return 0
            _expect_packages(args, host)
            plans = [plan.make(catalog, host, request, options) for request in requests]
            if args.form:
                write("\n".join(handover.render(one, host, args.form) for one in plans))
                return 0
            return _go(args, catalog, host, options, plans)
        except Refused as why:
            say(f"npudoctor: refused: {why.reason}")
            return fixing.REFUSED


def _requests(args: argparse.Namespace, catalog: Catalog, host: Host, options: Options) -> list[Request] | None:
    """The requested fixes; None where only the list was requested, which is printed."""
    if args.ids:
        unknown = [id for id in args.ids if id not in catalog.fixes]
        if unknown:
            if unknown[0] in fixing.OF_SETUP:
                command = "npudoctor setup --packages FOLDER --only driver,firmware --dry-run"
                raise Refused(f"{unknown[0]} is only applied by setup, after its plan: {command}")
            raise fixing.unknown_fix(unknown[0], catalog)
        given = fixing.settings(args.assignments)
        params = None if given is None else _shape_params(catalog, args.ids[0], given)
        return [Request(id, params) for id in dict.fromkeys(args.ids)]
    report, _ = plan.run_checks(catalog, host, (), options)
    offered = plan.offers(report)
    if args.all_safe:
        return safe_requests(catalog, offered)
    if not offered:
        serious = [one for result in report.results for one in result.open_findings if one.severity > Severity.INFO]
        advice = f"no automatic fix for the problems found ({len(serious)}); npudoctor check -v says what to do"
        write(f"{advice if serious else 'no problems found: nothing to fix'}\n")
    for id in sorted(offered, key=list(catalog.fixes).index):
        fix = catalog.fixes[id]
        risk = "" if fix.risk is Risk.SAFE else "  (not among --all-safe)"
        write(f"{id}  {fix.title}{risk}\n")
        for result, finding in offered[id]:
            write(f"    {finding.severity.value}: {finding.summary} ({result.check})\n")
        write(f"    $ {fix_command(id, node.words_of(args))}\n")
    return None


def _expect_packages(args: argparse.Namespace, host: Host) -> None:
    """Raise Refused for an installation from a folder of this machine onto a node that does not have it."""
    if not _INSTALLING.intersection(args.ids) or not (args.simulate or args.replay):
        return
    for folder in args.packages:
        if args.replay or not host.exists(os.path.abspath(folder)):
            options = node.words_of(args)
            raise Refused(
                f"{escape(folder)} is on this machine, not on that node; its plan: "
                f"npudoctor setup --packages {escape(shlex.quote(folder))} {options} --dry-run"
            )


def safe_requests(catalog: Catalog, offered: dict[str, list]) -> list[Request]:  # type: ignore[type-arg]
    """The safe fixes offered by findings at warning or above, in the order of the catalogue."""
    order = {check: place for place, check in enumerate(catalog.checks)}
    serious = {
        id: min(order.get(result.check, 0) for result, _ in pairs)
        for id, pairs in offered.items()
        if catalog.fixes[id].risk is Risk.SAFE and any(one.severity >= Severity.WARNING for _, one in pairs)
    }
    return [Request(id) for id in sorted(serious, key=serious.__getitem__)]


def _shape_params(catalog: Catalog, id: str, given: dict[str, object]) -> dict[str, object]:
    """Lists where the fix wants lists: a,b becomes two entries."""
    hints = {name: str(hint) for name, hint in catalog.fixes[id].parameters.__annotations__.items()}
    return {
        name: [part for part in value.split(",") if part]
        if isinstance(value, str) and hints.get(name, "").startswith(("tuple", "list"))
        else value
        for name, value in given.items()
    }


def _go(args: argparse.Namespace, catalog: Catalog, host: Host, options: Options, plans: Sequence[FixPlan]) -> int:
    for one in plans:
        if args.dry_run or one.refused is None:
            write(fixing.rendered_plan(one))
    if not plans:
        say("no finding offers a safe fix")
        return 0
    if args.dry_run:
        return 0 if all(one.refused is None for one in plans) else fixing.REFUSED
    words = _words(args)
    changing = [one for one in plans if not one.empty]
    if not changing:
        return 0
    mutable = fixing.changeable(host)
    outcomes = []
    for one in list(changing):
        if stands := runner.standing_against(one, irreversible=args.irreversible):
            ended = runner.Ended(outcome=Outcome.REFUSED, fix=one.fix.id, reason=stands.reason, instead=stands.instead)
            fixing.tell_end(ended, words if len(plans) == 1 else _words(args, one.fix.id))
            outcomes.append(ended.outcome)
            changing.remove(one)
    if not changing:
        return fixing.REFUSED
    if not args.yes:
        answer = fixing.confirm(f"Apply {fixing.join_ids([one.fix.id for one in changing])}?")
        if answer is None:
            say("refused: not a terminal. To apply without confirmation:")
            say(f"  $ npudoctor {' '.join([*words, '--yes'])}")
            return fixing.REFUSED
        if not answer:
            say("no changes made")
            return fixing.REFUSED
    for one in changing:
        events = runner.apply(catalog, mutable, one, options, irreversible=args.irreversible, state=args.state)
        outcomes.append(fixing.follow(events, words).outcome)
    if runner.Outcome.APPLIED in outcomes and (not args.simulate or node.simulated_folder(args)):
        say(f"  $ {f'npudoctor check {node.words_of(args)}'.strip()}   # what is left to fix")
    return fixing.exit_code(outcomes)


def _words(args: argparse.Namespace, id: str = "") -> list[str]:
    """The command as it was typed, without preview options; or that for one fix alone."""
    words = ["fix", *([id] if id else args.ids)]
    words += ["--set", *args.assignments] if args.assignments else []
    words += [word for folder in getattr(args, "packages", ()) for word in ("--packages", folder)]
    for name in ("all_safe", "irreversible"):
        words += [f"--{name.replace('_', '-')}"] if getattr(args, name) and not (id and name == "all_safe") else []
    for name in ("reason", "simulate", "root", "python", "environment", "state", "simulated_state"):
        value = getattr(args, name, None)
        words += [f"--{name.removeprefix('simulated_')}", value] if value else []
    return words + [word for name in getattr(args, "frameworks", ()) for word in ("--for", name)]
