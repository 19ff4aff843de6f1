"""The application: state shared by all screens, global keys, and a clean exit."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.filter import LineFilter
from textual.screen import Screen
from textual.signal import Signal

from npudoctor.control_characters import escape
from npudoctor.tui import SCREENS, plain, themes
from npudoctor.tui.keyboard import Keyboard
from npudoctor.tui.model import settings
from npudoctor.tui.model.diagnosis import Diagnosis
from npudoctor.tui.model.node import NodeLine
from npudoctor.tui.model.session import Node, NoLogin, Session


def _opening(name: str) -> Callable[[], Screen[Any]]:
    def open_screen() -> Screen[Any]:
        import importlib

        module = importlib.import_module(f"npudoctor.tui.screens.{name.lower()}")
        made: Screen[Any] = getattr(module, name)()
        return made

    return open_screen


def _codes() -> type[Provider]:
    from npudoctor.tui.palette import Codes  # late: the first frame does not need it

    return Codes


class DoctorApp(Keyboard):
    """`npudoctor` on a terminal."""

    TITLE = "npudoctor"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = True
    MODES = {name.lower(): _opening(name) for name in SCREENS}  # noqa: RUF012 - declared by Textual
    DEFAULT_MODE = "overview"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (140, "-wide")]  # noqa: RUF012 - declared by Textual
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"go('{name.lower()}')", label, show=False)
            for number, (name, label) in enumerate(SCREENS.items(), 1)
        ),
        Binding("r", "rerun", "Re-check"),
        Binding("e", "next_login", "Next login", tooltip="Judge the next login, or this process"),
        Binding("w", "save", "Save"),
        Binding("t", "next_theme", "Theme", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]

    COMMANDS = Keyboard.COMMANDS | {_codes}

    labels: Mapping[str, str] = SCREENS

    def __init__(self, load: Callable[[], Node], read_only: str | None = None, screen: str | None = None) -> None:
        super().__init__()
        self._first = {label.lower(): name.lower() for name, label in SCREENS.items()}.get(screen or "")
        self.settings = settings.load()
        self.session = Session(load, read_only)
        self.diagnosis = Diagnosis()
        self.node_line = NodeLine()
        self.planning = False
        self.changed_node = False
        self._once_more = False
        self._plain = (plain.Visible(), plain.Ascii()) if plain.ascii_only() and not self.is_web else (plain.Visible(),)
        self.changed: Signal[None] = Signal(self, "diagnosis changed")
        for theme in themes.themes():
            self.register_theme(theme)
        wanted = themes.MONO if self.no_color else self.settings.theme
        self.theme = wanted if wanted in themes.NAMES else themes.DARK

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, then those of control characters and, where the terminal requires it, of non-ASCII."""
        return [*super().get_line_filters(), *self._plain]

    # Lifecycle

    def on_mount(self) -> None:
        """Show the overview, and run the checks once it is on the screen."""
        self.listen(lambda: self.changed.publish(None))
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.leave, 128 + number)
        self.call_after_refresh(self.set_timer, 0.01, self.action_rerun)
        if self._first:
            self.call_after_refresh(self.action_go, self._first)

    async def action_quit(self) -> None:
        """Leave; where a run is in progress, ask first."""
        if not self.in_progress:
            self.leave(0)
            return
        from npudoctor.tui.screens.leave import Leave

        if not isinstance(self.screen, Leave):
            self.push_screen(Leave(self.in_progress))

    @property
    def in_progress(self) -> str:
        """What leaving would stop: a change, or a smoke run; empty where nothing is lost."""
        screens = (screen for mode in self.MODES for screen in self._stack_of(mode))
        return next((said for screen in screens if (said := getattr(screen, "in_progress", ""))), "")

    def _stack_of(self, mode: str) -> list[Screen[Any]]:
        try:
            return self.get_screen_stack(mode)
        except KeyError:  # not opened yet
            return []

    # The run

    def action_rerun(self) -> None:
        """Run the checks again."""
        if not self.diagnosis.running:
            self.diagnosis.running = True
            self.beside(self._run)

    def action_next_login(self) -> None:
        """Judge the environment of the next login, or that of this process again."""
        if not self.diagnosis.running:
            self.judge(at_login=not self.session.at_login)

    def label_of(self, binding: Binding) -> str:
        """What a key does now, in a few words."""
        turned = binding.action == "next_login" and self.session.at_login
        return "This login" if turned else binding.description

    def judge(self, *, at_login: bool) -> None:
        """Run the checks in the environment of the next login, or in that of this process."""
        if at_login != self.session.at_login:
            self.diagnosis.forget_smoke()
        self.session.at_login = at_login
        self._once_more = self.diagnosis.running  # what runs now began before
        self.action_rerun()

    def _run(self) -> None:
        from functools import partial

        try:
            self._run_checks()
        except NoLogin as why:
            said = f"the environment of the next login is unknown: {escape(str(why))}"
            self.tell(partial(self.notify, said, severity="warning", markup=False))
            self._run_checks()

    def _run_checks(self) -> None:
        from functools import partial

        from npudoctor.tui.model import node, running

        self.tell(self.diagnosis.begin, running.checks(self.session))
        changes, booted_at = self.session.changes()
        pending = "" if self.session.read_only else self.session.node.pending()
        with self.session.judging():  # raises NoLogin before a check runs
            at_login = self.session.at_login
        self.tell(partial(self.diagnosis.know, changes, booted_at, at_login=at_login, pending=pending))
        with self.session.looking() as host:
            about = host.about
        badge = node.badge(about.source, about.recorded_at, at_login=at_login)
        line = NodeLine(hostname=escape(about.hostname), badge=escape(badge))
        self.tell(self._show_node, line)
        for event in self.session.run():
            self.tell(self.diagnosis.take, event)
        self.tell(self._end_app)

    def after_change(self, resolves: Iterable[str], *, next_login: bool) -> None:
        """Re-check a changed node, where the fix needs it in the environment of the next login."""
        self.changed_node = True
        self.diagnosis.forget_smoke()
        self.diagnosis.previewed.difference_update(resolves)
        self.judge(at_login=self.session.at_login or next_login)

    def _show_node(self, line: NodeLine) -> None:
        if not self.node_line.chain:
            self.node_line = line

    def _end_app(self) -> None:
        self.screen.refresh_bindings()
        from npudoctor.tui.model import node

        self.node_line = node.line(self.session, self.diagnosis)
        if not self.is_headless:
            gc.freeze()  # objects of now stay; scanning them again and again would delay keys
        gc.enable()
        if self._once_more:
            self._once_more = False
            self.action_rerun()

    # Keys

    def action_go(self, name: str) -> None:
        """Show another screen."""
        if len(self.screen_stack) == 1 and self.current_mode != name:
            self.switch_mode(name)

    def delay_update(self, delay: float = 0.01) -> None:
        """Use a shorter delay than Textual's, which is five times as long and noticeable at every key."""
        super().delay_update(delay)

    def look_at(self, check: str | None) -> None:
        """Show a check on the overview."""
        self.action_go("overview")
        self.call_later(lambda: self.screen.run_action(f"look_at({check!r})"))

    def explain(self, *names: str) -> None:
        """Show what codes, known issues or checks mean."""
        from npudoctor.tui.screens.explain import Explain

        self.push_screen(Explain(self, names))

    def preview_fix(self, check: str) -> None:
        """Preview the fix of a check."""
        from npudoctor.tui.screens.fix import open_fix

        open_fix(self, (check,))

    def show_variable(self, name: str) -> None:
        """Show a variable on its screen."""
        self.action_go("environment")
        self.call_later(lambda: self.screen.run_action(f"show({name!r})"))

    def action_next_theme(self) -> None:
        """Switch to the next theme."""
        self.choose_theme(themes.NAMES[(themes.NAMES.index(self.theme) + 1) % len(themes.NAMES)])

    def choose_theme(self, name: str) -> None:
        """Apply a theme, and remember it."""
        self.theme = name
        self.remember(theme=name)

    def remember(self, **choices: Any) -> None:
        """Save the settings; in a read-only session keep them until it ends."""
        self.settings = self.settings.with_values(**choices)
        if not self.session.read_only:
            settings.save(self.settings)

    def action_help(self) -> None:
        """The keys."""
        from npudoctor.tui.screens.help import Help

        name = type(self.screen).__name__
        self.push_screen(Help(self.screen, self.labels.get(name, name), read_only=self.session.read_only))

    def action_save(self) -> None:
        """Write a report or a recording."""
        from npudoctor.tui.screens.save import Save

        self.push_screen(Save())

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action, for the palette."""
        from npudoctor.tui.palette import commands

        return commands(self, screen)
