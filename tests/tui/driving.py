"""Opens the application on a simulated node and drives it by its keys, without a terminal."""

import contextlib
import re
import string
from collections.abc import Awaitable, Callable
from typing import Any

from textual.css.query import NoMatches
from textual.pilot import Pilot

from npudoctor import plugins
from npudoctor.cli import parser_of
from npudoctor.cli.tui import _node
from npudoctor.selection import Selection
from npudoctor.tui.app import DoctorApp
from npudoctor.tui.loop import Loop
from npudoctor.tui.model.session import Node

FEW = (
    *("npu.present", "npu.count", "npu.health", "npu.temperature", "npu.memory-free", "npu.topology"),
    *("driver.npu-smi", "driver.installed", "driver.firmware", "cann.environment", "cann.single"),
    *("python.pairing", "python.cann-pairing", "hccl.ports-reserved", "hccl.ports-persistent", "system.shm"),
)
"""Checks for the pictures, so that a new one elsewhere changes none of them."""

Driver = Pilot[int]
Play = Callable[[DoctorApp, Driver], Awaitable[None]]


def node_of(*words: str, names: tuple[str, ...] = ()) -> Node:
    """What `npudoctor tui` would look at; only these checks, where any are named."""
    node = _node(parser_of("tui").parse_args(list(words)))
    if not names:
        return node
    selection = Selection(names=names, options=node.selection.options)
    return Node(
        catalog=plugins.load(), selection=selection, open=node.open, words=node.words, plan_setup=node.plan_setup
    )


def play(scenario: str, acts: Play, *, size: tuple[int, int] = (80, 24), names: tuple[str, ...] = FEW) -> DoctorApp:
    """Open the application on a simulated node, wait for the run, and act."""
    return play_on(lambda: node_of("--simulate", scenario, names=names), acts, size=size)


def play_on(
    load: Callable[[], Node], acts: Play, *, size: tuple[int, int] = (80, 24), read_only: str | None = None
) -> DoctorApp:
    """The same on any node."""

    async def run() -> DoctorApp:
        app = DoctorApp(load, read_only)
        async with app.run_test(size=size, notifications=True) as pilot:
            await settled(app, pilot)
            await acts(app, pilot)
        return app

    loop = Loop()
    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


async def settled(app: DoctorApp, pilot: Driver) -> None:
    """Wait until a run has ended and is shown."""
    await until(pilot, lambda: app.diagnosis.report is not None and not app.diagnosis.running and not app._told)
    await pilot.pause()


async def until(pilot: Driver, holds: Callable[[], Any], *, tries: int = 2400) -> None:
    """Wait until something holds, two minutes at most."""
    for _ in range(tries):
        with contextlib.suppress(NoMatches, IndexError):  # of a screen that is not drawn yet
            if holds():
                await pilot.pause()
                return
        await pilot.pause(0.05)
    raise AssertionError(f"it never came; the screen:\n{text(pilot.app)}")


async def press(pilot: Driver, *keys: str) -> None:
    """Press keys one after the other, each acted upon before the next."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


async def press_until(pilot: Driver, key: str, holds: Callable[[], Any]) -> None:
    """Press a key, and again if what it shows for five seconds ended before a busy machine looked."""
    for _ in range(20):
        await press(pilot, key)
        with contextlib.suppress(AssertionError):
            return await until(pilot, holds, tries=100)
    raise AssertionError(f"{key} does not show it; the screen:\n{text(pilot.app)}")


def text(app: Any) -> str:
    """What is on the screen, as lines."""
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in _strips(app))


def picture(app: Any) -> str:
    """The screen as text, and below it how each run of letters looks."""
    letters: dict[str, str] = {}
    looks = []
    for strip in _strips(app):
        line = ""
        for segment in strip:
            key = _look(segment.style)
            line += letters.setdefault(key, (string.ascii_letters + string.digits)[len(letters) % 62]) * len(
                segment.text
            )
        looks.append(re.sub(r"(.)\1+", lambda run: f"{run[1]}{len(run[0])}", line))
    legend = [f"{letter} {look}" for look, letter in letters.items()]
    return "\n".join([text(app), "", *looks, "", *legend]) + "\n"


def _strips(app: Any) -> Any:
    return app.screen._compositor.render_strips()


def _look(style: Any) -> str:
    if style is None:
        return "plain"
    words = [word for word in ("bold", "dim", "reverse", "underline") if getattr(style, word)]
    colours = [colour.triplet.hex if colour and colour.triplet else "-" for colour in (style.color, style.bgcolor)]
    return " ".join([" on ".join(colours), *words])
