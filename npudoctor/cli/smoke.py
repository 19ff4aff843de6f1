"""Train a tiny model on all NPUs for a few seconds and name the failing rank.

examples:
  npudoctor smoke                         all NPUs without jobs or alarms, one rank on each
  npudoctor smoke --cards 0,1 --size large    two NPUs; large enough to measure HBM, AI Core use and scaling
  npudoctor smoke --launcher torchrun     with the job's launcher
  npudoctor smoke --device cpu --ranks 2  without an NPU: torch and gloo
  npudoctor smoke --simulate new-node     a simulated node; --replay: a recording
  npudoctor smoke --json                  for scripts: check the exit code

exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 could not determine (no usable NPU, for example),
4 internal error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import sys

from npudoctor import plugins
from npudoctor.cli import node
from npudoctor.cli.output import INTERRUPTED, UsageError, say, write
from npudoctor.control_characters import escape, visible_json
from npudoctor.data import to_json
from npudoctor.findings import Severity
from npudoctor.smoke.events import STAGES, Done, Event, SmokeReport, line
from npudoctor.smoke.request import DTYPES, LAUNCHERS, SIZES, STRATEGIES, Misused, Refused, Request

FORMATS = ("text", "json", "jsonl")
UNDETERMINED = 3
TEARDOWN_S = 30.0
"""Seconds after its time limit in which a run may end all ranks."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor smoke`."""
    who = parser.add_argument_group("devices")
    who.add_argument("--device", choices=("npu", "cpu"), default="npu", help="npu (HCCL) or cpu (gloo)")
    who.add_argument(
        "--cards", type=_numbers, metavar="0,1,3", help="use these devices (default: all without jobs or alarms)"
    )
    who.add_argument(
        "--ranks", type=_positive_number, metavar="N", help="number of ranks (default: one per device; 2 on the CPU)"
    )
    who.add_argument("--force", action="store_true", help="use devices that are busy or unhealthy")
    what = parser.add_argument_group("workload")
    what.add_argument("--size", choices=SIZES, default="small", help="model size (default: small)")
    what.add_argument("--steps", type=_positive_number, default=30, metavar="N", help="training steps (default: 30)")
    what.add_argument("--dtype", choices=DTYPES, default="fp32", help="data type (default: fp32)")
    what.add_argument("--strategy", choices=STRATEGIES, default="ddp", help="parallel strategy (default: ddp)")
    what.add_argument(
        "--launcher",
        choices=LAUNCHERS,
        default="direct",
        metavar="NAME",
        help=f"launcher: {', '.join(LAUNCHERS)} (default: direct)",
    )
    nodes = parser.add_argument_group("several nodes", "run the same command on each node, with --launcher torchrun")
    nodes.add_argument("--nnodes", type=_positive_number, default=1, metavar="N", help="number of nodes")
    nodes.add_argument("--node-rank", type=int, default=0, metavar="N", help="rank of this node, from 0")
    nodes.add_argument("--rdzv-endpoint", metavar="HOST:PORT", help="rendezvous endpoint on the first node")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--timeout", type=_seconds, default=900.0, metavar="S", help="time limit of the run in seconds")
    limits.add_argument(
        "--deadline",
        type=_deadline,
        action="append",
        default=[],
        metavar="STAGE=S",
        help=f"time limit of a stage in seconds: {', '.join(STAGES)}",
    )
    limits.add_argument(
        "--bandwidth-time", type=_seconds, metavar="S", help="time limit of the bandwidth stage in seconds"
    )
    limits.add_argument("--keep-logs", metavar="DIR", help="keep output and stacks of the ranks in DIR")
    shape = parser.add_argument_group("output")
    shape.add_argument("--format", choices=FORMATS, default="text", help="output format; jsonl streams events")
    shape.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    shape.add_argument("-v", "--verbose", action="store_true", help="print all evidence")
    shape.add_argument("--fail-on", choices=[one.value for one in Severity], help="exit 1 at this severity or above")
    node.add_simulated_state(parser)
    node.add_arguments(parser)


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts) or len({int(part) for part in parts}) < len(parts):
        raise argparse.ArgumentTypeError(f"expected distinct devices such as 0,1,3, found {text!r}")
    return tuple(sorted(int(part) for part in parts))


def _positive_number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1e6:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected seconds above 0, found {text!r}")


def _deadline(text: str) -> tuple[str, float]:
    stage, _, seconds = text.partition("=")
    try:
        if stage in STAGES and 0 < float(seconds) < 1e6:
            return stage, float(seconds)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected STAGE=SECONDS, found {text!r}; stages are {', '.join(STAGES)}")


def run(args: argparse.Namespace) -> int:
    """Run it and print the report; return its exit code."""

    if args.state and not args.simulate:
        raise UsageError("--state requires --simulate; --keep-logs keeps the logs of a run")
    if args.root:
        raise UsageError("a smoke run requires NPUs; --root has none")
    request = _request(args)
    if (args.replay or args.simulate) and request != Request():
        raise UsageError("run options require a live node; a recorded or simulated node holds one run")
    with args.limit(args.timeout + TEARDOWN_S):
        report = _report(args, request)
    if isinstance(report, int):
        return report
    _print(report, args)
    return report.exit_code


def give_up(_: argparse.Namespace, reason: str) -> int:
    """Print why there is no report; return the exit code."""
    print(f"npudoctor: could not determine: {reason}", file=sys.stderr)  # noqa: T201
    return UNDETERMINED


def _report(args: argparse.Namespace, request: Request) -> SmokeReport | int:
    """The report, or the exit code where there is none."""
    from npudoctor.smoke.session import Session

    catalog = plugins.load(args.plugin)
    config = node.load_config(args, catalog)
    with node.open_node(args, config) as host:
        session = Session(
            catalog=catalog,
            host=host,
            request=request,
            options=node.options(args, config),
            fail_on=Severity(args.fail_on) if args.fail_on else config.fail_on,
            severities=config.severity,
            silenced=config.silences_on(),
        )
        try:
            return _follow(session.run() if host.about.source == "live" else session.play(), args)
        except Misused as why:
            raise UsageError(str(why)) from why
        except Refused as why:
            say(f"npudoctor: {why}")
            return UNDETERMINED
        except KeyboardInterrupt:
            say("npudoctor: interrupted; all ranks were stopped")
            return INTERRUPTED


def _request(args: argparse.Namespace) -> Request:
    return Request(
        device=args.device,
        cards=args.cards,
        ranks=args.ranks,
        size=args.size,
        steps=args.steps,
        dtype=args.dtype,
        strategy=args.strategy,
        launcher=args.launcher,
        nnodes=args.nnodes,
        node_rank=args.node_rank,
        rdzv_endpoint=args.rdzv_endpoint,
        force=args.force,
        timeout_s=args.timeout,
        bandwidth_s=args.bandwidth_time,
        keep_logs=args.keep_logs,
        deadlines_s=dict(args.deadline),
    )


def _follow(events, args: argparse.Namespace) -> SmokeReport:  # type: ignore[no-untyped-def]
    """Consume the events, print them where requested; return the report."""
    live = sys.stderr.isatty() and args.format == "text"
    report = None
    try:
        for event in events:
            if args.format == "jsonl":
                write(visible_json(line(event)))
            elif live and (said := _progress(event)):
                sys.stderr.write(f"\r\x1b[K{escape(said)}")
                sys.stderr.flush()
            if isinstance(event, Done):
                report = event.report
    finally:
        events.close()
        if live:
            sys.stderr.write("\r\x1b[K")
    assert report is not None
    return report


def _progress(event: Event) -> str | None:
    if event.event == "rank-stage" and event.outcome.value == "running":
        return f"rank {event.rank}: {event.stage}"
    if event.event == "loss" and event.rank == 0:
        return f"step {event.step}: loss {event.loss}"
    return None


def _print(report: SmokeReport, args: argparse.Namespace) -> None:
    if args.format == "json":
        write(visible_json(to_json(report, indent=2)) + "\n")
    elif args.format == "text":
        from npudoctor.report import smoke, text

        look = text.look_of(sys.stdout, no_color=args.no_color)
        write(smoke.render(report, look=look, verbose=args.verbose, node=node.words_of(args)), colored=True)
