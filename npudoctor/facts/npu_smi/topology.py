"""The matrix of `npu-smi info -t topo`: how each pair of chips is linked, and which CPUs are near each chip."""

from __future__ import annotations

import re
from collections.abc import Mapping

from npudoctor.facts.cells import lines_of, word
from npudoctor.facts.npu_smi.failure import not_a_page
from npudoctor.records import record

_LABEL = re.compile(r"(?:NPU|Phy-ID|NIC)[0-9]{1,9}")
_LINK = re.compile(r"[A-Za-z][\w/+.-]{0,15}|-", re.ASCII)
_CPUS = r"[0-9][0-9,\s-]*"


@record(frozen=True)
class Topology:
    """The links between chips, by the labels that the tool gives them: `NPU0`, on A3 `Phy-ID0`.

    `matrix` has a row for each device, in their order: X for itself, HCCS, HCCS_SW, SIO, PIX, PXB, PHB, SYS, UB, NA, or
    what a newer tool prints. Rows that a cut text lacks at its end are missing; one that it lacks in between is empty.
    `cpu_affinity` holds ranges as printed (`0-63,128-191`), at most 31 characters of them; None where the tool shows
    none, as on an A3 with Arm processors. Network adapters, which the newest tools add, are left out.
    """

    devices: tuple[str, ...]
    matrix: tuple[tuple[str, ...], ...]
    cpu_affinity: Mapping[str, str] | None = None

    def link(self, device: str, peer: str) -> str | None:
        """What links two devices; None where the text does not say."""
        row = dict(zip(self.devices, self.matrix, strict=False)).get(device, ())
        return dict(zip(self.devices, row, strict=False)).get(peer)


def parse_topology(text: str) -> Topology:
    """Read the output of `npu-smi info -t topo`; raises ParseError where it holds no matrix."""
    labels: list[str] = []
    rows: dict[str, list[str]] = {}
    near: dict[str, str] = {}
    lines = lines_of(text)
    for line in lines:
        words = line.split()
        titles = words[:-2] if words[-2:] == ["CPU", "Affinity"] else words
        if titles and all(map(_LABEL.fullmatch, titles)):
            labels, rows, near = list(dict.fromkeys(titles)), {}, {}
        elif words and words[0] in labels:
            device, links, cpus = words[0], words[1 : len(labels) + 1], " ".join(words[len(labels) + 1 :])
            if _fits(links, labels, device) and (re.fullmatch(_CPUS, cpus) or word(cpus) is None):
                rows[device] = links
                near |= {device: cpus} if word(cpus) else {}
    devices = tuple(label for label in labels if not label.startswith("NIC"))
    matrix = [
        tuple(link for link, peer in zip(rows.get(device, ()), labels, strict=False) if peer in devices)
        for device in devices
    ]
    while matrix and not matrix[-1]:
        matrix.pop()
    if not matrix:
        raise not_a_page("there is no matrix of devices", text)
    return Topology(devices, tuple(matrix), {key: near[key] for key in devices if key in near} or None)


def _fits(links: list[str], labels: list[str], device: str) -> bool:
    """Whether a row has a link for each column and stands under its own: a column that is lost would shift it."""
    whole = len(links) == len(labels) and all(map(_LINK.fullmatch, links))
    return whole and links[labels.index(device)] == "X"
