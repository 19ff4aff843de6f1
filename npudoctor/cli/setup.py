"""Make this node ready: check, apply all safe fixes offered by findings, re-check, and list what needs manual action.

  npudoctor setup --dry-run                  preview
  npudoctor setup --yes                      for provisioning; idempotent
  npudoctor setup --yes --json               one document: changes and remaining findings
  npudoctor setup --allow python.install-pair    also a fix that needs confirmation
  npudoctor setup --packages /repo --for bare --dry-run    plan driver, firmware, CANN and wheels from a folder
  npudoctor setup --attach                   follow an installation of driver and firmware; --resume: after its reboot
  npudoctor setup --yes --resume             the first-boot service: verify an installation that waits, then as --yes

Checks use the environment of a fresh login shell, because jobs will have that.

--timeout limits each check of the node. A fix has no limit but those of the tools that it runs: an interrupted fix
has to be undone first, which the next call does.

With --packages: the plan (--dry-run), or driver and firmware are installed, each part and version named, one step at a
time, without rollback (docs/setup.md). CANN is installed by `npudoctor fix cann.install --packages FOLDER`.

exit codes: 0 healthy, READY (or a complete plan), 1 manual action required or NOT READY, 5 some applied, 6 rolled back
or INTERRUPTED, 7 refused.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
from typing import Any

from npudoctor import engine, plugins
from npudoctor.cli import fixing, node, setup_install, setup_plan
from npudoctor.cli.fix import safe_requests
from npudoctor.cli.output import UsageError, say, write
from npudoctor.cli.progressed import Progressed
from npudoctor.data import to_data
from npudoctor.findings import Finding, Report, Severity
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host import Host, Refused, Unavailable, is_mutable
from npudoctor.plugins import Catalog
from npudoctor.report.text import fix_command
from npudoctor.sdk import Options
from npudoctor.selection import Selection

ROUNDS = 4
"""Findings uncovered by a fix are fixed in the next round; more rounds than this mean a loop."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor setup`."""
    parser.add_argument("--yes", action="store_true", help="apply without confirmation")
    parser.add_argument("--dry-run", action="store_true", help="preview only, change nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="ID", help="also apply this fix if a finding offers it"
    )
    parser.add_argument(
        "--timeout", type=node.seconds, metavar="S", help="examine for S seconds at most each time (default: 300)"
    )
    fixing.add_reason(parser)
    fixing.add_state(parser)
    setup_plan.configure(parser)
    setup_install.configure(parser)
    node.add_arguments(parser)


class Setup:
    """One call of the command."""

    def __init__(
        self, args: argparse.Namespace, catalog: Catalog, host: Host, options: Options, *, limit_s: float
    ) -> None:
        self._limit_s = limit_s
        self.args = args
        self.catalog = catalog
        self.options = options
        self.host = host
        self.at_login = False
        self.ended: list[Ended] = []
        self.planned: list[FixPlan] = []

    def run(self) -> Report:
        """Repeat until no more fixes are offered; the last report."""
        self._turn()
        report = self._check()
        for _ in range(ROUNDS):
            plans = self._plans(report)
            self.planned += plans
            if not plans or self.args.dry_run or not self._confirm(plans):
                break
            for one in plans:
                self._apply(one)
            self._turn()
            report = self._check()
        return report

    def _turn(self) -> None:
        """Re-check, with the variables of a fresh login shell where they can be read."""
        if is_mutable(self.host):
            self.host = fresh = self.host.fresh()
            with contextlib.suppress(Unavailable):
                there = fresh.after_login()
                _ = there.environ
                self.host, self.at_login = there, True

    def _check(self) -> Report:
        for event in engine.run(self.catalog, self.host, Selection(options=self.options, deadline_s=self._limit_s)):
            if isinstance(event, engine.Done):
                return Progressed(
                    self.host, self.catalog, state=self.args.state, at_login=self.at_login or None
                ).report(event.report)
        raise UsageError("no checks to run")

    def _plans(self, report: Report) -> list[FixPlan]:
        offered = plan.offers(report)
        serious = {
            id for id, pairs in offered.items() if any(finding.severity >= Severity.WARNING for _, finding in pairs)
        }
        requests = safe_requests(self.catalog, offered) + [Request(id) for id in self.args.allow if id in serious]
        done = {one.fix for one in self.ended}
        plans = [
            plan.make(self.catalog, self.host, request, self.options) for request in requests if request.id not in done
        ]
        return [one for one in plans if not one.empty]

    def _confirm(self, plans: list[FixPlan]) -> bool:
        for one in plans:
            say(fixing.rendered_plan(one))
        if self.args.yes:
            return True
        answer = fixing.confirm("Apply these?")
        if not answer:
            reason = "not a terminal" if answer is None else "not confirmed"
            say(f"refused: {reason}. To apply without confirmation:")
            say(f"  $ npudoctor {shlex.join(self.words)}")
            self.ended += [Ended(outcome=Outcome.REFUSED, fix=one.fix.id, reason=reason) for one in plans]
        return bool(answer)

    def _apply(self, one: FixPlan) -> None:
        host = fixing.changeable(self.host)
        events = runner.apply(self.catalog, host, one, self.options, state=self.args.state)
        self.ended.append(fixing.follow(events, self.words))

    @property
    def words(self) -> list[str]:
        """The command that applies without confirmation."""
        allowed = [word for id in self.args.allow for word in ("--allow", id)]
        return ["setup", "--yes", *allowed, *shlex.split(node.words_of(self.args))]

    def manual_findings(self, report: Report) -> list[tuple[str, Finding]]:
        """Findings that need manual action; in a preview without those that would be fixed."""
        mended = {one.fix.id for one in self.planned if one.refused is None} if self.args.dry_run else set()
        return [
            (result.check, finding)
            for result in report.results
            for finding in result.findings
            if finding.severity >= Severity.WARNING
            and not result.waits
            and not (finding.fix and finding.fix.id in mended)
        ]


def run(args: argparse.Namespace) -> int:
    """Set the node up; the exit code tells what remains."""
    if setup_plan.is_plan_asked_for(args) | setup_install.goes_on(args):
        try:
            return setup_plan.run(args) if args.packages else setup_install.go_on(args)
        except Refused as why:
            say(f"npudoctor: refused: {why.reason}")
            if why.instead and not why.instead.startswith("--"):
                say(f"  $ {'sudo npudoctor setup …' if why.instead == 'sudo' else why.instead}")
            return fixing.REFUSED
    if args.resume and (code := setup_install.verify_waiting(args)) != 0:
        return code
    config = node.load_config(args)
    catalog = plugins.load(args.plugin)
    if unknown := [id for id in args.allow if id not in catalog.fixes]:
        if unknown[0] in fixing.OF_SETUP:
            raise UsageError(f"--allow {unknown[0]} requires --packages FOLDER")
        raise UsageError(f"--allow {unknown[0]}: unknown fix; known are {', '.join(catalog.fixes)}")
    with node.open_node(args, config) as host:
        try:
            if not args.dry_run:
                fixing.changeable(host)
            if (stands := fixing.made_good(host, args)) is not None:
                return stands
            limit_s = args.timeout or config.timeout_s
            setup = Setup(args, catalog, host, node.options(args, config), limit_s=limit_s)
            report = setup.run()
        except Refused as why:
            say(f"npudoctor: refused: {why.reason}")
            return fixing.REFUSED
    remaining = setup.manual_findings(report)
    code = _exit_code(setup, report)
    if args.json:
        write(json.dumps(_document(setup, report, remaining, code), indent=2) + "\n")
    else:
        _tell(setup, report, remaining, code)
    return code


def _exit_code(setup: Setup, report: Report) -> int:
    code = fixing.exit_code([one.outcome for one in setup.ended])
    return code or (1 if report.exit_code else 0)


def _document(setup: Setup, report: Report, remaining: list[tuple[str, Finding]], code: int) -> dict[str, Any]:
    shown = setup.planned if setup.args.dry_run else []
    return {
        "schema": "npudoctor.setup/1",
        "exit_code": code,
        "verdict": report.verdict.value,
        "environment": report.environment,
        "planned": [{"fix": one.fix.id, "preview": one.preview} for one in shown],
        "done": [
            {"fix": one.fix, "outcome": one.outcome.value, "run": one.run, "reason": one.reason} for one in setup.ended
        ],
        "remaining": [
            {
                "check": check,
                "subject": finding.subject,
                "severity": finding.severity.value,
                "summary": finding.summary,
                "hint": finding.hint,
                "commands": list(finding.commands),
                "fix": finding.fix.id if finding.fix else None,
            }
            for check, finding in remaining
        ],
        "progress": [
            {"check": result.check, **to_data(result.progress)} for result in report.results if result.progress
        ],
    }


def _tell(setup: Setup, report: Report, remaining: list[tuple[str, Finding]], code: int) -> None:
    if setup.args.dry_run:
        nothing = "no fix is to be applied\n" if remaining else "no changes needed\n"
        write("".join(fixing.rendered_plan(one) for one in setup.planned) or nothing)
    elif not setup.ended:
        write("no changes made\n")
    changed = [result for result in report.results if result.progress and result.progress.fix]
    for number, result in enumerate(changed):
        assert result.progress is not None
        write("state of each problem:\n" if number == 0 else "")
        write(f"  {result.check}: {result.progress.text}\n")
    for check in dict.fromkeys(check for check, _ in remaining) if changed else ():
        write(f"  {check}: open\n")
    if not remaining:
        write("this node is healthy\n" if code == 0 else "")
        return
    write("manual action required:\n")
    alike: dict[tuple[str, str], list[Finding]] = {}
    for check, finding in remaining:
        alike.setdefault((check, finding.summary), []).append(finding)
    for (check, summary), (finding, *others) in alike.items():
        where = (
            ", ".join(one.where or one.subject for one in (finding, *others))
            if finding.subject != "host"
            else finding.where
        )
        write(f"  {finding.severity.value}: {summary} ({': '.join(filter(None, (check, where)))})\n")
        if finding.fix is not None:
            write(f"    $ {fix_command(finding.fix.id, node.words_of(setup.args))}\n")
        else:
            write("".join(f"    $ {command}\n" for command in finding.commands))
