"""List all checks: id, title, profile and fix; or all fixes, with --fixes.

Checks of a profile also run in the more expensive ones: quick (no import of torch, npu-smi once), standard (the
default; adds the per-chip tools), full (opens devices).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

from npudoctor import plugins
from npudoctor.cli import node
from npudoctor.cli.output import write
from npudoctor.data import to_data
from npudoctor.findings import Silenced
from npudoctor.plugins import Catalog
from npudoctor.sdk import Check


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor list`."""
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="output format")
    shape.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="same as --format json, with tags, thresholds and explanations",
    )
    parser.add_argument("--fixes", action="store_true", help="list fixes instead: id, risk, title, parameters")
    parser.add_argument("--findings", action="store_true", help="also list the finding codes of each check")
    node.add_config(parser)
    node.add_plugin(parser)


def run(args: argparse.Namespace) -> int:
    """Print the catalogue."""
    catalog = plugins.load(args.plugin)
    if args.fixes:
        write(_fixes(catalog, args.format))
        return 0
    silenced = node.load_config(args, catalog).silences_on()
    checks = list(catalog.checks.values())
    if args.format == "markdown":
        from npudoctor.explain import pages

        write(pages.catalogue(catalog))
        return 0
    if args.format == "json":
        write(json.dumps([_entry(check, catalog, silenced) for check in checks], indent=2) + "\n")
        return 0
    width = max((len(check.id) for check in checks), default=0)
    for check in checks:
        fix = f"  [fix: {check.fix}]" if check.fix else ""
        said = f"  [{quiet}]" if (quiet := _silence_of(check, silenced)) else ""
        write(f"{check.id:<{width}}  {check.profile:<8}  {check.title}{fix}{said}\n")
        for message in catalog.messages_of(check) if args.findings else ():
            write(f"  {message.severity.value:<7}  {message.code}\n")
    return 0


def _fixes(catalog: Catalog, form: str) -> str:
    from npudoctor.explain import fixes

    if form == "markdown":
        return fixes.page(catalog)
    told = [fixes.of_fix(one, catalog) for one in catalog.fixes.values()]
    if form == "json":
        return json.dumps(told, indent=2) + "\n"
    width = max((len(one["id"]) for one in told), default=0)
    lines = []
    for one in told:
        risk = "safe" if one["safe"] else "asks"
        lines.append(f"{one['id']:<{width}}  {risk}  {'root' if one['root'] else '    '}  {one['title']}\n")
        given = " ".join(fixes.assignment(parameter) for parameter in one["parameters"])
        lines += [f"{'':<{width}}              --set {given}\n"] if given else []
    return "".join(lines)


def _silence_of(check: Check, silenced: Mapping[str, Silenced]) -> Silenced | None:
    return next((silenced[name] for name in (check.id, *check.tags) if name in silenced), None)


def _entry(check: Check, catalog: Catalog, silenced: Mapping[str, Silenced]) -> dict[str, object]:
    quiet = _silence_of(check, silenced)
    return {
        "id": check.id,
        "title": check.title,
        "why": check.why or None,
        "tags": list(check.tags),
        "profile": check.profile,
        "after": list(check.after),
        "fix": check.fix,
        "thresholds": [
            {"name": one.name, "default": one.usual, "unit": one.unit, "reason": one.reason} for one in check.thresholds
        ],
        "findings": [
            {
                "code": message.code,
                "severity": message.severity.value,
                "summary": message.summary,
                "params": sorted(message.parameters),
            }
            for message in catalog.messages_of(check)
        ],
        "silenced": to_data(quiet),
    }
