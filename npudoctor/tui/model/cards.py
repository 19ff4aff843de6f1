"""The chips as they are now, one row each, and how often they may be asked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from npudoctor import clock
from npudoctor.control_characters import all_visible
from npudoctor.records import record
from npudoctor.tui.model.diagnosis import Diagnosis, State, worth
from npudoctor.tui.model.holders import Boxes, Held

if TYPE_CHECKING:
    from npudoctor.chip_problems import Problem
    from npudoctor.facts.node.chips import NodeChip
    from npudoctor.tui.model.session import Session


KEPT_S = 3600
"""The readings of the daemon of so many seconds are shown before those of the screen."""

MOST_KEPT = 4096


@record(frozen=True, kw_only=True)
class ChipRow:
    """One chip as npu-smi shows it now, its processes, and what the checks say of it.

    `checked` says whether its health was judged; `logical` and `physical` are its other numbers, `ecc_errors` its bit
    errors since the driver was loaded, of one and of two bits.
    """

    chip: NodeChip
    held: tuple[Held, ...] = ()
    link: str | None = None
    firmware: str | None = None
    problems: tuple[Problem, ...] = ()
    checked: bool = True
    logical: int | None = None
    physical: int | None = None
    ecc_errors: int | None = None

    @property
    def label(self) -> str:
        """How the row is called: `3`, or `3.1` where its NPU has several chips."""
        return self.chip.subject.removeprefix("npu:").replace("/chip:", ".")

    def state(self, check: str | None = None) -> State:
        """The state by all checks, or by one; PENDING where its health was not judged."""
        worst = next((one for one in self.problems if check in (None, one.check)), None)
        return State(worst.severity.value) if worst else State.OK if self.checked else State.PENDING

    @property
    def identity(self) -> str:
        """Every number of the chip, in one row."""
        chip = self.chip
        numbers = (
            ("NPU", chip.npu_id),
            ("chip", chip.chip_id),
            ("physical", self.physical),
            ("logical", self.logical),
            ("davinci", chip.device),
        )
        return "   ".join(f"{name} {'unknown' if number is None else number}" for name, number in numbers)


@record(frozen=True)
class Reading:
    """One reading. `reason` says why there are no rows; `seconds` is how long the tool, or the library, took."""

    rows: tuple[ChipRow, ...] = ()
    reason: str | None = None
    seconds: float = 0.0
    at: str = ""
    remarks: tuple[str, ...] = ()
    by_library: bool = False


class Pace:
    """How long to wait between two readings: the larger of 2 s and five times the last; more where the tool fails.

    The driver's library is asked each second: no program is started for it.
    """

    LEAST_S, LIBRARY_S, MOST_S = 2.0, 1.0, 60.0

    def __init__(self, chosen_s: float | None = None) -> None:
        self.chosen_s = chosen_s
        self._wait_s = chosen_s or self.LEAST_S

    @property
    def wait_s(self) -> float:
        """How long to wait now, in seconds."""
        return self._wait_s

    def record_duration(self, seconds: float, *, failed: bool, by_library: bool = False) -> None:
        """Take note of how long a reading took, in seconds."""
        least_s = self.LIBRARY_S if by_library else self.LEAST_S
        fitting = max(self.chosen_s, seconds) if self.chosen_s else max(least_s, 5 * seconds)
        self._wait_s = min(max(fitting, 2 * self._wait_s) if failed else fitting, self.MOST_S)

    def step(self, way: int) -> None:
        """Poll more (-1) or less (1) often, within the least and the most."""
        steps = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
        now = self.chosen_s or self.LEAST_S
        place = min(range(len(steps)), key=lambda one: abs(steps[one] - now))
        self.chosen_s = steps[max(0, min(place + way, len(steps) - 1))]
        self._wait_s = self.chosen_s


def read_history(session: Session) -> list[tuple[str, str, tuple[float | None, ...]]]:
    """What the daemon of this node has read of each chip lately, for `Series`; nothing of another node."""
    from npudoctor.daemon import stored

    with session.looking() as host:
        if host.about.source != "live":
            return []
    since = clock.timestamp() - KEPT_S
    found = stored.readings(stored.FOLDER, since=since, most=MOST_KEPT)
    with contextlib.suppress(ValueError, OverflowError, OSError):  # no time that a clock has
        return [(clock.local_minute(at), subject, values) for at, subject, values in found]
    return []


def read(session: Session, diagnosis: Diagnosis) -> Reading:
    """Ask for the table and judge the chips' health anew; takes as long as the library or npu-smi does."""
    from npudoctor.chip_problems import HEALTH_CHECK, problems
    from npudoctor.facts.node.chips import Chips
    from npudoctor.facts.node.holders import CardHolders
    from npudoctor.facts.node.launch import LaunchVariables
    from npudoctor.facts.npu_smi import NpuMap
    from npudoctor.facts.npu_smi.probes import NpuSmiAnswer

    at = f"{clock.local():%H:%M:%S}"
    wanted = (NpuSmiAnswer, Chips, CardHolders, LaunchVariables)
    once = () if NpuMap in session.facts else (NpuMap,)  # it does not change between two runs of checks
    began = time.monotonic()
    facts, judged = session.ask(*wanted, *once, check=HEALTH_CHECK)
    took_s = time.monotonic() - began
    if once and session.facts:
        session.facts[NpuMap] = facts.get(NpuMap)
    answer, chips, holding = facts.get(NpuSmiAnswer), facts.get(Chips), facts.get(CardHolders)
    if not isinstance(answer, NpuSmiAnswer):
        return all_visible(Reading(reason=_why(answer), at=at))
    if answer.info is None or not isinstance(chips, Chips):
        return all_visible(Reading(reason=answer.reason or _why(chips), seconds=answer.seconds, at=at))
    results = {**diagnosis.results, **{result.check: result for result in judged}}.values()
    links, firmware, ecc = _links(session), _firmware(session), _ecc(session)
    numbers, launched = _numbers(session), facts.get(LaunchVariables)
    checked = any(result.status.value in ("ok", "warning", "error", "silenced") for result in judged)
    with session.looking() as host:
        boxes = Boxes(session, host, launched if isinstance(launched, LaunchVariables) else None)
        rows = tuple(
            ChipRow(
                chip=chip,
                held=tuple(_to_held(one, boxes) for one in holding.on(chip.npu_id, chip.chip_id))
                if isinstance(holding, CardHolders)
                else (),
                link=links.get(chip.subject),
                firmware=firmware.get(chip.subject.partition("/")[0]),  # a board has one, for all its chips
                problems=problems(results, chip.subject),
                checked=checked,
                logical=numbers.get((chip.npu_id, chip.chip_id), (None, None))[0],
                physical=numbers.get((chip.npu_id, chip.chip_id), (None, None))[1],
                ecc_errors=ecc.get(chip.subject),
            )
            for chip in chips.chips
        )
    by_library = chips.source == "dcmi"
    seconds = took_s if by_library else answer.seconds
    return all_visible(Reading(rows=rows, seconds=seconds, at=at, remarks=_remarks(diagnosis), by_library=by_library))


def _why(absent: Any) -> str:
    """What replaces a fact, as a clause."""
    return getattr(absent, "reason", None) or "npu-smi could not be asked"


def pages(session: Session, row: ChipRow) -> list[tuple[str, str]]:
    """What the last run of the checks knows of a chip beyond the table: board, memory errors, network port."""
    from npudoctor.facts.by_chip import PerChip
    from npudoctor.facts.npu_smi import Board, Ecc, NpuMemory

    found: list[tuple[str, str]] = []
    boards, ecc, memory = session.fact(PerChip[Board]), session.fact(PerChip[Ecc]), session.fact(PerChip[NpuMemory])
    board = boards.by_subject.get(row.chip.subject.partition("/")[0]) if boards else None
    for title, page, names in (
        ("board", board, ("product_name", "serial_number", "board_id", "slot_id", "firmware_version", "compatibility")),
        ("memory", memory.by_subject.get(row.chip.subject) if memory else None, ("hbm_temp_c", "hbm_clock_mhz")),
        (
            "ECC",
            ecc.by_subject.get(row.chip.subject) if ecc else None,
            ("hbm_single", "hbm_double", "hbm_double_aggregate", "hbm_isolated_pages"),
        ),
    ):
        words = [(name, getattr(page, name, None)) for name in names]
        said = [f"{name.replace('_', ' ')} {value}" for name, value in words if value is not None]
        if said:
            found.append((title, " · ".join(said)))
    if network := _network(session, row.chip.subject):
        found.append(("network", " · ".join(network)))
    return all_visible(found)


def _remarks(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What the checks say of jobs as a whole: one that has more ranks than NPUs."""
    result = diagnosis.results.get("npu.processes")
    return tuple(finding.summary for finding in worth(result) if not finding.chips) if result else ()


def _to_held(holder: Any, boxes: Boxes) -> Held:
    process = holder.process
    pid = process.pid if process else None
    return Held(
        pid=holder.row.pid,
        name=holder.row.name or (process.name if process else "?"),
        memory_mb=holder.row.memory_mb,
        owner=process.username if process else None,
        command=process.command if process else "",
        alive={"live": True, "dead": False}.get(holder.state.value),
        box=boxes.box_of(pid) if pid is not None else "",
        rank=boxes.rank_of(pid) if pid is not None else "",
    )


def _numbers(session: Session) -> dict[tuple[int | None, int | None], tuple[int | None, int | None]]:
    """Logical and physical number by NPU and chip, from `npu-smi info -m`."""
    from npudoctor.facts.npu_smi import NpuMap

    found = session.fact(NpuMap)
    return {(row.npu_id, row.chip_id): (row.logic_id, row.phy_id) for row in found.rows} if found else {}


def _ecc(session: Session) -> dict[str, int]:
    """The bit errors of each chip's HBM, of one and two bits; a chip without a known count is missing."""
    from npudoctor.facts.by_chip import PerChip
    from npudoctor.facts.npu_smi import Ecc

    found = session.fact(PerChip[Ecc])
    pages = found.by_subject.items() if found else ()
    counts = {subject: (page.hbm_single, page.hbm_double) for subject, page in pages}
    return {subject: sum(one or 0 for one in both) for subject, both in counts.items() if both != (None, None)}


def _links(session: Session) -> Mapping[str, str | None]:
    from npudoctor.facts.hccn.card_view import CardLinks

    links = session.fact(CardLinks)
    return links.by_subject if links else {}


def _network(session: Session, subject: str) -> list[str]:
    """What is known of a chip's port: link, address, gateway, and whether it reaches its network."""
    from npudoctor.facts.hccn.card_view import CardAddresses, CardLinks, CardNetHealth

    links, addresses = session.fact(CardLinks), session.fact(CardAddresses)
    health = session.fact(CardNetHealth)
    number = next((id for id, name in links.subjects.items() if name == subject), None) if links else None
    if links is None or number is None:
        return []
    words = [
        ("link", links.statuses.get(number)),
        ("address", addresses.addresses.get(number) if addresses else None),
        ("gateway", addresses.gateways.get(number) if addresses else None),
        ("health", health.statuses.get(number) if health else None),
    ]
    return [f"{name} {value}" for name, value in words if value]


def _firmware(session: Session) -> Mapping[str, str]:
    from npudoctor.facts.driver.firmware_match import FirmwareMatch

    match = session.fact(FirmwareMatch)
    return {subject: str(version) for subject, version in match.versions.items()} if match else {}
