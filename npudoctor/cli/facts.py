"""Print the facts collected from a node, or why a fact is unknown.

examples:
  npudoctor facts                      all, abridged
  npudoctor facts --json node.chips    one, in full
  npudoctor facts --replay node.tar.gz
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from typing import Any

from npudoctor import engine, knowledge, plugins
from npudoctor.cli import node
from npudoctor.cli.output import UsageError, write, write_json
from npudoctor.control_characters import escape, visible_lines
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.host import Unavailable
from npudoctor.sdk import Probe


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor facts`."""
    parser.add_argument("names", nargs="*", metavar="FACT", help="only these (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON in full")
    parser.add_argument("--timeout", type=float, metavar="S", help="time limit in seconds")
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the facts."""
    if args.timeout is None:
        known = _gather(args)
    else:
        with args.limit(args.timeout):
            known = _gather(args)
    shown = {probe.name: value for probe, value in known.items() if not args.names or probe.name in args.names}
    if args.json:
        write_json({name: _as_json(value) for name, value in shown.items()}, sort_keys=True)
    else:
        write("".join(_as_text(name, value) for name, value in shown.items()))
    return 0


def give_up(_: argparse.Namespace, reason: str) -> int:
    """Print in one line why no fact is known; the exit code is that of a check."""
    print(f"npudoctor: could not determine: {reason}", file=sys.stderr)  # noqa: T201
    return 3


def _gather(args: argparse.Namespace) -> dict[Probe, Any]:
    config = node.load_config(args)
    catalog = plugins.load(args.plugin)
    names = {probe.name for probe in catalog.probes.values()}
    if unknown := next((name for name in args.names if name not in names), None):
        near = difflib.get_close_matches(unknown, names, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else "`npudoctor facts` lists them"
        raise UsageError(f"unknown fact {unknown!r}; {hint}")
    with node.open_node(args, config) as host:
        return engine.gather(catalog, host, node.options(args, config), deadline_s=args.timeout)


def _as_json(value: Any) -> dict[str, Any]:
    from npudoctor.facts.parsers import to_json

    if isinstance(value, Unavailable):
        return {"unavailable": escape(value.reason), "because": value.because.value}
    if isinstance(value, engine.Crash):
        return {"crashed": escape(value.reason)}
    if isinstance(value, JobEnvironment):
        return {"value": _variables(value)}
    return {"value": to_json(value)}


def _variables(environment: JobEnvironment) -> dict[str, Any]:
    """Variables that the catalogue names; of others, which may hold secrets, only their number."""
    known = knowledge.environment().recorded
    shown = {name: visible_lines(value) for name, value in sorted(environment.items()) if name in known}
    others = environment.others + len(environment) - len(shown)
    return {"whose": escape(environment.whose), "variables": shown, "others": others}


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, (Unavailable, engine.Crash)):
        return f"{name:<28}  – {escape(value.reason)}\n"
    text = json.dumps(_as_json(value)["value"], ensure_ascii=False)
    return f"{name:<28}  {text if len(text) <= 400 else text[:397] + '...'}\n"
