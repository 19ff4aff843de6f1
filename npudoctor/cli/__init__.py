"""The command line. Only the module of the requested command is imported, so that every command starts fast."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

from npudoctor import __version__
from npudoctor.cli import limits

COMMANDS = {
    "tui": ("npudoctor.cli.tui", "open the terminal interface (default on a terminal)"),
    "check": ("npudoctor.cli.check", "diagnose this node, a recording, or a simulated node"),
    "web": ("npudoctor.cli.web", "serve the terminal interface to a browser (loopback only)"),
    "explain": ("npudoctor.cli.explain", "explain a check, a known issue, an error code, or a failing log"),
    "setup": ("npudoctor.cli.setup", "check, apply all safe fixes, and list what needs manual action"),
    "fix": ("npudoctor.cli.fix", "preview, apply and verify fixes"),
    "undo": ("npudoctor.cli.undo", "undo a fix"),
    "history": ("npudoctor.cli.history", "list changes made by npudoctor on this node"),
    "smoke": ("npudoctor.cli.smoke", "train a tiny model on all NPUs and name the failing rank"),
    "env": ("npudoctor.cli.env", "print the environment variables a job needs"),
    "facts": ("npudoctor.cli.facts", "print collected facts, or why a fact is unknown"),
    "list": ("npudoctor.cli.listing", "list all checks: id, title, profile, fix"),
    "record": ("npudoctor.cli.record", "record this node for offline diagnosis"),
    "knowledge": ("npudoctor.cli.knowledge", "print knowledge tables, or find matching releases"),
    "compare": ("npudoctor.cli.compare", "compare nodes and name the outliers"),
    "parse": ("npudoctor.cli.parse", "parse a tool's output and print it as JSON"),
    "healthcheck": ("npudoctor.cli.healthcheck", "one-line health status for containers, exit 0 or 1"),
    "daemon": ("npudoctor.cli.daemon", "run continuously; read-only HTTP API and metrics"),
    "demo": ("npudoctor.cli.demo", "diagnose a simulated, newly installed node"),
    "service": ("npudoctor.cli.service", "install or remove the daemon as a systemd service"),
    "sim": ("npudoctor.cli.sim", "list simulated nodes, or write them to a folder"),
    "schema": ("npudoctor.cli.schema", "print the JSON Schema of the report"),
    "completion": ("npudoctor.cli.completion", "print a completion script for your shell"),
}
USAGE, INTERNAL, INTERRUPTED = 2, 4, 130


class UsageError(Exception):
    """The command cannot run as requested; the text is the one line that the user sees."""


LEAST_BESIDE = 24
"""A description with fewer columns than this beside its command is printed below it."""


class HelpText(argparse.RawDescriptionHelpFormatter):
    """Keep paragraphs and examples of a description, and wrap everything at 80 columns."""

    def __init__(self, prog: str) -> None:
        import shutil

        super().__init__(prog, width=min(shutil.get_terminal_size((80, 24)).columns or 80, 80) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return folded(text, width, indent)


def folded(text: str, width: int, indent: str = "") -> str:
    """Wrap paragraphs at a width; in lists of commands a long description moves to its own line."""
    import textwrap

    blocks = []
    for block in text.strip("\n").split("\n\n"):
        lines = block.splitlines()
        if any(line.startswith("  ") for line in lines):
            blocks.append("\n".join(piece for line in lines for piece in _example(line, width - len(indent))))
        else:
            blocks.append(textwrap.fill(" ".join(lines), width - len(indent), break_on_hyphens=False))
    return textwrap.indent("\n\n".join(blocks), indent)


def _example(line: str, width: int) -> list[str]:
    """A line `  command   what it does`, split in two where it is too long."""
    import re
    import textwrap

    if len(line) <= width:
        return [line]
    if two := re.fullmatch(r"(  \S.*?)\s{2,}(\S.*)", line):
        beside = two.start(2) if width - two.start(2) >= LEAST_BESIDE else 6
        about = textwrap.wrap(two[2], width, initial_indent=" " * beside, subsequent_indent=" " * beside)
        return [two[1] + about[0][len(two[1]) :], *about[1:]] if beside > 6 else [two[1], *about]
    return textwrap.wrap(line, width, subsequent_indent=" " * 6, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that names the help option."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; the exit code is 2."""
        raise UsageError(f"{message}; see {self.prog} --help")


def parser_of(name: str) -> Parser:
    """The parser of one command."""
    module = importlib.import_module(COMMANDS[name][0])
    parser = Parser(
        prog=f"npudoctor {name}",
        description=module.__doc__,
        formatter_class=HelpText,
        allow_abbrev=False,
    )
    module.configure(parser)
    add_common(parser)
    parser.set_defaults(run=module.run, give_up=getattr(module, "give_up", None))
    return parser


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options that every command takes."""
    group = parser.add_argument_group("common options")
    group.add_argument("--no-color", action="store_true", help="disable colours (also: environment variable NO_COLOR)")
    group.add_argument("--debug", action="store_true", help="show the traceback of an internal error")


def overview() -> str:
    """What `npudoctor --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    text = "\n".join(
        [
            "usage: npudoctor [COMMAND] [OPTIONS]",
            "",
            "Finds out what is wrong with a Huawei Ascend NPU node, why, and what to fix first.",
            "Without a command it opens the terminal interface; without a terminal it runs",
            "`npudoctor check`.",
            "",
            "commands:",
            *lines,
            "",
            "start here:",
            "  npudoctor check                 find out what is wrong and what to fix first",
            "  npudoctor check --json          the same for scripts; check the exit code",
            "  npudoctor demo                  the same on a simulated node",
            "",
            "exit codes of check: 0 no error, 1 findings, 2 usage, 3 could not determine,",
            "4 internal error, 130 interrupted. See `npudoctor COMMAND --help` for each command.",
            "",
        ]
    )
    return folded(text, 80) + "\n"


def console() -> NoReturn:
    """The console script: run, then exit at once, because a full interpreter shutdown costs a tenth of a check."""
    words = sys.argv[1:]
    name = _named(words)
    code = limits.run(lambda limit: main(limit=limit), lambda why: _give_up(words, why)) if name in LIMITED else main()
    with contextlib.suppress(BrokenPipeError, ValueError, OSError):
        sys.stderr.flush()
    os._exit(code)


LIMITED = ("check", "env", "facts", "healthcheck", "record", "smoke")
"""The commands that have a time limit."""


def _named(words: Sequence[str]) -> str | None:
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


def main(argv: Sequence[str] | None = None, *, limit: limits.Limit = limits.unheld) -> int:
    """Run one command; its exit code. `limit` is how the command's time limit is held."""
    gc.disable()  # a command runs for less than a second; collecting costs 5 % of it
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - the caller closed it
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    words = list(sys.argv[1:] if argv is None else argv)
    asked = tuple(words)
    hoisted = []
    while words and words[0] in ("--debug", "--no-color"):
        hoisted.append(words.pop(0))
    debug = "--debug" in hoisted or "--debug" in words
    try:
        return _dispatch(words, hoisted, limit)
    except UsageError as problem:
        return _refuse(asked, str(problem), USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except Exception as problem:
        if debug:
            import traceback

            say(traceback.format_exc())
        from npudoctor.host import exhausted

        if reason := exhausted(problem):
            return _refuse(asked, reason, INTERNAL)
        return _refuse(
            asked, f"internal error: {type(problem).__name__}: {problem}; run with --debug for the traceback", INTERNAL
        )
    finally:
        with contextlib.suppress(BrokenPipeError, ValueError, OSError):
            sys.stdout.flush()


def _refuse(words: Sequence[str], problem: str, code: int) -> int:
    """Print why there is no answer, in one line or in a monitor's format; return the exit code."""
    from npudoctor.control_characters import visible

    line = visible(problem)
    say(f"npudoctor: {line}")
    return _as_protocol(words, line) or code


def _as_protocol(words: Sequence[str], problem: str) -> int | None:
    """Print an unknown state in a monitor's format: its exit code, None for other formats."""
    asked = " ".join(words).replace("=", " ").split()
    if "healthcheck" in asked[:3]:
        from npudoctor.cli import healthcheck

        return healthcheck.refuse(problem)
    for name in ("nagios", "npd"):
        if ("--format", name) in itertools.pairwise(asked):
            protocol = importlib.import_module(f"npudoctor.report.{name}")
            write(protocol.unknown(problem))
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
            signal.signal(number, _terminated)
    args.limit = limit
    code: int = args.run(args)
    return code


def _terminated(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def say(text: str = "", *, end: str = "\n") -> None:
    """Print to stderr; a closed stderr is no error. Control characters in the text are escaped."""
    from npudoctor.control_characters import visible_lines

    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{visible_lines(text)}{end}")
        sys.stderr.flush()


def write_json(value: Any, *, indent: int | None = 2, sort_keys: bool = False) -> None:
    """Print a JSON document on stdout; invisible characters in its strings are escaped (\\u202e)."""
    import json

    from npudoctor.control_characters import visible_json

    write(visible_json(json.dumps(value, indent=indent, sort_keys=sort_keys, ensure_ascii=False)) + "\n")


def write(text: str, *, colored: bool = False) -> None:
    """Print data on stdout in any encoding, also after the reader has closed the pipe.

    Control characters are escaped, except line breaks, tabs and, where `colored` is true, our own colours.
    """
    from npudoctor.control_characters import visible_lines, visible_screen

    shown = visible_screen(text) if colored else visible_lines(text)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    except OSError as problem:
        _forget_stdout()
        raise UsageError(f"cannot write the output: {problem.strerror or problem}") from problem


def _forget_stdout() -> None:
    """The reader has gone: send the interpreter's last flush to /dev/null, to keep the exit code."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
