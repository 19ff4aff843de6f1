"""A run of many nodes as the screens show it: one cell a node, what concerns it, groups, numbers, and the rail map."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from npudoctor.compare.features import by_number
from npudoctor.control_characters import all_visible
from npudoctor.records import field, record, replace
from npudoctor.tui.model.diagnosis import Diagnosis, Headline, State
from npudoctor.tui.model.node import Joint, NodeLine

if TYPE_CHECKING:
    from npudoctor.findings import Finding, Report, Result
    from npudoctor.fleet.digest import Digest
    from npudoctor.fleet.merge import Fleet
    from npudoctor.fleet.verdict import FleetReport, GroupRow, NodeRow

WORDS = {
    ".": "ok",
    "w": "warnings",
    "E": "errors",
    "u": "undetermined",
    "~": "unlike others",
    "?": "not answered",
    "-": "not asked",
}
"""The letters of the grid."""
BINS = 40
"""The number of intervals of a distribution."""
MOST_DIFFERENCES = 200
"""So many differences of a group are listed; the others are counted."""
_STATES = {"ok": State.OK, "warning": State.WARNING, "error": State.ERROR, "undetermined": State.CRASHED}


@record(frozen=True)
class Cell:
    """One node in the grid: its letter, what concerns it, and all of that as text for the filter."""

    name: str
    letter: str
    about: str
    findings: tuple[tuple[str, Finding], ...] = ()
    text: str = ""

    def matches(self, words: Sequence[str]) -> bool:
        """Whether all words are in its text."""
        return all(word in self.text for word in words)


class FleetDiagnosis(Diagnosis):
    """The verdict on many nodes; `members` are their answers, None until they are read."""

    def __init__(self) -> None:
        super().__init__()
        self.verdict: FleetReport | None = None
        self.members: Fleet | None = None
        self.cells: tuple[Cell, ...] = ()
        self.differences: dict[str, list[Difference]] = {}
        self.numbers: tuple[Numbers, ...] = ()
        self.rails = Rails()

    def take_members(self, members: Fleet) -> None:
        """Take the answers; slow for thousands of nodes."""
        self.differences, self.numbers, self.rails = differences(members), tuple(numbers(members)), rails(members)
        self.members = members

    def show(self, verdict: FleetReport) -> None:
        """Take a verdict."""
        from npudoctor.fleet.page import listed_findings

        self.verdict, self.report = verdict, verdict.report
        self.results = {result.check: result for result in verdict.report.results}
        concerned: dict[str, list[tuple[str, Finding]]] = {}
        for result, finding in listed_findings(verdict):
            for name in finding.params.get("nodes", ()):
                concerned.setdefault(str(name), []).append((result.check, finding))
        self.cells = tuple(_cell(row, concerned.get(row.name, ())) for row in verdict.nodes)

    def headline(self) -> Headline:
        """How many answered, and how many of them have problems."""
        if self.verdict is None:
            return Headline(state=State.RUNNING, text="reading the answers")
        from npudoctor.fleet.page import headline

        return Headline(state=_STATES[self.verdict.verdict.value], text=headline(self.verdict))

    def node_line(self, folder: str) -> NodeLine:
        """The head of the screens: the folder, and what nodes in trouble share."""
        if self.verdict is None:
            return NodeLine(hostname=folder)
        causes = self.verdict.causes
        joints = [Joint("cause:", causes[0])] if causes else [Joint(one.name, str(one.nodes)) for one in self._groups()]
        return NodeLine(
            hostname=folder,
            cards=f"{self.verdict.expected:,} node{'s' * (self.verdict.expected != 1)}",
            chain=tuple(joints),
        )

    def _groups(self) -> Sequence[GroupRow]:
        return self.verdict.groups[:3] if self.verdict else ()

    def across(self, cell: Cell) -> list[Result]:
        """The results of checks across nodes that concern a node, with the findings about it alone."""
        ids = dict.fromkeys(check for check, _ in cell.findings if check.startswith("fleet."))
        return [
            replace(self.results[id], findings=tuple(one for check, one in cell.findings if check == id)) for id in ids
        ]

    def nodes_of(self, check: str) -> list[str]:
        """The nodes that the findings of a check are about."""
        result = self.results.get(check)
        named = (finding.params.get("nodes", ()) for finding in (result.open_findings if result else ()))
        return list(dict.fromkeys(str(name) for names in named for name in names))


def _cell(row: NodeRow, concerned: Sequence[tuple[str, Finding]]) -> Cell:
    from npudoctor.fleet.outcomes import KINDS
    from npudoctor.fleet.page import letter

    mark = letter(row)
    kind = KINDS.get(row.outcome, KINDS["failed"])
    about = [WORDS[mark]]
    if row.verdict is None:
        about = [kind.summary, *([row.detail] if row.detail else []), kind.hint]
    else:
        about += [f"{len(concerned)} finding{'s' * (len(concerned) != 1)}"] if concerned else []
        about += [part for part in (row.group, row.profile, row.user, "in service" if row.in_service else None) if part]
    said = [f"{check} {finding.summary} {finding.code or ''} {finding.hint or ''}" for check, finding in concerned]
    text = " ".join((row.name, row.outcome, *about, *said)).lower()
    return Cell(name=row.name, letter=mark, about=" · ".join(about), findings=tuple(concerned), text=text)


# The grid


@record(frozen=True)
class Segment:
    """Neighbouring cells of one line: the index of the first one, how many, and the label before them."""

    label: str
    first: int
    count: int


@record(frozen=True)
class Layout:
    """Lines of (column, segment). `step` is the width of a cell, `label` that of labels."""

    lines: tuple[tuple[tuple[int, Segment], ...], ...] = ()
    step: int = 2
    label: int = 0
    places: dict[int, tuple[int, int]] = field(default_factory=dict)


def rack_of(name: str) -> str:
    """What the name of a node says before its last part: `r01` of r01n0003; empty for a plain number."""
    word = name.partition(".")[0]
    kind = word.rstrip(string.digits)
    before = kind.rstrip(string.ascii_letters)
    if word == kind or kind == before:
        return ""
    rack = before[:-1] if before[-1:] in ("-", "_") else before
    unit = rack.rstrip(string.digits)
    return rack if unit != rack and unit[-1:] in tuple(string.ascii_letters) else ""


def layout(names: Sequence[str], width: int, height: int) -> Layout:
    """Racks below and beside each other, or one block; narrow cells where wide ones do not fit the height."""
    racks: list[tuple[str, int, int]] = []
    for place, name in enumerate(names):
        rack = rack_of(name)
        if racks and racks[-1][0] == rack:
            racks[-1] = (rack, racks[-1][1], racks[-1][2] + 1)
        else:
            racks.append((rack, place, 1))
    in_racks = 2 <= len(racks) <= len(names) / 2
    found = Layout()
    for step in (2, 1):
        found = _in_racks(racks, width, step) if in_racks else _in_a_block(names, width, step)
        if len(found.lines) <= height:
            break
    return found


def _in_racks(racks: Sequence[tuple[str, int, int]], width: int, step: int) -> Layout:
    label = min(max(len(rack) for rack, _, _ in racks), 16) + 1
    most = max(1, min(max(count for _, _, count in racks), (width - label) // step))
    segments = [
        Segment(rack[-label + 1 :] if start == 0 else "", first + start, min(most, count - start))
        for rack, first, count in racks
        for start in range(0, count, most)
    ]
    column = label + most * step + 2
    columns = max(1, (width + 2) // column)
    deep = -(-len(segments) // columns)
    lines = [[(at // deep * column, segments[at]) for at in range(row, len(segments), deep)] for row in range(deep)]
    return _place(lines, step, label)


def _in_a_block(names: Sequence[str], width: int, step: int) -> Layout:
    label = min(max((len(name) for name in names), default=0), 20) + 1
    most = max((width - label) // step, 1)
    most -= most % 8 if most > 8 else 0
    starts = range(0, len(names), most)
    lines = [[(0, Segment(names[at][: label - 1], at, min(most, len(names) - at)))] for at in starts]
    return _place(lines, step, label)


def _place(lines: Sequence[Sequence[tuple[int, Segment]]], step: int, label: int) -> Layout:
    places = {
        segment.first + number: (row, column + label + number * step)
        for row, segments in enumerate(lines)
        for column, segment in segments
        for number in range(segment.count)
    }
    return Layout(lines=tuple(map(tuple, lines)), step=step, label=label, places=places)


# Groups, numbers, rails


@record(frozen=True)
class Difference:
    """What a group does not have alike: the value of most nodes, and (value, names) of the others."""

    title: str
    norm: str | None
    others: tuple[tuple[str, tuple[str, ...]], ...]


def differences(fleet: Fleet) -> dict[str, list[Difference]]:
    """What differs within each group, by its name."""
    from npudoctor.fleet.checks._shared import names, value_text
    from npudoctor.fleet.merge import feature_splits

    found: dict[str, list[Difference]] = {}
    for one in feature_splits(fleet, lambda _: True):
        others = tuple((value_text(value), names(having)) for value, having in one.others)
        norm = None if one.norm is None else value_text(one.norm)
        found.setdefault(one.group, []).append(all_visible(Difference(one.title, norm, others)))
    return found


@record(frozen=True)
class Numbers:
    """The distribution of one measure in one group: `counts` of equal intervals from the least to the most."""

    measure: str
    group: str
    condition: str
    unit: str
    nodes: int
    least: float
    middle: float
    most: float
    counts: tuple[int, ...]


def numbers(fleet: Fleet) -> Iterator[Numbers]:
    """The measured numbers of all nodes, by group, measure and condition."""
    for group, members in fleet.groups.items():
        rows: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
        for member in members:
            for measure, one in member.measures.items():
                key = (measure, one.condition, one.unit)
                rows.setdefault(key, []).extend((member.name, value) for value in one.values.values())
        for (measure, condition, unit), told in sorted(rows.items()):
            values = [value for _, value in told]
            if not values:
                continue
            least, most = min(values), max(values)
            bins = Counter(min(int((value - least) / ((most - least) or 1) * BINS), BINS - 1) for value in values)
            yield Numbers(
                measure=measure,
                group=group,
                condition=condition,
                unit=unit,
                nodes=len({name for name, _ in told}),
                least=least,
                middle=median(values),
                most=most,
                counts=tuple(bins[place] for place in range(BINS)),
            )


@record(frozen=True)
class Rails:
    """Switches by NPU index: how many cables, and the wrong ones as (switch, NPU) with node names."""

    devices: tuple[int, ...] = ()
    switches: tuple[tuple[str, tuple[int, ...]], ...] = ()
    wrong: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)


def rails(fleet: Fleet) -> Rails:
    """Which switch has the NPUs of which index, by LLDP."""
    from npudoctor.fleet.checks.network import cables_of, misplaced_cables

    cables = cables_of(fleet)
    devices = tuple(sorted({device for _, device, _ in cables}))
    counts = Counter((switch, device) for _, device, switch in cables)
    wrong: dict[tuple[str, int], tuple[str, ...]] = {}
    for name, device, switch in dict.fromkeys(cable for rows, _ in misplaced_cables(cables) for cable in rows):
        wrong[switch, device] = (*wrong.get((switch, device), ()), name)
    ordered = sorted({switch for _, _, switch in cables}, key=by_number)
    rows = tuple((switch, tuple(counts[switch, device] for device in devices)) for switch in ordered)
    return Rails(devices=devices, switches=rows, wrong=wrong)


# One node


def diagnosis_of(report: Report, across: Sequence[Result] = ()) -> Diagnosis:
    """A stored report as the screens of a node show it, with results of checks across nodes."""
    found = Diagnosis()
    found.results = {result.check: result for result in (*report.results, *across)}
    found.report = report
    return found


_JOINTS = (
    ("driver", "driver version", "driver.installed"),
    ("CANN", "CANN", "cann.driver"),
    ("torch_npu", "package torch-npu", "python.cann-pairing"),
    ("torch", "package torch", "python.pairing"),
)


def line_of(digest: Digest, name: str) -> NodeLine:
    """The head of the screen of one node."""
    report, identity = digest.report, digest.identity
    told = {title: ", ".join(values) for _, title, values in digest.features}
    statuses = {result.check: result.status.value for result in report.results}
    seen = max(identity.visible.values(), default=0)
    state = {True: "in service", False: "idle"}.get(report.in_service) if report.in_service is not None else None
    system = (state, told.get("operating system"), report.host.machine, identity.user and f"as {identity.user}")
    return all_visible(
        NodeLine(
            hostname=name,
            cards=f"{seen} × {identity.product}" if seen else identity.product,
            system=tuple(part for part in system if part),
            badge=f"STORED {report.started_at[:10]}",
            chain=tuple(
                Joint(title, told.get(feature), check, statuses.get(check) == "error")
                for title, feature, check in _JOINTS
            ),
            state=state or "",
        )
    )


def walk(size: int, start: int, wanted: Callable[[int], bool]) -> Iterator[int]:
    """The places after this one, around the end, that are wanted."""
    return (place % size for place in range(start + 1, start + size + 1) if size and wanted(place % size))
