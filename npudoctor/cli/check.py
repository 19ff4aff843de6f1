"""Diagnose a node: run the checks, name the causes, and what to fix first.

examples:
  npudoctor check                              everything in the standard profile, on one page
  npudoctor check -v                           every check by itself; -vv with all evidence
  npudoctor check npu hccl.ports-free          one group and one check
  npudoctor check --json --fail-on warning     for scripts: check the exit code
  npudoctor check --python ~/env/bin/python    inspect another Python
  npudoctor check --for vllm-ascend            is this node ready for a framework?
  npudoctor check --replay node.tar.gz         a recorded node, on any machine
  npudoctor check --metrics-file /var/lib/node_exporter/npudoctor.prom

exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 could not determine (a tool failed or timed
out, a check crashed, or a requested check was skipped), 4 internal error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time

from npudoctor import __version__, clock, engine, plugins
from npudoctor.cli import limits, node
from npudoctor.cli.output import UsageError, say, write
from npudoctor.cli.progressed import Progressed
from npudoctor.config import Config
from npudoctor.findings import HostSummary, Report, Result, Severity, Status, count, judge
from npudoctor.host import Refused
from npudoctor.sdk import PROFILES
from npudoctor.selection import Selection, UnknownName, select

FORMATS = ("text", "json", "jsonl", "markdown", "html", "junit", "nagios", "npd")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor check`."""
    parser.add_argument("names", nargs="*", metavar="ID|TAG", help="run only these checks or tags (default: all)")
    parser.add_argument(
        "--skip", nargs="+", action="extend", default=[], metavar="ID|TAG", help="skip these checks or tags"
    )
    parser.add_argument("--profile", choices=PROFILES, help="which checks to run by cost (default: standard)")
    parser.add_argument(
        "--fail-on", choices=[severity.value for severity in Severity], help="exit 1 at this severity or above"
    )
    parser.add_argument(
        "--timeout",
        type=node.seconds,
        metavar="S",
        help="time limit of the whole run in seconds (default: 300)",
    )
    parser.add_argument(
        "--cards",
        type=_cards,
        metavar="N,N-N",
        help="report only on these devices, N of /dev/davinciN",
    )
    node.add_simulated_state(parser)
    node.add_frameworks(parser)
    shape = parser.add_argument_group("output")
    shape.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"report format: {', '.join(FORMATS)} (default: text)",
    )
    shape.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    shape.add_argument(
        "--metrics-file",
        metavar="PATH",
        help="also write metrics for node_exporter's textfile collector (*.prom)",
    )
    shape.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="list every check; -vv every skipped check and all evidence, too",
    )
    shape.add_argument("-q", "--quiet", action="store_true", help="one line: the verdict and the first problem")
    parser.add_argument(
        "--packages",
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder of packages for the checks before an installation (check install --packages FOLDER)",
    )
    node.add_arguments(parser)


def _cards(text: str) -> frozenset[int]:
    from npudoctor.cli import cards

    return cards.numbers(text)


def run(args: argparse.Namespace) -> int:
    """Run the checks and print the report; return its exit code."""
    if args.cards is not None and args.format == "jsonl":
        raise UsageError("--cards cannot be combined with jsonl; use --format json")
    if args.metrics_file:
        _must_be_writable(args.metrics_file)
    config = node.load_config(args)
    limit_s = args.timeout or config.timeout_s
    with args.limit(limit_s):
        report, done = _examine(args, config, time.monotonic() + limit_s)
    if args.format != "jsonl":
        write(_render(report, args), colored=args.format in (None, "text"))
    if args.metrics_file:
        from npudoctor.daemon import textfile

        try:
            textfile.write(args.metrics_file, done)
        except (OSError, Refused) as problem:
            reason = problem.reason if isinstance(problem, Refused) else problem.strerror
            raise UsageError(f"--metrics-file {args.metrics_file}: {reason}") from problem
    if not args.replay and not args.simulate:
        _tell_of_few_files()
    return _exit_code(report, args.format)


def _examine(args: argparse.Namespace, config: Config, until: float) -> tuple[Report, engine.Done]:
    """The report to print, and the last event of the run; `until` is when it must end, a time of `time.monotonic`."""
    catalog = plugins.load(args.plugin)
    node.compare_names(args, config, catalog)
    selection = Selection(
        names=tuple(args.names),
        skip=tuple(args.skip),
        options=node.options(args, config),
        fail_on=Severity(args.fail_on) if args.fail_on else config.fail_on,
        severities=config.severity,
        silenced=config.silences_on(),
        deadline_s=_left_s(args.timeout or config.timeout_s, until),
    )
    with node.open_node(args, config) as host:
        try:
            chosen = select(catalog, selection)
            events = engine.run(catalog, host, selection)
        except UnknownName as problem:
            raise UsageError(_or_a_node(problem)) from problem
        if not chosen:
            raise UsageError("no checks to run: the requested ones are skipped, or are not in this profile")
        progressed = Progressed(host, catalog, state=args.state, at_login=bool(node.simulated_folder(args)) or None)
        return _follow(events, args, len(chosen), progressed)


def _or_a_node(problem: UnknownName) -> str:
    """The mistake, and the option for simulated nodes where the name is one of theirs."""
    from npudoctor import sim

    known = problem.name in sim.scenarios()
    return f"{problem.name} is a simulated node: --simulate {problem.name}" if known else str(problem)


def _tell_of_few_files() -> None:
    """Say in one line that what is not known may be for want of descriptors."""
    from npudoctor.host.shortage import few_files

    if few := few_files():
        say(f"npudoctor: only {few} files may be open (ulimit -n), too few to determine everything")


def _left_s(limit_s: float, until: float) -> float:
    """The time limit, reduced where loading the plug-ins took longer than the allowed overrun."""
    left_s = until - time.monotonic()
    return limit_s if limit_s - left_s < limits.GRACE_S / 2 else max(0.1, round(left_s, 1))


def give_up(args: argparse.Namespace, reason: str) -> int:
    """Print a report that holds only the reason why there is none, in the requested format; its exit code."""
    problem = Result(check="run.time-limit", title="Time limit of the run", status=Status.CRASHED, reason=reason)
    verdict, exit_code = judge([problem])
    report = Report(
        tool_version=__version__,
        started_at=clock.now().isoformat(timespec="seconds"),
        duration_s=0.0,
        host=HostSummary(hostname=os.uname().nodename, machine=os.uname().machine),
        profile=args.profile or "standard",
        verdict=verdict,
        exit_code=exit_code,
        role=args.role or "auto",
        in_service=None,
        environment=args.environment or "process",
        summary=count([problem]),
        results=(problem,),
    )
    if args.format == "jsonl":
        from npudoctor.report import json

        write(json.line(problem) + json.last_line(report))
    else:
        write(_render(report, args))
    return _exit_code(report, args.format)


def _must_be_writable(path: str) -> None:
    """Refuse before the run what would fail after it."""
    try:
        importlib.import_module("prometheus_client")
    except ImportError as problem:
        raise UsageError("--metrics-file: requires prometheus-client: pip install 'npudoctor[daemon]'") from problem
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder) or (os.path.lexists(path) and not os.path.isfile(path)):
        raise UsageError(f"--metrics-file {path} must be a regular file or not exist; its folder must exist")


def _follow(  # type: ignore[no-untyped-def]
    events, args: argparse.Namespace, total: int, progressed: Progressed
) -> tuple[Report, engine.Done]:
    """Consume the events and show progress; the report to print, and the last event."""
    from npudoctor.cli.progress import Progress

    lines = args.format == "jsonl"
    with Progress(total, color=not args.no_color) as progress:
        for event in events:
            progress.show(event)
            if isinstance(event, engine.Finished) and lines:
                from npudoctor.report import json

                write(json.line(progressed.result(event.result)))
            if isinstance(event, engine.Done):
                done, report = event, progressed.report(event.report)
                if args.cards is not None:
                    from npudoctor.cli import cards

                    report = cards.only(report, args.cards, event.facts)
    if lines:
        write(json.last_line(report))
    return report, done


def _exit_code(report: Report, shape: str | None) -> int:
    """The exit code of the run, or of the monitor's protocol."""
    if shape == "nagios":
        from npudoctor.report import nagios

        return nagios.exit_code(report)
    if shape == "npd":
        from npudoctor.report import npd

        return npd.exit_code(report)
    return report.exit_code


def _render(report: Report, args: argparse.Namespace) -> str:
    if args.format in ("html", "junit", "nagios", "npd"):
        return str(importlib.import_module(f"npudoctor.report.{args.format}").render(report))
    if args.format == "json":
        from npudoctor.report import json

        return json.render(report)
    if args.format == "markdown":
        from npudoctor.report import markdown

        return markdown.render(report)
    from npudoctor.report import page, text

    look = text.look_of(sys.stdout, no_color=args.no_color)
    if args.quiet:
        return page.line(report, look=look)
    if not args.verbose:
        return page.render(report, look=look, node=node.words_of(args))
    return text.render(report, look=look, verbose=args.verbose > 1, node=node.words_of(args))
