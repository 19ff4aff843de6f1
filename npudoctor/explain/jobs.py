"""The files of a whole job: which node and rank each line comes from, and how far the clocks of the nodes are apart.

A run's folder holds the logs of one or several nodes, whose clocks may print different time zones, and some stamps name
their zone and others do not. Logs of one job begin and end together: where two groups of files begin and end the same
number of half hours apart, the difference is a time zone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from npudoctor.explain.lines import Moment, Source, source_of_file
from npudoctor.explain.sightings import FileRead, Sighting, position_of
from npudoctor.records import replace

_NODE = re.compile(
    r"(?:node|host|server|machine|master|worker|slave|pod|npu)[-_.]?\d[\w.-]{0,60}"
    r"|\d{1,3}(?:[.-]\d{1,3}){3}|[A-Za-z][\w.]{0,60}-(?:master|worker|head|launcher|node)-?\d{1,4}",
    re.IGNORECASE,
)
"""A folder of a run that is named after a node."""

_POD = re.compile(r"[a-z0-9-]{1,63}_(?P<pod>[a-z0-9.-]{1,253})_[0-9a-f-]{16,40}")
"""A folder below /var/log/pods: namespace, pod and uid."""

_CANN = re.compile(r"/(?:(?:ascend/)?log/)?(?:debug/|run/|security/)?(?:plog|device-\d+)/[^/]+$")
"""The end of the path of a log that CANN writes for each process."""

_RANK = re.compile(r"rank|^\d+$|attempt|restart|plog|device", re.IGNORECASE)
"""A folder of one rank, of one try or of one kind of log."""

NEIGHBOURS = 15
"""Distance in lines within which two reports are of one failure, and a line has the source of its neighbour."""

_HALF_HOUR = 1800
_MINUTE_S = 60
_HOUR = 3600
_TOGETHER_S = 600
"""How far the beginnings and the ends of the logs of one job lie apart at most, beside the time zone."""

_LONGEST_WAIT_S = 7300
"""How much later a rank reports that it waited in vain: HCCL_CONNECT_TIMEOUT is at most 7200 s, and HCCL adds some."""

_KERNEL = "kernel"

_FARTHEST = 28
"""Half hours: no two time zones are farther apart."""


def is_of_scheduler(name: str) -> bool:
    """Whether a file is the log of the scheduler of MindSpore's msrun, which reports the ranks that are gone."""
    return os.path.basename(name) in ("scheduler.log", "scheduler.out")


def writer_of(name: str, node: str | None) -> str:
    """Who wrote a file whose lines name no rank: the kernel, which is none, or the file itself."""
    if re.match(r"(?:vmcore-)?(?:dmesg|kern|messages|syslog)\b", os.path.basename(name)) is None:
        return name
    return f"{_KERNEL} of {node}" if node else _KERNEL


def is_kernel(who: str) -> bool:
    """Whether a writer is the kernel of a node."""
    return who.partition(" of ")[0] == _KERNEL


def nodes_of(names: Sequence[str], folders: Sequence[str] = ()) -> tuple[str | None, ...]:
    """The node that each file comes from; None for all where they come from one, or nothing says so.

    `folders` are those that the user named: one for each node, where they are several.
    """
    found = [_node(name) for name in names]
    if len(set(found) - {None}) < 2:
        found = _by_named_folders(names, folders) if len(folders) > 1 else _by_cann_folders(names)
    return tuple(found) if len(set(found) - {None}) > 1 else (None,) * len(names)


def _by_named_folders(names: Sequence[str], folders: Sequence[str]) -> list[str | None]:
    """The part of the named folders that tells them apart; folders of ranks are none of nodes."""
    parts = [os.path.normpath(folder).split("/") for folder in folders]
    depth = next((depth for depth, row in enumerate(zip(*parts, strict=False)) if len(set(row)) > 1), None)
    if depth is None or any(len(path) <= depth or _RANK.search(path[depth]) for path in parts):
        return [None] * len(names)
    kept = {tuple(path): path[depth] for path in parts}
    return [
        next(
            (node for path, node in kept.items() if tuple(os.path.normpath(name).split("/")[: len(path)]) == path), None
        )
        for name in names
    ]


def _node(name: str) -> str | None:
    for part in os.path.dirname(name).split("/"):
        if pod := _POD.fullmatch(part):
            return pod["pod"]
        if _NODE.fullmatch(part):
            return part
    return None


def _by_cann_folders(names: Sequence[str]) -> list[str | None]:
    """Where several folders hold CANN's own logs: the part of their paths that tells them apart."""
    found = [_CANN.search(name) for name in names]
    folders = [name[: place.start()].split("/") if place else [] for name, place in zip(names, found, strict=True)]
    distinct = {tuple(folder) for folder in folders if folder}
    if len(distinct) < 2:
        return [None] * len(names)
    depth = next((depth for depth, parts in enumerate(zip(*distinct, strict=False)) if len(set(parts)) > 1), None)
    if depth is None:
        return [None] * len(names)
    common, places = next(iter(distinct))[:depth], {folder[depth] for folder in distinct if len(folder) > depth}
    paths = [name.split("/")[:-1] for name in names]
    return [
        path[depth] if len(path) > depth and tuple(path[:depth]) == common and path[depth] in places else None
        for path in paths
    ]


def clock_shifts(files: Sequence[FileRead], nodes: Sequence[str | None]) -> tuple[float, ...]:
    """Seconds to add to the stamps without a zone of each file so that all files share a clock.

    Stamps with a zone are in UTC already. The other files of a node share its clock, whatever zone that is.
    """
    groups: dict[tuple[str | None, bool], list[FileRead]] = {}
    for file, node in zip(files, nodes, strict=True):
        if file.began and file.ended:
            groups.setdefault((node, file.began.zone_s is not None), []).append(file)
    year = max((file.began.year or 0 for file in files if file.began), default=0) or 2000
    spans = {key: _span(group, year) for key, group in groups.items()}
    if not spans:
        return (0.0,) * len(files)
    reference = max(spans, key=lambda key: (key[1], len(groups[key]), str(key[0])))
    shifts: Mapping[tuple[str | None, bool], float] = {
        key: 0.0 if key[1] else _shift(span, spans[reference]) for key, span in spans.items()
    }
    return tuple(shifts.get((node, False), 0.0) for node in nodes)


def clocks_apart(
    files: Sequence[FileRead], nodes: Sequence[str | None], shifts: Sequence[float]
) -> Mapping[str, float]:
    """The nodes whose clock cannot be that of the others, each with the seconds by which it is ahead of it.

    The logs of a node that begin and end minutes apart from all others, both by the same time and by no time zone, or
    that share no instant with them, are stamped by a clock that is wrong: no order in time follows from it. Logs of
    errors alone may begin and end as late as a rank waits for another one.
    """
    year = max((file.began.year or 0 for file in files if file.began), default=0) or 2000
    spans: dict[str, list[tuple[float, float]]] = {}
    for file, node, shift in zip(files, nodes, shifts, strict=True):
        if node and file.began and file.ended:
            spans.setdefault(node, []).append((stamp(file.began, year, shift), stamp(file.ended, year, shift)))
    if len(spans) < 2:
        return {}
    whole = {node: (min(begin for begin, _ in each), max(end for _, end in each)) for node, each in spans.items()}
    begins = sorted(begin for begin, _ in whole.values())
    ends = sorted(end for _, end in whole.values())
    begun, ended = begins[(len(begins) - 1) // 2], ends[(len(ends) - 1) // 2]
    found = {node: (begin - begun, end - ended) for node, (begin, end) in whole.items()}
    long = {node for node, (begin, end) in whole.items() if end - begin >= _MINUTE_S}
    return {
        node: (begin + end) / 2
        for node, (begin, end) in found.items()
        if _is_apart(begin, end) and (abs(end) > _LONGEST_WAIT_S or (node in long and len(long) > 1))
    }


def _is_apart(begin: float, end: float) -> bool:
    """Whether differences of beginnings and of ends are those of a wrong clock."""
    far = min(abs(begin), abs(end)) > _TOGETHER_S and (begin > 0) == (end > 0)
    return far and (abs(begin - end) <= _TOGETHER_S or min(abs(begin), abs(end)) > _HOUR)


def _span(group: Sequence[FileRead], year: int) -> tuple[float, float]:
    began = [file.began.seconds(year) for file in group if file.began]
    ended = [file.ended.seconds(year) for file in group if file.ended]
    return min(began), max(ended)


def _shift(span: tuple[float, float], other: tuple[float, float]) -> float:
    """The time zone between two spans; 0 where their differences do not agree on one, or may be a rank that waited."""
    begin, end = other[0] - span[0], other[1] - span[1]
    steps = round(end / _HALF_HOUR)
    is_short = min(span[1] - span[0], other[1] - other[0]) < _MINUTE_S
    if is_short and (abs(end) < _LONGEST_WAIT_S or steps % 2):  # half an hour is as long as a rank waits
        return 0.0
    near = all(abs(difference - steps * _HALF_HOUR) <= _TOGETHER_S for difference in (begin, end))
    return steps * _HALF_HOUR if near and 0 < abs(steps) <= _FARTHEST else 0.0


def stamp(moment: Moment, year: int, shift: float) -> float:
    """Seconds on the common clock."""
    return moment.seconds(year) + (shift if moment.zone_s is None else 0.0)


def times_of(seen: Iterable[Sighting], shifts: Sequence[float]) -> dict[int, float]:
    """The seconds on the common clock of each sighting that has a time, by its identity.

    What comes before the first stamp of its file has the time of the stamp a few lines below.
    """
    placed = sorted(seen, key=position_of, reverse=True)
    year = max((one.moment.year or 0 for one in placed if one.moment), default=0) or 2000
    times: dict[int, float] = {}
    below: Sighting | None = None
    for one in placed:
        if one.moment:
            times[id(one)], below = stamp(one.moment, year, shifts[one.file]), one
        elif below and below.file == one.file and below.line - one.line <= NEIGHBOURS:
            times[id(one)] = times[id(below)]
    return times


def attribute(sightings: Iterable[Sighting], files: Sequence[FileRead], nodes: Sequence[str | None]) -> list[Sighting]:
    """Each sighting with its source: its own, that of the file name, or that of a nearby line.

    What the only process of a file reports near an exception of its only rank is part of that exception.
    """
    seen = sorted(sightings, key=lambda one: (one.file, one.offset))
    names = [source_of_file(file.name) for file in files]
    folders, addresses = _same_nodes(seen, names, nodes)
    nodes = [
        addresses.get(name.pid or 0, node) if node is None else node for name, node in zip(names, nodes, strict=True)
    ]
    seen = [_on_node(one, folders.get(one.source.node or "", one.source.node)) for one in seen]
    ranks = {
        (one.source.node or nodes[one.file], one.source.pid): one.source.rank
        for one in seen
        if one.source.pid and one.source.rank is not None
    }
    several = len({one.source.node or nodes[one.file] for one in seen}) > 1
    attributed = []
    for file, group in groupby(seen, key=lambda one: one.file):
        inside = list(group)
        alone = len({one.source.pid for one in inside if one.source.pid}) == 1
        told = [one for one in inside if one.source.rank is not None]
        only = told[0].source.rank if len({one.source.rank for one in told}) == 1 else None
        for one in inside:
            source = one.source if one.source.known else names[file]
            if not source.known:
                near = [other for other in inside if other.source.known and abs(other.line - one.line) <= NEIGHBOURS]
                nearest = min(near, key=lambda other: abs(other.line - one.line), default=None)
                source = nearest.source if nearest else source
            node = source.node or one.source.node or nodes[file]
            if source.rank is None and source.pid is not None and (node, source.pid) in ranks:
                source = Source(ranks[node, source.pid], None, source.pid)
            elif alone and source.rank is None and source.worker is None:
                is_near = any(_is_near(one, each) for each in told)
                rank = names[file].rank if names[file].rank is not None else only if is_near else None
                source = source if rank is None else Source(rank, None, source.pid)
            source = replace(source, node=node if several else None)
            attributed.append(replace(one, source=source))
    return attributed


def _is_near(one: Sighting, other: Sighting) -> bool:
    """Whether a report is a few lines from another one, and not minutes later."""
    apart_s = abs(one.moment.second - other.moment.second) if one.moment and other.moment else 0.0
    return abs(one.line - other.line) <= NEIGHBOURS and apart_s < _MINUTE_S


def _on_node(one: Sighting, node: str | None) -> Sighting:
    return one if one.source.node == node else replace(one, source=replace(one.source, node=node))


def _same_nodes(
    seen: Iterable[Sighting], names: Sequence[Source], nodes: Sequence[str | None]
) -> tuple[Mapping[str, str], Mapping[int, str]]:
    """The folder of each node that lines name by its address, and the address of each process in files of no folder.

    Ray's driver prints the lines of all workers with their addresses, and each worker has a file of its own as well,
    named after its process: where both show the same failures of the same processes, they are one node.
    """
    told: dict[str, set[tuple[int, str]]] = {}
    filed: dict[str | None, set[tuple[int, str]]] = {}
    for one in seen:
        pid = names[one.file].pid
        if one.source.node and one.source.pid:
            told.setdefault(one.source.node, set()).add((one.source.pid, one.found.by))
        elif pid:
            filed.setdefault(nodes[one.file], set()).add((pid, one.found.by))
    folders: dict[str, str] = {}
    addresses: dict[int, str] = {}
    for address, marks in told.items():
        shared = {folder: len(marks & own) for folder, own in filed.items() if marks & own}
        best = [folder for folder, count in shared.items() if count == max(shared.values())]
        if len(best) == 1 and best[0] is not None:
            folders[address] = best[0]
        elif len(best) == 1:
            addresses.update((pid, address) for pid, _ in marks & filed[None])
    return folders, addresses
