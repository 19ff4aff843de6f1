"""A smoke run in progress: options, stages of the ranks, losses, bandwidths, and the verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from npudoctor.records import record, replace
from npudoctor.tui.model.diagnosis import State, about, worth

if TYPE_CHECKING:
    from npudoctor.smoke.events import SmokeReport
    from npudoctor.tui.model.session import Session

DEVICES = ("npu", "cpu")
PLAYED = 10.0
"""Speed-up at which a recorded or simulated run is replayed."""


class CannotSmoke(Exception):
    """The run cannot start; the text says why and what to do."""


@record(frozen=True, kw_only=True)
class Choice:
    """The options of a run. `cards` is text such as `0,1`, empty for all idle NPUs; `ranks` is 0 for one per device."""

    device: str = "npu"
    cards: str = ""
    ranks: int = 0
    size: str = "small"
    launcher: str = "direct"

    def next(self, field: str) -> Choice:
        """A copy with the next value of a field."""
        values = choices(field)
        place = values.index(getattr(self, field)) if getattr(self, field) in values else -1
        return replace(self, **{field: values[(place + 1) % len(values)]})


def choices(field: str) -> Sequence[Any]:
    """The values of a field."""
    from npudoctor.smoke import plan

    known: dict[str, Sequence[Any]] = {
        "device": DEVICES,
        "size": tuple(plan.SIZES),
        "launcher": tuple(plan.LAUNCHERS),
        "ranks": (0, 1, 2, 4, 8, 16),
    }
    return known[field]


@record(frozen=True)
class Rank:
    """One rank: its state in each stage that it has entered, and its outcome."""

    number: int
    device: str = ""
    stages: tuple[tuple[str, State], ...] = ()
    loss: float | None = None
    step: int = 0
    failed: str | None = None

    def at(self, stage: str) -> State:
        """The state of a stage."""
        return dict(self.stages).get(stage, State.PENDING)


_STATES = {"running": State.RUNNING, "ok": State.OK, "failed": State.ERROR, "skipped": State.SKIPPED}


class SmokeRun:
    """Follows the events of one run."""

    def __init__(self) -> None:
        self.ranks: dict[int, Rank] = {}
        self.losses: dict[int, list[float]] = {}
        self.bandwidths: list[tuple[int, float]] = []
        self.said: list[str] = []
        self.problems: list[str] = []
        self.headline = ""
        self._prefix = ""
        self.report: SmokeReport | None = None
        self.state = State.PENDING

    @property
    def mean_losses(self) -> list[float]:
        """The mean over the ranks, by step, up to the last step that all have reached."""
        rows = [row for row in self.losses.values() if row]
        return [sum(step) / len(step) for step in zip(*rows, strict=False)] if rows else []

    def take(self, event: Any) -> None:
        """Update the state from an event."""
        getattr(self, f"_on_{event.event.replace('-', '_')}", lambda _: None)(event)

    def _on_planned(self, event: Any) -> None:
        from npudoctor.smoke.events import STAGES

        self.state = State.RUNNING
        self._prefix = "simulated: " if event.simulated else ""
        self.headline = (
            f"{self._prefix}{event.world_size} ranks on {event.device} over {event.backend}, {event.launcher}"
        )
        self.said += event.notes
        without = tuple((stage, State.SKIPPED) for stage in STAGES if stage not in event.deadlines_s)
        for one in event.ranks:
            place = (one.card or one.device).replace("/chip:", ".")
            self.ranks[one.rank] = Rank(one.rank, place, without)

    def _on_rank_stage(self, event: Any) -> None:
        rank = self.ranks.get(event.rank, Rank(event.rank))
        stages = {**dict(rank.stages), event.stage: _STATES[event.outcome.value]}
        self.ranks[event.rank] = replace(rank, stages=tuple(stages.items()))

    def _on_loss(self, event: Any) -> None:
        rank = self.ranks.get(event.rank, Rank(event.rank))
        self.ranks[event.rank] = replace(rank, loss=event.loss, step=event.step)
        if event.loss is not None:
            self.losses.setdefault(event.rank, []).append(event.loss)

    def _on_bandwidth(self, event: Any) -> None:
        self.bandwidths.append((event.size_bytes, event.bus_gb_s))

    def _on_rank_failed(self, event: Any) -> None:
        rank = self.ranks.get(event.rank, Rank(event.rank))
        said = event.message or event.last_line or event.signal or event.cause.value
        stages = {**dict(rank.stages), event.stage: State.ERROR}
        self.ranks[event.rank] = replace(rank, failed=said, stages=tuple(stages.items()))

    def _on_said(self, event: Any) -> None:
        self.said.append(event.text)

    def _on_judged(self, event: Any) -> None:
        self.problems += [f"{about(finding)} ({event.result.check})" for finding in worth(event.result)]

    def _on_done(self, event: Any) -> None:
        from npudoctor.report import smoke

        report = self.report = event.report
        self.state = {"ok": State.OK, "warning": State.WARNING, "error": State.ERROR}.get(
            report.verdict.value, State.CRASHED
        )
        self.headline = f"{self._prefix}{smoke.headline(report)}"

    def mark_stopped(self) -> None:
        """Mark the run as stopped by the user."""
        self.state, self.headline = State.SKIPPED, "stopped; all ranks were ended"


def ticks(values: Sequence[int], count: int = 4) -> list[int]:
    """Ticks of an axis: the first, the last, and a few evenly spaced between them."""
    places = {round((len(values) - 1) * part / (count - 1)) for part in range(count)} if values else ()
    return [values[place] for place in sorted(places)]


def size_text(size_bytes: int) -> str:
    """8 B, 32 KiB, 256 MiB."""
    from npudoctor.report import smoke

    return smoke.size_text(size_bytes)


def run(session: Session, choice: Choice, stop: threading.Event) -> Iterator[Any]:
    """The events of a run; ends all ranks when `stop` is set. Raises CannotSmoke before anything is started.

    Raises ReadOnly: the ranks allocate memory on the devices.
    """
    session.must_allow_changes()
    from npudoctor.smoke import plan
    from npudoctor.smoke import session as smoke

    node = session.node
    with session.judging() as host:
        live = host.about.source == "live"
        work = smoke.Session(
            catalog=node.catalog,
            host=host,
            request=plan.Request(
                device="cpu" if choice.device == "cpu" else "npu",
                cards=_numbers(choice.cards),
                ranks=choice.ranks or None,
                size=choice.size,
                launcher=choice.launcher,
            ),
            options=node.selection.options,
            fail_on=node.selection.fail_on,
        )
        events = work.run() if live else _pace(work.play(), stop)
        try:
            for event in events:
                yield event
                if stop.is_set():
                    return
        except plan.Refused as why:
            raise CannotSmoke(str(why)) from why
        finally:
            if close := getattr(events, "close", None):
                close()


def _pace(events: Iterator[Any], stop: threading.Event) -> Iterator[Any]:
    """Replay events in order, but faster."""
    began = time.monotonic()
    for event in events:
        stop.wait(max(0.0, began + event.at_s / PLAYED - time.monotonic()))
        yield event


def _numbers(text: str) -> tuple[int, ...] | None:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise CannotSmoke(f"expected devices such as 0,1,3, found {text!r}")
    return tuple(sorted({int(part) for part in parts})) or None
