"""The chips as they are now, one row each, and how often they may be asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from npudoctor import clock
from npudoctor.control_characters import all_visible
from npudoctor.records import record
from npudoctor.tui.model.diagnosis import Diagnosis, State, worth

if TYPE_CHECKING:
    from npudoctor.chip_problems import Problem
    from npudoctor.facts.node.chips import NodeChip
    from npudoctor.tui.model.session import Session

PAST = 60
"""How many readings are kept for the curves."""


@record(frozen=True, kw_only=True)
class Held:
    """A process on a chip. `memory_mb` is in MiB."""

    pid: int
    name: str
    memory_mb: int | None = None
    owner: str | None = None
    command: str = ""
    alive: bool | None = None


@record(frozen=True, kw_only=True)
class ChipRow:
    """One chip as npu-smi shows it now, its processes, and what the checks say of it."""

    chip: NodeChip
    held: tuple[Held, ...] = ()
    link: str | None = None
    firmware: str | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def label(self) -> str:
        """How the row is called: `3`, or `3.1` where its NPU has several chips."""
        return self.chip.subject.removeprefix("npu:").replace("/chip:", ".")

    def state(self, check: str | None = None) -> State:
        """How it stands by all checks, or by one."""
        worst = next((one for one in self.problems if check in (None, one.check)), None)
        return State(worst.severity.value) if worst else State.OK


@record(frozen=True)
class Reading:
    """One reading. `reason` says why there are no rows; `seconds` is how long the tool took."""

    rows: tuple[ChipRow, ...] = ()
    reason: str | None = None
    seconds: float = 0.0
    at: str = ""
    remarks: tuple[str, ...] = ()


class Pace:
    """How long to wait between two readings: the larger of 2 s and five times the last; more where the tool fails."""

    LEAST_S, MOST_S = 2.0, 60.0

    def __init__(self, chosen_s: float | None = None) -> None:
        self.chosen_s = chosen_s
        self._wait_s = chosen_s or self.LEAST_S

    @property
    def wait_s(self) -> float:
        """How long to wait now, in seconds."""
        return self._wait_s

    def record_duration(self, seconds: float, *, failed: bool) -> None:
        """Take note of how long a reading took, in seconds."""
        fitting = max(self.chosen_s, seconds) if self.chosen_s else max(self.LEAST_S, 5 * seconds)
        self._wait_s = min(max(fitting, 2 * self._wait_s) if failed else fitting, self.MOST_S)

    def step(self, way: int) -> None:
        """Poll more (-1) or less (1) often, within the least and the most."""
        steps = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
        now = self.chosen_s or self.LEAST_S
        place = min(range(len(steps)), key=lambda one: abs(steps[one] - now))
        self.chosen_s = steps[max(0, min(place + way, len(steps) - 1))]
        self._wait_s = self.chosen_s


class Curves:
    """The recent AI Core usage of each chip, for the curves."""

    def __init__(self) -> None:
        self._by_chip: dict[str, deque[int]] = {}

    def add(self, reading: Reading) -> None:
        """Keep a reading."""
        for row in reading.rows:
            self._by_chip.setdefault(row.chip.subject, deque(maxlen=PAST)).append(row.chip.aicore_pct or 0)

    def of(self, subject: str) -> tuple[int, ...]:
        """The percentages, oldest first."""
        return tuple(self._by_chip.get(subject, ()))


def read(session: Session, diagnosis: Diagnosis) -> Reading:
    """Ask npu-smi for the table and judge the chips' health anew; takes as long as the tool does."""
    from npudoctor.chip_problems import HEALTH_CHECK, problems
    from npudoctor.facts.node.chips import Chips
    from npudoctor.facts.node.holders import CardHolders
    from npudoctor.facts.npu_smi.probes import NpuSmiAnswer

    at = f"{clock.local():%H:%M:%S}"
    facts, judged = session.ask(NpuSmiAnswer, Chips, CardHolders, check=HEALTH_CHECK)
    answer, chips, holding = facts.get(NpuSmiAnswer), facts.get(Chips), facts.get(CardHolders)
    if not isinstance(answer, NpuSmiAnswer):
        return all_visible(Reading(reason=_why(answer), at=at))
    if answer.info is None or not isinstance(chips, Chips):
        return all_visible(Reading(reason=answer.reason or _why(chips), seconds=answer.seconds, at=at))
    results = {**diagnosis.results, **{result.check: result for result in judged}}.values()
    links, firmware = _links(session), _firmware(session)
    rows = tuple(
        ChipRow(
            chip=chip,
            held=tuple(map(_held, holding.on(chip.npu_id, chip.chip_id))) if isinstance(holding, CardHolders) else (),
            link=links.get(chip.subject),
            firmware=firmware.get(chip.subject),
            problems=problems(results, chip.subject),
        )
        for chip in chips.chips
    )
    return all_visible(Reading(rows=rows, seconds=answer.seconds, at=at, remarks=_remarks(diagnosis)))


def _why(absent: Any) -> str:
    """What replaces a fact, as a clause."""
    return getattr(absent, "reason", None) or "npu-smi could not be asked"


def pages(session: Session, row: ChipRow) -> list[tuple[str, str]]:
    """What the last run of the checks knows of a chip beyond the table: board, memory errors, network port."""
    from npudoctor.facts.by_chip import PerChip
    from npudoctor.facts.npu_smi import Board, Ecc, NpuMemory

    found: list[tuple[str, str]] = []
    boards, ecc, memory = session.known(PerChip[Board]), session.known(PerChip[Ecc]), session.known(PerChip[NpuMemory])
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


def _held(holder: Any) -> Held:
    process = holder.process
    return Held(
        pid=holder.row.pid,
        name=holder.row.name or (process.name if process else "?"),
        memory_mb=holder.row.memory_mb,
        owner=process.username if process else None,
        command=process.command if process else "",
        alive={"live": True, "dead": False}.get(holder.state.value),
    )


def _links(session: Session) -> Mapping[str, str | None]:
    from npudoctor.facts.hccn.card_view import CardLinks

    links = session.known(CardLinks)
    return links.by_subject if links else {}


def _network(session: Session, subject: str) -> list[str]:
    """What is known of a chip's port: link, address, gateway, and whether it reaches its network."""
    from npudoctor.facts.hccn.card_view import CardAddresses, CardLinks, CardNetHealth

    links, addresses = session.known(CardLinks), session.known(CardAddresses)
    health = session.known(CardNetHealth)
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

    match = session.known(FirmwareMatch)
    return {subject: str(version) for subject, version in match.versions.items()} if match else {}
