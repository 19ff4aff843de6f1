"""Identify package files in folders: which fit this node, which match each other, and what is missing.

  npudoctor packages /repo                        for this node
  npudoctor packages /repo --replay node.tar.gz   for another node, from its recording
  npudoctor packages /repo --json

Files are identified by name and header. No file is executed or changed. The folders are those of this machine, also
with --replay and --simulate.

exit codes: 0 the packages of a set match and nothing is missing, 1 otherwise.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

from npudoctor import engine, plugins
from npudoctor.cli import node as nodes
from npudoctor.cli.output import UsageError, write, write_json
from npudoctor.cli.staged import staged_in
from npudoctor.control_characters import escape
from npudoctor.data import to_data
from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.findings import Report
from npudoctor.packages.missing import BOTH, PURPOSES, Missing, find_missing
from npudoctor.packages.node import FACTS, Node, not_compared, of_facts, why_not
from npudoctor.packages.sets import Found, PackageSet, package_sets
from npudoctor.records import replace
from npudoctor.selection import Selection

SHOWN_SETS = 6
SHOWN_OTHERS = 12


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor packages`."""
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folder with package files")
    parser.add_argument("--for", dest="purpose", choices=PURPOSES, default=BOTH, help="what will run on the node")
    parser.add_argument("--cann", metavar="V", help="only sets with this CANN")
    parser.add_argument("--json", action="store_true", help="print JSON")
    nodes.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found."""
    staged = staged_in(args.folders)
    node = node_of(args)
    found = package_sets(staged, node, cann=args.cann)
    first = found.sets[0] if found.sets else None
    lacks = find_missing(first, node, args.purpose)
    absent = without_cann(found, args.cann)
    if args.json:
        write_json({**document(staged, node, found, lacks), "absent": list(absent)})
    else:
        after = absent or _next(args, node, found)
        write("\n".join([*_lines(staged, node, found, lacks), *after]) + "\n")
    return 0 if found.sets and not lacks and not absent else 1


def _next(args: argparse.Namespace, node: Node, found: Found) -> tuple[str, ...]:
    """The command that plans the installation, where the packages of one folder can be installed on this node."""
    if not found.sets or len(args.folders) > 1 or not node.chips or node.in_container:
        return ()
    words = ["npudoctor", "setup", "--packages", args.folders[0]]
    words += ["--for", args.purpose] if args.purpose != BOTH else []
    words += ["--cann", args.cann] if args.cann else []
    command = " ".join(filter(None, [escape(shlex.join(words)), nodes.words_of(args), "--dry-run"]))
    return ("", f"the plan, with all commands: {command}")


def without_cann(found: Found, version: str | None) -> tuple[str, ...]:
    """That no set has the CANN that is asked for, as lines."""
    toolkits = [one.of("toolkit", "combined") for one in found.sets]
    if version is None or any(toolkit is not None for toolkit in toolkits):
        return ()
    return (f"no CANN {escape(version)} that fits this node is in these folders",)


def node_of(args: argparse.Namespace) -> Node:
    """What of the node decides which packages fit."""
    config = nodes.load_config(args)
    catalog = plugins.load(args.plugin)
    with nodes.open_node(args, config) as host:
        known = engine.gather(catalog, host, nodes.options(args, config), facts=FACTS)
    return of_facts({probe.provides: value for probe, value in known.items()})


def examine_node(args: argparse.Namespace, staged: StagedPackages) -> tuple[Node, Report]:
    """The same, with the report of the checks before an installation."""
    config = nodes.load_config(args)
    catalog = plugins.load(args.plugin)
    options = replace(nodes.options(args, config), packages=staged)
    selection = Selection(
        names=("install",), options=options, severities=config.severity, silenced=config.silences_on()
    )
    with nodes.open_node(args, config) as host:
        for event in engine.run(catalog, host, selection, facts=FACTS):
            if isinstance(event, engine.Done):
                return of_facts({probe.provides: value for probe, value in event.facts.items()}), event.report
    raise UsageError("no checks to run")


def document(staged: StagedPackages, node: Node, found: Found, lacks: tuple[Missing, ...]) -> dict[str, Any]:
    """The JSON document."""
    return {
        "schema": "npudoctor.packages/1",
        "folders": list(staged.folders),
        "node": to_data(node),
        "packages": [_row(package, node) for package in staged.packages],
        "others": [{"path": other.path, "what": other.what} for other in staged.others],
        "sets": [set_document(one) for one in found.sets],
        "alone": [package.path for package in found.alone],
        "missing": [{"component": one.component, "published": one.published, "why": one.why} for one in lacks],
        "cut_off": [text for text in (staged.cut_off, found.cut_off) if text],
    }


def set_document(one: PackageSet) -> dict[str, Any]:
    """A set as JSON."""
    return {
        "title": one.title,
        "paths": [part.path for part in one.parts],
        "pythons": list(one.pythons),
        "fit": one.fit.value,
        "reasons": list(one.reasons),
        "uncertain": list(one.uncertain),
    }


def _row(package: Package, node: Node) -> dict[str, Any]:
    fields = {name: value for name, value in to_data(package).items() if name != "holds"}
    reason = why_not(package, node)
    unknown = list(not_compared(package, node))
    return {
        **fields,
        "fits": False if reason else None if unknown else True,
        "why_not": reason,
        "not_compared": unknown,
    }


# Text


def _lines(staged: StagedPackages, node: Node, found: Found, lacks: tuple[Missing, ...]) -> Iterator[str]:
    yield f"{', '.join(map(escape, staged.folders))}: {_count(staged)}"
    yield f"node: {describe_node(node)}"
    yield from (f"not known of the node: {reason}" for reason in node.unknown[:3])
    if staged.packages:
        yield ""
        yield from _table(staged, node)
    if staged.others:
        yield ""
        yield "other files:"
        yield from (f"  {_name(staged, other.path)}: {escape(other.what)}" for other in staged.others[:SHOWN_OTHERS])
        if len(staged.others) > SHOWN_OTHERS:
            yield f"  and {len(staged.others) - SHOWN_OTHERS} more (--json)"
    yield ""
    yield from _set_lines(found)
    if found.alone:
        yield ""
        yield "fits this node, and is in no such set:"
        yield from (f"  {_name(staged, package.path)}" for package in found.alone)
    if lacks:
        yield ""
        yield "missing, by the vendor's name:"
        yield from (f"  {one.published}  ({one.why})" for one in lacks)
    yield from (f"note: {text}" for text in (staged.cut_off, found.cut_off) if text)


def _count(staged: StagedPackages) -> str:
    usable = len(staged.usable)
    bad = len(staged.packages) - usable
    parts = [f"{usable} package{'s' if usable != 1 else ''}"]
    parts += [f"{bad} unusable"] if bad else []
    parts += [f"{len(staged.others)} other files"] if staged.others else []
    return ", ".join(parts)


def describe_node(node: Node) -> str:
    """The node in one line."""
    if node.chips is None:
        chips = "NPUs not known"
    elif node.chips == 0:
        chips = "no NPU on the PCI bus"
    else:
        chips = f"{node.chips} × {', '.join(node.families)} (PCI 19e5:{', '.join(node.devices)})"
    python = f"Python {node.python}" if node.python else None
    installed = [f"{what} {version}" for what, version in (("driver", node.driver), ("CANN", node.cann)) if version]
    if not node.driver and node.driver_known:
        installed.insert(0, "no driver")
    parts = (chips, node.arch, node.os, node.kernel and f"kernel {node.kernel}", python, *installed)
    return escape(", ".join(part for part in parts if part)) + (", in a container" if node.in_container else "")


def _table(staged: StagedPackages, node: Node) -> Iterator[str]:
    rows = [("COMPONENT", "VERSION", "ARCH", "CHIPS", "SIGNATURE", "FITS", "FILE")]
    remarks = []
    for package in staged.packages:
        reason = why_not(package, node)
        unknown = not_compared(package, node)
        fits = "no" if reason else f"not known ({', '.join(unknown)})" if unknown else "yes"
        name = _name(staged, package.path)
        version = (package.version or "-") + (f" {package.patch}" if package.patch else "")
        if package.python:
            version += f" (Python {package.python})"
        chips = ", ".join(package.families) or package.tag or "any"
        rows.append((package.component, version, package.arch or "any", chips, package.signature or "-", fits, name))
        if reason:
            remarks.append(f"  {name}: {reason}")
        remarks += [f"  {name}: {remark}" for remark in package.remarks]
    cells = [tuple(escape(cell) for cell in row) for row in rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]) - 1)]
    for row in cells:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
    if remarks:
        yield ""
        yield from map(escape, remarks)


def _name(staged: StagedPackages, path: str) -> str:
    """A path as it is shown: below the folder, where there is one."""
    if len(staged.folders) == 1:
        path = path.removeprefix(staged.folders[0].rstrip("/") + "/")
    return escape(path)


def _set_lines(found: Found) -> Iterator[str]:
    if not found.sets:
        yield "no packages that fit this node"
        return
    yield "matching set:" if len(found.sets) == 1 else f"{len(found.sets)} matching sets; choose one:"
    for letter, one in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:SHOWN_SETS], found.sets, strict=False):
        mark = f"  {letter}  " if len(found.sets) > 1 else "  "
        yield f"{mark}{escape(one.title)}"
        yield from (f"{' ' * len(mark)}{escape(reason)}" for reason in one.reasons)
        yield from (f"{' ' * len(mark)}uncertain: {escape(text)}" for text in one.uncertain)
    if len(found.sets) > SHOWN_SETS:
        yield f"  and {len(found.sets) - SHOWN_SETS} more (--json)"
