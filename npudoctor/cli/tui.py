"""Open the terminal interface: problems, evidence and fixes.

examples:
  npudoctor                             this node
  npudoctor tui --simulate new-node     a simulated one
  npudoctor tui --replay node.tar.gz    a recorded one
  npudoctor tui --fleet RUN             the run folder of npudoctor fleet check
  npudoctor tui --read-only             read-only: no fixes, undo, smoke runs or saving

Without a terminal on stdin and stdout it runs `npudoctor check`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from npudoctor.tui import SCREENS as LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from npudoctor.cli.setup_plan import Prepared
    from npudoctor.config import Config
    from npudoctor.host import Host
    from npudoctor.tui.app import DoctorApp
    from npudoctor.tui.model.session import Node


SCREENS = tuple(label.lower() for label in LABELS.values())


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor tui`."""
    parser.add_argument("--read-only", action="store_true", help="read-only: no fixes, undo, smoke runs or saving")
    parser.add_argument("--fleet", metavar="RUN", help="show a run of npudoctor fleet: a run folder, or answers")
    screens = f"the first screen: {', '.join(SCREENS)} (default: overview)"
    parser.add_argument("--screen", choices=SCREENS, metavar="SCREEN", help=screens)
    from npudoctor.cli import node

    node.add_simulated_state(parser, only_read=False)
    add_arguments(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name what is shown."""
    from npudoctor.cli import node
    from npudoctor.sdk import PROFILES

    parser.add_argument("--profile", choices=PROFILES, help="which checks to run by cost (default: standard)")
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Open it; return the application's exit code."""
    if args.state and not args.simulate:
        from npudoctor.cli.output import UsageError

        raise UsageError("--state requires --simulate")
    if args.fleet is not None:
        return _open_fleet(args)
    if not on_a_terminal():
        from npudoctor.cli.parsing import parser_of

        check = parser_of("check").parse_args(words_of(args))
        check.limit = args.limit
        code: int = check.run(check)
        return code
    return _open(args)


def run_bare() -> int:
    """Open it on this node without parsing options first, so that the first frame appears at once."""
    return _open(None)


def on_a_terminal() -> bool:
    """Whether there is a terminal that can show it, or a browser behind textual-serve."""
    if _in_browser():
        return True
    if sys.stdin is None or sys.stdout is None:  # closed by the parent
        return False
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _in_browser() -> bool:
    return os.environ.get("TEXTUAL_DRIVER", "").startswith("textual.")


def _open(args: argparse.Namespace | None) -> int:
    if args is not None and args.no_color:
        os.environ["NO_COLOR"] = "1"
    from npudoctor.tui.app import DoctorApp

    read_only = None
    if args is not None and args.read_only:
        read_only = f"read-only: started {'without --allow-changes' if _in_browser() else 'with --read-only'}"
    return _run(DoctorApp(lambda: _node(args), read_only, getattr(args, "screen", None)))


def _run(app: DoctorApp) -> int:
    from npudoctor.cli.output import say
    from npudoctor.tui.loop import Loop

    code = int(app.run(loop=Loop()) or app.return_code or 0)
    if app.internal_error:
        say(app.internal_error)
    return code


def _open_fleet(args: argparse.Namespace) -> int:
    """Open a run of many nodes; without a terminal merge it."""
    from npudoctor.cli.output import UsageError

    if other := next((option for option, _ in options_of(args) if option != "plugin"), None):
        raise UsageError(f"--fleet shows stored answers: leave out --{other}")
    if args.screen:
        raise UsageError("--fleet shows stored answers: leave out --screen")
    if not os.path.exists(args.fleet):
        raise UsageError(f"{args.fleet} does not exist")
    if not on_a_terminal():
        from npudoctor.cli.parsing import parser_of

        words = ["merge", args.fleet, *(word for path in args.plugin for word in ("--plugin", path))]
        merge = parser_of("fleet").parse_args(words)
        code: int = merge.run(merge)
        return code
    if args.no_color:
        os.environ["NO_COLOR"] = "1"
    from npudoctor.tui.fleet_app import FleetApp

    return _run(FleetApp([args.fleet], args.plugin))


def _node(args: argparse.Namespace | None) -> Node:
    """The node to show; the slow part, which runs beside the first frame."""
    from npudoctor import plugins
    from npudoctor.cli import node
    from npudoctor.cli.output import UsageError
    from npudoctor.cli.parsing import parser_of
    from npudoctor.host.live import reader
    from npudoctor.selection import Selection
    from npudoctor.tui.model.session import CannotOpen, Node

    if args is None:
        args = parser_of("tui").parse_args([])
    reader.keep()
    try:
        config = node.load_config(args)
        selection = Selection(
            options=node.options(args, config),
            fail_on=config.fail_on,
            severities=config.severity,
            silenced=config.silences_on(),
            deadline_s=config.timeout_s,
        )
        return Node(
            catalog=plugins.load(args.plugin),
            selection=selection,
            open=lambda: _open_node(args, config),
            words=tuple(words_of(args)),
            plan_setup=lambda words: _plan(args, words),
            set_up=partial(_set_up, args) if _is_here(args) else None,
            pending=partial(_pending_option, args) if _is_here(args) else str,
        )
    except UsageError as problem:
        raise CannotOpen(str(problem)) from problem


@contextlib.contextmanager
def _open_node(args: argparse.Namespace, config: Config) -> Iterator[Host]:
    """The node; a mistake in its options becomes the one line that the user sees."""
    from npudoctor.cli import node
    from npudoctor.cli.output import UsageError
    from npudoctor.tui.model.session import CannotOpen

    try:
        with node.open_node(args, config) as host:
            yield host
    except UsageError as problem:
        raise CannotOpen(str(problem)) from problem


def _plan(args: argparse.Namespace, words: Sequence[str]) -> Prepared:
    """The plan of `npudoctor setup` with these options, for the node that is shown."""
    from npudoctor.cli import setup_plan
    from npudoctor.cli.output import UsageError
    from npudoctor.host import Refused, Unavailable
    from npudoctor.tui.model.session import CannotPlan

    try:
        return setup_plan.of_args(_of_setup(args, words))
    except (UsageError, Refused, Unavailable) as why:
        raise CannotPlan(getattr(why, "reason", "") or str(why)) from why


def _of_setup(args: argparse.Namespace, words: Sequence[str]) -> argparse.Namespace:
    """These options of `npudoctor setup`, for the node that is shown."""
    from npudoctor.cli.parsing import parser_of

    asked = parser_of("setup").parse_args(list(words))
    for name, value in vars(args).items():
        if name not in ("run", "give_up") and hasattr(asked, name):
            setattr(asked, name, value)
    return asked


def _is_here(args: argparse.Namespace) -> bool:
    """Whether driver and firmware can be installed from here: by root, on this machine, on a terminal."""
    return not (args.simulate or args.replay or args.root or _in_browser()) and os.geteuid() == 0


def _set_up(args: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Run `npudoctor setup` with these options, and hand on each of its lines; its exit code."""
    from npudoctor.cli import setup
    from npudoctor.cli.output import UsageError
    from npudoctor.host import Refused, Unavailable
    from npudoctor.host.live import reader

    reader.let_go()
    with contextlib.redirect_stdout(_Lines(say)), contextlib.redirect_stderr(_Lines(say)):
        try:
            return setup.run(_of_setup(args, words))
        except (UsageError, Refused, Unavailable, OSError) as why:
            say(f"npudoctor: {getattr(why, 'reason', '') or why}")
            return 2


def _pending_option(args: argparse.Namespace) -> str:
    from npudoctor.cli import setup_install

    return setup_install.option_to_go_on(_of_setup(args, []))


class _Lines(io.TextIOBase):
    """Hands on each line that is written."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._begun = ""

    def write(self, text: str) -> int:
        *whole, self._begun = f"{self._begun}{text}".split("\n")
        for line in whole:
            self._say(line)
        return len(text)


def words_of(args: argparse.Namespace) -> list[str]:
    """The options as they could be given to another command."""
    words = [word for option, value in options_of(args) for word in (f"--{option}", value)]
    return [*words, *(["--expect-idle"] if args.expect_idle else [])]


def options_of(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The options that have a value, and the value."""
    names = ("replay", "simulate", "root", "python", "environment", "role", "config", "profile")
    named = [(option, getattr(args, option, None)) for option in names]
    named.append(("state", getattr(args, "simulated_state", None) or getattr(args, "state", None)))
    return [*((option, value) for option, value in named if value), *(("plugin", path) for path in args.plugin)]
