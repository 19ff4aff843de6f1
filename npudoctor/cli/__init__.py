"""The command line. Only the module of the requested command is imported, so that every command starts fast."""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from npudoctor import __version__
from npudoctor.cli import limits
from npudoctor.cli.output import INTERRUPTED as INTERRUPTED
from npudoctor.cli.output import UsageError as UsageError
from npudoctor.cli.output import forget_stdout, prepare_streams, say, write
from npudoctor.cli.parsing import COMMANDS as COMMANDS
from npudoctor.cli.parsing import overview
from npudoctor.cli.parsing import parser_of as parser_of
from npudoctor.control_characters import escape
from npudoctor.host.shortage import what_ran_out

USAGE, INTERNAL = 2, 4


def console() -> NoReturn:
    """The console script: run, then exit at once, because a full interpreter shutdown costs a tenth of a check."""
    words = sys.argv[1:]
    name = _find_command(words)
    code = limits.run(lambda limit: main(limit=limit), lambda why: _give_up(words, why)) if name in LIMITED else main()
    with contextlib.suppress(BrokenPipeError, ValueError, OSError):
        sys.stderr.flush()
    os._exit(code)


LIMITED = ("check", "env", "facts", "healthcheck", "node", "record", "report", "smoke")
"""The commands that have a time limit."""


def _find_command(words: Sequence[str]) -> str | None:
    """The command in these arguments, as far as it can be told without importing anything."""
    name = next((word for word in words if word not in ("--debug", "--no-color")), "--")
    if name.startswith("--"):
        return None if name in ("--version", "--help") or (os.isatty(0) and os.isatty(1)) else "check"
    return name


def _give_up(words: Sequence[str], reason: str) -> int:
    """Print why a command with a time limit has no answer, in the requested format; return the exit code."""
    rest = [word for word in words if word not in ("--debug", "--no-color")]
    name = rest.pop(0) if rest and rest[0] in LIMITED else "check"
    args = parser_of(name).parse_args([*rest, *(["--no-color"] if "--no-color" in words else [])])
    code: int = args.give_up(args, reason)
    return code


def main(argv: Sequence[str] | None = None, *, limit: limits.Limit = limits.apply_none) -> int:
    """Run one command; its exit code. `limit` is how the command's time limit is held."""
    gc.disable()  # a command runs for less than a second; collecting costs 5 % of it
    prepare_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    asked = tuple(words)
    hoisted = []
    while words and words[0] in ("--debug", "--no-color"):
        hoisted.append(words.pop(0))
    debug = "--debug" in hoisted or "--debug" in words
    try:
        return _dispatch(words, hoisted, limit)
    except UsageError as problem:
        if reason := what_ran_out(problem):
            return _refuse(asked, reason, INTERNAL)
        return _refuse(asked, str(problem), USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        forget_stdout()
        return 0
    except Exception as problem:
        if debug:
            import traceback

            say(traceback.format_exc())
        if reason := what_ran_out(problem):
            return _refuse(asked, reason, INTERNAL)
        return _refuse(
            asked, f"internal error: {type(problem).__name__}: {problem}; run with --debug for the traceback", INTERNAL
        )
    finally:
        with contextlib.suppress(BrokenPipeError, ValueError, OSError):
            sys.stdout.flush()


def _refuse(words: Sequence[str], problem: str, code: int) -> int:
    """Print why there is no answer, in one line or in a monitor's format; return the exit code."""
    line = escape(problem)
    answer = _as_protocol(words, line)
    if answer is None:
        say(f"npudoctor: {line}")
    return code if answer is None else answer


def _as_protocol(words: Sequence[str], problem: str) -> int | None:
    """Print an unknown state in a monitor's format: its exit code, None for other formats."""
    asked = " ".join(words).replace("=", " ").split()
    if "healthcheck" in asked[:3]:
        from npudoctor.cli import healthcheck

        return healthcheck.refuse(problem)
    for name in ("nagios", "npd"):
        if ("--format", name) in itertools.pairwise(asked):
            protocol = importlib.import_module(f"npudoctor.report.{name}")
            write(protocol.render_unknown(problem))
            return int(protocol.UNKNOWN)
    return None


def _dispatch(words: list[str], hoisted: list[str], limit: limits.Limit) -> int:
    if not words or (words[0].startswith("--") and words[0] not in ("--version", "--help")):
        from npudoctor.cli import tui

        if not words and not hoisted and tui.on_a_terminal():
            return tui.run_bare()
        words = ["tui" if tui.on_a_terminal() else "check", *words]
    name = words.pop(0)
    if name == "--version":
        write(f"npudoctor {__version__}\n")
        return 0
    if name in ("-h", "--help", "help"):
        if words and words[0] in COMMANDS:
            parser_of(words[0]).print_help()
            return 0
        write(overview())
        return 0
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else "see npudoctor --help"
        raise UsageError(f"unknown command {name!r}; {hint}")
    args = parser_of(name).parse_args([*words, *hoisted])
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup(1) ignores SIGHUP for us
            signal.signal(number, _terminate)
    args.limit = limit
    code: int = args.run(args)
    return code


def _terminate(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
