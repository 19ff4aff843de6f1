"""The links between the chips: their kinds, and outliers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from npudoctor.control_characters import all_visible, escape
from npudoctor.records import record

if TYPE_CHECKING:
    from npudoctor.tui.model.session import Session

KINDS = {
    "X": ("X", "the chip itself"),
    "HCCS": ("H", "Huawei link between chips"),
    "HCCS_SW": ("H", "Huawei link, through a switch"),
    "SIO": ("S", "between the two chips of one NPU"),
    "UB": ("U", "unified bus"),
    "PIX": ("P", "PCIe, through one switch"),
    "PXB": ("B", "PCIe, through several switches"),
    "PHB": ("R", "PCIe, through the CPU's root complex"),
    "SYS": ("Y", "PCIe and the link between CPU sockets: the slowest path"),
    "NA": ("-", "no known link"),
}
"""A letter and a meaning for every link type of npu-smi."""


@record(frozen=True)
class Grid:
    """The matrix. `odd` holds the cells that differ from those of the other chips, or from their mirror."""

    devices: tuple[str, ...] = ()
    matrix: tuple[tuple[str, ...], ...] = ()
    near: tuple[str, ...] = ()
    odd: frozenset[tuple[int, int]] = frozenset()
    problems: tuple[str, ...] = ()
    reason: str | None = None

    def letter(self, row: int, column: int) -> str:
        """One letter for a cell."""
        link = self.link(row, column)
        return KINDS.get(link, (link[:1] or "?", ""))[0]

    def link(self, row: int, column: int) -> str:
        """The link as npu-smi names it."""
        return self.matrix[row][column] if row < len(self.matrix) and column < len(self.matrix[row]) else "NA"

    def sentence(self, row: int, column: int) -> str:
        """The description of a cell."""
        link = self.link(row, column)
        meaning = KINDS.get(link, ("", "unknown link type"))[1]
        if row == column:
            return f"{self.devices[row]}: {meaning}"
        odd = "differs from the others: " if (row, column) in self.odd else ""
        return f"{self.devices[row]} → {self.devices[column]}: {link}, {odd}{meaning}"

    def legend(self) -> list[tuple[str, str, str, int]]:
        """Letter, name, meaning and count of every link type present, the most frequent first."""
        links = Counter(link for number, row in enumerate(self.matrix) for at, link in enumerate(row) if at != number)
        return [(*_kind(link), count // 2 or count) for link, count in links.most_common()]


def _kind(link: str) -> tuple[str, str, str]:
    letter, meaning = KINDS.get(link, (link[:1] or "?", "unknown link type"))
    return letter, link, meaning


def grid(session: Session) -> Grid:
    """From the facts of the last run."""
    from npudoctor.facts.npu_smi import Topology
    from npudoctor.host import Unavailable

    found = session.facts.get(Topology)
    if not isinstance(found, Topology):
        reason = found.reason if isinstance(found, Unavailable) else "links are not collected yet"
        return Grid(reason=escape(reason))
    affinity = found.cpu_affinity or {}
    return Grid(
        devices=all_visible(found.devices),
        matrix=all_visible(found.matrix),
        near=tuple(escape(affinity.get(device, "")) for device in found.devices),
        odd=odd_cells(found.matrix),
    )


def odd_cells(matrix: tuple[tuple[str, ...], ...]) -> frozenset[tuple[int, int]]:
    """The cells whose link differs from its mirror, and those of a row that has other links than most rows have."""
    size = len(matrix)
    cells = {(row, at) for row in range(size) for at in range(len(matrix[row])) if at < size and row != at}
    odd = {(row, at) for row, at in cells if row >= len(matrix[at]) or matrix[row][at] != matrix[at][row]}
    kinds = [Counter(link for at, link in enumerate(row) if at != number) for number, row in enumerate(matrix)]
    usual, often = Counter(frozenset(kind.items()) for kind in kinds).most_common(1)[0] if kinds else (frozenset(), 0)
    if often > size / 2:
        common = dict(usual)
        odd |= {(row, at) for row, at in cells if matrix[row][at] not in common}
    return frozenset(odd)
