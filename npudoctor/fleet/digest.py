"""What one node answers to the fleet: `npudoctor.node/1`, its report and what is compared across nodes.

Fields may be added in 1.x, never renamed or removed; readers ignore fields that they do not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from npudoctor.findings import Line, Report
from npudoctor.models import Model
from npudoctor.records import field
from npudoctor.value_rules import After

SCHEMA = "npudoctor.node/1"


class Npu(Model):
    """The network port of one device; what is not known is None. `tls` is 1 where the switch is on, `pfc` are the
    priorities with flow control.
    """

    address: Line | None = None
    netmask: Line | None = None
    gateway: Line | None = None
    link: Line | None = None
    tls: int | None = None
    fec: Line | None = None
    pfc: Line | None = None
    speed_mbps: int | None = None
    switch: Line | None = None
    port: Line | None = None
    sdid: int | None = None


class TableServer(Model):
    """One server of the rank table of a node: devices as (device id, address, rank)."""

    id: Line
    devices: tuple[tuple[int | None, Line | None, int | None], ...] = ()


class RankTable(Model):
    """The rank table that a node's job would use; `digest` is the SHA-256 of what it says."""

    path: Line
    digest: Line | None = None
    problem: Line | None = None
    status: Line | None = None
    stated_servers: int | None = None
    servers: tuple[TableServer, ...] = ()


class Identity(Model):
    """Who answered, with which user, and what distinguishes the node from others.

    `visible` are the NPUs by source (pci, nodes, npu_smi): fewer in /dev than on the bus means that some are hidden
    from the cgroup that was asked. `hold` is who holds the node and why; `hold_ignored` names
    a file of a hold that does not count.
    """

    hostname: Line | None = None
    machine_id: Line | None = None
    boot_id: Line | None = None
    user: Line | None = None
    cgroup: Line | None = None
    container: Line | None = None
    source: Line = "live"
    hold: Line | None = None
    hold_ignored: Line | None = None
    product: Line = "no NPU"
    visible: dict[Line, int] = field(default_factory=dict)
    addresses: tuple[Line, ...] = ()
    variables: dict[Line, Line] = field(default_factory=dict)
    nofile: int | None = None
    npus: dict[int, Npu] = field(default_factory=dict)
    super_pod: dict[Line, int] = field(default_factory=dict)
    rank_table: RankTable | None = None


MOST = 1e18
"""No measure is as large."""


def _possible(values: dict[str, float]) -> dict[str, float]:
    """What is not finite, or larger than any measure, is left out: sums and differences stay numbers."""
    return {subject: value for subject, value in values.items() if abs(value) < MOST}


class Measure(Model):
    """Numbers of one kind by subject. `condition` is idle or in service: only equal ones are compared."""

    unit: Line
    condition: Line = "unknown"
    values: Annotated[dict[Line, float], After(_possible)] = field(default_factory=dict)


class Clock(Model):
    """Three readings of (seconds since 1970, seconds of the monotonic clock): at the start, after the checks, at the
    end. `synchronized` is what the time service says."""

    readings: tuple[tuple[float, float], ...] = ()
    timezone: Line | None = None
    synchronized: bool | None = None


class Event(Model):
    """An error in the kernel log of an NPU's driver: its text without numbers, and its time as printed."""

    text: Line
    time: Line | None = None


def _features(rows: Any) -> Any:
    """Rows of a source, a title and values, checked as one: there are hundreds in each of thousands of answers."""
    try:
        made = tuple([(source, title, tuple(values)) for source, title, values in rows])
        "".join([text for source, title, values in made for text in (source, title, *values)])
        if any(isinstance(values, str) for _, _, values in rows):
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError("expected rows of a source, a title and a list of texts") from None
    return made


if TYPE_CHECKING:
    Features = tuple[tuple[str, str, tuple[str, ...]], ...]
else:
    Features = Annotated[Any, After(_features)]


class Digest(Model):
    """The answer of one node. `features` are (source, title, values); `known` the sources that are complete.

    Texts of features are not escaped here, for there are hundreds: what is shown of them enters a finding. `exit_code`
    is that of the check, because an engine may replace the one of the process.
    """

    schema: str = SCHEMA
    tool_version: Line
    name: Line
    exit_code: int
    report: Report
    identity: Identity
    features: Features = ()
    known: tuple[Line, ...] = ()
    measures: dict[Line, Measure] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    events: tuple[Event, ...] = ()
