"""Print every fact of the node, or why it is not known.

examples:
  npudoctor facts                      all, in short
  npudoctor facts --json npu.info      one, in full
  npudoctor facts --replay node.tar.gz
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from npudoctor import engine, knowledge, plugins
from npudoctor.cli import UsageError, node, write
from npudoctor.facts.environment import JobEnvironment
from npudoctor.host import Unavailable


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor facts`."""
    parser.add_argument("names", nargs="*", metavar="FACT", help="only these (default: all)")
    parser.add_argument("--json", action="store_true", help="as JSON, in full")
    parser.add_argument("--timeout", type=float, metavar="S", help="end after S seconds, whatever the tools do")
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the facts."""
    config = node.load_config(args)
    catalog = plugins.load(args.plugin)
    names = {probe.name for probe in catalog.probes.values()}
    if unknown := next((name for name in args.names if name not in names), None):
        raise UsageError(f"there is no fact {unknown!r}; there are {', '.join(sorted(names))}")
    with node.opened(args, config) as host:
        known = engine.gather(catalog, host, node.options(args, config), deadline_s=args.timeout)
    shown = {probe.name: value for probe, value in known.items() if not args.names or probe.name in args.names}
    if args.json:
        write(json.dumps({name: _as_json(value) for name, value in shown.items()}, indent=2, sort_keys=True) + "\n")
    else:
        write("".join(_as_text(name, value) for name, value in shown.items()))
    return 0


def _as_json(value: Any) -> dict[str, Any]:
    from npudoctor.facts.kinds import to_json

    if isinstance(value, Unavailable):
        return {"unavailable": value.reason, "because": value.because.value}
    if isinstance(value, engine.Crash):
        return {"crashed": value.reason}
    if isinstance(value, JobEnvironment):
        return {"value": _variables(value)}
    return {"value": to_json(value)}


def _variables(environment: JobEnvironment) -> dict[str, Any]:
    """Those that the catalogue names; of the others, which may hold secrets, only how many there are."""
    known = knowledge.environment().recorded
    shown = {name: value for name, value in sorted(environment.items()) if name in known}
    return {"whose": environment.whose, "variables": shown, "others": len(environment) - len(shown)}


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, (Unavailable, engine.Crash)):
        return f"{name:<28}  – {value.reason}\n"
    text = json.dumps(_as_json(value)["value"], ensure_ascii=False)
    return f"{name:<28}  {text if len(text) <= 400 else text[:397] + '...'}\n"
