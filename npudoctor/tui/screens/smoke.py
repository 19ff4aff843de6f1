"""The smoke run: computation and communication of all NPUs."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from npudoctor.records import replace
from npudoctor.tui.marks import GLYPHS, STYLES
from npudoctor.tui.model import smoking
from npudoctor.tui.model.diagnosis import State
from npudoctor.tui.model.session import NoLogin
from npudoctor.tui.model.smoking import Choice, SmokeRun
from npudoctor.tui.screens.node_screen import NodeScreen
from npudoctor.tui.widgets.page import Page, Paragraph

if TYPE_CHECKING:
    from textual_plotext import PlotextPlot

STAGES = ("launch", "rendezvous", "collectives", "bandwidth", "training", "in-sync", "parity", "scaling")
ROOM_FOR_LOSS = 78
"""Least width in columns at which the table of ranks shows the loss."""

_SHORT = ("start", "meet", "coll", "bandw", "train", "sync", "equal", "scale")


class Smoke(NodeScreen):
    """Options, stages of the ranks, and measurements."""

    CSS_PATH = "smoke.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "start", "Start"),
        Binding("x", "stop", "Stop"),
        Binding("c", "copy_shown", "Copy"),
        Binding("d", "choose('device')", "Device", show=False),
        Binding("k", "cards", "NPUs", show=False),
        Binding("n", "choose('ranks')", "Ranks", show=False),
        Binding("z", "choose('size')", "Size", show=False),
        Binding("l", "choose('launcher')", "Launcher", show=False),
        Binding("escape", "no_cards", "Close", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._choice = Choice()
        self._smoke = SmokeRun()
        self._stop: threading.Event | None = None
        self._problem = ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer start while idle, and stop while running."""
        barred = {"start": self._stop is not None, "stop": self._stop is None}
        allowed = super().check_action(action, parameters)
        return None if allowed and barred.get(action) else allowed

    def body(self) -> ComposeResult:
        """The options, the ranks, the plots."""
        from textual_plotext import PlotextPlot

        with Vertical(id="body"):
            yield Static(id="asked")
            yield Input(placeholder="devices such as 0,1,3; empty: all idle ones", id="cards")
            with VerticalScroll(id="pane", can_focus=False):
                yield Page(id="page")
            with Horizontal(id="plots"):
                yield PlotextPlot(id="loss")
                yield PlotextPlot(id="bandwidth")

    @property
    def _narrow(self) -> bool:
        return self.size.width < ROOM_FOR_LOSS

    def on_resize(self, event: events.Resize) -> None:
        """Redraw at the new width."""
        super().on_resize(event)
        if self.query("#asked"):
            self.follow()

    def follow(self) -> None:
        """Show the options."""
        narrow = self._narrow
        names = ("" if narrow else f"{name} " for _, name, _, _ in self._fields())
        values = (value for _, _, value, _ in self._fields())
        asked = [Content.assemble((name, "$muted"), (value, "bold")) for name, value in zip(names, values, strict=True)]
        line = self.query_one("#asked", Static)
        line.update(Content(" · " if narrow else "   ").join(asked))
        line.display = self._smoke.state is not State.PENDING
        self._show()

    def _fields(self) -> list[tuple[str, str, str, str]]:
        choice = self._choice
        return [
            ("d", "device", choice.device, "npu (HCCL), or cpu (gloo)"),
            ("k", "NPUs", choice.cards or "all idle", "devices to use"),
            ("n", "ranks", str(choice.ranks or "one per NPU"), "number of processes"),
            ("z", "size", choice.size, "size of the model"),
            ("l", "launcher", choice.launcher, "how ranks are started"),
            ("e", "in", "next login" if self.doctor.session.at_login else "this process", "environment of the ranks"),
        ]

    # The run

    def action_start(self) -> None:
        """Start a run, unless one is running."""
        if self._stop is None:
            self._stop, self._smoke, self._problem = threading.Event(), SmokeRun(), ""
            self._smoke.state = State.RUNNING
            self._smoke.headline = "selecting NPUs that are idle and have no alarm"
            self._show()
            self.doctor.beside(self._run)

    def _run(self) -> None:
        tell, stop = self.doctor.tell, self._stop
        assert stop is not None
        try:
            for event in smoking.run(self.doctor.session, self._choice, stop):
                tell(self._take, event)
        except (smoking.CannotSmoke, NoLogin) as why:
            tell(self._show_refusal, str(why))
        tell(self._show_end)

    def _take(self, event: object) -> None:
        self._smoke.take(event)

    def _show_refusal(self, why: str) -> None:
        self._smoke, self._problem = SmokeRun(), why

    def _show_end(self) -> None:
        if self._stop is not None and self._stop.is_set():
            self._smoke.mark_stopped()
        elif self._smoke.report is not None:
            self.doctor.diagnosis.smoke = self._smoke.report
        self._stop = None

    @property
    def in_progress(self) -> str:
        """What leaving would stop."""
        return "a smoke run. Leaving stops it." if self._stop is not None else ""

    def on_unmount(self) -> None:
        """Stop the run when the screen closes."""
        if self._stop is not None:
            self._stop.set()

    def action_stop(self) -> None:
        """End all ranks."""
        if self._stop is not None:
            self._stop.set()
            self._smoke.headline = "stopping"
            self._show()

    # Drawing

    def _show(self) -> None:
        smoke = self._smoke
        said: list[Paragraph] = []
        gap = [Paragraph(Content())] * self.app.screen.has_class("-tall")
        if self._problem:
            said.append(Paragraph(Content.styled(self._problem, "bold"), Content.styled("! ", "bold $warning"), "  "))
            said.append(Paragraph(Content()))
        if smoke.state is State.PENDING:
            said += [Paragraph(Content(text)) for text in _ABOUT]
            said += [
                Paragraph(
                    Content.assemble((f"{value:<14}", "bold"), (about, "$muted")),
                    Content.assemble((f"  {key}  ", "bold $accent"), f"{name:<10}"),
                )
                for key, name, value, about in self._fields()
            ]
            if refused := self.doctor.session.read_only:
                said += [Paragraph(Content()), Paragraph(Content.styled(refused, "bold $warning"))]
            else:
                said += [Paragraph(Content()), Paragraph(Content("start, x stop"), _GO)]
        else:
            mark = Content.styled(f"{GLYPHS[smoke.state]} ", STYLES[smoke.state])
            said.append(Paragraph(Content.styled(smoke.headline, "bold"), mark, "  "))
            ready = self.doctor.diagnosis.headline()
            if ready.short:
                said.append(Paragraph(Content.styled(ready.text, "bold $success"), mark, "  "))
            cross = Content.styled("✖ ", "bold $error")
            said += [Paragraph(Content.styled(problem, "bold"), cross, "  ") for problem in smoke.problems]
            said += [*gap, *_ranks(smoke, narrow=self._narrow)]
            said += [
                *gap,
                *(Paragraph(Content.styled(text, "$muted"), "• ", "  ") for text in smoke.said),
            ]
        self.query_one("#page", Page).show(said)
        self._plot()
        self.refresh_bindings()

    def _plot(self) -> None:
        losses, bandwidths = self._smoke.mean_losses, self._smoke.bandwidths
        self.query_one("#plots").set_class(bool(losses or bandwidths), "-there")
        steps = list(range(1, len(losses) + 1))
        self._draw("#loss", "loss by step", steps, losses, [(step, str(step)) for step in smoking.ticks(steps)])
        powers = [math.log2(size) for size, _ in bandwidths]
        sizes = smoking.ticks([size for size, _ in bandwidths])
        marks = [(math.log2(size), smoking.size_text(size)) for size in sizes]
        self._draw("#bandwidth", "bus bandwidth in GB/s by size", powers, [speed for _, speed in bandwidths], marks)

    def _draw(
        self, where: str, title: str, across: Sequence[float], up: Sequence[float], marks: Sequence[tuple[float, str]]
    ) -> None:
        from textual_plotext import PlotextPlot

        widget: PlotextPlot = self.query_one(where, PlotextPlot)
        widget.display = bool(up)
        if up:
            plot = widget.plt
            plot.clear_figure()
            plot.title(title)
            plot.xaxes(False, False)
            plot.yaxes(True, False)
            plot.yfrequency(3)
            plot.xticks([place for place, _ in marks], [text for _, text in marks])
            plot.plot(across, up, marker="braille", color=Color.parse(self.app.theme_variables["accent"]).rgb)
            widget.refresh()

    # Options

    def action_choose(self, field: str) -> None:
        """The next value."""
        if self._stop is None:
            self._choice = self._choice.next(field)
            self.follow()

    def action_cards(self) -> None:
        """Type the devices."""
        field = self.query_one("#cards", Input)
        field.display = True
        self.set_focus(field)

    @on(Input.Submitted, "#cards")
    def action_no_cards(self) -> None:
        """Use the typed devices."""
        field = self.query_one("#cards", Input)
        field.display = False
        self.set_focus(None)
        self._choice = replace(self._choice, cards=field.value)
        self.follow()


_ABOUT = (
    "Trains a tiny model on the NPUs for a few seconds, names the failing rank, and measures the bandwidth between "
    "NPUs. Uses NPUs without jobs or alarms.",
    "",
)
_GO = Content.styled("  g  ", "bold $accent")


def _ranks(smoke: SmokeRun, *, narrow: bool) -> list[Paragraph]:
    widths = [len(name) + 1 if narrow else 6 for name in _SHORT]
    number, device = (3, 8) if narrow else (6, 9)
    head = f"{'#' if narrow else 'rank':<{number}}{'on':<{device}}"
    head += "".join(f"{name:<{width}}" for name, width in zip(_SHORT, widths, strict=True))
    rows = [Paragraph(Content.styled(head if narrow else f"{head}  loss", "$muted"))]
    told = set()
    for rank in smoke.ranks.values():
        line = Content.assemble((f"{rank.number:<{number}}", "bold"), f"{rank.device[: device - 1]:<{device}}")
        for stage, width in zip(STAGES, widths, strict=True):
            state = rank.at(stage)
            line += Content.styled(f"{GLYPHS[state]:<{width}}", STYLES[state])
        line += Content("" if rank.loss is None or narrow else f"  {rank.loss:.4f} at {rank.step}")
        rows.append(Paragraph(line))
        if rank.failed and rank.failed not in told:  # once for all ranks with the same failure
            told.add(rank.failed)
            rows.append(Paragraph(Content.styled(rank.failed, "$error"), "      ", "      "))
    return rows
