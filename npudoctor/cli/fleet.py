"""Check many nodes and say what is wrong across them. Only `install` changes nodes.

examples:
  npudoctor fleet check -w 'n[0001-0128]'          over your own ssh and ssh_config
  npudoctor fleet check --slurm -p train           by srun, on the nodes of a partition
  npudoctor fleet check --drop /shared/answers     answers that something else gathered
  npudoctor fleet check --run RUN                  resume: only nodes without an answer are asked, as before
  npudoctor fleet merge RUN --format html          the same verdict again, without a node
  npudoctor fleet lists RUN hostfile               nodes to use; see also slurm-drain, rank-table
  npudoctor fleet fix RUN                          which fixes on which nodes; applies none
  npudoctor tui --fleet RUN                        the run on the terminal, node by node
  npudoctor fleet script                           one command to run by hand where nothing else is allowed
  npudoctor fleet manifest k8s -w 'n[1-8]'         a Kubernetes Job that fills a drop folder
  npudoctor fleet install ARCHIVE -w 'n[1-8]'       npudoctor itself on the nodes; shows the plan first
  npudoctor fleet sim 64 DIR --faults drift=3,dead=1   a simulated cluster, for merge

exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 a node did not answer (see --allow-missing) or a
check crashed, 4 internal error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from npudoctor.cli import fleet_asking, fleet_install, node
from npudoctor.cli.fleet_help import ABOUT
from npudoctor.cli.output import UsageError, say, write
from npudoctor.cli.parsing import OptionGroup, add_common
from npudoctor.data import to_json
from npudoctor.findings import Severity
from npudoctor.records import replace
from npudoctor.sdk import PROFILES, Options
from npudoctor.selection import Selection

if TYPE_CHECKING:
    from npudoctor.fleet.merge import Fleet
    from npudoctor.fleet.store import Run
    from npudoctor.fleet.verdict import FleetReport

FORMATS = ("text", "json", "markdown", "html", "junit")
ENGINES = ("auto", "clustershell", "slurm", "local")
LISTS = ("hostfile", "nodelist", "slurm-exclude", "slurm-drain", "k8s-taints", "rank-table", "machinefile")


ACTIONS = "check|merge|lists|fix|script|manifest|install|sim"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar=ACTIONS)
    check = actions.add_parser("check", help="ask nodes and merge their answers", description=ABOUT["check"])
    _add_targets(check)
    _add_asking(check)
    merge = actions.add_parser("merge", help="merge a run again, or files with answers", description=ABOUT["merge"])
    merge.add_argument("paths", nargs="+", metavar="RUN|FILE", help="a run folder, or files and folders with answers")
    merge.add_argument(
        "--redact", metavar="DIR", help="write the run with pseudonyms into this new folder, and merge that"
    )
    lists = actions.add_parser("lists", help="print a list for another program", description=ABOUT["lists"])
    lists.add_argument("paths", nargs=1, metavar="RUN", help="a run folder, or a folder with answers")
    lists.add_argument("list", choices=LISTS, metavar="LIST", help=f"which list: {', '.join(LISTS)}")
    for action in (check, merge, lists):
        _add_judging(action)
    fix = actions.add_parser(
        "fix", help="list the fixes that findings offer, by node; changes nothing", description=ABOUT["fix"]
    )
    fix.add_argument("paths", nargs=1, metavar="RUN", help="a run folder, or a folder with answers")
    fix.add_argument("id", nargs="?", metavar="ID", help="only this fix")
    fix.add_argument("--as", dest="form", choices=("text", "shell", "ansible"), default="text", help="how to print it")
    _add_judging(fix)
    script = actions.add_parser(
        "script", help="print one command to run on a node by hand", description=ABOUT["script"]
    )
    _add_timeout(script, 120.0)
    _add_remote(script)
    manifest = actions.add_parser(
        "manifest", help="print a Kubernetes Job that fills a drop folder", description=ABOUT["manifest"]
    )
    manifest.add_argument("kind", choices=("k8s",), metavar="k8s", help="for Kubernetes")
    _add_names(manifest.add_mutually_exclusive_group())
    manifest.add_argument("--image", default="npudoctor", help="image with npudoctor (default: npudoctor)")
    manifest.add_argument(
        "--claim", default="npudoctor-fleet", metavar="PVC", help="volume for the answers (default: npudoctor-fleet)"
    )
    install = actions.add_parser(
        "install", help="install an archive of npudoctor on the nodes", description=ABOUT["install"]
    )
    fleet_install.configure(install)
    _add_nodes(install.add_argument_group("nodes"), "the nodes that Slurm has (by srun)")
    _add_engine(install.add_argument_group("asking"), 300.0)
    install.add_argument("--sudo", action="store_true", help="install by sudo -n")
    sim = actions.add_parser("sim", help="write the answers of a simulated cluster", description=ABOUT["sim"])
    sim.add_argument("count", type=_count, metavar="N", help="number of nodes")
    sim.add_argument("folder", metavar="DIR", help="a new or empty folder")
    sim.add_argument("--faults", default="", metavar="NAME=N,...", help="faults to plant; an unknown one lists all")
    sim.add_argument("--seed", type=int, default=0, metavar="N", help="another seed is another cluster (default: 0)")
    for action in actions.choices.values():
        add_common(action)
    sim.add_argument("--simulate", default=None, metavar="SCENARIO", help="the node that all are copies of")


def _add_targets(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("nodes")
    _add_nodes(group, "the nodes that Slurm has (implies --engine slurm)")
    group.add_argument("--drop", metavar="DIR", help="read answers from a folder instead of asking")
    group.add_argument("--simulate", metavar="SCENARIO", help="simulated nodes: a scenario, or a folder with NAME.toml")


def _add_nodes(group: OptionGroup, slurm: str) -> None:
    which = group.add_mutually_exclusive_group()
    _add_names(which)
    which.add_argument("--slurm", action="store_true", help=slurm)
    group.add_argument("-p", "--partition", metavar="NAME", help="only nodes of this Slurm partition")


def _add_names(which: OptionGroup) -> None:
    which.add_argument("-w", dest="names", metavar="NAMES", help="names such as n[0001-0128],login1 or @group")
    which.add_argument("--hostfile", metavar="FILE", help="one host a line, as mpirun has it")
    which.add_argument("--inventory", metavar="FILE", help="an Ansible inventory, INI or YAML")
    which.add_argument("--rank-table", metavar="FILE", help="the servers of a rank table")


def _add_engine(group: OptionGroup, timeout_s: float) -> None:
    group.add_argument("--engine", choices=ENGINES, default="auto", help="how nodes are asked (default: auto)")
    group.add_argument("--fanout", type=_count, default=64, metavar="N", help="nodes asked at once (default: 64)")
    group.add_argument("--ssh-config", metavar="FILE", help="use this ssh_config instead of your own")
    _add_timeout(group, timeout_s)


def _add_timeout(parser: OptionGroup, timeout_s: float) -> None:
    about = f"seconds for each node (default: {timeout_s:g})"
    parser.add_argument("--timeout", type=node.seconds, default=timeout_s, metavar="S", help=about)


def _add_remote(parser: OptionGroup) -> None:
    parser.add_argument("--profile", choices=PROFILES, help="checks to run (default: standard, in service quick)")
    parser.add_argument(
        "--remote-command", default="npudoctor", metavar="PATH", help="npudoctor on the nodes (default: npudoctor)"
    )
    parser.add_argument("--sudo", action="store_true", help="run it by sudo -n; requires an absolute --remote-command")


def _add_asking(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("asking")
    _add_engine(group, 120.0)
    group.add_argument("--run", dest="run_folder", metavar="DIR", help="run folder; one that exists is resumed")
    _add_remote(group)


def _add_judging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("verdict")
    group.add_argument("--golden", metavar="NODE|FILE", help="the node that the others must equal")
    group.add_argument("--baseline", metavar="FILE", help="versions before and after an upgrade (TOML)")
    group.add_argument("--against", metavar="RUN", help="also report what is new and what is gone since this run")
    group.add_argument("--allow-missing", type=int, default=0, metavar="N", help="nodes that may be without an answer")
    group.add_argument("--fail-on", choices=[one.value for one in Severity], help="exit 1 at this severity or above")
    group.add_argument("--skip", nargs="+", action="extend", default=[], metavar="ID", help="skip these checks")
    node.add_config(group)
    node.add_plugin(group)
    shape = parser.add_argument_group("output")
    shape.add_argument("--format", choices=FORMATS, default="text", help="report format (default: text)")
    shape.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    shape.add_argument("-v", "--verbose", action="store_true", help="list every finding and all nodes")


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 100,000, found {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    from npudoctor.fleet import gather, targets
    from npudoctor.host import Refused

    actions = {"check": _check, "merge": _merge, "lists": _lists, "fix": _fix, "script": _script}
    actions |= {"manifest": _manifest, "install": fleet_install.run, "sim": _sim}
    try:
        return actions[args.action](args)
    except (targets.BadTargets, gather.BadInput) as problem:
        raise UsageError(str(problem)) from problem
    except Refused as problem:
        raise UsageError(problem.reason) from problem
    except OSError as problem:
        raise UsageError(f"{problem.filename or ''}: {problem.strerror or problem}".removeprefix(": ")) from problem


def _check(args: argparse.Namespace) -> int:
    from npudoctor.fleet import gather
    from npudoctor.fleet.store import Run

    if args.drop:
        fleet = gather.of_files([args.drop], fleet_asking.named_nodes(args))
        return _show(args, fleet, engine="drop")
    folder = args.run_folder or fleet_asking.new_folder()
    if os.path.exists(folder):
        gather.must_be_usable([folder])
    run = Run(folder)
    fleet_asking.remember(args, run.options_asked())
    names = fleet_asking.named_nodes(args) or run.expected_names() or fleet_asking.of_slurm(args)
    if not names:
        raise UsageError("no nodes named: use -w, --hostfile, --inventory, --rank-table, --slurm, --drop or --run")
    if (before := run.expected_names()) and before != names:
        raise UsageError(f"--run {folder}: its nodes are others than the named ones; choose a new folder")
    plan, (called, engine) = fleet_asking.plan(args, names), fleet_asking.engine(args)
    run.begin(names)
    run.write("asked.json", fleet_asking.options_of(args, called))
    say(f"npudoctor: {len(names)} node{'' if len(names) == 1 else 's'} by {called}; run folder {folder}")
    try:
        gather.ask(run, plan, engine, progress=fleet_asking.progress)
    except KeyboardInterrupt:
        say(f"npudoctor: interrupted; resume: npudoctor fleet check --run {folder}")
        raise
    return _show(args, gather.of_run(run), run=run, engine=called)


def _merge(args: argparse.Namespace) -> int:
    from npudoctor.fleet import gather

    paths = args.paths
    if args.redact:
        from npudoctor.fleet import redacted

        _must_be_new(args.redact)
        paths = [redacted.copy(paths, args.redact).folder]
        say(
            "npudoctor: names, addresses and serial numbers that npudoctor knows are pseudonyms; read it before sending"
        )
    fleet, run = gather.stored_fleet(paths)
    return _show(args, fleet, run=run)


def _verdict_of(
    args: argparse.Namespace, fleet: Fleet, run: Run | None, asked_by: str | None = None
) -> tuple[FleetReport, Fleet]:
    from npudoctor import plugins
    from npudoctor.fleet import gather, verdict

    fleet = replace(
        fleet,
        golden=gather.golden_of(fleet, args.golden) if args.golden else None,
        baseline=gather.baseline_of(args.baseline) if args.baseline else {},
        allow_missing=args.allow_missing,
    )
    config = node.load_config(args)
    if config.silence or config.severity or config.thresholds:
        here, across = plugins.load(), verdict.catalog_of(fleet, args.plugin)
        both = replace(across, checks={**here.checks, **across.checks}, messages={**here.messages, **across.messages})
        node.compare_names(args, config, both)
    selection = Selection(
        options=Options(settings=dict(config.thresholds)),
        skip=tuple(args.skip),
        fail_on=Severity(args.fail_on) if args.fail_on else config.fail_on,
        severities=config.severity,
        silenced=config.silences_on(),
    )
    from npudoctor.selection import UnknownName

    try:
        folder = run.folder if run else None
        return verdict.judge_fleet(fleet, selection, args.plugin, run=folder, asked_by=asked_by), fleet
    except UnknownName as problem:
        raise UsageError(str(problem)) from problem


def _show(args: argparse.Namespace, fleet: Fleet, *, run: Run | None = None, engine: str | None = None) -> int:
    report, _ = _verdict_of(args, fleet, run, engine)
    if args.against:
        from npudoctor.fleet import gather, verdict

        found = tuple(verdict.changes(report, gather.report_of(args.against)))
        report = replace(report, against=args.against, changes=found)
    if run is not None:
        from npudoctor.fleet import html

        run.write("fleet.json", to_json(report, indent=1) + "\n")
        run.write("report.html", html.render(report))
    write(render_report(report, args), colored=args.format == "text")
    return report.exit_code


def render_report(report: FleetReport, args: argparse.Namespace) -> str:
    """The verdict in the format of the options."""
    if args.format == "html":
        from npudoctor.fleet import html

        return html.render(report)
    if args.format == "json":
        return to_json(report, indent=2) + "\n"
    if args.format == "text":
        from npudoctor.fleet import page
        from npudoctor.report import text

        return page.render(report, look=text.look_of(sys.stdout, no_color=args.no_color), verbose=args.verbose)
    import importlib

    return str(importlib.import_module(f"npudoctor.report.{args.format}").render(report.report))


def _lists(args: argparse.Namespace) -> int:
    from npudoctor.fleet import gather, lists

    fleet, run = gather.stored_fleet(args.paths)
    report, fleet = _verdict_of(args, fleet, run)
    write(lists.render(args.list, report, fleet))
    for text in lists.left_out(report):
        say(text)
    return 0


def _fix(args: argparse.Namespace) -> int:
    from npudoctor import plugins
    from npudoctor.cli import fixing
    from npudoctor.fleet import fixplan, gather

    fleet, run = gather.stored_fleet(args.paths)
    report, _ = _verdict_of(args, fleet, run)
    rows = fixplan.plan(report, args.id)
    if not rows and args.id is not None and args.id not in (catalog := plugins.load()).fixes:
        raise fixing.unknown_fix(args.id, catalog)
    if not rows:
        text = "No finding offers a fix." if args.id is None else f"No finding offers {args.id}."
        write(f"{'' if args.form == 'text' else '# '}{text}\n")
        return 0
    write(fixplan.render(rows, args.form))
    return 0


def _script(args: argparse.Namespace) -> int:
    plan = fleet_asking.plan(args, [])
    say("Run this on each node, carry the line that it prints into a file, then: npudoctor fleet merge FILE...")
    write(f"{plan.line}\n")
    return 0


def _manifest(args: argparse.Namespace) -> int:
    from npudoctor.fleet import manifest

    names = fleet_asking.named_nodes(args)
    if not names:
        raise UsageError("no nodes named: use -w, --hostfile, --inventory or --rank-table")
    write(manifest.kubernetes(names, args.image, args.claim))
    return 0


def _sim(args: argparse.Namespace) -> int:
    from npudoctor.fleet import line, sim
    from npudoctor.fleet.outcomes import Outcome
    from npudoctor.fleet.store import Run
    from npudoctor.sim import ScenarioError

    faults: dict[str, int] = {}
    for part in filter(None, args.faults.split(",")):
        name, _, number = part.partition("=")
        if name not in sim.FAULTS:
            raise UsageError(f"unknown fault {name!r}; known are {', '.join(sorted(sim.FAULTS))}")
        faults[name] = _require_positive(number or "1", part)
    _must_be_new(args.folder)
    try:
        names, digests, planted = sim.fleet(args.count, faults, seed=args.seed, scenario=args.simulate or sim.SCENARIO)
    except ScenarioError as problem:
        raise UsageError(str(problem)) from problem
    run = Run(args.folder)
    run.begin(names)
    for place, name in enumerate(names):
        if digest := digests.get(name):
            run.keep(Outcome(node=name, kind="answered"), line.pack(digest))
        else:
            run.keep(sim.outcome(name, place), None)
    for fault, where in planted.items():
        say(f"{fault}: {', '.join(where)}")
    write(f"npudoctor fleet merge {args.folder}\n")
    return 0


def _must_be_new(folder: str) -> None:
    if os.path.isdir(folder) and os.listdir(folder):
        raise UsageError(f"{folder} must be a new or empty folder")


def _require_positive(number: str, part: str) -> int:
    try:
        return _count(number)
    except argparse.ArgumentTypeError as problem:
        raise UsageError(f"--faults {part}: {problem}") from problem
