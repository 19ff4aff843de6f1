"""Compare nodes: recordings, reports of `npudoctor check --json`, or both.

The first line names the outliers. Names, addresses, serial numbers and live readings are not compared.

examples:
  npudoctor compare nodes/*.tar.gz               which nodes differ from the others, and how
  npudoctor compare a.tar.gz b.json              what differs between two nodes
  npudoctor compare --golden good.tar.gz *.json  each node against a known good one

exit codes: 0 no differences, 1 differences, 2 usage.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from npudoctor.cli.output import UsageError, write, write_json
from npudoctor.compare import features
from npudoctor.compare import groups as compare
from npudoctor.compare.features import Node, Values
from npudoctor.control_characters import all_visible, escape
from npudoctor.host.live.safe_files import Unreadable, read_bounded

SIDE_BY_SIDE_FROM = 12
"""From this number of recordings on, worker processes pay off."""


MOST_SHOWN = 10
MOST_NAMED = 5
WIDEST_VALUE = 100
TIME_FOR_ONE_S = 60.0

Item = TypeVar("Item")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the nodes and the output options."""
    parser.add_argument(
        "nodes", nargs="+", metavar="NODE", help="a recording (a folder or a .tar.gz), or a report as JSON"
    )
    parser.add_argument("--golden", metavar="NODE", help="the reference node")
    parser.add_argument("--json", action="store_true", help="print JSON with all differences")
    parser.add_argument("-v", "--verbose", action="store_true", help="list all differences, including consequences")


def run(args: argparse.Namespace) -> int:
    """Compare the nodes; 1 where any differ."""
    if len(args.nodes) < 2 and not args.golden:
        raise UsageError("compare requires two nodes or more, or one node and --golden NODE")
    paths = [*([args.golden] if args.golden else []), *args.nodes]
    nodes = _read_all(paths)
    golden = nodes.pop(0) if args.golden else None
    found = compare.compare(nodes, golden=golden)
    names = _names([*nodes, *([golden] if golden else [])])
    if args.json:
        write_json(_as_json(found, names))
    else:
        write(_as_text(found, _hosts([*nodes, *([golden] if golden else [])]) or names, verbose=args.verbose))
    return 0 if found.alike else 1


# Reading the nodes


def _read_all(paths: Sequence[str]) -> list[Node]:
    workers = min(len(os.sched_getaffinity(0)), 8)
    if len(paths) < SIDE_BY_SIDE_FROM or workers < 2:
        return list(_with_progress(map(read, paths), len(paths)))
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _leave_interrupts) as pool:
        try:
            read_or_not = list(_with_progress(pool.map(_try_to_read, paths, chunksize=4), len(paths)))
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.kill()
            raise
    problem = next((one for one in read_or_not if isinstance(one, UsageError)), None)
    if problem:
        raise problem
    return [one for one in read_or_not if isinstance(one, Node)]


def _leave_interrupts() -> None:
    """In a worker: leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _try_to_read(path: str) -> Node | UsageError:
    """A node, or its error as a value: a pool that is left early can wait for its workers for ever."""
    try:
        return read(path)
    except UsageError as problem:
        return problem


def _with_progress(nodes: Iterator[Item], total: int) -> Iterator[Item]:
    """Read the nodes, with a count on the terminal."""
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    for number, node in enumerate(nodes, 1):
        if live:
            sys.stderr.write(f"\r\x1b[K{number}/{total} nodes" if number < total else "\r\x1b[K")
            sys.stderr.flush()
        yield node


def read(path: str) -> Node:
    """One node from a recording or a report; raises UsageError with one line for what is neither."""
    from npudoctor.host import BundleError

    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                if file.read(2) != b"\x1f\x8b":
                    return _of_report(path)
        return _of_recording(path)
    except BundleError as problem:
        raise UsageError(str(problem)) from None
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}") from None


def _of_report(path: str) -> Node:
    from pydantic import ValidationError

    from npudoctor.host.recording import bundle_reader
    from npudoctor.report import json as report_json

    try:
        text = read_bounded(path, bundle_reader.MAX_JSON_BYTES)
    except Unreadable as problem:
        raise UsageError(str(problem)) from None
    if refused := bundle_reader.too_much(text):
        raise UsageError(f"refused: {path}: {refused}")
    try:
        report = report_json.read(text)
    except ValidationError as problem:
        where = ".".join(map(str, problem.errors()[0]["loc"]))
        raise UsageError(
            f"{path} must be a recording or a report of `npudoctor check --json`"
            + (f" ({where}: {problem.errors()[0]['msg']})" if where else "")
        ) from None
    return Node(
        path=path,
        hostname=report.host.hostname or "",
        features=dict(features.of_report(report)),
        known=frozenset({features.FINDINGS}),
    )


def _of_recording(path: str) -> Node:
    import gc

    from npudoctor import engine
    from npudoctor.host.recording import recorded_node
    from npudoctor.selection import Selection

    host = recorded_node.open_bundle(path)
    try:
        selection = Selection(deadline_s=TIME_FOR_ONE_S)
        for event in engine.run(_catalog(), host, selection, facts=_catalog().probes, workers=1):
            if isinstance(event, engine.Done):
                done = event
    finally:
        host.close()
    told, known = features.of_facts({probe.name: fact for probe, fact in done.facts.items() if not probe.of_the_moment})
    told |= dict(features.of_report(done.report))
    gc.collect(0)  # garbage collection is off in a command; here nodes are read one after the other
    return Node(path=path, hostname=host.about.hostname, features=told, known=known | {features.FINDINGS})


@functools.cache
def _catalog() -> Any:
    from npudoctor import plugins

    return plugins.load()


# Showing them


def _names(nodes: Sequence[Node]) -> dict[str, str]:
    """A name for each node by its path: the file's name, or the whole path where names clash; and the host name."""
    stems = {node.path: _stem(node.path) for node in nodes}
    if len(set(stems.values())) < len(set(stems)):
        stems = {path: path.rstrip("/") for path in stems}
    hosts = {node.path: node.hostname for node in nodes}
    telling = len(set(hosts.values())) == len(hosts)
    return {
        node.path: f"{stems[node.path]} ({node.hostname})"
        if telling and node.hostname and node.hostname not in stems[node.path]
        else stems[node.path]
        for node in nodes
    }


def _hosts(nodes: Sequence[Node]) -> dict[str, str] | None:
    """The host names by path, where each node has one of its own; else None, and the files' names tell nodes apart."""
    hosts = {node.path: node.hostname for node in nodes}
    return hosts if all(hosts.values()) and len(set(hosts.values())) == len(nodes) else None


def _stem(path: str) -> str:
    name = os.path.basename(os.path.normpath(path))
    return next((name.removesuffix(end) for end in (".tar.gz", ".tgz", ".json") if name.endswith(end)), name)


def _as_text(found: compare.Comparison, names: Mapping[str, str], *, verbose: bool) -> str:
    lines = [_headline(found, names)]
    for odd in found.odd:
        lines += ["", _who(odd, found, names), *_difference_lines(odd.differences, verbose=verbose)]
    if len(found.groups) > 1 and len(found.groups[0]) > 1:
        lines += ["", f"{len(found.groups)} groups of nodes:"]
        for group in found.groups:
            lines += [f"  {_counting(len(group))}{_kind(group)}", f"    {_some(group, names)}"]
    if found.splits and (not found.odd or verbose):
        lines += ["", "Differences:", *_split_lines(found, names, verbose=verbose)]
    elif len(found.groups) > 1:
        titles = [split.feature.title for split in found.splits]
        more = f" and {len(titles) - MOST_SHOWN} more" if len(titles) > MOST_SHOWN else ""
        lines += ["", f"Also different: {', '.join(titles[:MOST_SHOWN])}{more} (details: --verbose)."]
    return "\n".join(map(escape, lines)) + "\n"


def _headline(found: compare.Comparison, names: Mapping[str, str]) -> str:
    count = len(found.nodes)
    if found.alike:
        if found.golden:
            return f"No differences: {_counting(count)} compared with {names[found.golden.path]}."
        return f"No differences between {count} nodes."
    if found.odd:
        told = [f"{names[odd.node.path]} ({_reason(odd)})" for odd in found.odd[:MOST_NAMED]]
        more = f", and {len(found.odd) - MOST_NAMED} more" if len(found.odd) > MOST_NAMED else ""
        if found.golden:
            golden = names[found.golden.path]
            return f"Different from {golden}: {', '.join(told)}{more}."
        if len(found.odd) == 1:
            return f"1 of {count} nodes differs: {told[0]}."
        return f"{len(found.odd)} of {count} nodes differ: {', '.join(told)}{more}."
    things = "1 value" if len(found.splits) == 1 else f"{len(found.splits)} values"
    if count == 2:
        return f"{names[found.nodes[0].path]} and {names[found.nodes[1].path]} differ in {things}."
    if len(found.groups) == count:
        return f"All {count} nodes differ from each other, in {things}."
    return f"{count} nodes differ in {things}; no single outlier."


def _reason(odd: compare.Odd) -> str:
    first = odd.differences[0]
    return f"{first.feature.title}: {_brief(first.value, first.expected)}"


def _who(odd: compare.Odd, found: compare.Comparison, names: Mapping[str, str]) -> str:
    if found.golden:
        return f"{names[odd.node.path]}:"
    return f"{names[odd.node.path]}, unlike {'its peer' if odd.peers == 1 else f'its {odd.peers} peers'}:"


def _difference_lines(differences: Sequence[compare.Difference], *, verbose: bool) -> list[str]:
    chosen = differences if verbose else compare.distinct_differences(differences)
    shown = chosen if verbose else chosen[:MOST_SHOWN]
    lines = [
        f"  {one.feature.title}: {_brief(one.value, one.expected)}, not {_brief(one.expected, one.value)}"
        for one in shown
    ]
    if len(shown) < len(differences):
        lines.append(f"  … and {len(differences) - len(shown)} more, including consequences (--verbose)")
    return lines


def _split_lines(found: compare.Comparison, names: Mapping[str, str], *, verbose: bool) -> list[str]:
    shown = found.splits if verbose else found.splits[:MOST_SHOWN]
    order = {path: place for place, path in enumerate(names)}
    lines = []
    for split in shown:
        lines.append(f"  {split.feature.title}")
        common = split.values[0][0]
        values = split.values if len(found.nodes) > 2 else sorted(split.values, key=lambda one: order[one[1][0].path])
        for value, having in values:
            other = split.values[1][0] if value == common else common
            lines.append(f"    {_brief(value, other)}: {_some(having, names)}")
    if len(shown) < len(found.splits):
        lines.append(f"  … and {len(found.splits) - len(shown)} more (--verbose)")
    return lines


def _brief(value: Values, other: Values) -> str:
    """A value; of a long one only the parts that the other one lacks."""
    if max(len(value), len(other)) > 3 and value and other:
        own = [part for part in value if part not in other]
        lacking = [part for part in other if part not in value]
        text = f"with {', '.join(own)}" if own else f"without {', '.join(lacking)}" if lacking else "in another order"
    else:
        text = ", ".join(value) or "none"
    return text if len(text) <= WIDEST_VALUE else text[: WIDEST_VALUE - 1] + "…"


def _some(nodes: Sequence[Node], names: Mapping[str, str]) -> str:
    told = ", ".join(names[node.path] for node in nodes[:MOST_NAMED])
    return told + (f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else "")


def _counting(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _kind(group: Sequence[Node]) -> str:
    """A short description of a group."""
    wanted = {"NPUs": "", "driver version": "driver ", "CANN": "CANN ", "package torch-npu": "torch_npu "}
    told = {feature.title: ", ".join(value) for feature, value in group[0].features.items()}
    words = [f"{word}{told[title]}" for title, word in wanted.items() if title in told]
    return ": " + ", ".join(words) if words else ""


def _as_json(found: compare.Comparison, names: Mapping[str, str]) -> dict[str, Any]:
    def name_list(nodes: Sequence[Node]) -> list[str]:
        return [names[node.path] for node in nodes]

    said = {
        "schema": "npudoctor.comparison/1",
        "alike": found.alike,
        "golden": names[found.golden.path] if found.golden else None,
        "nodes": [{"name": names[node.path], "path": node.path, "hostname": node.hostname} for node in found.nodes],
        "groups": [name_list(group) for group in found.groups],
        "odd": [
            {
                "name": names[odd.node.path],
                "path": odd.node.path,
                "peers": odd.peers,
                "differences": [
                    {
                        "title": one.feature.title,
                        "source": one.feature.source,
                        "value": list(one.value),
                        "expected": list(one.expected),
                    }
                    for one in odd.differences
                ],
            }
            for odd in found.odd
        ],
        "differences": [
            {
                "title": split.feature.title,
                "source": split.feature.source,
                "values": [{"value": list(value), "nodes": name_list(having)} for value, having in split.values],
            }
            for split in found.splits
        ],
    }
    return all_visible(said)
